"""Wake the streams whose report, onlookers or launch to follow has changed, in whichever process.

One glance at the database serves all streams of this process; what exactly is new each
stream reads by itself, so nothing is lost when a glance comes late. Renews the windows too.
"""

import asyncio
import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import structlog
from sqlalchemy import Connection, func, select

from bridge.engine.live.change_notifier import wait_notified
from bridge.engine.live.database_executor import DatabaseExecutor
from bridge.engine.service.accounts.sessions import SESSIONS, BrowserSession
from bridge.engine.service.live.sync_launch import TARGETS
from bridge.engine.service.live.windows import (
    HANDOVER,
    RENEWED_EVERY_MS,
    REPORTS,
    WINDOWS,
    close_windows,
    is_fresh,
    renew,
)
from bridge.engine.service.work import CHANGES
from bridge.store.errors import StoreError
from bridge.store.lease_clock import lease_time

POLL_SECONDS = 0.5
"""How late a change that another process wrote may be noticed."""

PAUSE_SECONDS = 0.03
"""So long after a glance comes no other, however often the bell rings."""

log = structlog.get_logger(__name__)


@dataclass(eq=False, slots=True)
class StreamWatch:
    """One stream's place: `news` is set when it should read again."""

    session: BrowserSession
    stream: str
    news: asyncio.Event = field(default_factory=asyncio.Event)
    seen: object = None

    async def wait(self, seconds: float) -> bool:
        """Wait until there may be news, at most so long; tell whether there may be."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self.news.wait(), seconds)
        return self.news.is_set()


@dataclass(frozen=True, slots=True)
class LiveSnapshot:
    """What the database says about everything that is watched, at one moment."""

    newest: int
    changed: frozenset[str]
    writers: dict[str, Any]
    windows: dict[str, tuple[int, ...]]
    targets: dict[tuple[str, int], tuple[int, str]]
    ended: frozenset[int]
    handovers: dict[int, str]


class StreamHub:
    """The streams of this process. Runs while there are any."""

    def __init__(
        self, work: DatabaseExecutor, clock: Callable[[], int], stopping: Callable[[], bool]
    ) -> None:
        self._work = work
        self._clock = clock
        self._stopping = stopping
        self._watches: set[StreamWatch] = set()
        self._closed: dict[str, str] = {}  # streams that ended, and their reports
        self._newest: int | None = None
        self._renewed_at = 0
        self._task: asyncio.Task[None] | None = None

    @contextlib.contextmanager
    def watching(self, session: BrowserSession, stream: str) -> Iterator[StreamWatch]:
        """Watch what a session's page should know, from now on."""
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
        """Let all streams go, and wait until their windows are forgotten."""
        for watch in self._watches:
            watch.news.set()
        task, self._task = self._task, None
        if task is not None:
            await task

    async def _run(self) -> None:
        while (self._watches or self._closed) and not self._stopping():
            notification = self._work.changed.notification()
            try:
                await self._look()
            except StoreError as error:
                log.warning("live_glance_failed", failure=type(error).__name__)
            await asyncio.sleep(PAUSE_SECONDS)
            await wait_notified(notification, POLL_SECONDS)
        for watch in self._watches:
            watch.news.set()
        await self._tidy()

    async def _look(self) -> None:
        now = self._clock()
        await self._tidy()
        streams = frozenset(each.stream for each in self._watches)
        if streams and now - self._renewed_at >= RENEWED_EVERY_MS:
            self._renewed_at = now
            await self._write(lambda connection: renew(connection, streams, now))
        sessions = [each.session for each in self._watches]
        if not sessions:
            return
        since = self._newest
        glance = await self._work.read(lambda c: look(c, sessions, since, now))
        self._newest = glance.newest
        for watch in self._watches:
            _tell(watch, glance, first=since is None)

    async def _tidy(self) -> None:
        closed, self._closed = self._closed, {}
        if not closed:
            return
        await self._write(lambda connection: close_windows(connection, closed))
        # Whoever read between two glances may know of a window that neither of them has seen.
        for watch in self._watches:
            if watch.session.report_id in closed.values():
                watch.news.set()

    async def _write(self, deed: Callable[[Connection], None]) -> None:
        # Presence is no change of a report: the bell is not rung for it.
        def writing() -> None:
            with self._work.database.write() as connection:
                deed(connection)

        try:
            await self._work.run(writing)
        except StoreError as error:
            log.warning("live_windows_not_kept", failure=type(error).__name__)


def _tell(watch: StreamWatch, glance: LiveSnapshot, *, first: bool) -> None:
    session = watch.session
    seen = (
        glance.writers.get(session.report_id),
        glance.windows.get(session.report_id),
        glance.targets.get((session.site_id, session.account_id)),
        session.pk in glance.ended,
        glance.handovers.get(session.pk),
    )
    if first or session.report_id in glance.changed or seen != watch.seen:
        watch.seen = seen
        watch.news.set()


def look(
    connection: Connection, sessions: list[BrowserSession], since: int | None, now: int
) -> LiveSnapshot:
    """Return what is new about the sessions' reports, and who stands at them."""
    newest = connection.execute(select(func.max(CHANGES.c.cursor))).scalar_one() or 0
    reports = sorted({each.report_id for each in sessions})
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
        _targets(connection, sorted({each.account_id for each in sessions if each.persistent})),
        *_states(connection, sorted({each.pk for each in sessions})),
    )


def _windows(connection: Connection, reports: list[str], now: int) -> dict[str, tuple[int, ...]]:
    query = select(WINDOWS.c.report_id, WINDOWS.c.session_pk).where(
        WINDOWS.c.report_id.in_(reports), *is_fresh(lease_time(connection, now))
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


def _states(connection: Connection, keys: list[int]) -> tuple[frozenset[int], dict[int, str]]:
    """Return which sessions ended, and which were asked to hand the writing over, and when."""
    asked = SESSIONS.c.details[HANDOVER].as_string()
    query = select(SESSIONS.c.pk, SESSIONS.c.ended_at, asked.label("asked"))
    rows = connection.execute(query.where(SESSIONS.c.pk.in_(keys))).all()
    ended = frozenset(row.pk for row in rows if row.ended_at is not None)
    return ended, {row.pk: row.asked for row in rows if row.asked}
