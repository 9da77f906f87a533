"""Findings of `bridge check`, and the place of a setting in `bridge.toml`.

What is checked by being made has no place of its own: it is found by the name of whose it is, and
by what the message speaks of. What the file does not say stays as it was named.

An error keeps the service from starting or from doing what is set; a warning is worth a look; a
note says how things are.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

from config.errors import SettingsError
from config.settings import FILE_NAME
from config.toml_text import position, read

_CONNECTION: Final = re.compile(r"(listener|destination) (.+)")
_SETTING: Final = re.compile(r"[a-z_]+\.[a-z_]+")
_WORD: Final = re.compile(r"[a-z_]+(?:\.[a-z_0-9]+)*")
_SPEAKS_OF: Final = (
    ("nobody answers at", "address"),
    ("mapping", "mappings"),
    ("mapping", "mapping"),
    ("messages", "mapping"),
    ("site", "site"),
)
"""What a message says, to the key that it is about where it names none."""


class SettingsLocator:
    """Knows the settings file of one home."""

    def __init__(self, home: Path) -> None:
        self._file = home / FILE_NAME
        try:
            self._text = self._file.read_text("utf-8")
            self._values: Mapping[str, Any] = read(self._text, self._file)
        except (OSError, ValueError, SettingsError):
            self._text, self._values = "", {}

    def place(self, named: str, message: str) -> str:
        """Give file, line and column of what is named, and its name; the name where it has none."""
        if found := _CONNECTION.fullmatch(named):
            at = self._entry(found[1], found[2], message)
        elif _SETTING.fullmatch(named):
            at = self._set(*named.split("."))
        else:
            return named
        return f"{self._file}{at}: {named}" if at else named

    def _set(self, section: str, key: str) -> str:
        table = self._values.get(section)
        said = isinstance(table, Mapping) and key in table
        return position(self._text, (section, key)) if said else ""

    def _entry(self, section: str, name: str, message: str) -> str:
        entries = self._values.get(section)
        for at, entry in enumerate(entries if isinstance(entries, list) else ()):
            if isinstance(entry, Mapping) and entry.get("name") == name:
                return position(self._text, (section, at, *_key(entry, message)))
        return ""


def _key(entry: Mapping[str, Any], message: str) -> tuple[str, ...]:
    """Give the key of an entry that a message speaks of; none where that is not to be seen."""
    for word in _WORD.findall(message):
        parts = tuple(word.split("."))
        if parts[0] in entry:
            return parts
    for words, key in _SPEAKS_OF:
        if words in message and key in entry:
            return (key,)
    return ()


class CheckSeverity(StrEnum):
    """How bad a finding is."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


@dataclass(frozen=True, slots=True)
class CheckFinding:
    """One thing, and where it stands."""

    severity: CheckSeverity
    place: str
    message: str


def with_positions(home: Path, found: Sequence[CheckFinding]) -> list[CheckFinding]:
    """Say where in the file what is wrong with a setting stands."""
    pointer = SettingsLocator(home)
    return [
        CheckFinding(each.severity, pointer.place(each.place, said), said)
        for each in found
        for said in [each.message.removeprefix(f"{each.place}: ")]
    ]
