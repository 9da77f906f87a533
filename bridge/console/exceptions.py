"""
Exceptions: accepted messages and orders whose outcome needs attention, until a user reviews them.

Rows contain ids and codes. Order numbers are added only for users who may search. Blocking.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from sqlalchemy import ColumnElement, and_, column, func, or_, select, table

from bridge.console import order_tracking
from bridge.console.errors import NoSuchItem
from bridge.console.message_index import read_numbers, visible_sites_hashes
from bridge.console.ownership import SubjectReader, origin_of
from bridge.index_key import keyed64
from bridge.queue import queries
from bridge.queue.errors import NoSuchRow
from bridge.queue.statements import MESSAGE_NUMBER
from bridge.store.database import Database
from bridge.store.records.exceptions import ExceptionSubject

MAX_OPEN, MAX_REVIEWED = 100, 20
_EXCEPTION = table(
    "concern", *map(column, ("kind", "row_id", "code", "noted_at", "seen_at", "seen_by"))
)
_ORDER = table(
    "bridge_order", *map(column, ("id", "site", "accession", "report_id", "last_message"))
)
_OPEN = _EXCEPTION.c.seen_at.is_(None)


def count_exceptions(database: Database, reach: Collection[str] | None) -> int:
    """Count the exceptions that nobody has reviewed; `reach` None: of all sites."""
    statement = select(func.count()).select_from(_EXCEPTION).where(_OPEN, *_within(reach))
    with database.read() as connection:
        return connection.execute(statement).scalar_one()


def list_exceptions(
    database: Database,
    subjects_of: SubjectReader,
    reach: Collection[str] | None,
    *,
    with_orders: bool,
) -> list[dict[str, Any]]:
    """List open exceptions, newest first, then the last ones reviewed; times in ms."""
    visible = select(_EXCEPTION).where(*_within(reach))
    row_id = _EXCEPTION.c.row_id.desc()
    open_ = visible.where(_OPEN).order_by(_EXCEPTION.c.noted_at.desc(), row_id)
    reviewed = visible.where(~_OPEN).order_by(_EXCEPTION.c.seen_at.desc(), row_id)
    with database.read() as connection:
        rows = [dict(row) for row in connection.execute(open_.limit(MAX_OPEN)).mappings()]
        rows += [dict(row) for row in connection.execute(reviewed.limit(MAX_REVIEWED)).mappings()]
    return [
        {
            **row,
            "message": _message_id(database, row),
            "orders": _orders(database, subjects_of, row, reach) if with_orders else [],
        }
        for row in rows
    ]


def site_of_order(database: Database, order_id: int) -> list[str]:
    """Return the site of an order. Raises NoSuchItem."""
    with database.read() as connection:
        statement = select(_ORDER.c.site).where(_ORDER.c.id == order_id)
        found = connection.execute(statement).scalar()
    if found is None:
        raise NoSuchItem
    return [found]


def _within(reach: Collection[str] | None) -> list[ColumnElement[bool]]:
    """Return the condition that an exception is about one of these sites."""
    if reach is None:
        return []
    of_message = select(MESSAGE_NUMBER.c.message_id).where(
        MESSAGE_NUMBER.c.number.in_(map(keyed64, visible_sites_hashes(reach))),
        MESSAGE_NUMBER.c.message_id == _EXCEPTION.c.row_id,
    )
    of_order = select(_ORDER.c.id).where(
        _ORDER.c.id == _EXCEPTION.c.row_id, _ORDER.c.site.in_(sorted(reach))
    )
    kinds = ((ExceptionSubject.MESSAGE, of_message), (ExceptionSubject.ORDER, of_order))
    return [or_(*(and_(_EXCEPTION.c.kind == kind.value, own.exists()) for kind, own in kinds))]


def _message_id(database: Database, row: Mapping[str, Any]) -> int | None:
    """Return the message of an exception; for an order, the last message that changed it."""
    if row["kind"] == ExceptionSubject.MESSAGE.value:
        return int(row["row_id"])
    order = _order(database, row["row_id"])
    return None if order is None else int(order["last_message"])


def _orders(
    database: Database,
    subjects_of: SubjectReader,
    row: Mapping[str, Any],
    reach: Collection[str] | None,
) -> list[dict[str, Any]]:
    """Return accession and report of each order that an exception is about."""
    if row["kind"] == ExceptionSubject.MESSAGE.value:
        orders = _orders_of_message(database, subjects_of, row["row_id"], reach)
    else:
        order = _order(database, row["row_id"])
        orders = [] if order is None else [order]
    return [{name: each[name] for name in ("accession", "report_id")} for each in orders]


def _order(database: Database, row_id: int) -> Mapping[str, Any] | None:
    with database.read() as connection:
        statement = select(_ORDER).where(_ORDER.c.id == row_id)
        row = connection.execute(statement).mappings().first()
        return None if row is None else dict(row)


def _orders_of_message(
    database: Database,
    subjects_of: SubjectReader,
    message_id: int,
    reach: Collection[str] | None,
) -> Sequence[Mapping[str, Any]]:
    try:
        detail = queries.message(database, message_id)
    except NoSuchRow:
        return []
    found = read_numbers(detail.payload).with_subjects(subjects_of(origin_of(detail)))
    orders = order_tracking.find_orders(database, found.order, reach)
    return [each for each in orders if each["mrn"] in found.patient]
