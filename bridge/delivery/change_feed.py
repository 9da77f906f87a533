"""
Known reports: the last known status, release and addenda of each report, by its orders.

`change_feed` and `status_poll` compare changes with it, in their own transactions.
"""

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random

import structlog
from sqlalchemy import Connection

from bridge.contract import OrderKey, split_cursor
from bridge.contract.errors import ErrorCode
from bridge.contract.responses import ChangeBody, ChangesResponse
from bridge.delivery.destinations import (
    CompiledDestination,
    ReportEvent,
    events_of_change,
    plan_deliveries,
)
from bridge.engine_client.client import EngineClient
from bridge.engine_client.errors import EngineFailure
from bridge.executors import Threads
from bridge.metrics import Metrics
from bridge.queue.deliveries import DeliveryRequest
from bridge.queue.outbox import Outbox
from bridge.queue.states import RetryPolicy
from bridge.redaction import describe, stack_frames
from bridge.store.database import Database
from bridge.store.records import exceptions, order_index
from bridge.store.records.exceptions import ExceptionSubject
from bridge.store.statements import (
    BoundStatement,
    BulkStatement,
    StatementResult,
    bind,
    bind_keys,
    bind_rows,
    dialect_statement,
    execute,
    execute_all,
    execute_keys,
    key_statement,
    unnest,
)
from mappings.outbound.results import ResultEvent

NEVER = 2**62
"""`check_at` of a report that needs no further status poll, in ms."""

_SELECT_KNOWN = key_statement(
    """
    SELECT site, accession, mrn, report_id, status, final, addenda, changed_at, check_at
    FROM known_report WHERE site = :site AND accession IN :accessions
    """,
    "accessions",
    "text",
)

_RELEASED = key_statement(
    """
    SELECT report_id FROM known_report
    WHERE site = :site AND accession IN :accessions AND final = 1
    """,
    "accessions",
    "text",
)

_COLUMNS = (
    *((name, "text") for name in ("site", "mrn", "accession", "report_id", "status")),
    *((name, "bigint") for name in ("final", "addenda", "changed_at", "check_at")),
)
_NAMES = ", ".join(name for name, _ in _COLUMNS)
_KINDS = tuple(kind for _, kind in _COLUMNS)
_UPSERT = """
    ON CONFLICT (site, accession, mrn) DO UPDATE SET
        report_id = excluded.report_id, status = excluded.status, final = excluded.final,
        addenda = excluded.addenda, changed_at = excluded.changed_at,
        check_at = excluded.check_at
"""
_SAVE = BulkStatement(
    _KINDS,
    f"INSERT INTO known_report ({_NAMES}) VALUES ({', '.join('?' * len(_COLUMNS))}) {_UPSERT}",  # noqa: S608  # our own names
    f"INSERT INTO known_report ({_NAMES}) SELECT * FROM {unnest(_KINDS)} {_UPSERT}",  # noqa: S608  # our own names
)


@dataclass(frozen=True, slots=True)
class KnownReport:
    """
    The last known state of the report of one order; times in ms.

    `final` tells whether its text is released, `addenda` how many addenda are.
    """

    key: OrderKey
    report_id: str
    status: str
    final: bool
    addenda: int
    changed_at: int
    check_at: int = NEVER


@dataclass(frozen=True, slots=True)
class KnownReportQuery:
    """The statements that read the known reports of orders, and the reader of their results."""

    keys: Collection[OrderKey]
    statements: Sequence[BoundStatement]

    def read(self, answers: Sequence[StatementResult]) -> dict[OrderKey, KnownReport]:
        found = [
            KnownReport(
                OrderKey(row.site, row.mrn, row.accession),
                row.report_id,
                row.status,
                bool(row.final),
                row.addenda,
                row.changed_at,
                row.check_at,
            )
            for answer in answers
            for row in answer
        ]
        return {each.key: each for each in found if each.key in self.keys}


