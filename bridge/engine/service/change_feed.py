"""The change feed: what a change says, how it is read back, and the text that a release released.

The service numbers changes; the edge gives out cursors (`bridge.contract.mark_cursor`), which also
say whether the feed is still the one they came from.

    {cursor, at, event, reportId, record, orders: [tags + Metadata],
     release: {kind, sequence} | null}

Waiting for the next change is the edge's business.

The same texts, times and people as the JSON export's, without pictures, tags and preliminary
reads; for a whole page of the feed in two statements.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from hashlib import blake2b
from typing import Any, Final

from pydantic_core import to_json
from sqlalchemy import Connection, Select, bindparam, delete, select

from bridge.contract import MOST_MARKS, mark_cursor, split_cursor
from bridge.engine.documents.exports.json_record import timestamp
from bridge.engine.errors import CursorBeyondEnd, CursorOfAnotherFeed
from bridge.engine.records.tables import Report, ReportRelease
from bridge.engine.rules.status import AddendumState, ReleaseKind
from bridge.engine.rules.text.document import from_text
from bridge.engine.rules.text.plain_text import plain_text
from bridge.engine.rules.timestamps import iso
from bridge.engine.service.report_status import GroupOrder, ReportContext
from bridge.engine.service.reports.export import moment
from bridge.engine.service.work import CHANGES, ChangeEvent, Work
from bridge.store.statements import (
    BoundStatement,
    DialectStatement,
    StatementResult,
    bind,
    bind_keys,
    dialect_statement,
    execute_all,
    execute_bound,
    is_postgresql,
    key_statement,
    stored_json,
)

# What the bridge's follower asks again and again, so in the driver's form.
_NEWEST: Final = dialect_statement("SELECT max(cursor) AS newest FROM engine_change")
_NEXT: Final = DialectStatement(
    """
    SELECT cursor, at, event, report_id, body FROM engine_change
    WHERE cursor > :after AND event NOT IN (SELECT value FROM json_each(:without))
    ORDER BY cursor LIMIT :limit
    """,
    """
    SELECT cursor, at, event, report_id, body FROM engine_change
    WHERE cursor > %(after)s AND event <> ALL(%(without)s::text[])
    ORDER BY cursor LIMIT %(limit)s
    """,
)

# The change at a cursor, and the last number of all that were ever given out, those pruned too.
_AT: Final = dialect_statement(
    "SELECT report_id, at, event FROM engine_change WHERE cursor = :cursor"
)
_END: Final = DialectStatement(
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
def _of_sites(without: bool) -> Select[Any]:  # names the statement
    """Make a statement once: that costs more than to run it."""
    query = select(CHANGES).where(
        CHANGES.c.cursor > bindparam("after"),
        CHANGES.c.site_id.in_(bindparam("sites", expanding=True)),
    )
    if without:
        query = query.where(CHANGES.c.event.not_in(bindparam("without", expanding=True)))
    return query.order_by(CHANGES.c.cursor).limit(bindparam("limit"))


@dataclass(frozen=True, slots=True)
class FeedPage:
    """Changes in commit order, and the cursor to go on from."""

    changes: tuple[Mapping[str, Any], ...]
    cursor: int

    def as_json(self) -> dict[str, Any]:
        """Return the page as the edge sends it, with times in ISO 8601."""
        changes = [{**each, "at": iso(each["at"])} for each in self.changes]
        return {"changes": changes, "cursor": self.cursor}


def require_cursor(connection: Connection, cursor: int) -> int:
    """
    Return the number of the change that a cursor is at.

    Raise CursorBeyondEnd or CursorOfAnotherFeed where the cursor cannot come from this database
    as it is now, such as after a backup was restored. A change that was pruned proves nothing.
    """
    position, mark = split_cursor(cursor)
    if position == 0:
        return position
    end, at = execute_all(
        connection, [bind(connection, _END), bind(connection, _AT, cursor=position)]
    )
    if position > (end.scalar() or 0):
        raise CursorBeyondEnd(pointer="/after")
    found = at.first()
    if mark is not None and found is not None and mark != _mark(found):
        raise CursorOfAnotherFeed(pointer="/after")
    return position


def cursor_at(connection: Connection, position: int) -> int:
    """Return the cursor of a change, with its mark; the number alone where it was pruned."""
    found = execute_bound(connection, bind(connection, _AT, cursor=position)).first()
    return position if found is None else mark_cursor(position, _mark(found))


def _mark(change: Any) -> int:
    """Return what tells a change from another one that a restored database gives its number."""
    content = f"{change.report_id} {change.at} {change.event}".encode()
    return int.from_bytes(blake2b(content, digest_size=8).digest()) % MOST_MARKS


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
    """Return what a change says about a report as it is now."""
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
    """Announce a change of a report, with the report as it is now; `more` adds members."""
    if context is None:
        work.session.flush()
        context = ReportContext.of(work.session, report, work.now)
    body = describe(context, report, work.now, release) | more
    work.announce(report.site_id, report.report_id, event, body)


def read_changes(
    connection: Connection,
    sites: Collection[str] | None,
    after: int,
    limit: int,
    without: Collection[str] = (),
) -> FeedPage:
    """
    Return at most `limit` changes after a cursor; `sites` None means every site.

    Events of `without` are left out, and the cursor passes them. Where nothing was passed, it is
    the one that was given.
    """
    if sites is None:
        answers = execute_all(connection, change_statements(connection, after, limit, without))
        return read_change_page(answers, after, limit, without)
    top = execute_bound(connection, bind(connection, _NEWEST))
    omitted = sorted(map(str, without))
    asked = {"after": after, "limit": limit, "sites": sorted(sites), "without": omitted}
    rows = list(connection.execute(_of_sites(bool(without)), asked))
    return _page(top, rows, after, limit, without)


def change_statements(
    connection: Connection, after: int, limit: int, without: Collection[str]
) -> list[BoundStatement]:
    """Give what `read_changes` asks of every site, to be run with others, these first."""
    omitted = sorted(map(str, without))
    listed = omitted if is_postgresql(connection) else to_json(omitted).decode()
    # The newest is read first: what is committed after this is still to come.
    return [
        bind(connection, _NEWEST),
        bind(connection, _NEXT, after=after, limit=limit, without=listed),
    ]


def read_change_page(
    answers: Sequence[StatementResult], after: int, limit: int, without: Collection[str]
) -> FeedPage:
    """Read the answers to `change_statements`."""
    top, page = answers
    return _page(top, page.all(), after, limit, without)


def _page(
    top: StatementResult, rows: Sequence[Any], after: int, limit: int, without: Collection[str]
) -> FeedPage:
    passed = max(after, top.scalar() or 0) if without else after
    changes = tuple(_as_json(row) for row in rows)
    if len(rows) == limit:
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
    """Forget at most `limit` changes older than a moment, none beyond a cursor; return how many."""
    oldest = [CHANGES.c.at < before, *([] if up_to is None else [CHANGES.c.cursor <= up_to])]
    old: Sequence[int] = (
        connection.execute(
            select(CHANGES.c.cursor).where(*oldest).order_by(CHANGES.c.cursor).limit(limit)
        )
        .scalars()
        .all()
    )
    if old:
        connection.execute(delete(CHANGES).where(CHANGES.c.cursor.in_(old)))
    return len(old)


TEXT_RELEASES = frozenset({ReleaseKind.FINAL.value, ReleaseKind.ADDENDUM.value})
"""Releases that say something: a retraction takes back."""

# Asked for each release, so in the driver's form.
_REPORT_TEXTS: Final = key_statement(
    """
    SELECT pk, report_id, content_text, document, signed_at, signed_by FROM engine_report
    WHERE report_id IN :reports AND signed_at IS NOT NULL
    """,
    "reports",
    "text",
)
_ADDENDUM_TEXTS: Final = key_statement(
    """
    SELECT d.report_pk, d.content_text, d.document, d.signed_at, d.signed_by
    FROM engine_report AS r JOIN engine_addendum AS d ON d.report_pk = r.pk
    WHERE r.report_id IN :reports AND d.state = :signed
    ORDER BY d.report_pk, d.signed_at, d.number
    """,
    "reports",
    "text",
)

# On PostgreSQL asked together with the page that they belong to: what that page releases, or
# what is released since.
_TOLD_NEXT: Final = """ = ANY(
        ARRAY(
            SELECT n.report_id FROM (
                SELECT report_id, body FROM engine_change
                WHERE cursor > %(after)s AND event <> ALL(%(without)s::text[])
                ORDER BY cursor LIMIT %(limit)s
            ) AS n WHERE n.body::jsonb #>> '{release,kind}' = ANY(%(told)s::text[])
        )
    )"""
_LISTED: Final = " = ANY(%(reports)s::text[])"
_NEXT_REPORTS: Final = _REPORT_TEXTS.postgres.replace(_LISTED, _TOLD_NEXT)
_NEXT_ADDENDA: Final = _ADDENDUM_TEXTS.postgres.replace(_LISTED, _TOLD_NEXT)


def read_with_texts(
    connection: Connection,
    sites: Collection[str] | None,
    after: int,
    limit: int,
    without: Collection[str] = (),
) -> tuple[FeedPage, dict[str, dict[str, Any]]]:
    """Return a page as `read_changes` does, and the texts of the reports that it releases."""
    if sites is not None or not is_postgresql(connection):
        page = read_changes(connection, sites, after, limit, without)
        return page, report_texts(connection, released_reports(page.changes))
    asked_for = {
        "after": after,
        "limit": limit,
        "without": sorted(map(str, without)),
        "told": sorted(TEXT_RELEASES),
    }
    asks = [
        *change_statements(connection, after, limit, without),
        BoundStatement(_NEXT_REPORTS, asked_for),
        BoundStatement(_NEXT_ADDENDA, {**asked_for, "signed": AddendumState.SIGNED.value}),
    ]
    *answers, found, added = execute_all(connection, asks)
    page = read_change_page(answers, after, limit, without)
    wanted = released_reports(page.changes)
    said = _by_report(found, added) if wanted else {}
    return page, {name: said[name] for name in wanted if name in said}


def released_reports(changes: Iterable[Mapping[str, Any]]) -> list[str]:
    """Name the reports of which a page of the feed releases something to read."""
    return list(dict.fromkeys(str(each["reportId"]) for each in changes if _tells(each)))


def report_texts(connection: Connection, reports: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Read what reports say, by their ids; absent are those that are gone or not signed."""
    if not reports:
        return {}
    asks = [
        bind_keys(connection, _REPORT_TEXTS, reports),
        bind_keys(connection, _ADDENDUM_TEXTS, reports, signed=AddendumState.SIGNED.value),
    ]
    return _by_report(*execute_all(connection, asks))


