"""
Change processor: stores the known state of reports and queues deliveries, in one transaction.

The change feed and the status poll call it. The courier composes the messages when it sends them.
Blocking: call it from a thread.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from sqlalchemy import Connection

from bridge.contract import split_cursor
from bridge.delivery.destinations import CompiledDestination
from bridge.delivery.known_reports import KnownReport, query_known_reports, save_statements
from bridge.delivery.report_events import ReportEvent, events_of_change, plan_deliveries
from bridge.engine_client.models import ChangePage, OrderKey, ReportChange
from bridge.queue.deliveries import DeliveryRequest
from bridge.queue.outbox import Outbox
from bridge.store.database import Database
from bridge.store.records import exceptions, order_writes
from bridge.store.records.exceptions import ExceptionSubject
from bridge.store.records.order_index import OrderIndexKey
from bridge.store.statements import (
    bind,
    dialect_statement,
    execute,
    execute_all,
    execute_keys,
    key_statement,
)
from mappings.outbound.results import ResultEvent

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

    def adopt(self, destinations: Sequence[CompiledDestination]) -> None:
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
        # An older version of the product updates `cursor` and leaves `marked` as it was.
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

    def process(self, feed: str, page: ChangePage) -> int:
        """Process a page of the feed; return the number of deliveries queued."""
        changes = [change for change in page.changes if change.record.orders]
        # If a power failure undoes this commit, it undoes the cursor, too: the page is read again.
        with self.database.write_without_sync() as connection:
            known = self._lock_feed(connection, feed, changes)
            releases, reports = self._releases_of(changes, known)
            if feed in self._replaced:
                releases = _with_unused_keys(connection, releases)
            queued = self._outbox.enqueue(connection, releases, self.clock())
            position = split_cursor(page.cursor)[0]
            marked = None if position == page.cursor else page.cursor
            advance = bind(connection, _ADVANCE, feed=feed, cursor=position, marked=marked)
            execute_all(connection, [*save_statements(connection, reports), advance])
        return queued

    def _lock_feed(
        self, connection: Connection, feed: str, changes: Sequence[ReportChange]
    ) -> dict[OrderIndexKey, KnownReport]:
        """Lock a feed, store the report ids of orders, and return the known reports."""
        reports = {_key(k): each.record.report_id for each in changes for k in each.record.orders}
        before = [
            *self.database.serialize_statements([f"feed {feed}"]),
            *order_writes.bind_reports(connection, reports),
        ]
        query = query_known_reports(connection, [_anchor(change) for change in changes])
        return query.read(execute_all(connection, [*before, *query.words])[len(before) :])

    def _releases_of(
        self, changes: Sequence[ReportChange], before: Mapping[OrderIndexKey, KnownReport]
    ) -> tuple[list[DeliveryRequest], list[KnownReport]]:
        """Return the deliveries that follow from changes, and the new state of their reports."""
        known, released = dict(before), dict[OrderIndexKey, KnownReport]()
        releases: list[DeliveryRequest] = []
        for change in changes:
            anchor = _anchor(change)
            report = known.get(anchor)
            same = report is not None and report.report_id == change.record.report_id
            addenda = report.addenda if report is not None and same else 0
            events = events_of_change(change, addenda)
            if change.release is not None:
                known[anchor] = released[anchor] = _after_release(change, anchor, events, addenda)
            releases += plan_deliveries(events, self._destinations)
        return releases, list(released.values())

    def queue(self, connection: Connection, events: Sequence[ReportEvent]) -> int:
        """Queue the deliveries of events in the caller's transaction; return how many were new."""
        return self._outbox.enqueue(
            connection, plan_deliveries(events, self._destinations), self.clock()
        )


def _with_unused_keys(
    connection: Connection, releases: Sequence[DeliveryRequest]
) -> list[DeliveryRequest]:
    """
    Give new keys to releases of a replaced feed if their keys are in use.

    A service restored from a backup reuses the numbers of releases. A report that is signed again
    has the key of an earlier delivery, but another time. An entry that is read twice has the same
    time and keeps its key.
    """
    queued: dict[tuple[str, str], int] = {}
    for name in {each.destination for each in releases}:
        keys = sorted({each.release_key for each in releases if each.destination == name})
        for row in execute_keys(connection, _QUEUED, keys, destination=name):
            queued[name, row.release_key] = row.release_at
    return [
        each
        if queued.get((each.destination, each.release_key), each.release_at) == each.release_at
        else replace(each, release_key=f"{each.release_key}:{each.release_at}")
        for each in releases
    ]


def _after_release(
    change: ReportChange, anchor: OrderIndexKey, events: Sequence[ReportEvent], addenda: int
) -> KnownReport:
    retracted = any(each.event is ResultEvent.RETRACTION for each in events)
    out = max((each.addenda for each in events), default=addenda)
    return KnownReport(
        anchor,
        change.record.report_id,
        change.record.status.value,
        final=not retracted,
        addenda=0 if retracted else out,
        changed_at=change.at,
    )


def _anchor(change: ReportChange) -> OrderIndexKey:
    return _key(change.record.orders[0])


def _key(order: OrderKey) -> OrderIndexKey:
    return OrderIndexKey(order.site, order.mrn, order.accession)
