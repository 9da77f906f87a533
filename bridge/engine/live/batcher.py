"""
Gather what is asked for at the same moment, so that it is worked on together.

The first to come starts at once; whoever comes while that runs makes up the next party. There is
no waiting for company. What the work is, and what may share it, is the caller's to say.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")

Together = Callable[[Sequence[Item]], Awaitable[Sequence[Result | Exception]]]
"""Works on items; one result or error for each, in their order."""


class Batcher(Generic[Item, Result]):
    """Hands items over in parties of at most `most`, `lanes` parties at a time; on one loop."""

    def __init__(self, together: Together[Item, Result], most: int, lanes: int = 1) -> None:
        self._together = together
        self._most = most
        self._lanes = lanes
        self._waiting: list[tuple[Item, asyncio.Future[Result]]] = []
        self._running: set[asyncio.Task[None]] = set()

    @property
    def is_busy(self) -> bool:
        """Whether somebody has given an item, and has no answer yet."""
        return bool(self._waiting or self._running)

    async def give(self, item: Item) -> Result:
        """Have an item worked on; return its result or raise its error."""
        future: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
        self._waiting.append((item, future))
        self._begin()
        return await future

    def _begin(self) -> None:
        if self._waiting and len(self._running) < self._lanes:
            task = asyncio.get_running_loop().create_task(self._party(), name="gathered")
            self._running.add(task)
            task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._running.discard(task)
        self._begin()

    async def _party(self) -> None:
        """Work on what waits now: with all that came in this turn of the loop."""
        party = self._waiting[: self._most]
        del self._waiting[: self._most]
        outcomes: Sequence[Result | Exception]
        try:
            outcomes = await self._together([item for item, _ in party])
        except asyncio.CancelledError:
            for _, future in party:  # nobody would answer them
                future.cancel()
            raise
        except Exception as error:  # noqa: BLE001  # each of them is told, and raises it
            outcomes = [error] * len(party)
        for (_, future), outcome in zip(party, outcomes, strict=True):
            if future.done():  # whoever asked is gone
                continue
            if isinstance(outcome, Exception):
                future.set_exception(outcome)
            else:
                future.set_result(outcome)
