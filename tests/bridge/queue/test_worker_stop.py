"""The stop of a worker: batches finish or are cancelled, and their claims are returned."""

import asyncio
from collections.abc import AsyncGenerator, Sequence

import pytest

from bridge.queue.claims import ClaimedMessage, MessageOutcome
from bridge.queue.states import QueueState
from bridge.queue.worker.worker import Worker
from bridge.store.database import Database
from tests.bridge.queue.conftest import Intake
from tests.bridge.queue.samples import NOW
from tests.bridge.queue.worker_runner import WorkerRunner, accepted
from tests.eventually import PATIENCE


@pytest.fixture
def runner(store: Database, intake: Intake) -> WorkerRunner:
    return WorkerRunner(store, intake)


def test_stop_requeues_unfinished_messages(runner: WorkerRunner) -> None:
    """A message that does not finish in time is requeued at the stop."""
    runner.enqueue("1")
    begun: list[int] = []

    async def hang(batch: Sequence[ClaimedMessage]) -> AsyncGenerator[Sequence[MessageOutcome]]:
        begun.append(len(batch))
        await asyncio.sleep(60)
        yield []

    runner.run(hang, lambda: bool(begun), drain=0.01)
    assert runner.states() == [QueueState.QUEUED]


def test_stop_releases_claims_after_their_batches(runner: WorkerRunner) -> None:
    """A message stays claimed while its batch is being cancelled: another node may take it."""
    runner.enqueue("1")
    begun: list[int] = []
    during: list[QueueState] = []

    async def hang(batch: Sequence[ClaimedMessage]) -> AsyncGenerator[Sequence[MessageOutcome]]:
        begun.append(len(batch))
        try:
            await asyncio.Event().wait()
        finally:
            during.extend(runner.states())
        yield []

    runner.run(hang, lambda: bool(begun), drain=0.01)
    assert during == [QueueState.CLAIMED]
    assert runner.states() == [QueueState.QUEUED]


def test_stop_lets_batches_finish(runner: WorkerRunner) -> None:
    """A batch that finishes after the stop has begun is settled, and nothing is applied twice."""
    runner.enqueue("1")
    applied: list[int] = []

    async def scenario() -> None:
        begun, stopping = asyncio.Event(), asyncio.Event()

        async def slow(batch: Sequence[ClaimedMessage]) -> AsyncGenerator[Sequence[MessageOutcome]]:
            begun.set()
            await stopping.wait()
            await asyncio.to_thread(runner.states)
            applied.extend(each.message_id for each in batch)
            yield [accepted(each) for each in batch]

        worker = Worker(runner.inbox, slow, clock=lambda: NOW)
        await worker.start()
        async with asyncio.timeout(PATIENCE):
            await begun.wait()
            ending = asyncio.create_task(worker.stop(PATIENCE))
            await asyncio.sleep(0)
            stopping.set()
            await ending

    asyncio.run(scenario())
    assert len(applied) == 1
    assert runner.states() == [QueueState.DONE]
