"""
Releases signed reports at the moment their release is due.

Due times are rows, so a restart loses nothing and any node may release. The database guarantees
that each release happens once.
"""

import asyncio
from collections.abc import Callable, Sequence
from functools import partial

import structlog

from bridge.engine.live.database_executor import DatabaseExecutor, wait_notified
from bridge.engine.service.signing.releases import next_due, release_due
from bridge.engine.service.work import ChangeEvent
from bridge.redaction import describe
from bridge.store.errors import StoreError

RETRY_SECONDS = 0.5
"""Seconds until a failed release is tried again."""

CHECK_DELAY = 0.02
"""Seconds from a change to the check for releases that it makes due."""

NOTHING_DUE = frozenset({
    ChangeEvent.ORDER_REGISTERED, ChangeEvent.ORDER_UPDATED, ChangeEvent.REPORT_CREATED,
    ChangeEvent.ORDER_RETURNED,
    ChangeEvent.REPORT_OPENED, ChangeEvent.REPORT_CONTENT_UPDATED, ChangeEvent.ADDENDUM_CREATED,
    ChangeEvent.ADDENDUM_CONTENT_UPDATED, ChangeEvent.REPORT_FILES_UPDATED,
})  # fmt: skip
"""Events that never make a release due."""

log = structlog.get_logger(__name__)


class ReleaseScheduler:
    """Wakes at the next due time."""

    def __init__(self, executor: DatabaseExecutor, clock: Callable[[], int]) -> None:
        self._executor = executor
        self._clock = clock
        self._due: int | None = None
        self._mark: int | None = None
        self._failures: frozenset[str] = frozenset()  # of the last run

    async def run(self) -> None:
        """Release reports until the task is cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            notification = self._executor.changed.notification(NOTHING_DUE)
            failures: list[Exception] = []
            try:
                pause = await self._release(failures)
            except Exception as error:  # noqa: BLE001  # the next run may succeed
                failures.append(error)
                pause = RETRY_SECONDS
            self._report(failures)
            # A change may bring an earlier due time. The delay lets waiting requests go first and
            # collects several changes into one check.
            until = loop.time() + pause
            if await wait_notified(notification, pause):
                await asyncio.sleep(max(0.0, min(CHECK_DELAY, until - loop.time())))

    def _report(self, failures: Sequence[Exception]) -> None:
        """Log the failures that the last run did not have."""
        described = {describe(error): error for error in failures}
        for failure in described.keys() - self._failures:
            is_defect = not isinstance(described[failure], StoreError)
            (log.error if is_defect else log.warning)("release_failed", error=failure)
        self._failures = frozenset(described)

    async def _release(self, failures: list[Exception]) -> float:
        """Release the due reports, and add failures; return the seconds until the next check."""
        due = await self._next_due()
        now = self._clock()
        if due is not None and due <= now:
            release = partial(release_due, self._executor.database, now, on_error=failures.append)
            if await self._executor.run(release):
                self._executor.changed.notify()
                return 0.0
            return RETRY_SECONDS  # the report failed, or another transaction has locked it
        poll_seconds = self._executor.poll_seconds
        return poll_seconds if due is None else min(poll_seconds, (due - now) / 1000)

    async def _next_due(self) -> int | None:
        """Read the next due time, unless no database write happened since it was read."""
        mark = self._executor.change_mark()
        if mark is None or mark != self._mark:
            self._due = await self._executor.read(next_due)
            self._mark = mark
        return self._due
