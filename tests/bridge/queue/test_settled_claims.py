"""An outcome settles only the claim that it is about."""

from collections.abc import AsyncGenerator, Sequence

import pytest
from sqlalchemy import text

from bridge.queue.claims import ClaimedMessage, MessageOutcome
from bridge.queue.inbox import Inbox
from bridge.queue.states import QueueState
from bridge.store.database import Database
from tests.bridge.queue.conftest import Intake
from tests.bridge.queue.samples import NOW
from tests.bridge.queue.worker_runner import WorkerRunner, accepted


@pytest.fixture
def runner(store: Database, intake: Intake) -> WorkerRunner:
    return WorkerRunner(store, intake)


def test_an_outcome_is_about_the_claimed_message(runner: WorkerRunner) -> None:
    """After a failover that lost commits, a later message can have the id of a claimed one."""
    runner.enqueue("1")
    applied: list[int] = []
    another = text("UPDATE message SET received_at = received_at + 1")

    async def apply(batch: Sequence[ClaimedMessage]) -> AsyncGenerator[Sequence[MessageOutcome]]:
        with runner.store.write() as connection:
            connection.execute(another)
        yield [accepted(each) for each in batch]
        applied.extend(each.message_id for each in batch)

    runner.run(apply, lambda: bool(applied))
    assert runner.states() == [QueueState.CLAIMED]


def test_an_outcome_is_about_its_own_claim(runner: WorkerRunner) -> None:
    """A process that was frozen claims a message again while its earlier call is under way."""
    runner.enqueue("1")
    applied: list[int] = []
    inbox = Inbox(runner.store, "node")

    async def apply(batch: Sequence[ClaimedMessage]) -> AsyncGenerator[Sequence[MessageOutcome]]:
        if not applied:
            inbox.requeue_expired_claims(NOW, include_own=True)
            assert [each.attempts for each in inbox.claim(NOW, 10)] == [2]
        yield [accepted(each) for each in batch]
        applied.extend(each.message_id for each in batch)

    runner.run(apply, lambda: bool(applied))
    assert runner.states() == [QueueState.CLAIMED]
