"""
A tree of nodes that know their file, line and column: what definition files are read into.

Every scalar is text (`2.5` stays "2.5", `NO` stays "NO"); what it means is said where it
is used. `mappings.sources` reads the files.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

Sources = Mapping[str, str]
"""The text of every file of one mappings folder, by its relative POSIX path."""


@dataclass(frozen=True, slots=True)
class Node:
    """A scalar (`str`, or None where nothing is written), a list or a mapping."""

    value: "str | list[Node] | dict[str, Node] | None"
    file: str
    line: int
    column: int
    path: str = ""
    key: tuple[int, int] = (0, 0)
    """Line and column of the key this node stands under."""

    def __getitem__(self, key: str) -> "Node":
        """Return the entry of a mapping; KeyError when this is none or has none."""
        if not isinstance(self.value, dict):
            raise KeyError(key)
        return self.value[key]

    def get(self, key: str) -> "Node | None":
        """Return the entry of a mapping, or None."""
        return self.value.get(key) if isinstance(self.value, dict) else None

    def at_key(self) -> "Node":
        """Point at the key instead of the value."""
        return replace(self, line=self.key[0], column=self.key[1])
