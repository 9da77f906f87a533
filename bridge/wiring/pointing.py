"""
Where in `bridge.toml` stands what is wrong with a listener, a destination or another setting.

What is checked by being made has no place of its own: it is found by the name of whose it is, and
by what the message speaks of. What the file does not say stays as it was named.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from config.errors import SettingsError
from config.places import position
from config.reading import read
from config.settings import FILE_NAME

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


class Pointer:
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
