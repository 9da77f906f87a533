"""
Store the outcomes of deliveries while the courier sends the next ones.

The first outcome is stored at once. Outcomes that come during its commit share the next commit. If
the process ends before an outcome is stored, the same bytes are sent again.
"""

import asyncio
from collections.abc import Callable, Sequence

from bridge.executors import Threads
from bridge.queue.deliveries import DeliveryOutcome
from bridge.queue.outbox import Outbox
from bridge.store.errors import Conflict, StoreError, StoreUnavailable

GATHER = 0.1  # seconds that outcomes may wait to share a commit, while more of them come
PAUSE = 1.0  # seconds, when the database is not to be had
MOST = 256  # outcomes that may wait: so many messages would be sent again


class OutcomeWriter:
    """Stores the outcomes of one courier."""

    def __init__(
        self,
        outbox: Outbox,
        clock: Callable[[], int],
        settled: Callable[[Sequence[DeliveryOutcome]], None],
        alarm: Callable[[str, Exception], None],
    ) -> None:
        """`settled` is told what has been written; `alarm`, in words, what could not be."""
        self._outbox = outbox
        self._clock = clock
        self._settled = settled
        self._alarm = alarm
        self._waiting: list[DeliveryOutcome] = []
        self._task: asyncio.Task[None] | None = None
        self._hurry = asyncio.Event()

    async def add(self, outcome: DeliveryOutcome) -> None:
        """Take an outcome; wait only where too many wait."""
        self._waiting.append(outcome)
        if self._task is None:
            self._task = asyncio.create_task(self._run(), name="outcomes")
        elif len(self._waiting) >= MOST:
            await self.done()

    async def done(self) -> bool:
        """Wait until all is written, however long the database is away; tell if there was any."""
        if self._task is None:
            return False
        self._hurry.set()
        await asyncio.shield(self._task)
        return True

    def forget(self) -> None:
        """Stop: what is not written by now will be sent again."""
        if self._task is not None:
            self._task.cancel()
            self._task = None

    async def _run(self) -> None:
        try:
            while self._waiting:
                taken, self._waiting = self._waiting, []
                await self._write(taken)
                if self._waiting and not self._hurry.is_set():
                    await self._gather()
        finally:
            self._task = None
            self._hurry.clear()

    async def _gather(self) -> None:
        try:
            await asyncio.wait_for(self._hurry.wait(), GATHER)
        except TimeoutError:
            return

    async def _write(self, outcomes: Sequence[DeliveryOutcome]) -> None:
        while True:
            try:
                await Threads.DELIVERY.run(self._outbox.settle, outcomes, self._clock())
            except (StoreUnavailable, Conflict) as error:
                self._alarm("outcomes not written down yet", error)
                await asyncio.sleep(PAUSE)
            except StoreError as error:  # their leases will end: then they are sent again
                self._alarm("outcomes not written down", error)
                return
            else:
                self._settled(outcomes)
                return
