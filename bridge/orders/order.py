"""
An order as the bridge knows it, for linking and for results.

The values of link signals and of numbers of other orders are known as keyed hashes only
(`bridge.index_key`): the rules compare hashes of one kind with each other.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, NamedTuple

from bridge.contract import OrderKey
from bridge.index_key import signal_hash
from bridge.orders.times import MessageTime
from mappings.inbound.events import CHILD_OF, OrderEvent

CLOSED_BY, MERGED_FROM = "closed-by", "merged-from"
"""Kinds of hashes that are no links, besides `CHILD_OF`."""

Patient = tuple[str, str]
"""SiteID, PatientMRN."""

Survivors = Mapping[Patient, str]
"""Merged patients, and the surviving MRN of each."""


def key_of(event: OrderEvent) -> OrderKey:
    return OrderKey(event.site, event.mrn, event.accession)


class OrderState(StrEnum):
    """The state of an order according to its sender."""

    UNKNOWN = "unknown"
    ORDERED = "ordered"
    HELD = "held"
    CANCELLED = "cancelled"
    AWAITED = "awaited"  # not examined yet, and the definition waits for the examination
    REPORTED = "reported"  # reported elsewhere; the engine keeps it off the list of unread orders


OPEN_STATES = frozenset({OrderState.ORDERED, OrderState.AWAITED})
"""States of an order that waits for a radiologist."""


class Link(NamedTuple):
    """A link signal: its kind and the hash of its value."""

    kind: str
    value: int


class LaterEvent(NamedTuple):
    """
    A hold or release that was sent after the cancellation of an order.

    It shows that the order was placed again, and that the order message has not arrived yet. It is
    applied when the order arrives. `at` (ms) was read from the clock of the cancellation.
    """

    is_hold: bool
    at: int


@dataclass(frozen=True, slots=True)
class Order:
    """
    An order. `tags` are all clinicalInfo tags with Metadata. `echo` has the segments for results.

    `first_message` and `position` (in that message) tell which order came first. The
    three times are message times (MSH-7). `opened_at` is that of the newest order or release.
    `tags_sent_at` is that of the newest message with tags. `state_changed_at` is that of the
    present hold or cancellation, or of the release or examination of an open order.
    """

    key: OrderKey
    state: OrderState
    first_message: int
    last_message: int
    position: int = 0
    placer: str = ""
    filler: str = ""
    tags: Mapping[str, Any] = field(default_factory=dict)
    echo: tuple[str, ...] = ()
    report_id: str = ""
    state_changed_at: MessageTime | None = None
    tags_sent_at: MessageTime | None = None
    opened_at: MessageTime | None = None
    links: frozenset[Link] = frozenset()
    """Orders of one patient with a common link share a report."""
    parents: frozenset[int] = frozenset()
    """Hashes of the numbers of its parents."""
    closed_by: frozenset[int] = frozenset()
    """Hashes of the numbers by which it was closed before it arrived, each without another."""
    merged_from: frozenset[int] = frozenset()
    """Hashes of the MRNs from which merges moved it."""
    number_only: bool = False
    """It is known by a number only and was not ordered yet."""
    replaced: bool = False
    """It was replaced, not cancelled."""
    moved_away: bool = False
    """The order moved to another patient; this row remains."""
    later_event: LaterEvent | None = None

    @property
    def patient(self) -> Patient:
        return self.key.patient

    @property
    def arrival(self) -> tuple[int, int]:
        """Sorts orders as they came."""
        return self.first_message, self.position

    @property
    def is_open(self) -> bool:
        """True if it waits for a radiologist."""
        return self.state in OPEN_STATES

    @property
    def numbers(self) -> set[str]:
        """Its placer and filler number."""
        return {self.placer, self.filler} - {""}


def parent_hash(number: str) -> int:
    return signal_hash(CHILD_OF, number)


def closing_hash(number: str) -> int:
    return signal_hash(CLOSED_BY, number)


def merged_hash(mrn: str) -> int:
    return signal_hash(MERGED_FROM, mrn)
