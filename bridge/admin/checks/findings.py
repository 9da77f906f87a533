"""
Findings of `bridge check`, with their positions in `bridge.toml`.

A check that builds a connection does not know positions. `SettingsLocator` finds the position by
the name of the connection and the setting that the message mentions. Settings that are not in the
file keep their name as place.

An error prevents the start or the configured work, a warning needs attention, a note informs.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

from config.settings import FILE_NAME
from config.toml_text import SettingsError, parse_toml, position

_CONNECTION: Final = re.compile(r"(listener|destination) (.+)")
_SETTING: Final = re.compile(r"[a-z_]+\.[a-z_]+")
_WORD: Final = re.compile(r"[a-z_]+(?:\.[a-z_0-9]+)*")
_MENTIONS: Final = (
    ("no response from", "address"),
    ("mapping", "mappings"),
    ("mapping", "mapping"),
    ("messages", "mapping"),
    ("site", "site"),
)
"""Parts of messages that do not name a key, and the key of the settings that each one means."""


class SettingsLocator:
    """Finds positions in the settings file of a data directory."""

    def __init__(self, home: Path) -> None:
        self._file = home / FILE_NAME
        try:
            self._text = self._file.read_text("utf-8")
            self._values: Mapping[str, Any] = parse_toml(self._text, self._file)
        except (OSError, ValueError, SettingsError):
            self._text, self._values = "", {}

    def place(self, named: str, message: str) -> str:
        """Return file, line, column and name of a setting; only its name if not in the file."""
        if found := _CONNECTION.fullmatch(named):
            location = self._entry(found[1], found[2], message)
        elif _SETTING.fullmatch(named):
            location = self._setting(*named.split("."))
        else:
            return named
        return f"{self._file}{location}: {named}" if location else named

    def _setting(self, section: str, key: str) -> str:
        table = self._values.get(section)
        is_set = isinstance(table, Mapping) and key in table
        return position(self._text, (section, key)) if is_set else ""

    def _entry(self, section: str, name: str, message: str) -> str:
        entries = self._values.get(section)
        for at, entry in enumerate(entries if isinstance(entries, list) else ()):
            if isinstance(entry, Mapping) and entry.get("name") == name:
                return position(self._text, (section, at, *_key(entry, message)))
        return ""


def _key(entry: Mapping[str, Any], message: str) -> tuple[str, ...]:
    """Return the key of an entry that a message mentions; empty if it mentions none."""
    for word in _WORD.findall(message):
        parts = tuple(word.split("."))
        if parts[0] in entry:
            return parts
    for part, key in _MENTIONS:
        if part in message and key in entry:
            return (key,)
    return ()


class CheckSeverity(StrEnum):
    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


@dataclass(frozen=True, slots=True)
class CheckFinding:
    severity: CheckSeverity
    place: str
    message: str


def with_positions(home: Path, found: Sequence[CheckFinding]) -> list[CheckFinding]:
    """Return the findings with their positions in the settings file."""
    locator = SettingsLocator(home)
    return [
        CheckFinding(each.severity, locator.place(each.place, text), text)
        for each in found
        for text in [each.message.removeprefix(f"{each.place}: ")]
    ]
