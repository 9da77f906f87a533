"""
The figures of the dashboard: throughput, queue lengths, age of the oldest work; and exceptions.

Exceptions are accepted messages and orders whose outcome needs attention, until a user marks them
as seen. Rows contain ids and codes. Order numbers are added only for users who may search.
Blocking.
"""

import json
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    TableClause,
    and_,
    false,
    func,
    or_,
    select,
)

from bridge.admin.errors import NoSuchItem
from bridge.admin.search import order_tracking
from bridge.admin.search.delivery_reasons import exception_reason
from bridge.admin.search.message_index import (
    SubjectReader,
    origin_of,
    read_numbers,
)
from bridge.index_key import keyed64
from bridge.queue import queries
from bridge.queue.attempts import AttemptKind
from bridge.queue.errors import NoSuchRow
from bridge.queue.listing_rows import Depth
from bridge.queue.retention.rows import id_at, newest_id
from bridge.queue.sites import delivery_sites, visible_sites_hashes
from bridge.queue.statements import DELIVERY, MESSAGE, MESSAGE_NUMBER
from bridge.queue.states import QueueState
from bridge.store.database import Database
from bridge.store.records.exceptions import ExceptionSubject
from bridge.store.tables import DELIVERY_ATTEMPTS, EXCEPTIONS, ORDERS

MINUTE, HOUR = 60_000, 3_600_000
STEPS = 12
"""The number of parts into which the last hour is divided."""
_MAX_COUNTED = 20_000
"""Above this number of rows, counts are taken from ids or from the index alone."""
Depths = Mapping[str, Mapping[QueueState, Depth]]
Names = Collection[str] | None


def read_figures(
    database: Database, now: int, *, listeners: Names = None, destinations: Names = None
) -> dict[str, Any]:
    """
    Return queues, counts of the last minute by listener and destination, and the last hour.

    Times in ms. `listeners` and `destinations` limit the figures; None means all. The counts of
    the last hour cover all connections, so they are left out if `listeners` is given.
    """
    inbox = _limited(_inbox(database), listeners)
    outbox = _limited(queries.open_deliveries(database), destinations)
    with database.read() as connection:
        received = _last_minute(connection, MESSAGE, "received_at", "listener", now)
        sent = _last_minute(connection, DELIVERY, "created_at", "destination", now)
        hour = None
        if listeners is None:
            hour = {
                "received": _last_hour(connection, MESSAGE, "received_at", now),
                "sent": _last_hour(connection, DELIVERY, "created_at", now),
            }
        failed = _failed_attempts(connection, now)
    return {
        "now": now,
        "failed": _limited(failed, destinations),
        "inbox": {name: queue(depths) for name, depths in inbox.items()},
        "outbox": {name: queue(depths) for name, depths in outbox.items()},
        "received": _limited(received, listeners),
        "sent": _limited(sent, destinations),
        "hour": hour,
    }


def _inbox(database: Database) -> Depths:
    """Return open messages by listener; a long queue is one total under the name ''."""
    total = queries.open_messages(database)
    if sum(depth.count for depth in total.values()) > _MAX_COUNTED:
        return {"": total}
    return queries.open_by_listener(database)


def queue(depths: Mapping[QueueState, Depth]) -> dict[str, int | None]:
    """Return the numbers of waiting and parked items, and since when (ms) the oldest waits."""
    open_ = [depths[state] for state in (QueueState.QUEUED, QueueState.CLAIMED) if state in depths]
    parked = depths.get(QueueState.PARKED)
    return {
        "waiting": sum(depth.count for depth in open_),
        "parked": 0 if parked is None else parked.count,
        "oldest": min((depth.oldest for depth in open_ if depth.count), default=None),
    }


def _limited(by_name: Mapping[str, Any], names: Names) -> dict[str, Any]:
    return {name: found for name, found in by_name.items() if names is None or name in names}


