"""What a failure means for a message, and waiting for what becomes of one."""

import asyncio

import pytest

from bridge.engine_client.errors import EngineFailure
from bridge.errors import FailureKind
from bridge.intake.process.outcomes import PATIENCE, Waiting, failed, unremembered
from bridge.queue.claims import ClaimedMessage, MessageOutcome
from bridge.queue.states import QueueEvent, QueueState


def claimed(attempts: int = 1, doubts: int = 0) -> ClaimedMessage:
    """Make a message in hand."""
    return ClaimedMessage(7, b"", "ris", "orders", "v", (1,), attempts, 0, 0, "ORM^O01", doubts)


def failure(kind: FailureKind, retry_after: float | None = None) -> EngineFailure:
    """Make a call come to nothing."""
    return EngineFailure("c", kind, "code", 500, retry_after)


@pytest.mark.parametrize(
    ("kind", "times", "event"),
    [
        (FailureKind.TRANSIENT, 1, QueueEvent.POSTPONED),
        (FailureKind.TRANSIENT, 1000, QueueEvent.POSTPONED),
        (FailureKind.AMBIGUOUS, 1, QueueEvent.POSTPONED),
        (FailureKind.AMBIGUOUS, PATIENCE - 1, QueueEvent.POSTPONED),
        (FailureKind.AMBIGUOUS, PATIENCE, QueueEvent.GIVEN_UP),
        (FailureKind.PERMANENT, 1, QueueEvent.GIVEN_UP),
    ],
)
def test_what_follows_a_failure(kind: FailureKind, times: int, event: QueueEvent) -> None:
    """Transient for ever, ambiguous for a while, permanent at once to a person."""
    outcome = after(times, kind)
    assert (outcome.event, outcome.failure, outcome.code) == (event, kind, "code")
    assert outcome.retry_at is None


def after(times: int, kind: FailureKind) -> MessageOutcome:
    """What comes of the last of several attempts that failed, each in a process of its own."""
    doubts = 0
    for attempt in range(1, times + 1):
        outcome = failed(claimed(attempt, doubts), failure(kind), now=1000)
        doubts = outcome.ambiguous_attempts or 0
    return outcome


def test_a_long_outage_uses_up_no_patience() -> None:
    """However often the service was away: the first doubt after it is the first."""
    doubts = after(100, FailureKind.TRANSIENT).ambiguous_attempts or 0
    outcome = failed(claimed(101, doubts), failure(FailureKind.AMBIGUOUS), now=0)
    assert outcome.event is QueueEvent.POSTPONED


def test_what_is_given_up_is_replayed_with_new_patience() -> None:
    """A message that was replayed after it was parked has all its patience again."""
    assert after(PATIENCE, FailureKind.AMBIGUOUS).ambiguous_attempts == 0


def test_the_service_may_say_when() -> None:
    """Retry-After is kept to."""
    outcome = failed(claimed(), failure(FailureKind.TRANSIENT, 2.5), now=1000)
    assert outcome.retry_at == 3500


def test_what_could_not_be_remembered_is_repeated() -> None:
    """The report service has it, the index has not: again, and in the end to a person."""
    events = [unremembered(claimed(1, doubts), 0).event for doubts in range(PATIENCE)]
    assert events == [QueueEvent.POSTPONED] * (PATIENCE - 1) + [QueueEvent.GIVEN_UP]


class States:
    """What the database says, read after read."""

    def __init__(self, *states: QueueState) -> None:
        self.states = list(states)

    async def __call__(self, message_id: int) -> QueueState:
        return self.states.pop(0) if len(self.states) > 1 else self.states[0]


@pytest.mark.anyio
async def test_waiting_is_over_when_this_node_has_applied_it() -> None:
    """The forwarder tells; nobody waits for the database."""
    waiting = Waiting(States(QueueState.QUEUED))
    future = waiting.wait(7, 30.0)
    await asyncio.sleep(0.01)
    waiting.tell([MessageOutcome(8, QueueEvent.ACCEPTED), MessageOutcome(7, QueueEvent.POSTPONED)])
    await asyncio.sleep(0.01)
    assert not future.done()
    waiting.tell([MessageOutcome(7, QueueEvent.ACCEPTED)])
    assert await future is QueueState.DONE
    assert not waiting._waiters


@pytest.mark.anyio
async def test_waiting_is_over_when_another_node_has_applied_it() -> None:
    """Then the database tells, a quarter of a second later at most."""
    waiting = Waiting(States(QueueState.QUEUED, QueueState.CLAIMED, QueueState.DONE))
    assert await waiting.wait(7, 30.0) is QueueState.DONE


@pytest.mark.anyio
async def test_waiting_has_an_end() -> None:
    """After the limit the state is told as it is: not applied."""
    waiting = Waiting(States(QueueState.QUEUED))
    assert await waiting.wait(7, 0.05) is QueueState.QUEUED