def query_known_reports(connection: Connection, keys: Sequence[OrderKey]) -> KnownReportQuery:
    """Make the query for the known reports of orders; it reads by site and accession."""
    wanted = frozenset(keys)
    return KnownReportQuery(
        wanted,
        [
            bind_keys(connection, _SELECT_KNOWN, accessions, site=site)
            for site, accessions in order_index.accessions_by_site(wanted)
        ],
    )


def known_reports(connection: Connection, keys: Sequence[OrderKey]) -> dict[OrderKey, KnownReport]:
    """Read the known reports of orders; unknown ones are absent."""
    query = query_known_reports(connection, keys)
    return query.read(execute_all(connection, query.statements))


def released_reports(connection: Connection, keys: Sequence[OrderKey]) -> frozenset[str]:
    """Return the ids of these orders' reports whose release is known; the MRN may differ."""
    return frozenset(
        row.report_id
        for site, accessions in order_index.accessions_by_site(keys)
        for row in execute_keys(connection, _RELEASED, accessions, site=site)
    )


def save(connection: Connection, reports: Sequence[KnownReport]) -> None:
    execute_all(connection, save_statements(connection, reports))


def save_statements(connection: Connection, reports: Sequence[KnownReport]) -> list[BoundStatement]:
    """
    Return the statements of `save`, to run with others; of several states of an order the last is
    stored.
    """
    last = {each.key: each for each in reports}
    rows = [
        (
            each.key.site,
            each.key.mrn,
            each.key.accession,
            each.report_id,
            each.status,
            int(each.final),
            each.addenda,
            each.changed_at,
            each.check_at,
        )
        for each in last.values()
    ]
    return [bind_rows(connection, _SAVE, rows)] if rows else []


_CURSOR = dialect_statement(
    "SELECT cursor, marked, replaced_at FROM feed_cursor WHERE feed = :feed"
)

_ADVANCE = dialect_statement(
    """
    INSERT INTO feed_cursor (feed, cursor, marked) VALUES (:feed, :cursor, :marked)
    ON CONFLICT (feed) DO UPDATE SET cursor = excluded.cursor, marked = excluded.marked
    WHERE feed_cursor.cursor < excluded.cursor
    """
)
_RESTART = dialect_statement(
    """
    UPDATE feed_cursor SET cursor = 0, marked = NULL, replaced_at = :now
    WHERE feed = :feed AND cursor = :cursor
    """
)
_QUEUED = key_statement(
    """
    SELECT release_key, release_at FROM delivery
    WHERE destination = :destination AND release_key IN :keys
    """,
    "keys",
    "text",
)


