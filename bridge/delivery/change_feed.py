"""
Change feed: reads changes of reports by long polling, stores them, and queues deliveries.

`ChangeProcessor` stores the known state of reports and queues deliveries in one transaction, also
for the status poll, which replaces the feed for a service without one. It blocks: call it from a
thread. The courier composes the messages when it sends them.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Any, Final

import structlog
from sqlalchemy import Connection, bindparam, select, update

from bridge.contract import SIGNED, OrderKey, split_cursor
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
from bridge.executors import DELIVERIES
from bridge.metrics import Metrics
from bridge.orders.order import Order
from bridge.queue.deliveries import DeliveryRequest
from bridge.queue.outbox import Outbox
from bridge.queue.statements import DELIVERY
from bridge.queue.states import RetryPolicy
from bridge.redaction import describe, stack_frames
from bridge.store.columns import one_of
from bridge.store.database import Database
from bridge.store.records import exceptions, order_index, report_events, scheduled_steps
from bridge.store.records.exceptions import ExceptionSubject
from bridge.store.records.report_events import ReportEventRow
from bridge.store.statements import execute_bound
from bridge.store.tables import FEED_CURSORS, KNOWN_REPORTS, upsert
from mappings.outbound.results import ResultEvent

_CURSOR, _DELIVERY, _KNOWN = FEED_CURSORS.c, DELIVERY.c, KNOWN_REPORTS.c

# Constants, because making a statement costs more than executing it.
_OF_ORDERS: Final = select(KNOWN_REPORTS).where(
    _KNOWN.site == bindparam("site"), one_of(_KNOWN.accession, "accessions")
)
_SAVE_REPORTS: Final = upsert(KNOWN_REPORTS)
_READ_CURSOR: Final = select(FEED_CURSORS).where(_CURSOR.feed == bindparam("feed"))
_SET_CURSOR: Final = upsert(FEED_CURSORS, "cursor", "marked")

WriteSteps = Callable[[Connection, Sequence[Order], int], object]
"""Stores the scheduled steps of orders as they are now; the time is in ms."""

NEVER = 2**62
"""`check_at` of a report that needs no further status poll, in ms."""


@dataclass(frozen=True, slots=True)
class KnownReport:
    """
    The last known state of the report of one order; times in ms.

    `final`: its text is released; `addenda`: how many addenda are.
    """

    key: OrderKey
    report_id: str
    status: str
    final: bool
    addenda: int
    changed_at: int
    check_at: int = NEVER


def known_report(row: Any) -> KnownReport:
    """Return the known report of a row of `KNOWN_REPORTS`."""
    return KnownReport(
        OrderKey(row.site, row.mrn, row.accession),
        row.report_id,
        row.status,
        bool(row.final),
        row.addenda,
        row.changed_at,
        row.check_at,
    )


def known_reports(connection: Connection, keys: Sequence[OrderKey]) -> dict[OrderKey, KnownReport]:
    """Read the known reports of orders; unknown ones are absent."""
    wanted = frozenset(keys)
    found = (
        known_report(row)
        for site, accessions in order_index.accessions_by_site(wanted)
        for row in connection.execute(_OF_ORDERS, {"site": site, "accessions": accessions})
    )
    return {report.key: report for report in found if report.key in wanted}


def released_reports(connection: Connection, keys: Sequence[OrderKey]) -> frozenset[str]:
    """Return the ids of these orders' reports whose release is known; the MRN may differ."""
    return frozenset(
        row.report_id
        for site, accessions in order_index.accessions_by_site(keys)
        for row in connection.execute(_OF_ORDERS, {"site": site, "accessions": accessions})
        if row.final
    )


def save(connection: Connection, reports: Sequence[KnownReport]) -> None:
    """Store states of reports; of several states of an order the last."""
    last = {report.key: report for report in reports}
    rows = [
        {
            "site": report.key.site,
            "mrn": report.key.mrn,
            "accession": report.key.accession,
            "report_id": report.report_id,
            "status": report.status,
            "final": int(report.final),
            "addenda": report.addenda,
            "changed_at": report.changed_at,
            "check_at": report.check_at,
        }
        for report in last.values()
    ]
    if rows:
        connection.execute(_SAVE_REPORTS, rows)