def _last_minute(
    connection: Connection, rows: TableClause, time_column: str, name_column: str, now: int
) -> dict[str, dict[str, int]]:
    """Count the rows of the last minute by listener or destination, and by state."""
    newest = newest_id(connection, rows)
    first = max(id_at(connection, rows, time_column, now - MINUTE), newest - _MAX_COUNTED)
    name_of = queries.unindexed(rows.c[name_column])
    counted = select(name_of, rows.c.state, func.count()).where(rows.c.id >= first)
    found: dict[str, dict[str, int]] = {}
    for name, state, number in connection.execute(counted.group_by(name_of, rows.c.state)):
        found.setdefault(name, {})[state] = number
    return found


def _failed_attempts(connection: Connection, now: int) -> dict[str, int]:
    """Count the attempts of the last minute that were not accepted, by destination."""
    attempt = DELIVERY_ATTEMPTS.c
    newest = select(func.coalesce(func.max(attempt.id), 0)).scalar_subquery()
    failed = (
        select(DELIVERY.c.destination, func.count())
        .join_from(DELIVERY_ATTEMPTS, DELIVERY, DELIVERY.c.id == attempt.delivery_id)
        .where(attempt.id > newest - _MAX_COUNTED, attempt.at >= now - MINUTE)
        .where(attempt.kind == AttemptKind.ATTEMPT.value)
        .group_by(DELIVERY.c.destination)
    )
    return {row[0]: row[1] for row in connection.execute(failed)}


def _last_hour(connection: Connection, rows: TableClause, time_column: str, now: int) -> list[int]:
    """Return the numbers of rows in each part of the last hour, oldest part first."""
    newest, part = newest_id(connection, rows), HOUR // STEPS
    first = id_at(connection, rows, time_column, now - HOUR)
    if newest - first < _MAX_COUNTED:
        step = (rows.c[time_column] - (now - HOUR)) // part
        counted = select(step, func.count()).where(rows.c.id >= first).group_by(step)
        found = {int(row[0]): int(row[1]) for row in connection.execute(counted)}
        return [found.get(number, 0) for number in range(STEPS)]
    ids = [first]
    for left in range(STEPS - 1, 0, -1):
        ids.append(id_at(connection, rows, time_column, now - part * left, low=ids[-1]))
    return [max(0, end - begin) for begin, end in zip(ids, [*ids[1:], newest + 1], strict=True)]


MAX_OPEN, MAX_SEEN = 100, 20
_OPEN = EXCEPTIONS.c.seen_at.is_(None)


def count_exceptions(database: Database, visible_sites: Collection[str] | None) -> int:
    """Count the exceptions of these sites that are not marked as seen; None: of all sites."""
    statement = select(func.count()).select_from(EXCEPTIONS).where(_OPEN, *_within(visible_sites))
    with database.read() as connection:
        return connection.execute(statement).scalar_one()


def list_exceptions(
    database: Database,
    subjects_of: SubjectReader,
    visible_sites: Collection[str] | None,
    *,
    with_orders: bool,
    with_texts: bool,
) -> list[dict[str, Any]]:
    """
    List open exceptions, newest first, then those marked as seen last; times in ms.

    `with_texts`: with the texts of receivers, for users who may read content.
    """
    visible = select(EXCEPTIONS).where(*_within(visible_sites))
    row_id = EXCEPTIONS.c.row_id.desc()
    open_ = visible.where(_OPEN).order_by(EXCEPTIONS.c.noted_at.desc(), row_id)
    seen = visible.where(~_OPEN).order_by(EXCEPTIONS.c.seen_at.desc(), row_id)
    with database.read() as connection:
        rows = [dict(row) for row in connection.execute(open_.limit(MAX_OPEN)).mappings()]
        rows += [dict(row) for row in connection.execute(seen.limit(MAX_SEEN)).mappings()]
    return [
        {
            **row,
            "message": _message_id(database, row),
            "orders": _orders(database, subjects_of, row, visible_sites) if with_orders else [],
            "reason": exception_reason(database, row, with_texts=with_texts),
        }
        for row in rows
    ]


