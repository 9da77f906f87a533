"""Print what was measured; and what a part of the benchmarks is asked to do."""

from collections.abc import Sequence
from dataclasses import dataclass

from rich.console import Console
from rich.table import Table


@dataclass(frozen=True, slots=True)
class Options:
    """How often each thing is measured, and how much of it; 0: as much as the part thinks fit."""

    rounds: int
    count: int


def show(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table; the first two columns are words."""
    table = Table(title=title)
    for number, column in enumerate(columns):
        table.add_column(column, justify="left" if number < 2 else "right")
    for row in rows:
        table.add_row(*row)
    Console(width=120).print(table)
