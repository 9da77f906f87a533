"""What was applied and still wants a person, for those whose sites it is about: to be seen, once.

Names rows, codes and, for whoever may find, the orders and reports they are about. Blocking.
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

MOST_OPEN, MOST_SEEN = 100, 20
_CONCERN = table(
    "concern", *map(column, ("kind", "row_id", "code", "noted_at", "seen_at", "seen_by"))
)
_ORDER = table(
    "bridge_order", *map(column, ("id", "site", "accession", "report_id", "last_message"))
)
_OPEN = _CONCERN.c.seen_at.is_(None)


def count_exceptions(database: Database, reach: Collection[str] | None) -> int:
    """Count what nobody has seen yet; `reach` None: of all sites."""
    statement = select(func.count()).select_from(_CONCERN).where(_OPEN, *_within(reach))
    with database.read() as connection:
        return connection.execute(statement).scalar_one()


def list_exceptions(
    database: Database, subjects_of: SubjectReader, reach: Collection[str] | None, *, find: bool
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
    if not find:
        return [{**row, "message": _message(database, row), "orders": []} for row in rows]
    return [{**row, **_about(database, subjects_of, row, reach)} for row in rows]


def site_of_order(database: Database, order: int) -> list[str]:
    """Give the site of an order's row. Raises Unknown."""
    with database.read() as connection:
        found = connection.execute(select(_ORDER.c.site).where(_ORDER.c.id == order)).scalar()
    if found is None:
        raise NoSuchItem
    return [found]


def _within(reach: Collection[str] | None) -> list[ColumnElement[bool]]:
    if reach is None:
        return []
    of_message = select(MESSAGE_NUMBER.c.message_id).where(
        MESSAGE_NUMBER.c.number.in_(map(keyed64, visible_sites_hashes(reach))),
        MESSAGE_NUMBER.c.message_id == _CONCERN.c.row_id,
    )
    of_order = select(_ORDER.c.id).where(
        _ORDER.c.id == _CONCERN.c.row_id, _ORDER.c.site.in_(sorted(reach))
    )
    kinds = ((ExceptionSubject.MESSAGE, of_message), (ExceptionSubject.ORDER, of_order))
    return [or_(*(and_(_CONCERN.c.kind == kind.value, own.exists()) for kind, own in kinds))]


def _message(database: Database, row: Mapping[str, Any]) -> int | None:
    """Return the id of the message that an exception leads to."""
    if row["kind"] == ExceptionSubject.MESSAGE.value:
        return int(row["row_id"])
    order = _order(database, row["row_id"])
    return None if order is None else int(order["last_message"])


def _about(
    database: Database,
    subjects_of: SubjectReader,
    row: Mapping[str, Any],
    reach: Collection[str] | None,
) -> dict[str, Any]:
    """Return the message that an exception leads to, and its orders."""
    if row["kind"] == ExceptionSubject.MESSAGE.value:
        orders = _orders_of_message(database, subjects_of, row["row_id"], reach)
    else:
        order = _order(database, row["row_id"])
        orders = [] if order is None else [order]
    told = [{name: each[name] for name in ("accession", "report_id")} for each in orders]
    return {"message": _message(database, row), "orders": told}


def _order(database: Database, row_id: int) -> Mapping[str, Any] | None:
    with database.read() as connection:
        statement = select(_ORDER).where(_ORDER.c.id == row_id)
        row = connection.execute(statement).mappings().first()
        return None if row is None else dict(row)


def _orders_of_message(
    database: Database, subjects_of: SubjectReader, message_id: int, reach: Collection[str] | None
) -> Sequence[Mapping[str, Any]]:
    try:
        detail = queries.message(database, message_id)
    except NoSuchRow:
        return []
    own = read_numbers(detail.payload).joined(subjects_of(origin_of(detail)))
    known = order_tracking.find_orders(database, own.order, reach)
    return [each for each in known if each["mrn"] in own.patient]
