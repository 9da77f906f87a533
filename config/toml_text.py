"""
TOML text: parse it, find the position of a setting, and write values. Pure.

`tomllib` keeps no positions. `position` finds keys of tables, arrays of tables and inline tables,
dotted or quoted, and entries of lists.

* SettingsError    has one or more of `Mistake`, each with its place
"""

import json
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Any, Final, NamedTuple

from typing_extensions import override

from parsers.limits import DocumentRefused
from parsers.readers import require_toml_limits

MAX_MISTAKES: Final = 100
"""Maximum number of mistakes that are reported individually."""


@dataclass(frozen=True, slots=True)
class Mistake:
    """A mistake in a settings file or an environment variable, with its place."""

    place: str
    message: str

    @override
    def __str__(self) -> str:
        return f"{self.place}: {self.message}"


class SettingsError(Exception):
    """The settings cannot be used; `mistakes` lists all mistakes."""

    def __init__(self, mistakes: list[Mistake]) -> None:
        self.mistakes = tuple(mistakes)
        super().__init__("\n".join(str(mistake) for mistake in mistakes))


Location = tuple[str | int, ...]

_TOKEN: Final = re.compile(
    r"""
    (?P<space>[\s]+|\#[^\n]*)
    |(?P<text>\"{3}(?:\\.|[^\\])*?\"{3,5}|'{3}.*?'{3,5}|"(?:\\.|[^"\\])*"|'[^']*')
    |(?P<mark>[=,.{}\[\]])
    |(?P<bare>(?:\d{4}-\d\d-\d\d\ \d\d:)?[^\s\#=,.{}\[\]"']+)
    |(?P<other>.)
    """,
    re.VERBOSE | re.DOTALL,
)


class _Token(NamedTuple):
    kind: str
    text: str
    at: int


def position(text: str, location: Location) -> str:
    """Return `:line:column` (from 1) of a setting, of a part of it, or of its table."""
    best, depth, inside = -1, 0, -1
    for place, at in _places(text):
        if len(place) > depth and place == location[: len(place)]:
            best, depth = at, len(place)
        elif inside < 0 and place[: len(location)] == location:
            inside = at
    if depth < len(location) and inside >= 0:
        best = inside
    if not location or best < 0:
        return ""
    return line_and_column(text, best)


@lru_cache(maxsize=1)
def _places(text: str) -> Sequence[tuple[Location, int]]:
    """Return all positions; cached, because a file may have many mistakes."""
    return tuple(_Reader(text).places())


def line_and_column(text: str, offset: int) -> str:
    """Return `:line:column` (from 1) of an offset."""
    before = text[:offset]
    return f":{before.count(chr(10)) + 1}:{offset - before.rfind(chr(10))}"


def replace_tables(text: str, tables: Mapping[Location, str]) -> str:
    """
    Replace tables of arrays, such as the second `[[listener]]` at ("listener", 1), by other text.

    Tables inside them are replaced too. Comments before the next table stay. A table that is
    written in another form is left unchanged.
    """
    places = list(_Reader(text).places())
    for location, new in sorted(tables.items(), key=lambda item: _begin(places, item[0]))[::-1]:
        begin = _begin(places, location)
        if not text.startswith("[[", begin) or begin < 0:
            continue
        after = (at for place, at in places if at > begin and place[: len(location)] != location)
        end = next(after, len(text))
        lines = text[begin:end].splitlines(keepends=True)
        while lines and (not lines[-1].strip() or lines[-1].lstrip().startswith("#")):
            end -= len(lines.pop())
        text = f"{text[:begin]}{new.rstrip()}\n{text[end:]}"
    return text


def _begin(places: Sequence[tuple[Location, int]], location: Location) -> int:
    return next((at for place, at in places if place == location), -1)


def toml_value(value: Any) -> str:
    """Return a value as TOML, which is JSON except for tables."""
    if isinstance(value, Mapping):
        inside = ", ".join(f"{toml_key(key)} = {toml_value(item)}" for key, item in value.items())
        return f"{{{inside}}}"
    if isinstance(value, list):
        return f"[{', '.join(map(toml_value, value))}]"
    return json.dumps(value, ensure_ascii=False)


def toml_key(key: str) -> str:
    """Return a key, in quotes if it needs them."""
    plain = key.replace("-", "").replace("_", "")
    return key if plain.isalnum() and plain.isascii() else json.dumps(key, ensure_ascii=False)


