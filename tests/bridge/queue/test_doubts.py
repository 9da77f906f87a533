"""A claim of whose commit nothing was heard is taken back at once, and nothing that is in hand."""

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Sequence

import pytest
from typing_extensions import override

from bridge.queue.claims import ClaimedMessage, MessageOutcome, SettlementResult
from bridge.queue.inbox import ClaimedBatch, Inbox
from bridge.store.database import Database
from bridge.store.errors import StoreUnavailable
from tests.bridge.queue.bench import Bench, accepted
from tests.bridge.queue.conftest import Intake

LOST = "lost: no connection"


class Deaf(Inbox):
    """An inbox that claims, and does not hear that it did: its third claim, its first turn."""

    claims = 0
    turns = 0

    @override
    def claim_without_blobs(self, now: int, limit: int) -> ClaimedBatch:
        """Claim one."""
        handful = super().claim_without_blobs(now, 1)
        self.claims += 1
        if self.claims == 3:
            raise StoreUnavailable(LOST)
        return handful

    @override
    def settle_and_claim(
        self, outcomes: Sequence[MessageOutcome], now: int, limit: int
    ) -> tuple[SettlementResult, ClaimedBatch]:
        """Write outcomes down, and claim one."""
        told = super().settle_and_claim(outcomes, now, 1)
        self.turns += 1
        if self.turns == 1:
            raise StoreUnavailable(LOST)
        return told


def test_what_was_claimed_and_not_heard_of(
    store: Database, intake: Intake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Is applied long before its lease ends, and each message once."""
    monkeypatch.setattr("bridge.queue.worker.worker._STORE_RETRY_SECONDS", 0.01)
    bench = Bench(store, intake)
    inbox = bench.inbox = Deaf(store, "node", lease=60_000)
    kept = bench.keep(*map(str, range(12)))
    applied: Counter[int] = Counter()

    async def apply(batch: Sequence[ClaimedMessage]) -> AsyncGenerator[Sequence[MessageOutcome]]:
        applied.update(each.message_id for each in batch)
        await asyncio.sleep(0.05)  # others are in hand while one is taken back
        yield [accepted(each) for each in batch]

    bench.run(apply, bench.all_done)

    assert applied == Counter(kept)
    assert inbox.claims > 3
    assert inbox.turns > 1
