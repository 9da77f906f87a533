"""
What the bridge learned of reports, and what it queues for it, in one transaction.

Blocking: call it from a thread. The change feed and the status poll both end here.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy import (
    BigInteger,
    Column,
    Connection,
    Integer,
    MetaData,
    Table,
    Text,
    bindparam,
    select,
    text,
)

from bridge.delivery.announcing import News, deliveries, news_of
from bridge.delivery.destinations import Destination
from bridge.engine_client.models import Change, ChangePage, OrderKey
from bridge.queue.outbox import Outbox
from bridge.store import order_index, order_saving
from bridge.store.database import Database
from bridge.store.order_index import Key
from mappings.results import ResultEvent

NEVER = 2**62
"""When a report that needs no more asking is asked for again, in ms."""

_seen = Table(
    "report_seen",
    MetaData(),
    *(Column(name, Text) for name in ("site", "accession", "mrn", "report_id", "status")),
    *(Column(name, Integer) for name in ("final", "addenda")),
    *(Column(name, BigInteger) for name in ("changed_at", "check_at")),
)

_SEEN = select(_seen).where(
    _seen.c.site == bindparam("site"),
    _seen.c.accession.in_(bindparam("accessions", expanding=True)),
)

_REMEMBER = text(
    """
    INSERT INTO report_seen (site, accession, mrn, report_id, status, final, addenda, changed_at,
                             check_at)
    VALUES (:site, :accession, :mrn, :report_id, :status, :final, :addenda, :changed_at, :check_at)
    ON CONFLICT (site, accession, mrn) DO UPDATE SET
        report_id = excluded.report_id, status = excluded.status, final = excluded.final,
        addenda = excluded.addenda, changed_at = excluded.changed_at,
        check_at = excluded.check_at
    """
)

_ADVANCE = text(
    """
    INSERT INTO feed_cursor (feed, cursor) VALUES (:feed, :cursor)
    ON CONFLICT (feed) DO UPDATE SET cursor = excluded.cursor
    WHERE feed_cursor.cursor < excluded.cursor
    """
)


@dataclass(frozen=True, slots=True)
class Seen:
    """What was known of an order's report when we last heard of it; times in ms."""

    key: Key
    report_id: str
    status: str
    final: bool
    addenda: int
    changed_at: int
    check_at: int = NEVER


class Learner:
    """Writes down what happened to reports, and what is owed for it."""

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

    def adopt(self, destinations: Sequence[Destination]) -> None:
        """Go on with other definitions (a mapping was activated)."""
        self._destinations = tuple(destinations)

    def cursor(self, feed: str) -> int:
        """Give where a feed was read to; 0 at first."""
        with self.database.read() as connection:
            found = connection.execute(
                text("SELECT cursor FROM feed_cursor WHERE feed = :feed"), {"feed": feed}
            ).scalar()
            return int(found or 0)

    def learn(self, feed: str, page: ChangePage) -> int:
        """Take a page of the feed in; give how many deliveries it brought."""
        with self.database.write() as connection:
            self.database.serialize(connection, f"feed {feed}")
            records = [change.record for change in page.changes]
            reports = {_key(order): each.report_id for each in records for order in each.orders}
            order_saving.set_reports(connection, reports)
            anchors = [_anchor(change) for change in page.changes if change.record.orders]
            known = seen_of(connection, anchors)
            released: dict[Key, Seen] = {}
            queued = sum(
                self._learn_change(connection, change, known, released)
                for change in page.changes
                if change.record.orders
            )
            remember(connection, list(released.values()))
            connection.execute(_ADVANCE, {"feed": feed, "cursor": page.cursor})
            return queued

    def _learn_change(
        self,
        connection: Connection,
        change: Change,
        known: dict[Key, Seen],
        released: dict[Key, Seen],
    ) -> int:
        record, anchor = change.record, _anchor(change)
        before = known.get(anchor)
        addenda = before.addenda if before and before.report_id == record.report_id else 0
        news = news_of(change, addenda)
        if change.release is not None:
            known[anchor] = released[anchor] = _after_release(change, anchor, news, addenda)
        return self.queue(connection, news)

    def queue(self, connection: Connection, news: Sequence[News]) -> int:
        """Queue what is owed for news, within the caller's transaction; give how many were new."""
        return self._outbox.enqueue(connection, deliveries(news, self._destinations), self.clock())


def _after_release(change: Change, anchor: Key, news: Sequence[News], addenda: int) -> Seen:
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


def seen_of(connection: Connection, keys: Sequence[Key]) -> dict[Key, Seen]:
    """Read what was known of these orders' reports: by site and accession, as in `order_index`."""
    asked = set(keys)
    found = [
        Seen(
            Key(row.site, row.mrn, row.accession),
            row.report_id,
            row.status,
            bool(row.final),
            row.addenda,
            row.changed_at,
            row.check_at,
        )
        for site, accessions in order_index.by_site(asked)
        for row in connection.execute(_SEEN, {"site": site, "accessions": accessions})
    ]
    return {each.key: each for each in found if each.key in asked}


def remember(connection: Connection, seen: Sequence[Seen]) -> None:
    """Write down what is known now."""
    rows: list[Mapping[str, object]] = [
        {
            **each.key._asdict(),
            "report_id": each.report_id,
            "status": each.status,
            "final": int(each.final),
            "addenda": each.addenda,
            "changed_at": each.changed_at,
            "check_at": each.check_at,
        }
        for each in seen
    ]
    if rows:
        connection.execute(_REMEMBER, rows)


def _anchor(change: Change) -> Key:
    return _key(change.record.orders[0])


def _key(order: OrderKey) -> Key:
    return Key(order.site, order.mrn, order.accession)