class _Reader:
    """Reads the positions in TOML text; invalid TOML ends it early."""

    def __init__(self, text: str) -> None:
        found = (
            _Token(str(match.lastgroup), match[0], match.start()) for match in _TOKEN.finditer(text)
        )
        self._left = [token for token in found if token.kind != "space"]
        self._left.reverse()  # popped from the end
        self._counts: dict[Location, int] = {}

    def places(self) -> Iterator[tuple[Location, int]]:
        """Yield each location with its offset."""
        table: Location = ()
        while self._left:
            at = self._left[-1].at
            if self._taken("["):
                is_array = self._taken("[")
                table = self._table(self._key(), is_array=is_array)
                yield table, at
                while self._taken("]"):
                    pass
            elif key := self._key():
                yield from self._pair((*table, *key), at)
            else:
                return

    def _pair(self, place: Location, at: int) -> Iterator[tuple[Location, int]]:
        yield place, at
        if self._taken("="):
            yield from self._value(place)

    def _value(self, place: Location) -> Iterator[tuple[Location, int]]:
        if self._taken("{"):
            while self._left and not self._taken("}"):
                at = self._left[-1].at
                if key := self._key():
                    yield from self._pair((*place, *key), at)
                elif not self._taken(","):
                    return
        elif self._taken("["):
            entry = 0
            while self._left and not self._taken("]"):
                if self._taken(","):
                    entry += 1
                    continue
                yield (*place, entry), self._left[-1].at
                yield from self._value((*place, entry))
        elif not self._key():  # a number with a point is read like a dotted key
            self._left.clear()

    def _key(self) -> tuple[str, ...]:
        words: list[str] = []
        while self._left and self._left[-1].kind in {"text", "bare"}:
            token = self._left.pop()
            words.append(token.text.strip("\"'") if token.kind == "text" else token.text)
            if not self._taken("."):
                break
        return tuple(words)

    def _taken(self, mark: str) -> bool:
        """Consume the next token if it is this mark; True if it was."""
        if self._left and self._left[-1].kind == "mark" and self._left[-1].text == mark:
            self._left.pop()
            return True
        return False

    def _table(self, key: tuple[str, ...], *, is_array: bool) -> Location:
        """Return the location of a table; inside an array of tables, that of its last entry."""
        place: Location = ()
        for last, word in ((at == len(key) - 1, word) for at, word in enumerate(key)):
            place = (*place, word)
            if last and is_array:
                self._counts[place] = self._counts.get(place, -1) + 1
            if place in self._counts:
                place = (*place, self._counts[place])
        return place


_AT: Final = re.compile(r" \(at (?:line (\d+), column (\d+)|end of document)\)")
_TOO_DEEP: Final = "tables or lists are nested too deeply"
_TOO_LONG: Final = "a number has too many digits"


def parse_toml(text: str, file: Path) -> dict[str, Any]:
    """Parse TOML text; `file` is the place of mistakes. Raises SettingsError."""
    try:
        require_toml_limits(text)
        values = tomllib.loads(text)
    except DocumentRefused as error:
        place = f"{file}:{error.line}:{error.column}" if error.line else str(file)
        raise SettingsError([Mistake(place, error.reason)]) from error
    except tomllib.TOMLDecodeError as error:
        raise SettingsError([_unreadable(error, text, file)]) from error
    except RecursionError as error:
        raise SettingsError([Mistake(f"{file}{_longest(text, '[{')}", _TOO_DEEP)]) from error
    except ValueError as error:  # Python limits the digits of integers
        raise SettingsError(
            [Mistake(f"{file}{_longest(text, '0123456789')}", _TOO_LONG)]
        ) from error
    unwritable = islice(_unwritable(values, ()), MAX_MISTAKES)
    if wrong := [f"{file}{position(text, place)}" for place in unwritable]:
        raise SettingsError([Mistake(place, "must not contain \\u0000") for place in wrong])
    return values


def _unreadable(error: tomllib.TOMLDecodeError, text: str, file: Path) -> Mistake:
    last = text.rpartition("\n")[2]
    message, line, column = str(error), text.count("\n") + 1, len(last) + 1
    if found := _AT.search(message):
        message = message[: found.start()]
        line, column = (int(found[1]), int(found[2])) if found[1] else (line, column)
    return Mistake(f"{file}:{line}:{column}", message)


def _longest(text: str, characters: str) -> str:
    runs = re.finditer(f"[{re.escape(characters)}]+", text)
    found = max(runs, key=lambda run: len(run[0]), default=None)
    return line_and_column(text, found.start() if found else 0)


def _unwritable(values: Any, place: Location) -> Iterator[Location]:
    """Yield the locations of texts with NUL, which no path, name or address may contain."""
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
