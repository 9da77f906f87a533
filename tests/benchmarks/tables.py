"""Markdown tables of measurements, and the options of a benchmark."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Options:
    """The number of rounds and the amount of data; 0: the default of the part."""

    rounds: int
    count: int


def show(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table as Markdown with right-aligned figures."""
    aligned = ["---" if _words(rows, place) else "---:" for place in range(len(columns))]
    lines = [_line(columns), _line(aligned), *(_line(row) for row in rows)]
    sys.stdout.write(f"**{title}**\n\n" + "\n".join(lines) + "\n\n")
    sys.stdout.flush()


def _words(rows: Sequence[Sequence[str]], place: int) -> bool:
    return any(row[place] and not row[place][0].isdigit() for row in rows)


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"