class ChangeProcessor:
    """Stores changes of reports and queues their deliveries."""

    def __init__(
        self,
        database: Database,
        outbox: Outbox,
        destinations: Sequence[CompiledDestination],
        clock: Callable[[], int],
        *,
        write_steps: WriteSteps | None = None,
    ) -> None:
        """
        Use the bridge's database; `clock` is in milliseconds.

        `write_steps`: if there is a worklist. Then a signed report ends the scheduled steps of its
        orders, which otherwise stay on the worklist if no modality and no message says that they
        are done.
        """
        self.database = database
        self._write_steps = write_steps
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
            row = connection.execute(_READ_CURSOR, {"feed": feed}).first()
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
            restarted = connection.execute(
                update(FEED_CURSORS)
                .where(_CURSOR.feed == feed, _CURSOR.cursor == position)
                .values(cursor=0, marked=None, replaced_at=now)
            )
            if restarted.rowcount:
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
            stored = connection.execute(_READ_CURSOR, {"feed": feed}).first()
            read_to = stored.cursor if stored else 0
            if read_to < split_cursor(after)[0]:
                return 0
            requests, reports = self._plan_deliveries(changes, known)
            if feed in self._replaced:
                requests = _with_unused_keys(connection, requests)
            queued = self._outbox.enqueue(connection, requests, self.clock())
            save(connection, reports)
            report_events.add(connection, map(_stored_event, changes))
            if self._write_steps is not None:
                self._end_steps(connection, changes)
            self._return_to_unread(connection, changes)
            if (position := split_cursor(page.cursor)[0]) > read_to or stored is None:
                marked = None if position == page.cursor else page.cursor
                cursor = {"feed": feed, "cursor": position, "marked": marked}
                connection.execute(_SET_CURSOR, cursor)
        return queued

    def _return_to_unread(self, connection: Connection, changes: Sequence[ChangeBody]) -> None:
        """Return orders that readers decided to read here; their steps are open again."""
        returned: set[OrderKey] = set()
        for change in changes:
            returned |= order_index.return_to_unread(connection, _returned(change))
        if self._write_steps is not None and returned:
            orders = order_index.find(connection, returned)
            self._write_steps(connection, list(orders.values()), self.clock())

    def _end_steps(self, connection: Connection, changes: Sequence[ChangeBody]) -> None:
        signed = {
            key
            for change in changes
            if change.record.status in SIGNED
            for key in change.record.orders
        }
        for key in sorted(signed):
            scheduled_steps.complete(connection, key, self.clock())

    def _lock_feed(
        self, connection: Connection, feed: str, changes: Sequence[ChangeBody]
    ) -> dict[OrderKey, KnownReport]:
        reports = {
            key: change.record.report_id for change in changes for key in change.record.orders
        }
        for statement in self.database.serialize_statements([f"feed {feed}"]):
            execute_bound(connection, statement)
        order_index.set_reports(connection, reports)
        return known_reports(connection, [_anchor(change) for change in changes])

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
    for name in {request.destination for request in requests}:
        keys = sorted({request.release_key for request in requests if request.destination == name})
        known = select(_DELIVERY.release_key, _DELIVERY.release_at).where(
            _DELIVERY.destination == name, _DELIVERY.release_key.in_(keys)
        )
        for row in connection.execute(known):
            queued[name, row.release_key] = row.release_at
    return [
        delivery_request
        if queued.get(
            (delivery_request.destination, delivery_request.release_key),
            delivery_request.release_at,
        )
        == delivery_request.release_at
        else replace(
            delivery_request,
            release_key=f"{delivery_request.release_key}:{delivery_request.release_at}",
        )
        for delivery_request in requests
    ]


def _after_release(
    change: ChangeBody, anchor: OrderKey, events: Sequence[ReportEvent], addenda: int
) -> KnownReport:
    retracted = any(event.event is ResultEvent.RETRACTION for event in events)
    released = max((report_event.addenda for report_event in events), default=addenda)
    return KnownReport(
        anchor,
        change.record.report_id,
        change.record.status.value,
        final=not retracted,
        addenda=0 if retracted else released,
        changed_at=change.at,
    )


def _stored_event(change: ChangeBody) -> ReportEventRow:
    record = change.record
    return ReportEventRow(
        _anchor(change).site,
        record.report_id,
        change.at,
        change.event,
        record.status.value,
        record.user_email,
    )


def _returned(change: ChangeBody) -> dict[OrderKey, int]:
    """Return the orders that a reader returned to the unread ones, with the time of their mark."""
    times = change.returned or {}
    return {key: times[key.accession] for key in change.record.orders if key.accession in times}


def _anchor(change: ChangeBody) -> OrderKey:
    return change.record.orders[0]


PAGE = 200  # changes processed in one transaction; a larger one would delay other writers
WAIT = 20.0  # seconds that the service may hold a call open until a change happens
COURIER_HEAD_START = 0.008
"""Seconds until the next call after deliveries were queued, so that couriers start first."""
IGNORED_EVENTS = (
    "order_registered", "order_updated", "report_content_updated", "report_files_updated",
    "addendum_content_updated", "addendum_cancelled",
)  # fmt: skip
"""
Launches and edits: no destination gets a message for them, and the order page does not show them.

Signatures within the sign delay and new addenda cause no message either; the order page shows them.
"""
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
        after = await DELIVERIES.run(self._processor.cursor, self._name)
        self._requested_cursor = after
        page = await self._feed.changes(after, PAGE, wait, self._site, IGNORED_EVENTS)
        self.supported = True
        if page.changes or page.cursor > after:
            queued = await DELIVERIES.run(self._processor.process, self._name, page, after)
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
            await DELIVERIES.run(self._processor.restart, self._name, self._requested_cursor, code)
        except Exception as error:  # noqa: BLE001  # the service refuses the cursor again
            self._log.warning("change feed not restarted", error=describe(error))

    async def _pause(self, error: Exception) -> None:
        self._failures += 1
        self._log.warning("change feed not read", error=describe(error), trace=stack_frames(error))
        await asyncio.sleep(self._policy.delay(self._failures, self._random))