def _by_report(found: StatementResult, added: StatementResult) -> dict[str, dict[str, Any]]:
    signed = {row.pk: row for row in found}
    addenda: dict[int, list[dict[str, Any]]] = {key: [] for key in signed}
    for row in added:
        if row.report_pk in addenda:
            addenda[row.report_pk].append(_said(row))
    return {
        row.report_id: {"reportInfo": _said(row), "addendumInfo": addenda[key]}
        for key, row in signed.items()
    }


def with_texts(
    changes: Iterable[Mapping[str, Any]], found: Mapping[str, Any]
) -> tuple[Mapping[str, Any], ...]:
    """Add `text` to the changes that release what was found."""
    return tuple(
        {**each, "text": found[each["reportId"]]}
        if _tells(each) and each["reportId"] in found
        else each
        for each in changes
    )


def _tells(change: Mapping[str, Any]) -> bool:
    return (change["release"] or {}).get("kind") in TEXT_RELEASES


def _said(row: Any) -> dict[str, Any]:
    """Give a text as the export does: what was typed as a document is stored as its text too."""
    text = row.content_text
    return {
        "content": text if row.document is not None else plain_text(from_text(text)),
        "signedAt": timestamp(moment(row.signed_at)),
        "signedBy": _person(stored_json(row.signed_by)),
    }


def _person(stored: Mapping[str, Any] | None) -> dict[str, str] | None:
    if not stored:
        return None
    return {name: str(stored.get(name, "")) for name in ("name", "email")}
