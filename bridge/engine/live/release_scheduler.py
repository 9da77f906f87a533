"""Release what falls due, at the moment it falls due.

The due times are rows, so a restart loses nothing and any node may release; the
database, not this loop, makes sure that each release happens once.
"""

import asyncio
import contextlib
from collections.abc import Callable
from functools import partial

import structlog
from sqlalchemy import Connection

from bridge.engine.live.change_notifier import wait_notified
from bridge.engine.live.database_executor import DatabaseExecutor
from bridge.engine.service.accounts.sessions import purge_sessions
from bridge.engine.service.idempotency import purge_repeats
from bridge.engine.service.launch.links import purge as purge_links
from bridge.engine.service.signing.releases import next_due, release_due
from bridge.engine.service.work import ChangeEvent
from bridge.store.errors import StoreError

RETRY_SECONDS = 0.5
"""How soon to look again at what could not be released."""

STEP_BACK = 0.02
"""Seconds between a change and the look for what it makes due."""

NOTHING_DUE = frozenset({
    ChangeEvent.ORDER_REGISTERED, ChangeEvent.ORDER_UPDATED, ChangeEvent.REPORT_CREATED,
    ChangeEvent.REPORT_OPENED, ChangeEvent.REPORT_CONTENT_UPDATED, ChangeEvent.ADDENDUM_CREATED,
    ChangeEvent.ADDENDUM_CONTENT_UPDATED, ChangeEvent.REPORT_FILES_UPDATED,
})  # fmt: skip
"""Changes that never make anything due."""

log = structlog.get_logger(__name__)


class ReleaseScheduler:
    """The loop that wakes exactly at the next due time."""

    def __init__(self, work: DatabaseExecutor, clock: Callable[[], int]) -> None:
        self._work = work
        self._clock = clock
        self._task: asyncio.Task[None] | None = None
        self._due: int | None = None
        self._mark: int | None = None

    def start(self) -> None:
        """Begin; does nothing when already begun."""
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._run(), name="engine-ticker")

    async def stop(self) -> None:
        """End, and wait until it has ended."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            notification = self._work.changed.notification(NOTHING_DUE)
            try:
                pause = await self._release()
            except StoreError as error:
                log.warning("release_check_failed", failure=type(error).__name__)
                pause = RETRY_SECONDS
            # A change may bring a nearer due time. Whoever waits for the change itself goes first,
            # and many changes are one reason to look.
            until = loop.time() + pause
            if await wait_notified(notification, pause):
                await asyncio.sleep(max(0.0, min(STEP_BACK, until - loop.time())))

    async def tidy(self) -> None:
        """Remove expired links, sessions and answers to repeated requests, in small batches."""
        now = self._clock()
        for purge in (purge_sessions, purge_links, purge_repeats):  # sessions refer to links
            while await self._work.run(partial(self._purge, purge, now)):
                pass

    def _purge(self, purge: Callable[[Connection, int], int], now: int) -> int:
        with self._work.database.write() as connection:
            return purge(connection, now)

    async def _release(self) -> float:
        """Release what is due; return the seconds until it is worth looking again."""
        due = await self._next_due()
        now = self._clock()
        if due is not None and due <= now:
            if await self._work.run(lambda: release_due(self._work.database, now)):
                self._work.changed.notify()
                return 0.0
            return RETRY_SECONDS  # somebody works on that report at this moment
        patience = self._work.patience
        return patience if due is None else min(patience, (due - now) / 1000)

    async def _next_due(self) -> int | None:
        """Read it, unless it is known that nobody has written since it was read."""
        mark = self._work.mark()
        if mark is None or mark != self._mark:
            self._due = await self._work.read_inline(next_due)
            self._mark = mark
        return self._due
