"""
Change processor: store what the bridge knows of reports and queue the deliveries that follow.

Both in one transaction. The change feed and the status poll end here; the courier composes the
messages when it sends them. Blocking: call it from a thread.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from sqlalchemy import Connection

from bridge.contract import split_cursor
from bridge.delivery.destinations import Destination
from bridge.delivery.known_reports import Seen, remembered, seen_asked
from bridge.delivery.news import News, deliveries, news_of
from bridge.engine_client.models import Change, ChangePage, OrderKey
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
    """Stores what happened to reports, and queues deliveries."""

    def __init__(
        self,
        database: Database,
        outbox: Outbox,
        destinations: Sequence[Destination],
        clock: Callable[[], int],
    ) -> None:
        """Take the bridge's database; `clock` is in milliseconds."""
        self.database = database
        self.clock = clock
        self._outbox = outbox
        self._destinations = tuple(destinations)
        self._replaced: set[str] = set()  # feeds that were replaced once

    def adopt(self, destinations: Sequence[Destination]) -> None:
        """Go on with other definitions (a mapping was activated)."""
        self._destinations = tuple(destinations)

    def cursor(self, feed: str) -> int:
        """Give where a feed was read to; 0 at first."""
        with self.database.read_committed() as connection:
            row = execute(connection, _CURSOR, feed=feed).first()
        if row is None:
            return 0
        if row.replaced_at is not None:
            self._replaced.add(feed)
        # An older release leaves the mark of an earlier cursor behind.
        marked = row.marked is not None and split_cursor(row.marked)[0] == row.cursor
        return int(row.marked if marked else row.cursor)

    def restart(self, feed: str, refused: int, code: str) -> None:
        """
        Read a feed again from its beginning: the service refused our cursor with this code.

        Notes it among what needs attention, unless another node has done both already.
        """
        position = split_cursor(refused)[0]
        with self.database.write() as connection:
            self.database.serialize(connection, f"feed {feed}")
            now = self.clock()
            if execute(connection, _RESTART, feed=feed, cursor=position, now=now).rowcount:
                exceptions.add(connection, ExceptionSubject.FEED, [(now, code)], now)

    def process(self, feed: str, page: ChangePage) -> int:
        """Take a page of the feed in; give how many deliveries it brought."""
        changes = [change for change in page.changes if change.record.orders]
        # A power cut that undoes this undoes the cursor too: the page is read again.
        with self.database.write_without_sync() as connection:
            known = self._begun(connection, feed, changes)
            releases, seen = self._owed(changes, known)
            if feed in self._replaced:
                releases = _renamed(connection, releases)
            queued = self._outbox.enqueue(connection, releases, self.clock())
            position = split_cursor(page.cursor)[0]
            marked = None if position == page.cursor else page.cursor
            advance = bind(connection, _ADVANCE, feed=feed, cursor=position, marked=marked)
            execute_all(connection, [*remembered(connection, seen), advance])
        return queued

    def _begun(
        self, connection: Connection, feed: str, changes: Sequence[Change]
    ) -> dict[OrderIndexKey, Seen]:
        """Take our turn with a feed, note the reports of orders; give what was known."""
        reports = {_key(k): each.record.report_id for each in changes for k in each.record.orders}
        before = [
            *self.database.serialize_statements([f"feed {feed}"]),
            *order_writes.bind_reports(connection, reports),
        ]
        seen = seen_asked(connection, [_anchor(change) for change in changes])
        return seen.read(execute_all(connection, [*before, *seen.words])[len(before) :])

    def _owed(
        self, changes: Sequence[Change], before: Mapping[OrderIndexKey, Seen]
    ) -> tuple[list[DeliveryRequest], list[Seen]]:
        """Give what changes owe to the destinations, and what is known of their reports now."""
        known, released = dict(before), dict[OrderIndexKey, Seen]()
        releases: list[DeliveryRequest] = []
        for change in changes:
            anchor = _anchor(change)
            seen = known.get(anchor)
            same = seen is not None and seen.report_id == change.record.report_id
            addenda = seen.addenda if seen is not None and same else 0
            news = news_of(change, addenda)
            if change.release is not None:
                known[anchor] = released[anchor] = _after_release(change, anchor, news, addenda)
            releases += deliveries(news, self._destinations)
        return releases, list(released.values())

    def queue(self, connection: Connection, news: Sequence[News]) -> int:
        """Queue what is owed for news, within the caller's transaction; give how many were new."""
        return self._outbox.enqueue(connection, deliveries(news, self._destinations), self.clock())


def _renamed(connection: Connection, releases: Sequence[DeliveryRequest]) -> list[DeliveryRequest]:
    """
    Give releases of a replaced feed names of their own where others have theirs already.

    A restored service numbers its releases again: what is signed again has the name of what was
    delivered before, and another moment. What is read a second time has the same moment.
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
    change: Change, anchor: OrderIndexKey, news: Sequence[News], addenda: int
) -> Seen:
    retracted = any(each.event is ResultEvent.RETRACTION for each in news)
    out = max((each.addenda for each in news), default=addenda)
    return Seen(
        anchor,
        change.record.report_id,
        change.record.status.value,
        final=not retracted,
        addenda=0 if retracted else out,
        changed_at=change.at,
    )


def _anchor(change: Change) -> OrderIndexKey:
    return _key(change.record.orders[0])


def _key(order: OrderKey) -> OrderIndexKey:
    return OrderIndexKey(order.site, order.mrn, order.accession)
