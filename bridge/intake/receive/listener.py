"""The policy of one listener, and the interfaces of the mapping and of the message store.

`bridge.wiring` builds policies from settings and compiled mappings.
"""

import asyncio
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Protocol

from bridge.queue.ledger.arrivals import Arrival, Receipt
from config.listeners import Acknowledge, MergedPatients, PatientConflict, Replies, ReusedControlId
from mappings.hl7.header import Header
from mappings.inbound.acceptance import Acceptance
from mappings.inbound.definition import Inspection
from mappings.inbound.events import OrderEvent
from mappings.inbound.order_mapping import PatientNames
from mappings.language.code_tables import UnmappedCode
from mappings.language.scope import ListenerDefaults


class InboundDefinition(Protocol):
    """An inbound mapping, as intake uses it (`mappings.inbound.definition.InboundMapping`)."""

    @property
    def name(self) -> str:
        """The definition's name."""

    @property
    def version(self) -> str:
        """The hash of its sources."""

    @property
    def acceptance(self) -> Acceptance:
        """The message types, versions and processing ids that it accepts."""

    @property
    def takes_long(self) -> bool:
        """Whether its rules must run on a thread: they contain a hook or a large pattern."""

    @property
    def patient_names(self) -> PatientNames:
        """How to handle an order whose patient is known by another name."""

    def accepts(self, header: Header) -> bool:
        """Tell whether message type, trigger event and sender match."""

    def inspect(
        self, raw: bytes, fallback: str, head: Header, defaults: ListenerDefaults
    ) -> Inspection:
        """Return the issues of a message and its patients. Raises MalformedMessage."""

    def order_reply(self, control: str, *, accepted: bool) -> str:
        """
        Return ORC-1 of the reply to an order control code; empty if the mapping is not
        for orders.
        """

    def read(self, raw: bytes, fallback: str, defaults: ListenerDefaults) -> Sequence[OrderEvent]:
        """Map a message to order events; `fallback` is the codec if MSH-18 declares none."""


VersionLookup = Callable[[str, str], InboundDefinition | None]
"""Finds a definition by name and version, as stored messages refer to it. Blocking."""


def no_earlier_version(_name: str, _version: str) -> InboundDefinition | None:
    """Find no version: only the active ones are known."""
    return None


UnmappedCodeSink = Callable[[str, str, Collection[UnmappedCode]], None]
"""Receives the unmapped codes of one message, with the definition's name and version."""


def ignore_unmapped_codes(_name: str, _version: str, _missed: Collection[UnmappedCode]) -> None:
    """Discard unmapped codes."""


@dataclass(frozen=True, slots=True)
class ListenerPolicy:
    """
    The policy of one listener. `definitions` are tried in order.

    `versions` empty: every HL7 version is accepted, because senders often declare a wrong one.
    `applied_timeout` is the number of seconds for which an acknowledgment waits for the report
    engine with `acknowledge = "applied"`.
    """

    name: str
    definitions: tuple[InboundDefinition, ...]
    site: str = ""
    time_zone: str = "UTC"
    acknowledge: Acknowledge = Acknowledge.CHECKED
    reuse: ReusedControlId = ReusedControlId.ACCEPT
    processing_ids: frozenset[str] = frozenset({"P"})
    versions: frozenset[str] = frozenset()
    charset: str = "utf-8"
    applied_timeout: float = 20.0
    replies: Replies = Replies.ACK
    merged: MergedPatients = MergedPatients.REDIRECT
    patient_conflict: PatientConflict = PatientConflict.PARK
    commit_blocks: bool = False
    """Whether a commit block of MLLP release 2 precedes each reply."""
    recall: VersionLookup = no_earlier_version
    """Finds the definition version that a stored message was accepted under."""
    missing: UnmappedCodeSink = ignore_unmapped_codes
    """Receives unmapped codes."""


class ArrivalStore(Protocol):
    """The durable store of received messages: the ledger, or a sequencer in front of it."""

    def submit(self, arrival: Arrival, settle: Callable[[Receipt | BaseException], object]) -> None:
        """Store one message; call `settle` after the commit."""

    def accept_many(self, arrivals: Sequence[Arrival]) -> "asyncio.Future[Sequence[Receipt]]":
        """Store all messages or none."""

    def acknowledged(self, message_id: int) -> None:
        """Record that the acknowledgment of a message was passed to its connection."""
