"""
What changes of the feed released, in words: the signed report and its addenda as they are now.

The same texts, times and people as the JSON export's, without pictures, tags and preliminary
reads; for a whole page of the feed in two statements.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final

from sqlalchemy import Connection

from bridge.engine.documents.record import timestamp
from bridge.engine.rules.document import from_text
from bridge.engine.rules.plain_text import plain_text
from bridge.engine.rules.status import AddendumState, ReleaseKind
from bridge.engine.service.export import moment
from bridge.engine.service.feed import ChangePage, changes_asked, changes_read, read_changes
from bridge.store.answers import Answer, Words, run_all, stored_json
from bridge.store.steps import among, asked, is_asked_once

TOLD = frozenset({ReleaseKind.FINAL.value, ReleaseKind.ADDENDUM.value})
"""Releases that say something: a retraction takes back."""

# Asked for each release, so in the driver's form.
_REPORT_TEXTS: Final = among(
    """
    SELECT pk, report_id, content_text, document, signed_at, signed_by FROM engine_report
    WHERE report_id IN :reports AND signed_at IS NOT NULL
    """,
    "reports",
    "text",
)
_ADDENDUM_TEXTS: Final = among(
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
) -> tuple[ChangePage, dict[str, dict[str, Any]]]:
    """As `feed.read_changes`, with what `texts` says of the reports that the page releases."""
    if sites is not None or not is_asked_once(connection):
        page = read_changes(connection, sites, after, limit, without)
        return page, texts(connection, released_reports(page.changes))
    asked_for = {
        "after": after,
        "limit": limit,
        "without": sorted(map(str, without)),
        "told": sorted(TOLD),
    }
    asks = [
        *changes_asked(connection, after, limit, without),
        Words(_NEXT_REPORTS, asked_for),
        Words(_NEXT_ADDENDA, {**asked_for, "signed": AddendumState.SIGNED.value}),
    ]
    *answers, found, added = run_all(connection, asks)
    page = changes_read(answers, after, limit, without)
    wanted = released_reports(page.changes)
    said = _by_report(found, added) if wanted else {}
    return page, {name: said[name] for name in wanted if name in said}


def released_reports(changes: Iterable[Mapping[str, Any]]) -> list[str]:
    """Name the reports of which a page of the feed releases something to read."""
    return list(dict.fromkeys(str(each["reportId"]) for each in changes if _tells(each)))


def texts(connection: Connection, reports: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Read what reports say, by their ids; absent are those that are gone or not signed."""
    if not reports:
        return {}
    asks = [
        asked(connection, _REPORT_TEXTS, reports),
        asked(connection, _ADDENDUM_TEXTS, reports, signed=AddendumState.SIGNED.value),
    ]
    return _by_report(*run_all(connection, asks))


def _by_report(found: Answer, added: Answer) -> dict[str, dict[str, Any]]:
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
    return (change["release"] or {}).get("kind") in TOLD


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
