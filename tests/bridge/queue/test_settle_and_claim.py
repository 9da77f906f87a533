"""A worker settles a batch and claims the next in one transaction."""

import asyncio
from collections.abc import AsyncGenerator, Sequence

import pytest
from typing_extensions import override

from bridge.queue.claims import ClaimedMessage, MessageOutcome, SettlementResult
from bridge.queue.inbox import ClaimedBatch, Inbox
from bridge.queue.worker.worker import Worker
from bridge.store.database import Database
from bridge.store.errors import StoreUnavailable
from tests.bridge.queue.conftest import Intake
from tests.bridge.queue.samples import NOW
from tests.bridge.queue.worker_runner import WorkerRunner, accepted
from tests.eventually import PATIENCE


@pytest.fixture
def runner(store: Database, intake: Intake) -> WorkerRunner:
    return WorkerRunner(store, intake)


class CountingInbox(Inbox):
    """An inbox that counts calls of `settle_and_claim`, and can fail in them."""

    calls = 0
    away = False

    @override
    def settle_and_claim(
        self, outcomes: Sequence[MessageOutcome], now: int, limit: int
    ) -> tuple[SettlementResult, ClaimedBatch]:
        self.calls += 1
        if self.away:
            raise StoreUnavailable("SQLITE_FULL")
        return super().settle_and_claim(outcomes, now, limit)


@pytest.mark.parametrize("away", [False, True])
def test_settle_and_claim(
    runner: WorkerRunner, monkeypatch: pytest.MonkeyPatch, away: bool
) -> None:
    """The worker claims new messages with its outcomes, or separately if that fails."""
    monkeypatch.setattr("bridge.queue.worker.worker._STORE_RETRY_SECONDS", 0.01)
    runner.enqueue("1")
    inbox = CountingInbox(runner.store, "node")
    inbox.away = away
    runner.inbox = inbox
    log: list[int] = []

    async def scenario() -> None:
        async def apply(
            batch: Sequence[ClaimedMessage],
        ) -> AsyncGenerator[Sequence[MessageOutcome]]:
            log.extend(each.message_id for each in batch)
            if len(log) < 4:
                await asyncio.to_thread(runner.enqueue, "1", str(len(log)))
                worker.notify()
            yield [accepted(each) for each in batch]

        worker = Worker(inbox, apply, clock=lambda: NOW, poll=60, parallel=1, gather_seconds=9)
        await worker.start()
        async with asyncio.timeout(PATIENCE):
            while not await asyncio.to_thread(runner.all_done):  # noqa: ASYNC110  # see `WorkerRunner.run`
                await asyncio.sleep(0.005)
        await worker.stop()

    asyncio.run(scenario())
    assert sorted(log) == [1, 2, 3, 4, 5]
    assert inbox.calls == 2