class ChangeProcessor:
    """Stores changes of reports and queues their deliveries."""

    def __init__(
        self,
        database: Database,
        outbox: Outbox,
        destinations: Sequence[CompiledDestination],
        clock: Callable[[], int],
    ) -> None:
        """Use the bridge's database; `clock` is in milliseconds."""
        self.database = database
        self.clock = clock
        self._outbox = outbox
        self._destinations = tuple(destinations)
        self._replaced: set[str] = set()  # feeds that started again with new cursors

    def use(self, destinations: Sequence[CompiledDestination]) -> None:
        """Use other destinations from now on: a mapping or connection was activated."""
        self._destinations = tuple(destinations)

    def cursor(self, feed: str) -> int:
        """Return the position up to which a feed was read; 0 at first."""
        with self.database.read_committed() as connection:
            row = execute(connection, _CURSOR, feed=feed).first()
        if row is None:
            return 0
        if row.replaced_at is not None:
            self._replaced.add(feed)
        # An older release of the product updates `cursor` and leaves `marked` as it was.
        marked = row.marked is not None and split_cursor(row.marked)[0] == row.cursor
        return int(row.marked if marked else row.cursor)

    def restart(self, feed: str, refused: int, code: str) -> None:
        """
        Read a feed from its beginning, because the service refused our cursor with this code.

        Also records an exception for operators, unless another node did both already.
        """
        position = split_cursor(refused)[0]
        with self.database.write() as connection:
            self.database.serialize(connection, f"feed {feed}")
            now = self.clock()
            if execute(connection, _RESTART, feed=feed, cursor=position, now=now).rowcount:
                exceptions.add(connection, ExceptionSubject.FEED, [(now, code)], now)

    def process(self, feed: str, page: ChangesResponse, after: int = 0) -> int:
        """
        Process the page of the feed after a cursor; return the number of deliveries queued.

        Ignores the page if the stored cursor is before `after`: since the page was requested, the
        database was replaced by an earlier state. The changes between them must be read again.
        """
        changes = [change for change in page.changes if change.record.orders]
        # If a power failure undoes this commit, it undoes the cursor, too: the page is read again.
        with self.database.write_without_sync() as connection:
            known = self._lock_feed(connection, feed, changes)
            row = execute(connection, _CURSOR, feed=feed).first()
            if (0 if row is None else row.cursor) < split_cursor(after)[0]:
                return 0
            requests, reports = self._plan_deliveries(changes, known)
            if feed in self._replaced:
                requests = _with_unused_keys(connection, requests)
            queued = self._outbox.enqueue(connection, requests, self.clock())
            position = split_cursor(page.cursor)[0]
            marked = None if position == page.cursor else page.cursor
            advance = bind(connection, _ADVANCE, feed=feed, cursor=position, marked=marked)
            execute_all(connection, [*save_statements(connection, reports), advance])
        return queued

    def _lock_feed(
        self, connection: Connection, feed: str, changes: Sequence[ChangeBody]
    ) -> dict[OrderKey, KnownReport]:
        reports = {
            key: change.record.report_id for change in changes for key in change.record.orders
        }
        before = [
            *self.database.serialize_statements([f"feed {feed}"]),
            *order_index.bind_reports(connection, reports),
        ]
        query = query_known_reports(connection, [_anchor(change) for change in changes])
        return query.read(execute_all(connection, [*before, *query.statements])[len(before) :])

    def _plan_deliveries(
        self, changes: Sequence[ChangeBody], before: Mapping[OrderKey, KnownReport]
    ) -> tuple[list[DeliveryRequest], list[KnownReport]]:
        known, changed = dict(before), dict[OrderKey, KnownReport]()
        requests: list[DeliveryRequest] = []
        for change in changes:
            anchor = _anchor(change)
            report = known.get(anchor)
            same = report is not None and report.report_id == change.record.report_id
            addenda = report.addenda if report is not None and same else 0
            events = events_of_change(change, addenda)
            if change.release is not None:
                known[anchor] = changed[anchor] = _after_release(change, anchor, events, addenda)
            requests += plan_deliveries(events, self._destinations)
        return requests, list(changed.values())

    def queue(self, connection: Connection, events: Sequence[ReportEvent]) -> int:
        """Queue the deliveries of events in the caller's transaction; return how many were new."""
        return self._outbox.enqueue(
            connection, plan_deliveries(events, self._destinations), self.clock()
        )


def _with_unused_keys(
    connection: Connection, requests: Sequence[DeliveryRequest]
) -> list[DeliveryRequest]:
    """
    Give new release keys to deliveries of a replaced feed if their keys are in use.

    A service restored from a backup reuses the numbers of releases. A report that is signed again
    has the key of an earlier delivery, but another time. An entry that is read twice has the same
    time and keeps its key.
    """
    queued: dict[tuple[str, str], int] = {}
    for name in {each.destination for each in requests}:
        keys = sorted({each.release_key for each in requests if each.destination == name})
        for row in execute_keys(connection, _QUEUED, keys, destination=name):
            queued[name, row.release_key] = row.release_at
    return [
        each
        if queued.get((each.destination, each.release_key), each.release_at) == each.release_at
        else replace(each, release_key=f"{each.release_key}:{each.release_at}")
        for each in requests
    ]


def _after_release(
    change: ChangeBody, anchor: OrderKey, events: Sequence[ReportEvent], addenda: int
) -> KnownReport:
    retracted = any(each.event is ResultEvent.RETRACTION for each in events)
    released = max((each.addenda for each in events), default=addenda)
    return KnownReport(
        anchor,
        change.record.report_id,
        change.record.status.value,
        final=not retracted,
        addenda=0 if retracted else released,
        changed_at=change.at,
    )


