"""
Diagnostics of definitions: issues with their locations, checked access to nodes, and errors.

Each scalar is a text (`2.5` is "2.5", `NO` is "NO"); the code that uses it interprets it. After an
error, compilation continues with a harmless value, so that one run reports all errors.

Errors of messages are `mappings.hl7.refusals`. Errors of definitions:

* MappingError
    * MappingErrors        all errors of a definition
    * RuleFailed           a rule failed for a message, which is parked or refused
        * HookFailed       a Python hook raised an exception or was stopped
            * HookNotCalled    no process was free for it: another attempt may succeed
        * CodeRefused      the code table of the receiver lacks a code of a result
    * NotRenderable        an outbound definition has no message for an event
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from enum import StrEnum
from typing import Any

from typing_extensions import override

from mappings.hl7.refusals import MessageRefusal

Sources = Mapping[str, str]
"""The texts of the files of one mappings folder, by relative POSIX path."""


class IssueSeverity(StrEnum):
    """Whether an issue prevents the use of a definition or the acceptance of a message."""

    ERROR = "error"
    WARNING = "warning"


@dataclass(frozen=True, slots=True)
class Issue:
    """
    An issue with its location in a message (`path`) or in a definition (`file`, `line`, `column`).

    `message` names locations and no values, except an unmapped code. `refusal` is what the sender
    receives; it is None for
    warnings and for issues of definitions.
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
        """Format the issue as compilers do: file:line:column: severity: path: message."""
        place = f"{self.file}:{self.line}:{self.column}: " if self.file else ""
        path = f"{self.path}: " if self.path else ""
        return f"{place}{self.severity}: {path}{self.message} [{self.code}]"


@dataclass(frozen=True, slots=True)
class YamlNode:
    """A node of a YAML file with its location: a scalar (`str`, None if empty), list or mapping."""

    value: "str | list[YamlNode] | dict[str, YamlNode] | None"
    file: str
    line: int
    column: int
    path: str = ""
    key: tuple[int, int] = (0, 0)
    """Line and column of the key of this node."""
    end: tuple[int, int] = (0, 0)
    """Line and column after the last character, without comments that follow."""
    span: tuple[int, int] = (0, 0)
    """Offsets of the first character and after the last one in the text of the file."""
    key_start: int = 0
    """Offset of the key of this node."""
    block: bool = False
    """Whether a list or mapping is written in lines, without brackets."""

    def __getitem__(self, key: str) -> "YamlNode":
        """Return the entry of a mapping. Raises KeyError."""
        if not isinstance(self.value, dict):
            raise KeyError(key)
        return self.value[key]

    def get(self, key: str) -> "YamlNode | None":
        """Return the entry of a mapping, or None."""
        return self.value.get(key) if isinstance(self.value, dict) else None

    def at_key(self) -> "YamlNode":
        """Return a node with the location of the key, for issues about the key."""
        return replace(self, line=self.key[0], column=self.key[1])


FLAGS = {"true": True, "on": True, "yes": True, "false": False, "off": False, "no": False}


