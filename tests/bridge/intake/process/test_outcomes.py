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


def claimed(attempts: int = 1, ambiguous: int = 0) -> ClaimedMessage:
    return ClaimedMessage(7, b"", "ris", "orders", "v", (1,), attempts, 0, 0, "ORM^O01", ambiguous)


def failure(kind: FailureKind, retry_after: float | None = None) -> EngineFailure:
    return EngineFailure("c", kind, "code", 500, retry_after)


@pytest.mark.parametrize(
    ("kind", "attempts", "event"),
    [
        (FailureKind.TRANSIENT, 1, QueueEvent.POSTPONED),
        (FailureKind.TRANSIENT, 1000, QueueEvent.POSTPONED),
        (FailureKind.AMBIGUOUS, 1, QueueEvent.POSTPONED),
        (FailureKind.AMBIGUOUS, MAX_AMBIGUOUS_ATTEMPTS - 1, QueueEvent.POSTPONED),
        (FailureKind.AMBIGUOUS, MAX_AMBIGUOUS_ATTEMPTS, QueueEvent.GIVEN_UP),
        (FailureKind.PERMANENT, 1, QueueEvent.GIVEN_UP),
    ],
)
def test_outcome_of_a_failure(kind: FailureKind, attempts: int, event: QueueEvent) -> None:
    """The class decides: retry without limit, retry with a limit, or park."""
    outcome = after(attempts, kind)
    assert (outcome.event, outcome.failure, outcome.code) == (event, kind, "code")
    assert outcome.retry_at is None


def after(attempts: int, kind: FailureKind) -> MessageOutcome:
    """Return the outcome of the last of several failed attempts."""
    outcome = failure_outcome(claimed(1, 0), failure(kind), now=1000)
    for attempt in range(2, attempts + 1):
        ambiguous = outcome.ambiguous_attempts or 0
        outcome = failure_outcome(claimed(attempt, ambiguous), failure(kind), now=1000)
    return outcome


def test_transient_failures_do_not_count() -> None:
    """Transient failures do not count as ambiguous attempts."""
    ambiguous = after(100, FailureKind.TRANSIENT).ambiguous_attempts or 0
    outcome = failure_outcome(claimed(101, ambiguous), failure(FailureKind.AMBIGUOUS), now=0)
    assert outcome.event is QueueEvent.POSTPONED


def test_a_replay_restarts_the_count() -> None:
    """A replay of a parked message restarts the count."""
    assert after(MAX_AMBIGUOUS_ATTEMPTS, FailureKind.AMBIGUOUS).ambiguous_attempts == 0


def test_retry_after() -> None:
    """The retry is due after the seconds of Retry-After."""
    outcome = failure_outcome(claimed(), failure(FailureKind.TRANSIENT, 2.5), now=1000)
    assert outcome.retry_at == 3500


def test_changes_that_cannot_be_stored() -> None:
    """If changes cannot be stored, the message is retried, and parked at the limit."""
    events = [
        unsaved_outcome(claimed(1, ambiguous), 0).event
        for ambiguous in range(MAX_AMBIGUOUS_ATTEMPTS)
    ]
    assert events == [QueueEvent.POSTPONED] * (MAX_AMBIGUOUS_ATTEMPTS - 1) + [QueueEvent.GIVEN_UP]
