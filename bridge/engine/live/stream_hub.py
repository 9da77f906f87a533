"""
Wakes event streams whose report, other windows or launch to follow has changed, in any process.

One database snapshot serves all streams of this process. Each stream reads the details itself, so a
late snapshot loses nothing. The hub also renews the windows.
"""

import asyncio
import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import structlog
from sqlalchemy import Connection, func, select

from bridge.engine.live.database_executor import DatabaseExecutor, wait_notified
from bridge.engine.service.accounts.sessions import SESSIONS, BrowserSession
from bridge.engine.service.live.windows import (
    HANDOVER,
    RENEWED_EVERY_MS,
    REPORTS,
    TARGETS,
    WINDOWS,
    close_windows,
    renew,
)
from bridge.engine.service.signing.lease import open_windows
from bridge.engine.service.work import CHANGES
from bridge.store.errors import StoreError
from bridge.store.lease_clock import lease_time

POLL_SECONDS = 0.5
"""Seconds after which a change of another process is noticed at the latest."""

PAUSE_SECONDS = 0.03
"""Minimum seconds between two snapshots."""

log = structlog.get_logger(__name__)


@dataclass(eq=False, slots=True)
class StreamWatch:
    """One event stream; `changed` is set when it should read again."""

    session: BrowserSession
    stream: str
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    seen: object = None

    async def wait(self, seconds: float) -> bool:
        """Wait for a possible change, at most so many seconds; True if there may be one."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self.changed.wait(), seconds)
        return self.changed.is_set()


@dataclass(frozen=True, slots=True)
class LiveSnapshot:
    """
    The state of everything that the streams watch, at one moment.

    `newest` is the cursor of the newest change, `changed` the ids of the reports that have changed.
    `writers` are the lease holders and `windows` the sessions of the open windows, by report id.
    `targets` are the launches to follow, as (sequence, answer) by (site, account). `ended` are the
    sessions that have ended, `handovers` the times at which sessions were asked for their lease.
    """

    newest: int
    changed: frozenset[str]
    writers: dict[str, Any]
    windows: dict[str, tuple[int, ...]]
    targets: dict[tuple[str, int], tuple[int, str]]
    ended: frozenset[int]
    handovers: dict[int, str]


class StreamHub:
    """The event streams of this process. Its task runs while there are any."""

    def __init__(
        self, executor: DatabaseExecutor, clock: Callable[[], int], stopping: Callable[[], bool]
    ) -> None:
        self._executor = executor
        self._clock = clock
        self._stopping = stopping
        self._watches: set[StreamWatch] = set()
        self._closed: dict[str, str] = {}  # streams that ended, and their reports
        self._newest: int | None = None
        self._renewed_at = 0
        self._task: asyncio.Task[None] | None = None

    @contextlib.contextmanager
    def watching(self, session: BrowserSession, stream: str) -> Iterator[StreamWatch]:
        """Register a stream for a session's page while the block runs."""
        watch = StreamWatch(session, stream)
        self._watches.add(watch)
        if self._task is None or self._task.done():
            self._newest = None
            self._task = asyncio.get_running_loop().create_task(self._run(), name="live")
        try:
            yield watch
        finally:
            self._watches.discard(watch)
            self._closed[stream] = session.report_id

    async def stop(self) -> None:
        """End all streams and wait until their windows are deleted."""
        for watch in self._watches:
            watch.changed.set()
        task, self._task = self._task, None
        if task is not None:
            await task

    async def _run(self) -> None:
        while (self._watches or self._closed) and not self._stopping():
            notification = self._executor.changed.notification()
            try:
                await self._wake_changed()
            except StoreError as error:
                log.warning("live_changes_not_read", failure=type(error).__name__)
            await asyncio.sleep(PAUSE_SECONDS)
            await wait_notified(notification, POLL_SECONDS)
        for watch in self._watches:
            watch.changed.set()
        await self._close_windows()

    async def _wake_changed(self) -> None:
        now = self._clock()
        await self._close_windows()
        streams = frozenset(watch.stream for watch in self._watches)
        if streams and now - self._renewed_at >= RENEWED_EVERY_MS:
            self._renewed_at = now
            await self._write(lambda connection: renew(connection, streams, now))
        sessions = [stream_watch.session for stream_watch in self._watches]
        if not sessions:
            return
        since = self._newest
        snapshot = await self._executor.read(lambda c: read_snapshot(c, sessions, since, now))
        self._newest = snapshot.newest
        for watch in self._watches:
            _wake_if_changed(watch, snapshot, first=since is None)

    async def _close_windows(self) -> None:
        closed, self._closed = self._closed, {}
        if not closed:
            return
        await self._write(lambda connection: close_windows(connection, closed))
        # A stream may have read a window that opened and closed between two snapshots.
        for watch in self._watches:
            if watch.session.report_id in closed.values():
                watch.changed.set()

    async def _write(self, write: Callable[[Connection], None]) -> None:
        # Presence does not change a report, so no waiter is notified.
        def writing() -> None:
            with self._executor.database.write() as connection:
                write(connection)

        try:
            await self._executor.run(writing)
        except StoreError as error:
            log.warning("live_windows_not_stored", failure=type(error).__name__)


