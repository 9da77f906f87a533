"""What became of each part of an export."""

import re
from dataclasses import dataclass
from enum import StrEnum

from bridge.admin.mirth.reader import Element

MAX_FINDINGS = 2_000
"""The limit of findings of one export."""
_MAX_EXCERPT = 300
_MAX_SEARCHED = 20_000  # characters
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
        self._more = 0

    def converted(self, line: int, what: str, text: str) -> None:
        self._add(Outcome.CONVERTED, line, what, text)

    def check(self, line: int, what: str, text: str, hint: str = "") -> None:
        self._add(Outcome.CHECK, line, what, text, hint)

    def left(self, line: int, what: str, text: str, hint: str = "", excerpt: str = "") -> None:
        """Add a part that was not converted."""
        self._add(Outcome.NOT_CONVERTED, line, what, text, hint, begin_of(excerpt))

    def _add(self, outcome: Outcome, line: int, what: str, *texts: str) -> None:
        if len(self._found) < MAX_FINDINGS:
            self._found.append(Finding(line, printable(what), outcome, *map(printable, texts)))
        else:
            self._more += 1

    def sorted(self) -> list[Finding]:
        """Return them by line; the last one says how many were left out."""
        found = sorted(self._found, key=lambda finding: finding.line)
        if self._more:
            text = f"{self._more} more parts are not listed"
            found.append(Finding(0, "report", Outcome.NOT_CONVERTED, text))
        return found


def begin_of(script: str) -> str:
    """Return the first line of a script that is code."""
    lines = (line.strip() for line in without_comments(script[:_MAX_SEARCHED]).splitlines())
    return next(filter(None, lines), "")[:_MAX_EXCERPT]


def printable(text: str) -> str:
    """Return a text of an export without characters that a terminal obeys."""
    return "".join(letter if letter.isprintable() else " " for letter in text)


def without_comments(script: str) -> str:
    """Return a script without its comments."""
    return _COMMENTS.sub(" ", script)


def quoted(element: Element, kind: str) -> str:
    """Return the kind of an element with its name."""
    name = " ".join(element.value("name").split())[:80]
    return f"{kind} “{name}”" if name else kind