def sites_of_delivery(database: Database, delivery_id: int) -> Collection[str]:
    """Return the sites of a delivery. Raises NoSuchItem."""
    try:
        return delivery_sites(queries.delivery(database, delivery_id).orders)
    except NoSuchRow:
        raise NoSuchItem from None


def _within(visible_sites: Collection[str] | None) -> list[ColumnElement[bool]]:
    """Return the condition that an exception is about one of these sites."""
    if visible_sites is None:
        return []
    of_message = select(MESSAGE_NUMBER.c.message_id).where(
        MESSAGE_NUMBER.c.number.in_(map(keyed64, visible_sites_hashes(visible_sites))),
        MESSAGE_NUMBER.c.message_id == EXCEPTIONS.c.row_id,
    )
    of_order = select(ORDERS.c.id).where(
        ORDERS.c.id == EXCEPTIONS.c.row_id, ORDERS.c.site.in_(sorted(visible_sites))
    )
    # As JSON text: `orders` of a delivery has the sites of all its orders.
    texts = [f'"SiteID": {json.dumps(site, ensure_ascii=False)}' for site in sorted(visible_sites)]
    contained = [DELIVERY.c.orders.contains(text, autoescape=True) for text in texts]
    of_delivery = select(DELIVERY.c.id).where(
        DELIVERY.c.id == EXCEPTIONS.c.row_id, or_(false(), *contained)
    )
    kinds = (
        (ExceptionSubject.MESSAGE, of_message),
        (ExceptionSubject.ORDER, of_order),
        (ExceptionSubject.DELIVERY, of_delivery),
    )
    return [or_(*(and_(EXCEPTIONS.c.kind == kind.value, rows.exists()) for kind, rows in kinds))]


def _message_id(database: Database, row: Mapping[str, Any]) -> int | None:
    """Return the message of an exception; for an order, the last message that changed it."""
    if row["kind"] == ExceptionSubject.MESSAGE.value:
        return int(row["row_id"])
    if row["kind"] != ExceptionSubject.ORDER.value:
        return None
    order = _order(database, row["row_id"])
    return None if order is None else int(order["last_message"])


def _orders(
    database: Database,
    subjects_of: SubjectReader,
    row: Mapping[str, Any],
    visible_sites: Collection[str] | None,
) -> list[dict[str, Any]]:
    """Return accession and report of each order that an exception is about."""
    if row["kind"] == ExceptionSubject.MESSAGE.value:
        orders = _orders_of_message(database, subjects_of, row["row_id"], visible_sites)
    elif row["kind"] == ExceptionSubject.DELIVERY.value:
        return _orders_of_delivery(database, row["row_id"])
    elif row["kind"] == ExceptionSubject.FEED.value:
        return []
    else:
        order = _order(database, row["row_id"])
        orders = [] if order is None else [order]
    return [{name: listed[name] for name in ("accession", "report_id")} for listed in orders]


def _orders_of_delivery(database: Database, row_id: int) -> list[dict[str, Any]]:
    try:
        detail = queries.delivery(database, row_id)
    except NoSuchRow:
        return []
    return [
        {"accession": str(order.get("Accession", "")), "report_id": detail.row.report_id}
        for order in detail.orders["orders"]
    ]


def _order(database: Database, row_id: int) -> Mapping[str, Any] | None:
    with database.read() as connection:
        statement = select(ORDERS).where(ORDERS.c.id == row_id)
        row = connection.execute(statement).mappings().first()
        return None if row is None else dict(row)


def _orders_of_message(
    database: Database,
    subjects_of: SubjectReader,
    message_id: int,
    visible_sites: Collection[str] | None,
) -> Sequence[Mapping[str, Any]]:
    try:
        detail = queries.message(database, message_id)
    except NoSuchRow:
        return []
    found = read_numbers(detail.payload).with_subjects(subjects_of(origin_of(detail)))
    orders = order_tracking.find_orders(database, found.order, visible_sites)
    return [order for order in orders if order["mrn"] in found.patient]
