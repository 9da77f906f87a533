"""Outcomes of failed messages."""

import pytest

from bridge.engine_client.errors import EngineFailure
from bridge.errors import FailureKind
from bridge.intake.process.job_context import (
    MAX_AMBIGUOUS_ATTEMPTS,
    failure_outcome,
    unsaved_outcome,
)
from bridge.queue.claims import ClaimedMessage, MessageOutcome
from bridge.queue.states import QueueEvent


def claimed(attempts: int = 1, doubts: int = 0) -> ClaimedMessage:
    """Build a claimed message."""
    return ClaimedMessage(7, b"", "ris", "orders", "v", (1,), attempts, 0, 0, "ORM^O01", doubts)


def failure(kind: FailureKind, retry_after: float | None = None) -> EngineFailure:
    """Build a failed call."""
    return EngineFailure("c", kind, "code", 500, retry_after)


@pytest.mark.parametrize(
    ("kind", "times", "event"),
    [
        (FailureKind.TRANSIENT, 1, QueueEvent.POSTPONED),
        (FailureKind.TRANSIENT, 1000, QueueEvent.POSTPONED),
        (FailureKind.AMBIGUOUS, 1, QueueEvent.POSTPONED),
        (FailureKind.AMBIGUOUS, MAX_AMBIGUOUS_ATTEMPTS - 1, QueueEvent.POSTPONED),
        (FailureKind.AMBIGUOUS, MAX_AMBIGUOUS_ATTEMPTS, QueueEvent.GIVEN_UP),
        (FailureKind.PERMANENT, 1, QueueEvent.GIVEN_UP),
    ],
)
def test_what_follows_a_failure(kind: FailureKind, times: int, event: QueueEvent) -> None:
    """Transient: retried without limit. Ambiguous: with a limit. Permanent: parked."""
    outcome = after(times, kind)
    assert (outcome.event, outcome.failure, outcome.code) == (event, kind, "code")
    assert outcome.retry_at is None


def after(times: int, kind: FailureKind) -> MessageOutcome:
    """Return the outcome of the last of several failed attempts."""
    outcome = failure_outcome(claimed(1, 0), failure(kind), now=1000)
    for attempt in range(2, times + 1):
        doubts = outcome.ambiguous_attempts or 0
        outcome = failure_outcome(claimed(attempt, doubts), failure(kind), now=1000)
    return outcome


def test_a_long_outage_uses_up_no_patience() -> None:
    """Transient failures do not count as ambiguous attempts."""
    doubts = after(100, FailureKind.TRANSIENT).ambiguous_attempts or 0
    outcome = failure_outcome(claimed(101, doubts), failure(FailureKind.AMBIGUOUS), now=0)
    assert outcome.event is QueueEvent.POSTPONED


def test_what_is_given_up_is_replayed_with_new_patience() -> None:
    """A replay of a parked message starts to count again."""
    assert after(MAX_AMBIGUOUS_ATTEMPTS, FailureKind.AMBIGUOUS).ambiguous_attempts == 0


def test_the_service_may_say_when() -> None:
    """Retry-After is kept to."""
    outcome = failure_outcome(claimed(), failure(FailureKind.TRANSIENT, 2.5), now=1000)
    assert outcome.retry_at == 3500


def test_what_could_not_be_remembered_is_repeated() -> None:
    """Changes that cannot be stored: try again, and park at the limit."""
    events = [
        unsaved_outcome(claimed(1, doubts), 0).event for doubts in range(MAX_AMBIGUOUS_ATTEMPTS)
    ]
    assert events == [QueueEvent.POSTPONED] * (MAX_AMBIGUOUS_ATTEMPTS - 1) + [QueueEvent.GIVEN_UP]
