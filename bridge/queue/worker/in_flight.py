"""In-flight batches, and claims whose commit was not confirmed because the connection broke.

Lives on the event loop; no I/O.

They are ours and in nobody's hand; left alone, their patients would wait until the lease ends.
Claims of deliveries do wait for their lease: to send twice is worse than to send late.
"""

import asyncio
from collections.abc import Callable, Sequence

from bridge.executors import Threads
from bridge.queue.claims import ClaimedMessage
from bridge.queue.inbox import Inbox

Batch = asyncio.Task[None]
"""The task that applies a batch."""


class InFlightBatches:
    """As many batches at a time as there is room for; one that is done may hand its room on."""

    def __init__(self, rooms: int) -> None:
        self._room = asyncio.Semaphore(rooms)
        self._in_hand: dict[Batch, Sequence[ClaimedMessage]] = {}
        self._handed_on: set[Batch] = set()

    def __bool__(self) -> bool:
        return bool(self._in_hand)

    async def acquire_slot(self) -> None:
        """Wait for room for one more; it is kept for whoever waited."""
        await self._room.acquire()

    def release_slot(self) -> None:
        """Give back a room that nobody has moved into."""
        self._room.release()

    def add(self, task: Batch, messages: Sequence[ClaimedMessage], after: Batch | None) -> None:
        """Note what a task applies; in the room of the one that it comes after, if there is one."""
        self._in_hand[task] = messages
        if after is not None:
            self._handed_on.add(after)

    def remove(self, task: Batch) -> None:
        """Note that a task has ended."""
        del self._in_hand[task]
        if task in self._handed_on:
            self._handed_on.remove(task)
        else:
            self._room.release()

    def tasks(self) -> list[Batch]:
        """Give the tasks that have not ended."""
        return list(self._in_hand)

    async def cancel(self) -> None:
        """End all that are left."""
        ending = self.tasks()
        for task in ending:
            task.cancel()
        await asyncio.gather(*ending, return_exceptions=True)

    def message_ids(self) -> list[int]:
        """Give the messages that they apply."""
        return [each.message_id for batch in self._in_hand.values() for each in batch]

    async def wait_until_empty(self, seconds: float) -> None:
        """Wait until nothing is in hand, at most so long."""
        loop = asyncio.get_running_loop()
        until = loop.time() + seconds
        while self._in_hand and (left := until - loop.time()) > 0:
            await asyncio.wait(self.tasks(), timeout=left)
            await asyncio.sleep(0)  # those that have ended are let go of in the loop's next turn


class UnconfirmedClaims:
    """Whether there may be such claims, and how they are taken back."""

    def __init__(self, inbox: Inbox, hands: InFlightBatches, clock: Callable[[], int]) -> None:
        self.possible = False
        """Whether a claim has failed since they were last taken back; nobody claims beside it."""
        self._inbox = inbox
        self._hands = hands
        self._clock = clock

    async def requeue(self) -> None:
        """
        Queue again what is ours and not in hand. Raises StoreError.

        Not while anybody claims: what was claimed and is not in hand yet would be as ours as that.
        """
        if self.possible:
            in_hand = frozenset(self._hands.message_ids())
            now, reclaim = self._clock(), self._inbox.requeue_expired_claims
            if await Threads.LEASES.run(reclaim, now, include_own=True, except_ids=in_hand):
                self._inbox.expect_old_messages()
            self.possible = False