def _anchor(change: ChangeBody) -> OrderKey:
    return change.record.orders[0]


PAGE = 200  # changes processed in one transaction; a larger one would delay other writers
WAIT = 20.0  # seconds that the service may hold a call open until a change happens
COURIER_HEAD_START = 0.008
"""Seconds until the next call after deliveries were queued, so that couriers start first."""
IGNORED_EVENTS = (
    "order_registered", "order_updated", "report_content_updated", "report_files_updated",
    "report_signed", "addendum_created", "addendum_content_updated", "addendum_cancelled",
    "addendum_signed",
)  # fmt: skip
"""Events for which no destination gets a message: launches, edits, and signatures in the delay."""
UNSUPPORTED_RETRY_SECONDS = 300.0  # then a service without the feed is asked for it again

_REPLACED = frozenset({ErrorCode.CURSOR_BEYOND_END, ErrorCode.CURSOR_OF_ANOTHER_FEED})


class ChangeFeedReader:
    """
    Reads the feed of one access token; `site` selects the token ('' is the default one).

    `supported` is None until the first response, then whether the service has the feed.
    """

    def __init__(
        self,
        feed: EngineClient,
        processor: ChangeProcessor,
        metrics: Metrics,
        notify: Callable[[], None],
        *,
        random: Random,
        site: str = "",
        wait: float = WAIT,
    ) -> None:
        """`notify` is called after deliveries were queued."""
        self._log = structlog.get_logger("change_feed")
        self._feed = feed
        self._processor = processor
        self._metrics = metrics
        self._notify = notify
        self._random = random
        self._site = site
        self._name = f"changes {site}".strip()
        self._wait = wait
        self._policy = RetryPolicy(first=0.5, maximum=30.0)
        self._failures = 0
        self._requested_cursor = 0  # the cursor of the last request
        self._task: asyncio.Task[None] | None = None
        self.supported: bool | None = None

    def start(self) -> None:
        self._task = asyncio.create_task(self._run(), name=self._name)

    async def stop(self) -> None:
        """Stop at once. A page that has not been stored is read again after the next start."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    async def read_page(self, wait: float = 0.0) -> int:
        """Read one page and process it; return the number of changes."""
        after = await Threads.DELIVERY.run(self._processor.cursor, self._name)
        self._requested_cursor = after
        page = await self._feed.changes(after, PAGE, wait, self._site, IGNORED_EVENTS)
        self.supported = True
        if page.changes or page.cursor > after:
            queued = await Threads.DELIVERY.run(self._processor.process, self._name, page, after)
            for change in page.changes:
                self._metrics.changes.labels(change.event).inc()
            if queued:
                self._notify()
                await asyncio.sleep(COURIER_HEAD_START)
        return len(page.changes)

    async def _run(self) -> None:
        while True:
            try:
                await self.read_page(self._wait)
                self._failures = 0
            except EngineFailure as failure:
                await self._after(failure)
            except Exception as error:  # noqa: BLE001  # one bad page must not end the task
                await self._pause(error)

    async def _after(self, failure: EngineFailure) -> None:
        self._metrics.engine_failures.labels(failure.failure.value, failure.code).inc()
        if failure.is_unsupported or failure.code == "unreadable":
            self.supported = False  # the status poll replaces the feed
            await asyncio.sleep(UNSUPPORTED_RETRY_SECONDS)
            return
        if failure.code in _REPLACED:
            await self._restart(failure.code)
        await self._pause(failure)

    async def _restart(self, code: str) -> None:
        """Read the feed from its beginning: the service was restored, our cursor is invalid."""
        self._log.error("change feed replaced; it is read again from its beginning", code=code)
        try:
            await Threads.DELIVERY.run(
                self._processor.restart, self._name, self._requested_cursor, code
            )
        except Exception as error:  # noqa: BLE001  # the service refuses the cursor again
            self._log.warning("change feed not restarted", error=describe(error))

    async def _pause(self, error: Exception) -> None:
        self._failures += 1
        self._log.warning("change feed not read", error=describe(error), trace=stack_frames(error))
        await asyncio.sleep(self._policy.delay(self._failures, self._random))
