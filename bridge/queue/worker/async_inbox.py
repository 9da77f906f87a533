"""Inbox operations of a worker on the event loop.

Short work runs on the loop's own thread where the database allows it (`bridge.store.short_work`);
other work runs on a thread of the pool.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar

from bridge.executors import Threads
from bridge.queue.claims import MessageOutcome, SettlementResult
from bridge.queue.inbox import ClaimedBatch, Inbox
from bridge.store.errors import Busy
from bridge.store.short_work import SHORT

Result = TypeVar("Result")


class AsyncInbox:
    """Claims and settles for one worker. Its methods must be called on the event loop."""

    def __init__(self, inbox: Inbox) -> None:
        self._inbox = inbox
        self._short_work = inbox.short_work
        self._more = False  # whether the last claim left messages that are free

    async def claim(self, now: int, limit: int) -> ClaimedBatch:
        """Claim up to `limit` messages, fewer if that is faster. Raises StoreError."""
        claim = partial(self._inbox.claim_without_blobs, now)
        return await self._with_payloads(await self._run(claim, limit, is_short=True))

    async def settle(self, outcomes: Sequence[MessageOutcome], now: int) -> SettlementResult:
        """Settle outcomes. Raises StoreError."""

        def settle(_limit: int) -> SettlementResult:
            return self._inbox.settle(outcomes, now)

        return await self._run(settle, 0, is_short=_are_short(outcomes))

    async def settle_and_claim(
        self, outcomes: Sequence[MessageOutcome], now: int, limit: int
    ) -> ClaimedBatch:
        """Settle outcomes and claim in one transaction. Raises StoreError."""
        turn_over = partial(self._inbox.settle_and_claim, outcomes, now)
        _, batch = await self._run(turn_over, limit, is_short=_are_short(outcomes))
        return await self._with_payloads(batch)

    async def _with_payloads(self, batch: ClaimedBatch) -> ClaimedBatch:
        self._more = batch.more
        if all(each.payload for each in batch.messages):
            return batch
        return await Threads.INTAKE.run(self._inbox.with_payloads, batch)

    async def _run(self, work: Callable[[int], Result], limit: int, *, is_short: bool) -> Result:
        """
        Run work that claims up to `limit` messages; fewer if it runs on the loop.

        In a backlog nothing runs on the loop: acknowledgments would wait for it.
        """
        if is_short and not self._more and self._short_work is not None:
            try:
                return self._short_work.run(partial(work, min(limit, SHORT)))
            except Busy:  # nothing was claimed; settled outcomes stay settled
                pass
        return await Threads.INTAKE.run(work, limit)


def _are_short(outcomes: Sequence[MessageOutcome]) -> bool:
    are_short = all(each.records is None or each.records.is_short for each in outcomes)
    return are_short and len(outcomes) <= SHORT
