"""Outcomes of failed messages, and of messages whose lease has ended."""

import asyncio
from pathlib import Path

import httpx
import pytest

from bridge.engine_client.errors import EngineFailure
from bridge.errors import FailureKind
from bridge.intake.process.job_context import (
    MAX_AMBIGUOUS_ATTEMPTS,
    failure_outcome,
    unsaved_outcome,
)
from bridge.intake.process.order_processor import OrderProcessor
from bridge.intake.process.order_repository import OrderRepository
from bridge.intake.receive.completion import CompletionWaiter
from bridge.intake.receive.listener_policy import ListenerPolicy
from bridge.metrics import Metrics
from bridge.queue.claims import ClaimedMessage, MessageOutcome
from bridge.queue.inbox import Inbox
from bridge.queue.states import QueueEvent, QueueState
from bridge.store.database import Database
from tests.bridge.delivery.fixtures import SITE, inbound
from tests.bridge.delivery.whole_bridge import Hospital, open_hospital
from tests.bridge.intake.fixture import order
from tests.bridge.intake.messages import adt, order_group, order_message


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


def processor(hospital: Hospital, repository: OrderRepository) -> OrderProcessor:
    return OrderProcessor(
        hospital.client,
        repository,
        {"ris": ListenerPolicy("ris", inbound(), SITE)},
        CompletionWaiter(lambda _: asyncio.sleep(0, QueueState.DONE)),
        Metrics(),
    )


async def test_no_call_after_the_lease(tmp_path: Path, database: Database) -> None:
    """The message is postponed and its order is not registered. With a new lease it is."""
    async with open_hospital(tmp_path, database) as hospital:
        await hospital.worker.stop()
        await hospital.hand_over(order("ID1", "A1"))
        seconds = 0.0
        repository = OrderRepository(database, hospital.time)
        inbox = Inbox(database, "one", write_records=repository.write, timer=lambda: seconds)
        node = processor(hospital, repository)
        events = []
        for pause in (inbox.lease / 1000, 0.0):
            claimed = inbox.claim(hospital.time(), 1)
            seconds += pause
            async for outcomes in node.apply(claimed):
                events += [outcome.event for outcome in outcomes]
                listed = await hospital.client.worklist(SITE)
                assert len(listed.items) == events.count(QueueEvent.ACCEPTED)
                inbox.settle(outcomes, hospital.time())
            hospital.time.leap += 1000
        assert events == [QueueEvent.POSTPONED, QueueEvent.ACCEPTED]


@pytest.mark.parametrize(
    ("message", "calls"),
    [
        (adt("A08", "M1", name="OTHER^OLGA"), 0),
        (order_message(order_group("CA", "P2", "F2"), order_group("NW", "P9", "F9")), 1),
        (order_message(order_group("CA", "P2", "F2"), order_group("CA", "P3", "F3")), 1),
    ],
    ids=["patient", "register", "withdraw"],
)
async def test_no_further_call_after_the_lease(
    tmp_path: Path, database: Database, message: bytes, calls: int
) -> None:
    """A lease that ends within a message ends its calls: the rest waits for a new claim."""
    async with open_hospital(tmp_path, database) as hospital:
        for number in (1, 2, 3):
            await hospital.send(order_message(order_group("NW", f"P{number}", f"F{number}")))
        await hospital.worker.stop()
        await hospital.hand_over(message)
        seconds = 0.0
        repository = OrderRepository(database, hospital.time)
        inbox = Inbox(database, "one", write_records=repository.write, timer=lambda: seconds)
        (claimed,) = inbox.claim(hospital.time(), 1)
        claimed.lease.ends_at = float(calls)

        async def freeze(_: httpx.Request) -> None:
            nonlocal seconds
            seconds = 1.0

        hospital.http.event_hooks["request"].append(freeze)
        events = [
            outcome.event
            async for outcomes in processor(hospital, repository).apply([claimed])
            for outcome in outcomes
        ]
        assert events == [QueueEvent.POSTPONED]
        orders = [
            listed
            for row in (await hospital.client.worklist(SITE)).items
            for listed in row["orders"]
        ]
        assert {"F1", "F3"} <= {row["Accession"] for row in orders} <= {"F1", "F2", "F3"}
        assert {row["PatientName"] for row in orders} == {"TESTER^TILDA"}
