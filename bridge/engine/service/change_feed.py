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

from pydantic_core import to_json
from sqlalchemy import Connection, Select, Text, bindparam, cast, delete, func, select

from bridge.contract import MAX_MARKS, mark_cursor, split_cursor
from bridge.engine.errors import CursorBeyondEnd, CursorOfAnotherFeed
from bridge.engine.records.tables import Report, ReportRelease
from bridge.engine.rules.timestamps import iso
from bridge.engine.service.report_status import GroupOrder, ReportContext
from bridge.engine.service.work import CHANGES, ChangeEvent, Work
from bridge.store.statements import (
    DialectStatement,
    StatementResult,
    bind,
    dialect_statement,
    execute_all,
    execute_bound,
    is_postgresql,
    stored_json,
)

MAX_PAGE_CHARACTERS: Final = 16_000_000
"""Characters of the changes of a page, as JSON, after which the page ends."""

# The bridge polls these statements: they bypass SQLAlchemy's statement objects.
_NEWEST: Final = dialect_statement("SELECT max(cursor) AS newest FROM engine_change")
_PAGE: Final = """
    WITH page AS (
        SELECT cursor, size, sum(size) OVER (ORDER BY cursor) AS total, count(*) OVER () AS found
        FROM (
            SELECT cursor, {size} AS size FROM engine_change
            WHERE cursor > {after} AND {wanted} ORDER BY cursor LIMIT {limit}
        ) AS changes
    )
    SELECT c.cursor, c.at, c.event, c.report_id, c.body, page.found
    FROM page JOIN engine_change AS c ON c.cursor = page.cursor
    WHERE page.total - page.size < {most} ORDER BY c.cursor
"""
"""The first change, and those after it that begin within the limit of the size."""

_NEXT: Final = DialectStatement(
    _PAGE.format(
        size="length(body)",
        wanted="event NOT IN (SELECT value FROM json_each(:without))",
        **{name: f":{name}" for name in ("after", "limit", "most")},
    ),
    _PAGE.format(
        size="octet_length(body::text)",
        wanted="event <> ALL(%(without)s::text[])",
        **{name: f"%({name})s" for name in ("after", "limit", "most")},
    ),
)

# The change at a cursor, and the highest number that was ever assigned, pruned changes included.
_CHANGE_AT: Final = dialect_statement(
    "SELECT report_id, at, event FROM engine_change WHERE cursor = :cursor"
)
_HIGHEST_CURSOR: Final = DialectStatement(
    """
    SELECT coalesce((SELECT max(cursor) FROM engine_change),
        (SELECT seq FROM sqlite_sequence WHERE name = 'engine_change'), 0)
    """,
    """
    SELECT coalesce((SELECT max(cursor) FROM engine_change),
        pg_sequence_last_value(pg_get_serial_sequence('engine_change', 'cursor')::regclass), 0)
    """,
)


@cache
def _changes_of_sites(without: bool) -> Select[Any]:
    """Build the statement; cached because building costs more than executing."""
    size = func.length(cast(CHANGES.c.body, Text)).label("size")
    query = select(CHANGES.c.cursor, size).where(
        CHANGES.c.cursor > bindparam("after"),
        CHANGES.c.site_id.in_(bindparam("sites", expanding=True)),
    )
    if without:
        query = query.where(CHANGES.c.event.not_in(bindparam("without", expanding=True)))
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

    def as_json(self) -> dict[str, Any]:
        """Return the page as HTTP sends it, with times in ISO 8601."""
        changes = [{**each, "at": iso(each["at"])} for each in self.changes]
        return {"changes": changes, "cursor": self.cursor}


def require_cursor(connection: Connection, cursor: int) -> int:
    """
    Return the number of the change that a cursor points to.

    Raise CursorBeyondEnd or CursorOfAnotherFeed if the cursor cannot come from this database, for
    example after a backup was restored. The cursor of a pruned change is accepted.
    """
    position, mark = split_cursor(cursor)
    if position == 0:
        return position
    statements = [
        bind(connection, _HIGHEST_CURSOR),
        bind(connection, _CHANGE_AT, cursor=position),
    ]
    highest, change = execute_all(connection, statements)
    if position > (highest.scalar() or 0):
        raise CursorBeyondEnd(pointer="/after")
    found = change.first()
    if mark is not None and found is not None and mark != _mark(found):
        raise CursorOfAnotherFeed(pointer="/after")
    return position


def cursor_at(connection: Connection, position: int) -> int:
    """Return the cursor of a change with its mark; without a mark if the change was pruned."""
    found = execute_bound(connection, bind(connection, _CHANGE_AT, cursor=position)).first()
    return position if found is None else mark_cursor(position, _mark(found))


def _mark(change: Any) -> int:
    """Return a hash that differs for a change with the same number in a restored database."""
    content = f"{change.report_id} {change.at} {change.event}".encode()
    return int.from_bytes(blake2b(content, digest_size=8).digest()) % MAX_MARKS


def order_json(order: GroupOrder) -> dict[str, Any]:
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
    context: ReportContext, report: Report, now: int, release: ReportRelease | None = None
) -> dict[str, Any]:
    """Return the body of a change: the current state of a report."""
    return {
        "record": context.record(report, now).as_json(),
        "orders": [order_json(order) for order in context.orders],
        "release": {"kind": release.kind.value, "sequence": release.sequence} if release else None,
    }


def announce(
    work: Work,
    report: Report,
    event: ChangeEvent,
    *,
    release: ReportRelease | None = None,
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
    omitted = sorted(map(str, without))
    # The newest cursor is read first, so that no later commit is skipped.
    read_newest = bind(connection, _NEWEST)
    if sites is None:
        listed = omitted if is_postgresql(connection) else to_json(omitted).decode()
        read_next = bind(
            connection, _NEXT, after=after, limit=limit, without=listed, most=MAX_PAGE_CHARACTERS
        )
        newest, page = execute_all(connection, [read_newest, read_next])
        return _page(newest, page.all(), after, limit, without)
    newest = execute_bound(connection, read_newest)
    parameters = {
        "after": after,
        "limit": limit,
        "most": MAX_PAGE_CHARACTERS,
        "sites": sorted(sites),
        "without": omitted,
    }
    rows = list(connection.execute(_changes_of_sites(bool(without)), parameters))
    return _page(newest, rows, after, limit, without)


def _page(
    newest: StatementResult, rows: Sequence[Any], after: int, limit: int, without: Collection[str]
) -> FeedPage:
    passed = max(after, newest.scalar() or 0) if without else after
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
    return {**head, **stored_json(row.body)}


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
