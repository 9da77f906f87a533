"""
States of a queued message or delivery, the allowed transitions, and the retry policy.

`QueueState` is the state of the work, `AcknowledgmentState` that of the sender's acknowledgment.
They are independent: a message that was processed but whose ACK was lost is `done`
and `pending`.

Retry delays double and have jitter, so that messages that failed together are not retried together.
Pure: the caller passes the attempt number and the random generator.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from random import Random

from bridge.queue.errors import IllegalTransition


class QueueState(StrEnum):
    QUEUED = "queued"  # waits for a worker or for the next attempt
    CLAIMED = "claimed"  # owned by a worker until the lease ends
    DONE = "done"  # processed or delivered
    IGNORED = "ignored"  # valid, and no action was needed
    REFUSED = "refused"  # stored with its negative acknowledgment, not processed
    PARKED = "parked"  # set aside after errors, waits for an operator
    CANCELLED = "cancelled"  # an operator decided not to process it


class QueueEvent(StrEnum):
    CLAIM = "claimed"
    ACCEPTED = "accepted"
    IGNORED = "ignored"
    POSTPONED = "postponed"  # failed, another attempt follows
    GIVEN_UP = "given up"
    INTERRUPTED = "interrupted"  # the worker stopped: the attempt may have been made
    REPLAYED = "replayed"  # by an operator
    CANCELLED = "cancelled"  # by an operator


class AcknowledgmentState(StrEnum):
    """Whether the sender received its acknowledgment."""

    PENDING = "pending"  # stored with the message, not confirmed as sent
    DELIVERED = "delivered"  # written to the sender's connection
    NOT_REQUIRED = "not_owed"  # the sender requested none (MSH-15, MSH-16)


TRANSITIONS: Mapping[tuple[QueueState, QueueEvent], QueueState] = {
    (QueueState.QUEUED, QueueEvent.CLAIM): QueueState.CLAIMED,
    (QueueState.QUEUED, QueueEvent.CANCELLED): QueueState.CANCELLED,
    (QueueState.CLAIMED, QueueEvent.ACCEPTED): QueueState.DONE,
    (QueueState.CLAIMED, QueueEvent.IGNORED): QueueState.IGNORED,
    (QueueState.CLAIMED, QueueEvent.POSTPONED): QueueState.QUEUED,
    (QueueState.CLAIMED, QueueEvent.GIVEN_UP): QueueState.PARKED,
    (QueueState.CLAIMED, QueueEvent.INTERRUPTED): QueueState.QUEUED,
    (QueueState.PARKED, QueueEvent.REPLAYED): QueueState.QUEUED,
    (QueueState.PARKED, QueueEvent.CANCELLED): QueueState.CANCELLED,
    (QueueState.REFUSED, QueueEvent.REPLAYED): QueueState.QUEUED,
    (QueueState.CANCELLED, QueueEvent.REPLAYED): QueueState.QUEUED,
    (QueueState.IGNORED, QueueEvent.REPLAYED): QueueState.QUEUED,
    (QueueState.DONE, QueueEvent.REPLAYED): QueueState.QUEUED,
}

INITIAL_STATES = frozenset({QueueState.QUEUED, QueueState.REFUSED, QueueState.IGNORED})
"""States in which a message may be stored."""


def next_state(state: QueueState, event: QueueEvent) -> QueueState:
    """Return the state after `event`. Raises IllegalTransition."""
    try:
        return TRANSITIONS[state, event]
    except KeyError:
        raise IllegalTransition(state, event) from None


_MAX_DOUBLINGS = 32  # larger powers overflow a float


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Exponential backoff: `first` seconds, doubled up to `maximum`; `jitter` is random."""

    first: float = 1.0
    maximum: float = 60.0
    jitter: float = 0.2

    def __post_init__(self) -> None:
        if not (0 < self.first <= self.maximum and 0 <= self.jitter <= 1):
            raise ValueError("a retry policy needs 0 < first <= maximum and 0 <= jitter <= 1")

    def delay(self, attempt: int, random: Random) -> float:
        """
        Return the seconds to wait after attempt number `attempt`, which counts from 1.

        Jitter only shortens the delay: `maximum` is an upper bound.
        """
        doubled = self.first * 2.0 ** min(max(attempt - 1, 0), _MAX_DOUBLINGS)
        return min(doubled, self.maximum) * (1 - self.jitter * random.random())
