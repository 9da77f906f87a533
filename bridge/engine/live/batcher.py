"""
Batches items that are submitted at the same time, so that they are processed together.

The first item starts a batch at once. Items that are submitted while it runs form the next one. No
item waits for others to arrive. The caller defines the work and which items may share it.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")

ProcessBatch = Callable[[Sequence[Item]], Awaitable[Sequence[Result | Exception]]]
"""Processes items; returns one result or error for each, in their order."""


class Batcher(Generic[Item, Result]):
    """Processes items in batches of at most `max_items`, `lanes` batches at a time, on one loop."""

    def __init__(self, process: ProcessBatch[Item, Result], max_items: int, lanes: int = 1) -> None:
        self._process = process
        self._max_items = max_items
        self._lanes = lanes
        self._waiting: list[tuple[Item, asyncio.Future[Result]]] = []
        self._running: set[asyncio.Task[None]] = set()

    @property
    def is_busy(self) -> bool:
        """Whether an item waits or is being processed."""
        return bool(self._waiting or self._running)

    async def submit(self, item: Item) -> Result:
        """Submit an item; return its result or raise its error."""
        future: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
        self._waiting.append((item, future))
        self._start()
        return await future

    def _start(self) -> None:
        if self._waiting and len(self._running) < self._lanes:
            task = asyncio.get_running_loop().create_task(self._run_batch(), name="batch")
            self._running.add(task)
            task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._running.discard(task)
        self._start()

    async def _run_batch(self) -> None:
        """Process the items that wait now."""
        batch = self._waiting[: self._max_items]
        del self._waiting[: self._max_items]
        outcomes: Sequence[Result | Exception]
        try:
            outcomes = await self._process([item for item, _ in batch])
        except asyncio.CancelledError:
            for _, future in batch:  # otherwise the futures would never resolve
                future.cancel()
            raise
        except Exception as error:  # noqa: BLE001  # each item gets the error
            outcomes = [error] * len(batch)
        for (_, future), outcome in zip(batch, outcomes, strict=True):
            if future.done():  # the caller was cancelled
                continue
            if isinstance(outcome, Exception):
                future.set_exception(outcome)
            else:
                future.set_result(outcome)
