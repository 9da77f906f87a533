"""
Find where a setting stands in TOML text.

Only as good as a mistake's place needs it: tables, arrays of tables and `key = value` lines.
"""

import re
from typing import Final

_TABLE: Final = re.compile(r"\s*\[(\[)?\s*([A-Za-z0-9_.-]+)\s*\]")
_KEY: Final = re.compile(r'\s*"?([A-Za-z0-9_-]+)"?\s*=')


def position(text: str, location: tuple[str | int, ...]) -> str:
    """Return `:line:column` (from 1) of the setting at `location`, its table's, or ''."""
    best, depth = "", 0
    for place, line, column in _places(text):
        shared = _shared(place, location)
        if shared == len(place) and shared > depth:
            best, depth = f":{line}:{column}", shared
    return best


def _shared(place: tuple[str | int, ...], location: tuple[str | int, ...]) -> int:
    count = 0
    for mine, theirs in zip(place, location, strict=False):
        if mine != theirs:
            break
        count += 1
    return count


def _places(text: str) -> list[tuple[tuple[str | int, ...], int, int]]:
    places: list[tuple[tuple[str | int, ...], int, int]] = []
    counts: dict[str, int] = {}
    table: tuple[str | int, ...] = ()
    for number, line in enumerate(text.splitlines(), start=1):
        column = len(line) - len(line.lstrip()) + 1
        if match := _TABLE.match(line):
            name = match[2]
            table = tuple(name.split("."))
            if match[1]:
                counts[name] = counts.get(name, -1) + 1
                table = (*table, counts[name])
            places.append((table, number, column))
        elif match := _KEY.match(line):
            places.append(((*table, match[1]), number, column))
    return places
