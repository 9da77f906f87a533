"""The states of a queued message or delivery, as two independent axes, and when to retry.

`QueueState` says what became of the work, `AcknowledgmentState` whether its sender was told. A
message
that was applied but whose ACK was lost is done and pending, not failed.

Doubling delays with jitter, so that what failed together does not come back together.
Pure: the caller brings the attempt's number and the dice.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from random import Random

from bridge.queue.errors import IllegalTransition


class QueueState(StrEnum):
    """Where the work stands."""

    QUEUED = "queued"  # waits for its turn or for its next attempt
    CLAIMED = "claimed"  # a worker has it, until its lease ends
    DONE = "done"  # applied, or delivered
    IGNORED = "ignored"  # understood, and nothing had to be done
    REFUSED = "refused"  # stored with its negative acknowledgment, never applied
    PARKED = "parked"  # taken out for a person to decide
    CANCELLED = "cancelled"  # a person decided that it shall not be done


class QueueEvent(StrEnum):
    """What can happen to it."""

    CLAIM = "claimed"
    ACCEPTED = "accepted"
    IGNORED = "ignored"
    POSTPONED = "postponed"  # failed, another attempt follows
    GIVEN_UP = "given up"
    INTERRUPTED = "interrupted"  # the worker died or shut down: the attempt may have been made
    REPLAYED = "replayed"  # by a person
    CANCELLED = "cancelled"  # by a person


class AcknowledgmentState(StrEnum):
    """Whether the sender was told, apart from what became of the work."""

    PENDING = "pending"  # stored with the message, not known to have been written out
    DELIVERED = "delivered"  # handed to the connection it was owed to
    NOT_OWED = "not_owed"  # the sender asked for none (MSH-15, MSH-16)


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
"""The states something may begin in."""


def next_state(state: QueueState, event: QueueEvent) -> QueueState:
    """Give the state that follows; raise IllegalTransition where none does."""
    try:
        return TRANSITIONS[state, event]
    except KeyError:
        raise IllegalTransition(state, event) from None


_MOST_DOUBLINGS = 32  # 2**32 seconds outlast any maximum; bigger powers overflow a float


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """`first` seconds, doubled up to `maximum`; `jitter` is the share that is left to chance."""

    first: float = 1.0
    maximum: float = 60.0
    jitter: float = 0.2

    def __post_init__(self) -> None:
        if not (0 < self.first <= self.maximum and 0 <= self.jitter <= 1):
            raise ValueError("a retry policy needs 0 < first <= maximum and 0 <= jitter <= 1")

    def delay(self, attempt: int, random: Random) -> float:
        """
        Give the seconds to wait after attempt number `attempt`, which counts from 1.

        Jitter only ever shortens: `maximum` is a promise to whoever waits.
        """
        doubled = self.first * 2.0 ** min(max(attempt - 1, 0), _MOST_DOUBLINGS)
        return min(doubled, self.maximum) * (1 - self.jitter * random.random())
