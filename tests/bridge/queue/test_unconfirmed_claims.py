"""
A claim whose commit was not confirmed is requeued at once. Other claims stay.

A claim that failed is repeated without waiting for a notification.
"""

import asyncio
from collections import Counter
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
from tests.eventually import PATIENCE, eventually_async

LOST = "lost: no connection"


class UnconfirmingInbox(Inbox):
    """An inbox whose third claim or first settlement loses the confirmation."""

    lost = ""
    claims = 0
    settlements = 0

    @override
    def claim_without_blobs(self, now: int, limit: int) -> ClaimedBatch:
        batch = super().claim_without_blobs(now, 1)
        self.claims += 1
        if self.claims == 3 and self.lost == "claim":
            raise StoreUnavailable(LOST)
        return batch

    @override
    def settle_and_claim(
        self, outcomes: Sequence[MessageOutcome], now: int, limit: int
    ) -> tuple[SettlementResult, ClaimedBatch]:
        result = super().settle_and_claim(outcomes, now, 1)
        self.settlements += 1
        if self.settlements == 1 and self.lost == "settlement":
            raise StoreUnavailable(LOST)
        return result


@pytest.mark.parametrize("lost", ["claim", "settlement"])
def test_an_unconfirmed_claim_is_applied_once(
    store: Database, intake: Intake, monkeypatch: pytest.MonkeyPatch, lost: str
) -> None:
    """Each message is applied once, long before the lease expires."""
    monkeypatch.setattr("bridge.queue.worker.worker._STORE_RETRY_SECONDS", 0.01)
    runner = WorkerRunner(store, intake)
    inbox = runner.inbox = UnconfirmingInbox(store, "node", lease=60_000)
    inbox.lost = lost
    stored = runner.enqueue(*map(str, range(12)))
    applied: Counter[int] = Counter()

    async def apply(batch: Sequence[ClaimedMessage]) -> AsyncGenerator[Sequence[MessageOutcome]]:
        applied.update(each.message_id for each in batch)
        await asyncio.sleep(0.05)  # others are in progress while one is requeued
        yield [accepted(each) for each in batch]

    runner.run(apply, runner.all_done)

    assert applied == Counter(stored)
    assert inbox.claims > 3
    assert inbox.settlements > 0


class UnavailableInbox(Inbox):
    """An inbox whose first claim fails."""

    claims = 0

    @override
    def claim_without_blobs(self, now: int, limit: int) -> ClaimedBatch:
        """Fail once."""
        self.claims += 1
        if self.claims == 1:
            raise StoreUnavailable(LOST)
        return super().claim_without_blobs(now, limit)


def test_a_failed_claim_is_repeated(
    store: Database, intake: Intake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A message is applied although no notification and no poll follows the failed claim."""
    monkeypatch.setattr("bridge.queue.worker.worker._STORE_RETRY_SECONDS", 0.01)
    runner = WorkerRunner(store, intake)
    inbox = runner.inbox = UnavailableInbox(store, "node", lease=60_000)
    runner.enqueue("1")

    async def apply(batch: Sequence[ClaimedMessage]) -> AsyncGenerator[Sequence[MessageOutcome]]:
        yield [accepted(each) for each in batch]

    worker = Worker(inbox, apply, clock=lambda: NOW, poll=10 * PATIENCE)

    async def scenario() -> None:
        await worker.start()
        await eventually_async(runner.all_done)
        await worker.stop()

    asyncio.run(scenario())
    assert inbox.claims > 1
