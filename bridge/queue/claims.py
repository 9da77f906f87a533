"""Claims: what a worker is handed, what it returns, and what the settlement of both resulted in.

No I/O. An outcome names the event; which state follows is `states.TRANSITIONS`' business.
"""

from dataclasses import dataclass
from typing import Any

from bridge.errors import FailureKind
from bridge.queue.states import QueueEvent, QueueState, next_state


@dataclass(frozen=True, slots=True)
class ClaimedMessage:
    """
    A stored message whose turn it is. `attempts` counts this one; times are in ms.

    `ambiguous_attempts` are the attempts whose outcome nobody knows. `attempts` also has those
    that never
    reached the report service; they must not use up the patience with a message.
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
    unreadable: str = ""
    """Why the content cannot be read now; it may be read later."""


@dataclass(frozen=True, slots=True)
class MessageOutcome:
    """
    What came of an attempt: ACCEPTED, IGNORED, POSTPONED or GIVEN_UP.

    `code` and `detail` are for operators and bear no patient data. `retry_at` (ms) is for
    what is postponed; None leaves it to the retry policy. `notes` is any JSON value to keep,
    `ambiguous_attempts` the count to keep; None leaves it as it is. `lane` is a second one to
    wait in from
    now on, for a message that had one. `news` is what is to be written down with it.
    """

    message_id: int
    event: QueueEvent
    failure: FailureKind | None = None
    code: str = ""
    detail: str = ""
    retry_at: int | None = None
    notes: Any = None
    ambiguous_attempts: int | None = None
    lane: int | None = None
    news: "OutcomeRecords | None" = None


@dataclass(frozen=True, slots=True)
class OutcomeRecords:
    """
    What applying a message has brought to light: written with its outcome, both or neither.

    Whoever applies it knows what `content` means. `otherwise` is the outcome where it cannot be
    written. `brief` is what takes a few statements by key, whatever is stored already.
    """

    content: Any
    otherwise: MessageOutcome
    brief: bool = False


@dataclass(frozen=True, slots=True)
class Settlement:
    """What becomes of a claimed row; times in ms. Only what is queued has a `not_before`."""

    row_id: int
    state: QueueState
    failure: str = ""
    code: str = ""
    detail: str = ""
    not_before: int = 0

    @classmethod
    def of(
        cls,
        row_id: int,
        event: QueueEvent,
        failure: FailureKind | None,
        code: str,
        detail: str,
        due: int,
    ) -> "Settlement":
        """Say what follows when `event` happens to a claimed row; it is `due` if it waits."""
        state = next_state(QueueState.CLAIMED, event)
        waits = state is QueueState.QUEUED
        return cls(row_id, state, str(failure or ""), code, detail, due if waits else 0)


@dataclass(frozen=True, slots=True)
class SettlementResult:
    """The rows that were still ours to settle, and whether any moved up behind them."""

    held: set[int]
    moved_up: bool
