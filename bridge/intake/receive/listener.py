"""One listener: its policy, and what its handler needs of storage and of its mapping definition.

Plain values and a Protocol; `bridge.wiring` makes them from settings and compiled mappings.

Interfaces, and how several answers of the second are one.
"""

import asyncio
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from bridge.queue.ledger.arrivals import Arrival, Receipt
from bridge.queue.states import QueueState
from mappings.hl7.header import Header
from mappings.inbound.acceptance import Acceptance
from mappings.inbound.definition import Inspection
from mappings.inbound.events import OrderEvent
from mappings.inbound.order_mapping import PatientNames
from mappings.language.code_tables import UnmappedCode
from mappings.language.scope import ListenerDefaults


class Acknowledge(StrEnum):
    """What a positive acknowledgment means."""

    STORED = "stored"  # it is on disk
    CHECKED = "checked"  # and the mapping finds nothing missing
    APPLIED = "applied"  # and the report service has it


class Reuse(StrEnum):
    """What other bytes under a used control id are."""

    ACCEPT = "accept"  # a new message: senders restart their counters
    REFUSE = "refuse"


class Merged(StrEnum):
    """What a message about a merged patient's old identifier is about."""

    REDIRECT = "redirect"  # the survivor
    REFUSE = "refuse"  # nobody: it is parked for a person


class PatientConflict(StrEnum):
    """What becomes of a message that names another patient for an order that is known."""

    PARK = "park"  # acknowledged and set aside; applied when the two patients are merged
    REFUSE = "refuse"  # AE 204
    MOVE = "move"  # the order is the other patient's from then on
    ACCEPT = "accept"  # a second order, with an exception


class Replies(StrEnum):
    """The form of the application acknowledgment to an order message."""

    ACK = "ack"
    ORDER = "order"  # ORR, ORI or ORG, with an ORC for each order


class SequenceNumbers(StrEnum):
    """What MSH-13 is to a listener."""

    OFF = "off"
    CHECK = "check"  # where a message has one, it must be that message's turn
    REQUIRE = "require"  # and every message has one


class Definition(Protocol):
    """What intake needs of an inbound mapping (`mappings.compiler.InboundMapping`)."""

    @property
    def name(self) -> str:
        """The definition's name."""

    @property
    def version(self) -> str:
        """The hash of its sources."""

    @property
    def acceptance(self) -> Acceptance:
        """Which messages it takes."""

    @property
    def takes_long(self) -> bool:
        """Whether its rules are for a thread: a hook or a large pattern is among them."""

    @property
    def patient_names(self) -> PatientNames:
        """What becomes of an order whose patient is known by another name."""

    def accepts(self, header: Header) -> bool:
        """Whether type, trigger and sender are its own."""

    def inspect(
        self, raw: bytes, fallback: str, head: Header, defaults: ListenerDefaults
    ) -> Inspection:
        """Say what is wrong with a message, and which patients it speaks of. Raises Malformed."""

    def order_reply(self, control: str, *, accepted: bool) -> str:
        """Give ORC-1 of the reply to an order control code; empty where these are no orders."""

    def read(self, raw: bytes, fallback: str, defaults: ListenerDefaults) -> Sequence[OrderEvent]:
        """Read what stored bytes ask for; `fallback` is the codec where they declare none."""


Recall = Callable[[str, str], Definition | None]
"""Finds a definition by name and version, as messages remember it. Blocking."""


def forgotten(_name: str, _version: str) -> Definition | None:
    """Remember no version but those in force."""
    return None


Missing = Callable[[str, str, Collection[UnmappedCode]], None]
"""Told of the codes of one message that a definition (its name, its version) has not."""


def unmoved(_name: str, _version: str, _missed: Collection[UnmappedCode]) -> None:
    """Count no codes."""


@dataclass(frozen=True, slots=True)
class Listening:
    """
    One listener's policy. `definitions` are tried in order; times in seconds.

    `versions` empty: any version whose structure the definitions can read is taken
    (pitfall: real senders claim versions rather freely). `applied_limit` bounds how long
    an acknowledgment waits for the report service under `acknowledge = "applied"`.
    """

    name: str
    definitions: tuple[Definition, ...]
    site: str = ""
    time_zone: str = "UTC"
    acknowledge: Acknowledge = Acknowledge.CHECKED
    reuse: Reuse = Reuse.ACCEPT
    processing_ids: frozenset[str] = frozenset({"P"})
    versions: frozenset[str] = frozenset()
    charset: str = "utf-8"
    applied_limit: float = 20.0
    replies: Replies = Replies.ACK
    merged: Merged = Merged.REDIRECT
    patient_conflict: PatientConflict = PatientConflict.PARK
    commit_blocks: bool = False
    """Whether MLLP release 2's commit block goes before each answer."""
    recall: Recall = forgotten
    """Finds the version that a stored message began with."""
    missing: Missing = unmoved
    """Told of codes without an entry."""


APPLIED = frozenset({QueueState.DONE, QueueState.IGNORED})


class Inbox(Protocol):
    """What the handler needs of the durable ledger."""

    def submit(self, arrival: Arrival, settle: Callable[[Receipt | BaseException], object]) -> None:
        """Store one message; calls `settle` after the commit."""

    def accept_many(self, arrivals: Sequence[Arrival]) -> "asyncio.Future[Sequence[Receipt]]":
        """Store all or none."""

    def acknowledged(self, message_id: int) -> None:
        """Note that a message's acknowledgment went to the connection it was owed to."""


class Outcomes(Protocol):
    """What the handler needs to wait for the report service (`acknowledge = "applied"`)."""

    def wait(self, message_id: int, limit: float) -> "asyncio.Future[QueueState]":
        """Resolve when the message is finished, or with its state after `limit` seconds."""


def all_applied(waiting: "Iterable[asyncio.Future[QueueState]]") -> "asyncio.Future[QueueState]":
    """Give the state of all: the first that was not applied, if there is any."""

    async def last() -> QueueState:
        states = await asyncio.gather(*waiting)
        return next((each for each in states if each not in APPLIED), states[0])

    return asyncio.ensure_future(last())
