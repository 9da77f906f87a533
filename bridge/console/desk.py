"""
What wiring does for authors of definitions: their desk, and the bench they try things on.

Answers are what the endpoints tell, ready for JSON; `actor` is an e-mail address. Everything
blocks, and raises errors of the console only.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

Told = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Writing:
    """
    What an author has written: the files that differ, by their names in a mappings folder.

    `begun_on` is the version in force then, `revision` that of the draft it was written on.
    `code`: they may change Python.
    """

    name: str
    actor: str
    files: Mapping[str, str]
    begun_on: str
    revision: int
    code: bool = False


@dataclass(frozen=True, slots=True)
class Decision:
    """
    What somebody puts into force, and why.

    `begun_on` must be in force still; `revision` is the draft's; `listeners` are to read with the
    definition from now on. `code`: they may change Python.
    """

    name: str
    actor: str
    reason: str
    begun_on: str
    revision: int = 0
    version: str = ""
    listeners: Sequence[str] = ()
    code: bool = False


@dataclass(frozen=True, slots=True)
class Entry:
    """What a code table is to say; `back`: `code` is a value, and `value` the code it has."""

    name: str
    actor: str
    table: str
    code: str
    value: str
    back: bool = False


@dataclass(frozen=True, slots=True)
class Specimen:
    """A message to try: its bytes, and the listener whose settings hold where it is silent."""

    payload: bytes
    listener: str = ""
    mapping: str = ""
    """The definition that a stored message was read with, and its version."""
    version: str = ""


@dataclass(frozen=True, slots=True)
class Question:
    """Which two versions to compare, by their words, over so many stored messages."""

    name: str
    actor: str
    before: str
    after: str
    last: int
    values: bool = field(default=False)
    """Whether values are told; else only which fields differ, and how often."""
    code: bool = field(default=False)
    """Whether they may change Python."""


class Desk(Protocol):
    """Definitions, drafts, versions."""

    def overview(self) -> Told:
        """List definitions, and who reads and writes with them."""

    def definition(self, name: str, actor: str) -> Told:
        """Give a definition with its files, and the author's draft."""

    def save(self, writing: Writing) -> Told:
        """Keep a draft, with its mistakes named."""

    def discard(self, name: str, actor: str) -> None:
        """Throw a draft away."""

    def history(self, name: str) -> Sequence[Told]:
        """List what was in force, the newest first."""

    def version(self, name: str, version: str) -> Told:
        """Give the files of a version."""

    def changes_hooks(self, change: Writing | Decision) -> bool:
        """Tell whether a draft, its activation or a rollback brings code that is not active."""

    def activate(self, decision: Decision) -> Told:
        """Put the author's draft into force."""

    def rollback(self, decision: Decision) -> Told:
        """Put an older version into force: the one named, else the one before."""

    def unknown_codes(self, actor: str) -> Sequence[Told]:
        """List codes that messages had and no table has."""

    def leave_code(self, name: str, table: str, code: str, actor: str) -> None:
        """Note that a code stays without an entry. Raises Unknown."""

    def add_code(self, entry: Entry) -> Told:
        """Write an entry into the author's draft. Raises Unknown."""

    def read_with(self, decision: Decision, names: Sequence[str]) -> Told:
        """Let a listener (`decision.name`) read with these; none: as its settings say."""


class Bench(Protocol):
    """Trying, comparing, learning."""

    def pasted(self, text: str) -> Sequence[bytes]:
        """Find the messages of a text, as they were on the wire."""

    def uploaded(self, data: bytes) -> Sequence[bytes]:
        """Find the messages of a file."""

    def stored(self, name: str, last: int, control: str) -> Sequence[Told]:
        """Give the last stored messages that a definition concerns, or those of a control id."""

    def try_out(
        self, name: str, actor: str, word: str, specimens: Sequence[Specimen], *, code: bool = False
    ) -> Told:
        """Give what a version makes of messages; `code`: the actor may change Python."""

    def compare(self, question: Question) -> Told:
        """Say which stored messages come out differently."""

    def learn(self, payloads: Sequence[bytes]) -> Told:
        """Propose a definition."""
