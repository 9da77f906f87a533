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


async def sweep_repeatedly(executor: DatabaseExecutor, clock: Callable[[], int]) -> None:
    """Look for untouched orders until the task is cancelled."""
    pause = FIRST_SWEEP_SECONDS
    while True:
        await asyncio.sleep(pause)
        pause = SWEEP_SECONDS
        try:
            await sweep(executor, clock)
        except Exception as error:  # noqa: BLE001  # the next run may succeed
            log.warning("untouched_not_returned", failure=describe(error))


async def sweep(executor: DatabaseExecutor, clock: Callable[[], int]) -> None:
    """Return the orders that are due now."""
    for report_id in await executor.read(find_untouched):
        returning = partial(return_abandoned, report_id=report_id)
        await executor.change(ActorRef(), clock(), returning)
