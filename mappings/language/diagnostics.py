"""Diagnostics: the nodes of a definition file with their places, and every issue found in them.

Every scalar is text (`2.5` stays "2.5", `NO` stays "NO"); what it means is said where it
is used. `mappings.language.definition_files` reads the files.

Reading goes on after a mistake with something harmless in its place, so that one run
names everything. Decides nothing about HL7.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from difflib import get_close_matches
from enum import StrEnum
from typing import Any

from typing_extensions import override

from mappings.hl7.refusals import MessageRefusal

Sources = Mapping[str, str]
"""The text of every file of one mappings folder, by its relative POSIX path."""


class IssueSeverity(StrEnum):
    """Whether an issue stops what was asked for."""

    ERROR = "error"
    WARNING = "warning"


@dataclass(frozen=True, slots=True)
class Issue:
    """One mistake with its place: in a message (`path`) or in a definition (`file`, `line`).

    `message` names places, never values. `refusal` is what the sender would be told;
    None for warnings and for mistakes in definitions.
    """

    path: str
    code: str
    message: str
    severity: IssueSeverity = IssueSeverity.ERROR
    file: str = ""
    line: int = 0
    column: int = 0
    refusal: MessageRefusal | None = None

    @override
    def __str__(self) -> str:
        """Read as compilers write: file:line:column: severity: path: message."""
        place = f"{self.file}:{self.line}:{self.column}: " if self.file else ""
        path = f"{self.path}: " if self.path else ""
        return f"{place}{self.severity}: {path}{self.message} [{self.code}]"


@dataclass(frozen=True, slots=True)
class YamlNode:
    """A scalar (`str`, or None where nothing is written), a list or a mapping."""

    value: "str | list[YamlNode] | dict[str, YamlNode] | None"
    file: str
    line: int
    column: int
    path: str = ""
    key: tuple[int, int] = (0, 0)
    """Line and column of the key this node stands under."""

    def __getitem__(self, key: str) -> "YamlNode":
        """Return the entry of a mapping; KeyError when this is none or has none."""
        if not isinstance(self.value, dict):
            raise KeyError(key)
        return self.value[key]

    def get(self, key: str) -> "YamlNode | None":
        """Return the entry of a mapping, or None."""
        return self.value.get(key) if isinstance(self.value, dict) else None

    def at_key(self) -> "YamlNode":
        """Point at the key instead of the value."""
        return replace(self, line=self.key[0], column=self.key[1])


FLAGS = {"true": True, "on": True, "yes": True, "false": False, "off": False, "no": False}


class Diagnostics:
    """The issues found so far, and checked ways to look at a node."""

    def __init__(self) -> None:
        self.issues: list[Issue] = []
        self._noted: set[Issue] = set()
        self.included: set[str] = set()
        """The files that were included; they are part of what was compiled."""
        self.conditions: dict[tuple[str, str], Callable[[Any], bool]] = {}
        """Compiled conditions, by the path and the pattern of each."""
        self.takes_long = False
        """Whether a rule is a hook, or a pattern of many steps: not for an event loop."""

    @property
    def failed(self) -> bool:
        """Whether any issue is an error."""
        return any(issue.severity is IssueSeverity.ERROR for issue in self.issues)

    def error(self, node: YamlNode, code: str, message: str) -> None:
        """Note a mistake that makes the definition unusable."""
        self.note(node, code, message, IssueSeverity.ERROR)

    def warn(self, node: YamlNode, code: str, message: str) -> None:
        """Note something that works but is hardly meant."""
        self.note(node, code, message, IssueSeverity.WARNING)

    def note(self, node: YamlNode, code: str, message: str, severity: IssueSeverity) -> None:
        """Note an issue once, however often the node is looked at."""
        issue = Issue(node.path, code, message, severity, node.file, node.line, node.column)
        self.adopt([issue])

    def adopt(self, issues: Iterable[Issue]) -> None:
        """Take over what was noted elsewhere, once."""
        fresh = [issue for issue in dict.fromkeys(issues) if issue not in self._noted]
        self.issues += fresh
        self._noted.update(fresh)

    def unknown(self, node: YamlNode, what: str, name: str, known: Iterable[str]) -> None:
        """Note a name that does not exist, and what was probably meant."""
        self.error(node, f"unknown-{what}", f"unknown {what} {name!r}{meant(name, known)}")

    def mapping(self, node: YamlNode, known: Collection[str] | None = None) -> dict[str, YamlNode]:
        """Read a mapping; keys that are not `known` are mistakes and left out."""
        if not isinstance(node.value, dict):
            self.error(node, "shape", "a mapping (key: value) is expected here")
            return {}
        if known is None:
            return node.value
        for key in node.value:
            if key not in known:
                self.unknown(node.value[key].at_key(), "key", key, known)
        return {key: value for key, value in node.value.items() if key in known}

    def items(self, node: YamlNode) -> list[YamlNode]:
        """Read a list; anything else counts as a list of one, nothing as an empty one."""
        if isinstance(node.value, list):
            return node.value
        return [] if node.value is None else [node]

    def text(self, node: YamlNode) -> str:
        """Read a text; empty (with an issue) when the node is something else."""
        if isinstance(node.value, str):
            return node.value
        if node.value is not None:
            self.error(node, "shape", "a text is expected here")
        return ""

    def texts(self, node: YamlNode) -> list[str]:
        """Read a list of texts; one text counts as a list of one."""
        return [self.text(item) for item in self.items(node)]

    def flag(self, node: YamlNode | None, *, default: bool) -> bool:
        """Read true/false (also on/off, yes/no)."""
        if node is None:
            return default
        text = self.text(node).lower()
        if text not in FLAGS:
            self.error(node, "shape", "true or false is expected here")
        return FLAGS.get(text, default)

    def choice(self, node: YamlNode, what: str, options: Collection[str]) -> str | None:
        """Read one of a closed set of words; None (with an issue) when it is none of them."""
        text = self.text(node)
        if text in options:
            return text
        self.unknown(node, what, text, options)
        return None


def meant(name: str, known: Iterable[str]) -> str:
    """Suggest the closest known name, or list them when they are few."""
    options = sorted(map(str, known))
    close = nearest(name, options)
    if close:
        return f"; did you mean {close!r}?"
    few = 8
    return f"; known here: {', '.join(options)}" if 0 < len(options) <= few else ""


def nearest(name: str, known: Iterable[str]) -> str:
    """Give the closest known name, letters swapped before others; empty where none is close."""
    folded = {option.lower(): option for option in sorted(known)}
    swapped = [each for each in folded if sorted(each) == sorted(name.lower())]
    close = swapped or get_close_matches(name.lower(), folded, n=1)
    return folded[close[0]] if close else ""
