"""
The change feed: what a change contains, and how pages are read.

A change is

    {cursor, at, event, reportId, record, orders: [tags + Metadata],
     release: {kind, sequence} | null}

Some events have more members. The table numbers the changes. HTTP clients get cursors with a mark
(`bridge.contract.mark_cursor`), by which `require_cursor` recognizes a cursor of another feed. The
HTTP routes wait for the next change.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from hashlib import blake2b
from typing import Any, Final

from sqlalchemy import (
    ColumnElement,
    Connection,
    Row,
    Select,
    Text,
    bindparam,
    cast,
    column,
    delete,
    func,
    select,
    table,
)
from sqlalchemy.dialects.postgresql import REGCLASS

from bridge.contract import MAX_MARKS, mark_cursor, split_cursor
from bridge.contract.errors import ErrorCode
from bridge.engine.errors import EngineError
from bridge.engine.records.tables import Report, ReportOrder
from bridge.engine.service.report_status import ReportContext
from bridge.engine.service.work import CHANGES, ChangeEvent, Work
from bridge.store.columns import one_of

MAX_PAGE_CHARACTERS: Final = 16_000_000
"""Characters of the changes of a page, as JSON, after which the page ends."""

_NEWEST: Final = select(func.max(CHANGES.c.cursor))
_CHANGE_AT: Final = select(CHANGES.c.report_id, CHANGES.c.at, CHANGES.c.event).where(
    CHANGES.c.cursor == bindparam("cursor")
)
_SEQUENCE: Final = table("sqlite_sequence", column("name"), column("seq"))
_LAST_ASSIGNED: Final[Mapping[str, ColumnElement[int]]] = {
    "sqlite": select(_SEQUENCE.c.seq).where(_SEQUENCE.c.name == CHANGES.name).scalar_subquery(),
    "postgresql": func.pg_sequence_last_value(
        cast(func.pg_get_serial_sequence(CHANGES.name, "cursor"), REGCLASS)
    ),
}
"""The highest number that was ever assigned, pruned changes included."""
_HIGHEST: Final = {
    dialect: select(func.coalesce(_NEWEST.scalar_subquery(), last_assigned, 0))
    for dialect, last_assigned in _LAST_ASSIGNED.items()
}


@cache
def _changes(*, of_sites: bool, without: bool) -> Select[Any]:
    """
    Select the first change, and those after it that begin within the limit of the size.

    Cached because building the statement costs more than executing it.
    """
    size = func.length(cast(CHANGES.c.body, Text)).label("size")
    query = select(CHANGES.c.cursor, size).where(CHANGES.c.cursor > bindparam("after"))
    if of_sites:
        query = query.where(one_of(CHANGES.c.site_id, "sites"))
    if without:
        query = query.where(~one_of(CHANGES.c.event, "without"))
    first = query.order_by(CHANGES.c.cursor).limit(bindparam("limit")).subquery()
    total = func.sum(first.c.size).over(order_by=first.c.cursor)
    page = select(
        first.c.cursor, (total - first.c.size).label("before"), func.count().over().label("found")
    ).subquery()
    return (
        select(CHANGES, page.c.found)
        .join(page, page.c.cursor == CHANGES.c.cursor)
        .where(page.c.before < bindparam("most"))
        .order_by(CHANGES.c.cursor)
    )


@dataclass(frozen=True, slots=True)
class FeedPage:
    """Changes in commit order, and the cursor to continue from."""

    changes: tuple[Mapping[str, Any], ...]
    cursor: int


def require_cursor(connection: Connection, cursor: int) -> int:
    """
    Return the number of the change that a cursor points to.

    Raise EngineError if the cursor cannot come from this database, for example after a backup was
    restored. The cursor of a pruned change is accepted.
    """
    position, mark = split_cursor(cursor)
    if position == 0:
        return position
    highest = connection.execute(_HIGHEST[connection.dialect.name]).scalar_one()
    if position > highest:
        raise EngineError(ErrorCode.CURSOR_BEYOND_END, pointer="/after")
    found = connection.execute(_CHANGE_AT, {"cursor": position}).first()
    if mark is not None and found is not None and mark != _mark(found):
        raise EngineError(ErrorCode.CURSOR_OF_ANOTHER_FEED, pointer="/after")
    return position


def cursor_at(connection: Connection, position: int) -> int:
    """Return the cursor of a change with its mark; without a mark if the change was pruned."""
    found = connection.execute(_CHANGE_AT, {"cursor": position}).first()
    return position if found is None else mark_cursor(position, _mark(found))


def _mark(change: Any) -> int:
    """Return a hash that differs for a change with the same number in a restored database."""
    content = f"{change.report_id} {change.at} {change.event}".encode()
    return int.from_bytes(blake2b(content, digest_size=8).digest()) % MAX_MARKS


def order_json(order: ReportOrder | Row[Any]) -> dict[str, Any]:
    """Return all tags of an order, its identity and its Metadata."""
    return {
        **order.tags,
        "SiteID": order.site_id,
        "SiteLocation": order.location,
        "PatientMRN": order.mrn,
        "Accession": order.accession,
        "Metadata": order.order_metadata,
    }


def describe(
    context: ReportContext, report: Report, now: int, release: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Return the body of a change: the current state of a report; `release` is {kind, sequence}."""
    return {
        "record": context.record(report, now).model_dump(mode="json"),
        "orders": [order_json(order) for order in context.orders],
        "release": release,
    }


