"""
Batches that are being applied, and the room that each of them has.

Lives on the event loop; no I/O.
"""

import asyncio
from collections.abc import Sequence

from bridge.queue.work import Claimed

Batch = asyncio.Task[None]
"""The task that applies a batch."""


class Hands:
    """As many batches at a time as there is room for; one that is done may hand its room on."""

    def __init__(self, rooms: int) -> None:
        self._room = asyncio.Semaphore(rooms)
        self._in_hand: dict[Batch, Sequence[Claimed]] = {}
        self._handed_on: set[Batch] = set()

    def __bool__(self) -> bool:
        return bool(self._in_hand)

    async def room(self) -> None:
        """Wait for room for one more; it is kept for whoever waited."""
        await self._room.acquire()

    def give_back(self) -> None:
        """Give back a room that nobody has moved into."""
        self._room.release()

    def take(self, task: Batch, messages: Sequence[Claimed], after: Batch | None) -> None:
        """Note what a task applies; in the room of the one that it comes after, if there is one."""
        self._in_hand[task] = messages
        if after is not None:
            self._handed_on.add(after)

    def let_go(self, task: Batch) -> None:
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

    async def drained(self, seconds: float) -> None:
        """Wait until nothing is in hand, at most so long."""
        loop = asyncio.get_running_loop()
        until = loop.time() + seconds
        while self._in_hand and (left := until - loop.time()) > 0:
            await asyncio.wait(self.tasks(), timeout=left)
            await asyncio.sleep(0)  # those that have ended are let go of in the loop's next turn
