"""
Claimed rows, the outcomes of work on them, and the settlement that ends a claim.

No I/O. An outcome names an event; `states.TRANSITIONS` defines the state that follows.
"""

import time
from collections.abc import Callable
from copy import copy
from dataclasses import dataclass, field
from typing import Any

from bridge.errors import FailureKind
from bridge.queue.errors import LeaseEnded
from bridge.queue.notes import MessageNotes
from bridge.queue.states import QueueEvent, QueueState, next_state

CurrentSession = Callable[[], int | None]
"""Returns the session of this process's heartbeat lock; None if it may have lost the lock."""


def no_heartbeat_session() -> int | None:
    """Return a constant: without heartbeat locks a session never ends."""
    return 0


class Lease:
    """
    The lease of a claim as its owner sees it. Other nodes may act on the claim when it has ended.

    It ends at `ends_at` by the monotonic clock `timer` (seconds), or earlier with the heartbeat
    session in which the claim was made. The server ends that session if the process is frozen or
    cut off from it.
    """

    __slots__ = ("_claimed_in", "_session", "_timer", "ends_at")

    def __init__(
        self,
        ends_at: float = float("inf"),
        timer: Callable[[], float] = time.monotonic,
        session: CurrentSession = no_heartbeat_session,
    ) -> None:
        self.ends_at = ends_at
        self._timer = timer
        self._session = session
        self._claimed_in = session()

    def copy(self) -> "Lease":
        """Return an equal lease, for another claim of the same transaction."""
        return copy(self)

    @property
    def is_held(self) -> bool:
        alive = self._claimed_in is not None and self._session() == self._claimed_in
        return alive and self._timer() < self.ends_at

    def require(self) -> None:
        """Raise LeaseEnded if the lease has ended."""
        if not self.is_held:
            raise LeaseEnded


@dataclass(frozen=True, slots=True)
class ClaimedMessage:
    """
    A stored message that a worker has claimed. Times are in ms.

    `attempts` includes the current attempt, and attempts that never reached the report engine.
    `ambiguous_attempts` counts only attempts whose result is unknown; they limit the retries.
    """

    message_id: int
    payload: bytes
    listener: str
    mapping: str
    mapping_version: str
    lanes: tuple[int, ...]
    attempts: int
    received_at: int
    flags: int
    message_type: str
    ambiguous_attempts: int = 0
    unreadable_code: str = ""
    """Code of the error because of which the payload cannot be read now; empty if it was read."""
    digest: int | None = field(default=None, compare=False)
    """The digest that was stored with the payload."""
    is_damaged: bool = False
    """Whether the stored payload does not have its digest; `payload` is empty then."""
    lease: Lease = field(default_factory=Lease, compare=False)


@dataclass(frozen=True, slots=True)
class MessageOutcome:
    """
    The outcome of an attempt: ACCEPTED, IGNORED, POSTPONED or GIVEN_UP.

    `code` and `detail` are for operators and contain no patient data. `retry_at` (ms) applies to
    POSTPONED; None leaves the time to the retry policy. `notes` are the notes to store and
    `ambiguous_attempts` the count to store; None keeps the stored value. `lane` adds a second lane
    to a message that has one. `records` are written in the transaction of the outcome.
    `received_at` and `attempts` are those of the claimed message; None is not compared (see
    `Settlement`). `sites` are those of its orders, whose open pages get a hint; none if unknown.
    """

    message_id: int
    event: QueueEvent
    failure: FailureKind | None = None
    code: str = ""
    detail: str = ""
    retry_at: int | None = None
    notes: MessageNotes | None = None
    ambiguous_attempts: int | None = None
    lane: int | None = None
    records: "OutcomeRecords | None" = None
    received_at: int | None = None
    attempts: int | None = None
    sites: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class OutcomeRecords:
    """
    Records that are written in the transaction of an outcome: both are stored or neither.

    The `write_records` function of the inbox interprets `content`. `fallback` is the outcome that
    applies if the records cannot be written.
    """

    content: Any
    fallback: MessageOutcome


@dataclass(frozen=True, slots=True)
class Settlement:
    """
    The new state of a claimed row. Times are in ms. Only queued rows have a `not_before`.

    `stored_at` is the time at which the claimed row was stored, and `attempts` the number of the
    claim; None is not compared. After a failover that lost commits, a later row can have the same
    id. A process that was frozen may have claimed the row again while an earlier call of its own
    was under way. `notes` are those to store; None keeps what is stored.
    """

    row_id: int
    state: QueueState
    failure: str = ""
    code: str = ""
    detail: str = ""
    not_before: int = 0
    stored_at: int | None = None
    attempts: int | None = None
    notes: str | None = None

    @classmethod
    def of(
        cls,
        row_id: int,
        event: QueueEvent,
        failure: FailureKind | None,
        code: str,
        detail: str,
        due: int,
        stored_at: int | None = None,
        attempts: int | None = None,
        *,
        notes: str | None = None,
    ) -> "Settlement":
        """Return the settlement for an event; `due` is the time of the next attempt, if any."""
        state = next_state(QueueState.CLAIMED, event)
        waits = state is QueueState.QUEUED
        not_before = due if waits else 0
        kind = str(failure or "")
        return cls(row_id, state, kind, code, detail, not_before, stored_at, attempts, notes)

    def is_about(self, stored_at: int, attempts: int) -> bool:
        """True if this is about claim number `attempts` of a row stored at that time."""
        same_row = self.stored_at is None or self.stored_at == stored_at
        return same_row and (self.attempts is None or self.attempts == attempts)


@dataclass(frozen=True, slots=True)
class SettlementResult:
    """Ids of the rows that the worker still owned, and whether rows behind them became free."""

    owned: set[int]
    unblocked_any: bool
