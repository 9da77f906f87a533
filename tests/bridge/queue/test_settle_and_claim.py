"""A batch that is done claims the next with its outcomes."""

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
def bench(store: Database, intake: Intake) -> WorkerRunner:
    """A bench on each database."""
    return WorkerRunner(store, intake)


class Turning(Inbox):
    """An inbox whose database is away when a batch is to be claimed with outcomes; counts that."""

    asked = 0
    away = False

    @override
    def settle_and_claim(
        self, outcomes: Sequence[MessageOutcome], now: int, limit: int
    ) -> tuple[SettlementResult, ClaimedBatch]:
        """Count, and turn over."""
        self.asked += 1
        if self.away:
            raise StoreUnavailable("SQLITE_FULL")
        return super().settle_and_claim(outcomes, now, limit)


@pytest.mark.parametrize("away", [False, True])
def test_who_is_done_claims_what_came_meanwhile(
    bench: WorkerRunner, monkeypatch: pytest.MonkeyPatch, away: bool
) -> None:
    """With its outcomes, as often as some came; by the ordinary ways where that cannot be."""
    monkeypatch.setattr("bridge.queue.worker.worker._STORE_RETRY_SECONDS", 0.01)
    bench.keep("1")
    inbox = Turning(bench.store, "node")
    inbox.away = away
    bench.inbox = inbox
    log: list[int] = []

    async def story() -> None:
        async def apply(
            batch: Sequence[ClaimedMessage],
        ) -> AsyncGenerator[Sequence[MessageOutcome]]:
            log.extend(each.message_id for each in batch)
            if len(log) < 4:
                await asyncio.to_thread(bench.keep, "1", str(len(log)))
                worker.notify()
            yield [accepted(each) for each in batch]

        worker = Worker(inbox, apply, clock=lambda: NOW, poll=60, parallel=1, gather_seconds=9)
        await worker.start()
        async with asyncio.timeout(PATIENCE):
            while not await asyncio.to_thread(bench.all_done):  # noqa: ASYNC110  # see `Bench.run`
                await asyncio.sleep(0.005)
        await worker.stop()

    asyncio.run(story())
    assert sorted(log) == [1, 2, 3, 4, 5]
    assert inbox.asked == 2