class Diagnostics:
    """Collects the issues of a compilation; its `read_…` methods report nodes of a wrong type."""

    def __init__(self) -> None:
        self.issues: list[Issue] = []
        self._known: set[Issue] = set()
        self.included: set[str] = set()
        """The files that were included."""
        self.conditions: dict[tuple[str, str], Callable[[Any], bool]] = {}
        """Compiled conditions, by path and pattern."""
        self.needs_thread = False
        """Whether a rule is a hook or a complex pattern, which must not run on the event loop."""

    @property
    def failed(self) -> bool:
        """Whether any issue is an error."""
        return any(issue.severity is IssueSeverity.ERROR for issue in self.issues)

    def error(self, node: YamlNode, code: str, message: str) -> None:
        """Report an error: the definition cannot be used."""
        self.add(node, code, message, IssueSeverity.ERROR)

    def warn(self, node: YamlNode, code: str, message: str) -> None:
        """Report a warning: the definition can be used but probably has a mistake."""
        self.add(node, code, message, IssueSeverity.WARNING)

    def add(self, node: YamlNode, code: str, message: str, severity: IssueSeverity) -> None:
        """Add an issue, once for each node and message."""
        issue = Issue(node.path, code, message, severity, node.file, node.line, node.column)
        self.add_all([issue])

    def add_all(self, issues: Iterable[Issue]) -> None:
        fresh = [issue for issue in dict.fromkeys(issues) if issue not in self._known]
        self.issues += fresh
        self._known.update(fresh)

    def unknown(self, node: YamlNode, what: str, name: str, known: Iterable[str]) -> None:
        """Report a name that does not exist, with a suggestion."""
        self.error(node, f"unknown-{what}", f"unknown {what} {name!r}{suggestion(name, known)}")

    def read_mapping(
        self, node: YamlNode, known: Collection[str] | None = None
    ) -> dict[str, YamlNode]:
        """Read a mapping. Keys that are not `known` are reported and left out."""
        if not isinstance(node.value, dict):
            self.error(node, "shape", "a mapping (key: value) is expected here")
            return {}
        if known is None:
            return node.value
        for key in node.value:
            if key not in known:
                self.unknown(node.value[key].at_key(), "key", key, known)
        return {key: value for key, value in node.value.items() if key in known}

    def read_items(self, node: YamlNode) -> list[YamlNode]:
        """Read a list. Another node is a list of one, an empty node is an empty list."""
        if isinstance(node.value, list):
            return node.value
        return [] if node.value is None else [node]

    def read_text(self, node: YamlNode) -> str:
        """Read a text. Reports another type and returns ""."""
        if isinstance(node.value, str):
            return node.value
        if node.value is not None:
            self.error(node, "shape", "a text is expected here")
        return ""

    def read_texts(self, node: YamlNode) -> list[str]:
        return [self.read_text(item) for item in self.read_items(node)]

    def read_flag(self, node: YamlNode | None, *, default: bool) -> bool:
        """Read true or false (also on/off, yes/no)."""
        if node is None:
            return default
        text = self.read_text(node).lower()
        if text not in FLAGS:
            self.error(node, "shape", "true or false is expected here")
        return FLAGS.get(text, default)

    def read_choice(self, node: YamlNode, what: str, options: Collection[str]) -> str | None:
        """Read one of the words of `options`. Reports another word and returns None."""
        text = self.read_text(node)
        if text in options:
            return text
        self.unknown(node, what, text, options)
        return None


def suggestion(name: str, known: Iterable[str]) -> str:
    """Return a hint with the closest known name, or with all names if they are few."""
    options = sorted(map(str, known))
    close = nearest(name, options)
    if close:
        return f"; did you mean {close!r}?"
    few = 8
    return f"; known here: {', '.join(options)}" if 0 < len(options) <= few else ""


def nearest(name: str, known: Iterable[str]) -> str:
    """Return the closest known name, preferably one with swapped letters; "" if none is close."""
    folded = {option.lower(): option for option in sorted(known)}
    swapped = [option for option in folded if sorted(option) == sorted(name.lower())]
    close = swapped or get_close_matches(name.lower(), folded, n=1)
    return folded[close[0]] if close else ""


class MappingError(Exception):
    """Base class of the errors of definitions."""


class MappingErrors(MappingError):
    """A definition cannot be used; `issues` has each error with its location."""

    def __init__(self, issues: Sequence[Issue]) -> None:
        self.issues = tuple(issues)
        super().__init__("\n".join(str(issue) for issue in self.issues))


class RuleFailed(MappingError):
    """A rule failed for a message. The text contains no values."""


class HookFailed(RuleFailed):
    """A hook raised an exception or was stopped. The text names it and the exception's class."""

    def __init__(self, hook: str, what: str) -> None:
        self.hook = hook
        super().__init__(f"hook {hook} {what}")


class HookNotCalled(HookFailed):
    """A hook was not called because no process was free. Another attempt may succeed."""


class CodeRefused(RuleFailed):
    """A code table with `unknown: refuse` lacks a result's code. The text names table and place."""

    def __init__(self, table: str, place: str) -> None:
        super().__init__(f"code table {table} has no entry for the value of {place}")


class NotRenderable(MappingError):
    """The definition has no message for an event."""

    def __init__(self, name: str, event: str) -> None:
        super().__init__(f"mapping {name} renders nothing for event {event}")
