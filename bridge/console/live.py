"""
Hints about what is new, for the pages that are open: newest rows, badges, and running jobs.

A hint never contains rows: pages ask the lists, which check permissions and filters. All streams of
users of the same sites share one snapshot, which is read at most once a second while somebody
listens.
"""

import asyncio
import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from typing import Any, Final

from sqlalchemy import ColumnElement, Connection, func, select

from bridge.admin.access.permissions import Grant, Permission
from bridge.admin.background import jobs
from bridge.admin.channel_operations import VisibleChannels, visible_channels
from bridge.admin.errors import OperatorError
from bridge.admin.lists.listing import Access
from bridge.admin.messages.message_index import INDEXED_TO
from bridge.admin.overview import attention
from bridge.admin.overview.attention import GroupSubject
from bridge.executors import CONSOLE_THREADS
from bridge.index_key import keyed64
from bridge.monitoring.alerts import active_alerts
from bridge.queue.inbox import settlements
from bridge.queue.log_tables import pull_new
from bridge.queue.sites import visible_sites_hashes
from bridge.queue.statements import DELIVERY, MESSAGE, MESSAGE_NUMBER
from bridge.store.database import Database
from bridge.store.tables import MAPPING_ACTIVATIONS
from config import Settings

PAUSE: Final = 1.0
"""Seconds between two snapshots of the same sites."""
ATTENTION_AGE_MS: Final = 5_000
"""How old the counts of what needs attention may be."""
HEARTBEAT: Final = 10.0
CHECKED_EVERY: Final = 30.0
"""Seconds after which a stream checks that its session and role still exist."""
MAX_STREAMS, MAX_STREAMS_OF_ACCOUNT = 200, 5
_MAX_JOBS: Final = 20
_JOBS_KEPT_MS: Final = 86_400_000

Sites = frozenset[str] | None


class TooManyStreams(OperatorError):
    status = 429
    code = "too_many_streams"

    def __init__(self) -> None:
        super().__init__("too many pages are open; this one asks every few seconds instead")


@dataclass(frozen=True, slots=True)
class Heads:
    """
    A snapshot for the users of some sites.

    `message` and `delivery` are the newest ids, `activation` that of the last activation. `applied`
    changes when messages were applied, and `indexed` is the newest message that can be found by its
    numbers. `attention` counts causes, `deliveries_failed` parked results. `worst` is the state of
    the worst channel: ok, amber or red.
    """

    message: int
    applied: int
    indexed: int
    delivery: int
    attention: int
    deliveries_failed: int
    worst: str
    activation: int


@dataclass(frozen=True, slots=True)
class _Counts:
    """What needs attention, as it was at a time (ms)."""

    at: int
    causes: int
    deliveries: int
    channels: VisibleChannels | None


