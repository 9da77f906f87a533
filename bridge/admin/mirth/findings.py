"""What became of each part of an export."""

import re
from dataclasses import dataclass
from enum import StrEnum

from bridge.admin.mirth.reader import Element

MAX_FINDINGS = 2_000
"""The limit of findings of one export."""
_MAX_EXCERPT = 300
_COMMENTS = re.compile(r"(?<![:'\"])//[^\n]*|/\*.*?\*/", re.DOTALL)


class Outcome(StrEnum):
    """`check`: converted with a difference that a person must judge."""

    CONVERTED = "converted"
    CHECK = "check"
    NOT_CONVERTED = "not converted"


@dataclass(frozen=True, slots=True)
class Finding:
    """
    One part of an export: its line, its name, and what it became or why it was not converted.

    `hint` says how to write it in Report Bridge; `excerpt` is the begin of a script.
    """

    line: int
    what: str
    outcome: Outcome
    text: str
    hint: str = ""
    excerpt: str = ""


class Findings:
    """Collects the findings of a conversion."""

    def __init__(self) -> None:
        self._found: list[Finding] = []

    def converted(self, line: int, what: str, text: str) -> None:
        self._add(Finding(line, what, Outcome.CONVERTED, text))

    def check(self, line: int, what: str, text: str, hint: str = "") -> None:
        self._add(Finding(line, what, Outcome.CHECK, text, hint))

    def left(self, line: int, what: str, text: str, hint: str = "", excerpt: str = "") -> None:
        """Add a part that was not converted."""
        self._add(Finding(line, what, Outcome.NOT_CONVERTED, text, hint, begin_of(excerpt)))

    def _add(self, finding: Finding) -> None:
        if len(self._found) < MAX_FINDINGS:
            self._found.append(finding)

    def sorted(self) -> list[Finding]:
        """Return them by line."""
        return sorted(self._found, key=lambda finding: finding.line)


def begin_of(script: str) -> str:
    """Return the first line of a script that is code."""
    lines = (line.strip() for line in without_comments(script).splitlines())
    return next(filter(None, lines), "")[:_MAX_EXCERPT]


def without_comments(script: str) -> str:
    """Return a script without its comments."""
    return _COMMENTS.sub(" ", script)


def quoted(element: Element, kind: str) -> str:
    """Return the kind of an element with its name."""
    name = " ".join(element.value("name").split())[:80]
    return f"{kind} “{name}”" if name else kind
