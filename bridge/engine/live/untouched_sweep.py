"""Returns untouched orders whose pages are gone, for example after a crash of the browser."""

import asyncio
from collections.abc import Callable
from functools import partial

import structlog

from bridge.engine.live.database_executor import DatabaseExecutor
from bridge.engine.service.live.untouched import find_untouched, return_abandoned
from bridge.engine.service.work import ActorRef
from bridge.redaction import describe

SWEEP_SECONDS = 10.0
FIRST_SWEEP_SECONDS = 60.0
"""After a start the open pages connect again first."""

log = structlog.get_logger(__name__)


class UntouchedSweep:
    """The loop that looks for untouched orders."""

    def __init__(self, executor: DatabaseExecutor, clock: Callable[[], int]) -> None:
        self._executor = executor
        self._clock = clock
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Start the loop, unless it runs already."""
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._run(), name="untouched")

    async def stop(self) -> None:
        """Stop the loop and wait until it has ended."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.wait([task])

    async def _run(self) -> None:
        pause = FIRST_SWEEP_SECONDS
        while True:
            await asyncio.sleep(pause)
            pause = SWEEP_SECONDS
            try:
                await self.sweep()
            except Exception as error:  # noqa: BLE001  # the next run may succeed
                log.warning("untouched_not_returned", failure=describe(error))

    async def sweep(self) -> None:
        """Return the orders that are due now."""
        for report_id in await self._executor.read(find_untouched):
            returning = partial(return_abandoned, report_id=report_id)
            await self._executor.change(ActorRef(), self._clock(), returning)
