"""Read TOML text, and say where it is none; its parser puts that into words."""

import re
import tomllib
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any, Final

from config.errors import Mistake, SettingsError
from config.places import Location, line_and_column, position
from parsers.errors import DocumentRefused
from parsers.toml import require_limits

_AT: Final = re.compile(r" \(at (?:line (\d+), column (\d+)|end of document)\)")
_TOO_DEEP: Final = "tables or lists lie too deep in each other"
_TOO_LONG: Final = "a number has too many digits"
_MOST_MISTAKES: Final = 100


def read(text: str, file: Path) -> dict[str, Any]:
    """Give what TOML text says. Raises SettingsError; `file` is what it is reported under."""
    try:
        require_limits(text)
        values = tomllib.loads(text)
    except DocumentRefused as error:
        place = f"{file}:{error.line}:{error.column}" if error.line else str(file)
        raise SettingsError([Mistake(place, error.reason)]) from error
    except tomllib.TOMLDecodeError as error:
        raise SettingsError([_unreadable(error, text, file)]) from error
    except RecursionError as error:
        raise SettingsError([Mistake(f"{file}{_longest(text, '[{')}", _TOO_DEEP)]) from error
    except ValueError as error:  # Python bounds the digits of a whole number
        raise SettingsError(
            [Mistake(f"{file}{_longest(text, '0123456789')}", _TOO_LONG)]
        ) from error
    unwritable = islice(_unwritable(values, ()), _MOST_MISTAKES)
    if wrong := [f"{file}{position(text, place)}" for place in unwritable]:
        raise SettingsError([Mistake(place, "write no \\u0000 here") for place in wrong])
    return values


def _unreadable(error: tomllib.TOMLDecodeError, text: str, file: Path) -> Mistake:
    last = text.rpartition("\n")[2]
    said, line, column = str(error), text.count("\n") + 1, len(last) + 1
    if found := _AT.search(said):
        said = said[: found.start()]
        line, column = (int(found[1]), int(found[2])) if found[1] else (line, column)
    return Mistake(f"{file}:{line}:{column}", said)


def _longest(text: str, characters: str) -> str:
    """Give the place of the longest run of some characters."""
    runs = re.finditer(f"[{re.escape(characters)}]+", text)
    found = max(runs, key=lambda each: len(each[0]), default=None)
    return line_and_column(text, found.start() if found else 0)


def _unwritable(values: Any, place: Location) -> Iterator[Location]:
    """Find texts that can be no path, name or address anywhere."""
    if isinstance(values, str) and "\0" in values:
        yield place
    elif isinstance(values, dict):
        for key, value in values.items():
            if "\0" in key:
                yield place
            yield from _unwritable(value, (*place, key))
    elif isinstance(values, list):
        for at, value in enumerate(values):
            yield from _unwritable(value, (*place, at))
