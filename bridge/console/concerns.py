"""
What was applied and still wants a person, for those whose sites it is about: to be seen, once.

Names rows, codes and, for whoever may find, the orders and reports they are about. Blocking.
"""

from collections.abc import Collection, Mapping
from typing import Any

from sqlalchemy import ColumnElement, and_, column, func, or_, select, table

from bridge.console import whereabouts
from bridge.console.errors import Unknown
from bridge.console.numbers import numbers, site_numbers
from bridge.index_key import keyed64
from bridge.queue import browse
from bridge.queue.errors import NoSuchRow
from bridge.queue.tables import MESSAGE_NUMBER
from bridge.store.concerns import Subject
from bridge.store.database import Database

MOST_OPEN, MOST_SEEN = 100, 20
_CONCERN = table(
    "concern", *map(column, ("kind", "row_id", "code", "noted_at", "seen_at", "seen_by"))
)
_ORDER = table(
    "bridge_order", *map(column, ("id", "site", "accession", "report_id", "last_message"))
)
_OPEN = _CONCERN.c.seen_at.is_(None)


def count(database: Database, reach: Collection[str] | None) -> int:
    """Count what nobody has seen yet; `reach` None: of all sites."""
    statement = select(func.count()).select_from(_CONCERN).where(_OPEN, *_within(reach))
    with database.read() as connection:
        return connection.execute(statement).scalar_one()


def listed(
    database: Database, reach: Collection[str] | None, *, find: bool
) -> list[dict[str, Any]]:
    """
    List what nobody has seen, newest first, then what was seen last; times in ms.

    `find`: with the orders that each is about.
    """
    told = select(_CONCERN).where(*_within(reach))
    unseen = told.where(_OPEN).order_by(_CONCERN.c.noted_at.desc(), _CONCERN.c.row_id.desc())
    seen = told.where(~_OPEN).order_by(_CONCERN.c.seen_at.desc(), _CONCERN.c.row_id.desc())
    with database.read() as connection:
        rows = [dict(row) for row in connection.execute(unseen.limit(MOST_OPEN)).mappings()]
        rows += [dict(row) for row in connection.execute(seen.limit(MOST_SEEN)).mappings()]
    return [{**row, **_about(database, row, reach, find)} for row in rows]


def site_of_order(database: Database, order: int) -> list[str]:
    """Give the site of an order's row. Raises Unknown."""
    with database.read() as connection:
        found = connection.execute(select(_ORDER.c.site).where(_ORDER.c.id == order)).scalar()
    if found is None:
        raise Unknown
    return [found]


def _within(reach: Collection[str] | None) -> list[ColumnElement[bool]]:
    if reach is None:
        return []
    of_message = select(MESSAGE_NUMBER.c.message_id).where(
        MESSAGE_NUMBER.c.number.in_(map(keyed64, site_numbers(reach))),
        MESSAGE_NUMBER.c.message_id == _CONCERN.c.row_id,
    )
    of_order = select(_ORDER.c.id).where(
        _ORDER.c.id == _CONCERN.c.row_id, _ORDER.c.site.in_(sorted(reach))
    )
    kinds = ((Subject.MESSAGE, of_message), (Subject.ORDER, of_order))
    return [or_(*(and_(_CONCERN.c.kind == kind.value, own.exists()) for kind, own in kinds))]


def _about(
    database: Database, row: Mapping[str, Any], reach: Collection[str] | None, find: bool
) -> dict[str, Any]:
    """Give the message that a concern leads to, and its orders."""
    if row["kind"] == Subject.MESSAGE.value:
        orders = _orders_of_message(database, row["row_id"], reach) if find else []
        return {"message": row["row_id"], "orders": orders}
    with database.read() as connection:
        statement = select(_ORDER).where(_ORDER.c.id == row["row_id"])
        order = connection.execute(statement).mappings().first()
    if order is None:
        return {"message": None, "orders": []}
    told = [{"accession": order["accession"], "report_id": order["report_id"]}] if find else []
    return {"message": order["last_message"], "orders": told}


def _orders_of_message(
    database: Database, message_id: int, reach: Collection[str] | None
) -> list[dict[str, Any]]:
    try:
        own = numbers(browse.message(database, message_id).payload)
    except NoSuchRow:
        return []
    known = whereabouts.orders(database, own.order, reach)
    return [
        {"accession": each["accession"], "report_id": each["report_id"]}
        for each in known
        if each["mrn"] in own.patient
    ]