class LiveHub:
    """The snapshots and streams of this process."""

    def __init__(self, settings: Settings, database: Database, clock: Callable[[], int]) -> None:
        self._settings = settings
        self._database = database
        self._clock = clock
        self._stopping = asyncio.Event()
        self._streams: dict[str, int] = {}
        self._snapshots: dict[Sites, tuple[float, asyncio.Future[Heads]]] = {}
        self._counts: dict[Sites, _Counts] = {}

    async def stop(self) -> None:
        """End all streams."""
        self._stopping.set()

    def require_room(self, account: str) -> None:
        """Raise TooManyStreams if no further stream of an account may begin."""
        own = self._streams.get(account, 0)
        if own >= MAX_STREAMS_OF_ACCOUNT or sum(self._streams.values()) >= MAX_STREAMS:
            raise TooManyStreams

    @contextmanager
    def stream(self, account: str) -> Iterator[None]:
        """Count a stream of an account while the block runs. Raises TooManyStreams."""
        self.require_room(account)
        self._streams[account] = self._streams.get(account, 0) + 1
        try:
            yield
        finally:
            self._streams[account] -= 1
            if not self._streams[account]:
                del self._streams[account]
            if not self._streams:
                self._snapshots.clear()
                self._counts.clear()

    async def heads(self, grant: Grant) -> dict[str, Any]:
        """Return the snapshot for a user: that of the user's sites, and the user's jobs."""
        found = await self._snapshot(grant.visible_sites)
        return {**asdict(found), "jobs": await CONSOLE_THREADS.run(self._jobs, grant)}

    async def wait(self, seconds: float) -> bool:
        """Wait; return True if the process stops."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self._stopping.wait(), seconds)
        return self._stopping.is_set()

    async def _snapshot(self, sites: Sites) -> Heads:
        now = asyncio.get_running_loop().time()
        known = self._snapshots.get(sites)
        if known is not None and now - known[0] < PAUSE and not known[1].cancelled():
            return await asyncio.shield(known[1])
        reading = asyncio.ensure_future(CONSOLE_THREADS.run(self._read, sites))
        if len(self._snapshots) > MAX_STREAMS:
            self._snapshots.clear()
        self._snapshots[sites] = (now, reading)
        return await asyncio.shield(reading)

    def _read(self, sites: Sites) -> Heads:
        pull_new(self._database)
        with self._database.read() as connection:
            applied = settlements(connection, sites)
            message, indexed, delivery = _newest(connection, sites)
            activation = connection.scalar(select(func.max(MAPPING_ACTIVATIONS.c.id))) or 0
        counts = self._attention(sites)
        alerts = attention.visible_alerts(active_alerts(self._database), counts.channels)
        worst = attention.SEVERITIES[alerts[0].severity] if alerts else "ok"
        return Heads(
            message,
            applied,
            indexed,
            delivery,
            counts.causes,
            counts.deliveries,
            worst,
            activation,
        )

    def _attention(self, sites: Sites) -> _Counts:
        now, known = self._clock(), self._counts.get(sites)
        if known is not None and 0 <= now - known.at < ATTENTION_AGE_MS:
            return known
        access = Access(sites, frozenset({Permission.SEE}))
        found = attention.groups(self._settings, self._database, access, now).groups
        failed = sum(group.count for group in found if group.subject is GroupSubject.DELIVERIES)
        channels = (
            None if sites is None else visible_channels(self._settings, self._database, sites)
        )
        counts = _Counts(now, len(found), failed, channels)
        if len(self._counts) > MAX_STREAMS:
            self._counts.clear()
        self._counts[sites] = counts
        return counts

    def _jobs(self, grant: Grant) -> list[dict[str, Any]]:
        """Return the newest open jobs and those of the last day; all users' for who grants."""
        account = None if Permission.GRANT in grant.permissions else str(grant.account_id)
        oldest = self._clock() - _JOBS_KEPT_MS
        return [
            job.as_json()
            for job in jobs.newest(self._database, account, _MAX_JOBS)
            if job.finished_at is None or job.finished_at >= oldest
        ]


def _newest(connection: Connection, sites: Sites) -> tuple[int, int, int]:
    """
    Return the newest ids that a user of these sites may see: of messages, of indexed messages, and
    of deliveries. The index knows the sites of a message.
    """
    if sites is None:
        newest_message, newest_delivery = (
            select(func.max(table.c.id)) for table in (MESSAGE, DELIVERY)
        )
        statements = (newest_message, INDEXED_TO, newest_delivery)
        message, indexed, delivery = (connection.scalar(query) or 0 for query in statements)
        return message, indexed, delivery
    message = delivery = 0
    for number in map(keyed64, visible_sites_hashes(sites)):
        own: ColumnElement[bool] = MESSAGE_NUMBER.c.number == number
        newest = select(func.max(MESSAGE_NUMBER.c.message_id)).where(own)
        message = max(message, connection.scalar(newest) or 0)
        sent = select(func.max(DELIVERY.c.id)).where(DELIVERY.c.sites_hash == number)
        delivery = max(delivery, connection.scalar(sent) or 0)
    return message, message, delivery


async def events(
    hub: LiveHub,
    grant: Grant,
    build: str,
    still_admitted: Callable[[], Awaitable[Grant | None]],
) -> AsyncGenerator[str, None]:
    """
    Yield server-sent events: `heads` after each change, comments in between.

    `still_admitted` returns the grant of the session now, None if it has ended; then the last event
    has `ended`.
    """
    with hub.stream(str(grant.account_id)):
        loop = asyncio.get_running_loop()
        checked = spoken = loop.time()
        last: Mapping[str, Any] | None = None
        while True:
            if loop.time() - checked >= CHECKED_EVERY:
                checked = loop.time()
                now = await still_admitted()
                if now is None:
                    yield _event({**(last or {}), "ended": True})
                    return
                grant = replace(now, account_id=grant.account_id)
            found = {**await hub.heads(grant), "build": build}
            if found != last:
                last, spoken = found, loop.time()
                yield _event(found)
            elif loop.time() - spoken >= HEARTBEAT:
                spoken = loop.time()
                yield ": \n\n"
            if await hub.wait(PAUSE):
                return


def _event(heads: Mapping[str, Any]) -> str:
    return f"event: heads\ndata: {json.dumps(heads)}\n\n"
