"""Edits of a text by offsets, and why a form cannot make one."""

from collections.abc import Sequence
from dataclasses import dataclass

from mappings.language.diagnostics import Issue


class EditRefused(Exception):
    """A change that cannot be made; the text says why, `issues` are the new errors."""

    def __init__(self, reason: str, issues: Sequence[Issue] = ()) -> None:
        self.reason, self.issues = reason, tuple(issues)
        super().__init__(reason)


@dataclass(frozen=True, slots=True)
class TextEdit:
    """Replaces the characters from `start` to `end` by `insert`."""

    start: int
    end: int
    insert: str


def apply_edits(text: str, edits: Sequence[TextEdit]) -> str:
    """Return a text after edits, whose offsets are those of the text before."""
    for edit in reversed(edits):
        text = text[: edit.start] + edit.insert + text[edit.end :]
    return text
