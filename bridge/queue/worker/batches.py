"""
Batches of a worker: claim and settle on the event loop, those in progress, unconfirmed claims.

Short work on the inbox runs on the loop's own thread where the database allows it
(`bridge.store.short_work`); other work runs on a thread of the pool.

When the connection breaks during the commit of a claim, this process may own messages that no batch
holds. Without correction their patients would wait until the lease ends. Deliveries do wait for
their lease: sending late is better than sending twice.
"""

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar

from bridge.executors import Threads
from bridge.queue.claims import ClaimedMessage, MessageOutcome, SettlementResult
from bridge.queue.inbox import ClaimedBatch, Inbox
from bridge.store.errors import Busy
from bridge.store.short_work import SHORT

Result = TypeVar("Result")

Batch = asyncio.Task[None]
"""The task that applies a batch."""


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
        settle_and_claim_next = partial(self._inbox.settle_and_claim, outcomes, now)
        _, batch = await self._run(settle_and_claim_next, limit, is_short=_are_short(outcomes))
        return await self._with_payloads(batch)

    async def _with_payloads(self, batch: ClaimedBatch) -> ClaimedBatch:
        self._more = batch.more
        if all(message.payload for message in batch.messages):
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
    are_short = all(outcome.records is None or outcome.records.is_short for outcome in outcomes)
    return are_short and len(outcomes) <= SHORT


class InFlightBatches:
    """
    The batches that are being applied, at most `slots` at a time.

    A batch that claims the next one passes its slot on.
    """

    def __init__(self, slots: int) -> None:
        self._slots = asyncio.Semaphore(slots)
        self._messages: dict[Batch, Sequence[ClaimedMessage]] = {}
        self._passed_on: set[Batch] = set()

    def __bool__(self) -> bool:
        return bool(self._messages)

    async def acquire_slot(self) -> None:
        """Wait for a free slot and take it."""
        await self._slots.acquire()

    def release_slot(self) -> None:
        self._slots.release()

    def add(self, task: Batch, messages: Sequence[ClaimedMessage], after: Batch | None) -> None:
        """Register a task with its messages. It takes over the slot of `after`, if given."""
        self._messages[task] = messages
        if after is not None:
            self._passed_on.add(after)

    def remove(self, task: Batch) -> None:
        del self._messages[task]
        if task in self._passed_on:
            self._passed_on.remove(task)
        else:
            self._slots.release()

    def tasks(self) -> list[Batch]:
        return list(self._messages)

    async def cancel(self) -> None:
        """Cancel all tasks and wait for them."""
        ending = self.tasks()
        for task in ending:
            task.cancel()
        await asyncio.gather(*ending, return_exceptions=True)

    def messages(self) -> list[ClaimedMessage]:
        return [each for batch in self._messages.values() for each in batch]

    def message_ids(self) -> list[int]:
        return [message.message_id for message in self.messages()]

    async def wait_until_empty(self, seconds: float) -> None:
        """Wait until no batch is in progress, at most `seconds`."""
        loop = asyncio.get_running_loop()
        until = loop.time() + seconds
        while self._messages and (left := until - loop.time()) > 0:
            await asyncio.wait(self.tasks(), timeout=left)
            await asyncio.sleep(0)  # done callbacks run in the next iteration of the loop


class UnconfirmedClaims:
    """Whether unconfirmed claims may exist, and how they are requeued."""

    def __init__(self, inbox: Inbox, batches: InFlightBatches, clock: Callable[[], int]) -> None:
        self.possible = False
        """Whether a claim has failed since the last requeue. No claim runs at the same time."""
        self._inbox = inbox
        self._batches = batches
        self._clock = clock

    async def requeue(self) -> None:
        """
        Requeue messages that this node owns and no batch holds. Raises StoreError.

        Must not run during a claim: its messages are owned, but not yet registered.
        """
        if self.possible:
            in_progress = frozenset(self._batches.message_ids())
            now, requeue = self._clock(), self._inbox.requeue_expired_claims
            if await Threads.LEASES.run(requeue, now, include_own=True, except_ids=in_progress):
                self._inbox.expect_old_messages()
            self.possible = False