def _wake_if_changed(watch: StreamWatch, snapshot: LiveSnapshot, *, first: bool) -> None:
    session = watch.session
    seen = (
        snapshot.writers.get(session.report_id),
        snapshot.windows.get(session.report_id),
        snapshot.targets.get((session.site_id, session.account_id)),
        session.pk in snapshot.ended,
        snapshot.handovers.get(session.pk),
    )
    if first or session.report_id in snapshot.changed or seen != watch.seen:
        watch.seen = seen
        watch.changed.set()


def read_snapshot(
    connection: Connection, sessions: list[BrowserSession], since: int | None, now: int
) -> LiveSnapshot:
    """Read the changes of the sessions' reports, and their windows and writers."""
    newest = connection.execute(select(func.max(CHANGES.c.cursor))).scalar_one() or 0
    reports = sorted({session.report_id for session in sessions})
    changed = (
        select(CHANGES.c.report_id)
        .where(
            CHANGES.c.cursor > (newest if since is None else since),
            CHANGES.c.report_id.in_(reports),
        )
        .distinct()
    )
    writers = select(REPORTS.c.report_id, REPORTS.c.lease_holder).where(
        REPORTS.c.report_id.in_(reports)
    )
    return LiveSnapshot(
        newest,
        frozenset(connection.execute(changed).scalars()),
        {row.report_id: row.lease_holder for row in connection.execute(writers)},
        _windows(connection, reports, now),
        _targets(
            connection,
            sorted(
                {
                    browser_session.account_id
                    for browser_session in sessions
                    if browser_session.persistent
                }
            ),
        ),
        *_session_states(connection, sorted({session.pk for session in sessions})),
    )


def _windows(connection: Connection, reports: list[str], now: int) -> dict[str, tuple[int, ...]]:
    query = select(WINDOWS.c.report_id, WINDOWS.c.session_pk).where(
        WINDOWS.c.report_id.in_(reports), *open_windows(lease_time(connection, now))
    )
    found: dict[str, tuple[int, ...]] = {}
    for row in connection.execute(query.order_by(WINDOWS.c.session_pk)):
        found[row.report_id] = (*found.get(row.report_id, ()), row.session_pk)
    return found


def _targets(connection: Connection, accounts: list[int]) -> dict[tuple[str, int], tuple[int, str]]:
    if not accounts:
        return {}
    query = select(
        TARGETS.c.site_id, TARGETS.c.account_id, TARGETS.c.sequence, TARGETS.c.answer
    ).where(TARGETS.c.account_id.in_(accounts))
    return {
        (row.site_id, row.account_id): (row.sequence, str(row.answer))
        for row in connection.execute(query)
    }


def _session_states(
    connection: Connection, keys: list[int]
) -> tuple[frozenset[int], dict[int, str]]:
    """Return which sessions ended, and when sessions were asked to hand over the write lease."""
    requested = SESSIONS.c.details[HANDOVER].as_string()
    query = select(SESSIONS.c.pk, SESSIONS.c.ended_at, requested.label("requested"))
    rows = connection.execute(query.where(SESSIONS.c.pk.in_(keys))).all()
    ended = frozenset(row.pk for row in rows if row.ended_at is not None)
    return ended, {row.pk: row.requested for row in rows if row.requested}
