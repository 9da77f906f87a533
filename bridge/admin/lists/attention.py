"""
The list of attention items: messages, orders, deliveries and feeds that were noted.

Few items are open at a time, so a page counts rows instead of ids. Groups by cause are in
`bridge.admin.overview.attention`.
"""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

from sqlalchemy import ColumnElement, Connection, and_, func, or_, select

from bridge.admin.errors import InvalidContent
from bridge.admin.lists.listing import (
    MAX_COUNT,
    SORTABLE,
    Access,
    Filters,
    ListPage,
    ListRequest,
    choices_of,
    number_of,
    texts_of,
)
from bridge.index_key import keyed64
from bridge.queue.sites import visible_sites_hashes
from bridge.queue.statements import DELIVERY, MESSAGE_NUMBER
from bridge.store.records.exceptions import ExceptionSubject
from bridge.store.tables import EXCEPTIONS, ORDERS

_ITEM: Final = EXCEPTIONS.c
_FILTERS: Final = frozenset({"subject", "code", "seen", "since", "until"})


@dataclass(frozen=True, slots=True)
class AttentionRow:
    """An attention item: the row that it is about, its code, and who has seen it; times in ms."""

    subject: str
    row_id: int
    code: str
    noted_at: int
    seen_at: int | None
    seen_by: str


def page(connection: Connection, request: ListRequest, access: Access) -> ListPage[AttentionRow]:
    """Return items, newest first; `before` and `next` count rows. Raises InvalidContent."""
    offset = request.before or 0
    if offset > SORTABLE:
        raise InvalidContent(f"only the newest {SORTABLE} items are listed")
    order = (_ITEM.noted_at.desc(), _ITEM.row_id.desc(), _ITEM.code)
    statement = select(EXCEPTIONS).where(*conditions(request.filters, access)).order_by(*order)
    found = connection.execute(statement.offset(offset).limit(request.limit)).all()
    rows = [
        AttentionRow(row.kind, row.row_id, row.code, row.noted_at, row.seen_at, row.seen_by)
        for row in found
    ]
    more = len(rows) == request.limit
    return ListPage(
        rows, offset + request.limit if more else None, None, complete=not more, sortable=False
    )


def count(
    connection: Connection, filters: Filters, access: Access, at_most: int = MAX_COUNT
) -> tuple[int, bool]:
    """Return how many items match, up to `at_most`, and whether that is all of them."""
    some = select(_ITEM.row_id).where(*conditions(filters, access)).limit(at_most + 1)
    number = connection.execute(select(func.count()).select_from(some.subquery())).scalar_one()
    return min(number, at_most), number <= at_most


def conditions(filters: Filters, access: Access) -> list[ColumnElement[bool]]:
    """Return the conditions of items that match and are visible. Raises InvalidContent."""
    if unknown := filters.keys() - _FILTERS:
        raise InvalidContent(f"this list has no filter {min(unknown)[:40]!r}")
    seen = choices_of(filters, "seen", ("yes", "no", "all"))[0] if "seen" in filters else "no"
    found: list[ColumnElement[bool]] = []
    if seen != "all":
        found.append(_ITEM.seen_at.is_(None) if seen == "no" else _ITEM.seen_at.is_not(None))
    if "subject" in filters:
        found.append(_ITEM.kind.in_(choices_of(filters, "subject", list(ExceptionSubject))))
    if "code" in filters:
        found.append(_ITEM.code.in_(texts_of(filters, "code")))
    if "since" in filters:
        found.append(_ITEM.noted_at >= number_of(filters, "since"))
    if "until" in filters:
        found.append(_ITEM.noted_at < number_of(filters, "until"))
    return found if access.sites is None else [*found, _of_sites(access.sites)]


def _of_sites(sites: Collection[str]) -> ColumnElement[bool]:
    """Return the condition that an item is about one of these sites; feeds belong to none."""
    hashes = list(map(keyed64, visible_sites_hashes(sites)))
    of_message = select(MESSAGE_NUMBER.c.message_id).where(
        MESSAGE_NUMBER.c.number.in_(hashes), MESSAGE_NUMBER.c.message_id == _ITEM.row_id
    )
    of_order = select(ORDERS.c.id).where(
        ORDERS.c.id == _ITEM.row_id, ORDERS.c.site.in_(sorted(sites))
    )
    of_delivery = select(DELIVERY.c.id).where(
        DELIVERY.c.id == _ITEM.row_id, DELIVERY.c.sites_hash.in_(hashes)
    )
    kinds = (
        (ExceptionSubject.MESSAGE, of_message),
        (ExceptionSubject.ORDER, of_order),
        (ExceptionSubject.DELIVERY, of_delivery),
    )
    return or_(*(and_(_ITEM.kind == kind.value, rows.exists()) for kind, rows in kinds))