def announce(
    work: Work,
    report: Report,
    event: ChangeEvent,
    *,
    release: Mapping[str, Any] | None = None,
    context: ReportContext | None = None,
    **more: Any,
) -> None:
    """Announce a change of a report, with its current state; `more` adds members."""
    context = context or ReportContext.of(work.session, report, work.now)
    body = describe(context, report, work.now, release) | more
    work.announce(report.site_id, report.report_id, event, body)


def announce_order_update(work: Work, report: Report) -> None:
    """Announce that orders of a report have changed, once in a transaction."""

    def body() -> dict[str, Any]:
        return describe(ReportContext.of(work.session, report, work.now), report, work.now)

    work.announce_once(report.site_id, report.report_id, ChangeEvent.ORDER_UPDATED, body)


def read_changes(
    connection: Connection,
    sites: Collection[str] | None,
    after: int,
    limit: int,
    without: Collection[str] = (),
) -> FeedPage:
    """
    Return at most `limit` changes after a cursor; `sites` None means every site.

    A page ends with the change that reaches MAX_PAGE_CHARACTERS: a report may have 100 orders.
    Events of `without` are left out, and the returned cursor is after them. Without changes the
    given cursor is returned.
    """
    parameters = {
        "after": after,
        "limit": limit,
        "most": MAX_PAGE_CHARACTERS,
        **({} if sites is None else {"sites": sorted(sites)}),
        **({"without": sorted(map(str, without))} if without else {}),
    }
    # The newest cursor is read first, so that no later commit is skipped.
    newest = connection.execute(_NEWEST).scalar_one() or 0
    if newest <= after:
        return FeedPage((), after)
    query = _changes(of_sites=sites is not None, without=bool(without))
    rows = connection.execute(query, parameters).all()
    passed = max(after, newest) if without else after
    changes = tuple(_as_json(row) for row in rows)
    if rows and (len(rows) == limit or len(rows) < rows[-1].found):
        return FeedPage(changes, rows[-1].cursor)
    return FeedPage(changes, max(passed, rows[-1].cursor) if rows else passed)


def _as_json(row: Any) -> dict[str, Any]:
    head: dict[str, Any] = {
        "cursor": row.cursor,
        "at": row.at,
        "event": row.event,
        "reportId": row.report_id,
    }
    return {**head, **row.body}


def prune_changes(connection: Connection, before: int, limit: int, up_to: int | None = None) -> int:
    """
    Delete at most `limit` changes older than a moment; return their number.

    Changes after the cursor `up_to` are kept.
    """
    conditions = [CHANGES.c.at < before, *([] if up_to is None else [CHANGES.c.cursor <= up_to])]
    old: Sequence[int] = (
        connection.execute(
            select(CHANGES.c.cursor).where(*conditions).order_by(CHANGES.c.cursor).limit(limit)
        )
        .scalars()
        .all()
    )
    if old:
        connection.execute(delete(CHANGES).where(CHANGES.c.cursor.in_(old)))
    return len(old)
