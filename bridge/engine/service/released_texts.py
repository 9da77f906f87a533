"""
Texts of released reports, for pages of the change feed and for status records.

Texts, times and people are those of the JSON export without images, tags and preliminary reads. Two
statements read them for all reports of a page.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final

from sqlalchemy import Connection, func, select

from bridge.engine.records.tables import Addendum, Report, metadata
from bridge.engine.rules.lifecycle import AddendumState, ReleaseKind
from bridge.engine.rules.text.document import from_text
from bridge.engine.rules.text.plain_text import plain_text
from bridge.engine.rules.timestamps import iso_or_none
from bridge.engine.service.change_feed import FeedPage, read_changes
from bridge.store.columns import one_of

REPORTS = metadata.tables[str(Report.__tablename__)]
ADDENDA = metadata.tables[str(Addendum.__tablename__)]
TEXT_RELEASES = frozenset({ReleaseKind.FINAL.value, ReleaseKind.ADDENDUM.value})
"""Kinds of releases that have a text. A retraction has none."""

MAX_CHARACTERS: Final = 16_000_000
"""Maximum number of characters of the texts of several reports; the others get no text."""

_IS_SIGNED: Final = ADDENDA.c.state == AddendumState.SIGNED
_REPORT_TEXTS: Final = select(
    REPORTS.c.pk,
    REPORTS.c.report_id,
    REPORTS.c.content_text,
    REPORTS.c.document.is_(None).label("is_plain"),
    REPORTS.c.signed_at,
    REPORTS.c.signed_by,
).where(one_of(REPORTS.c.report_id, "reports"), REPORTS.c.signed_at.is_not(None))
_ADDENDUM_TEXTS: Final = (
    select(
        ADDENDA.c.report_pk,
        ADDENDA.c.content_text,
        ADDENDA.c.document.is_(None).label("is_plain"),
        ADDENDA.c.signed_at,
        ADDENDA.c.signed_by,
    )
    .join_from(REPORTS, ADDENDA, ADDENDA.c.report_pk == REPORTS.c.pk)
    .where(one_of(REPORTS.c.report_id, "reports"), _IS_SIGNED)
    .order_by(ADDENDA.c.report_pk, ADDENDA.c.signed_at, ADDENDA.c.number)
)
_SIZES: Final = select(
    REPORTS.c.report_id,
    func.length(REPORTS.c.content_text)
    + select(func.coalesce(func.sum(func.length(ADDENDA.c.content_text)), 0))
    .where(ADDENDA.c.report_pk == REPORTS.c.pk, _IS_SIGNED)
    .scalar_subquery(),
).where(one_of(REPORTS.c.report_id, "reports"), REPORTS.c.signed_at.is_not(None))


def read_with_texts(
    connection: Connection,
    sites: Collection[str] | None,
    after: int,
    limit: int,
    without: Collection[str] = (),
) -> tuple[FeedPage, dict[str, dict[str, Any]]]:
    """Return a page as `read_changes` does, and the texts of the reports that it releases."""
    page = read_changes(connection, sites, after, limit, without)
    return page, report_texts(connection, released_reports(page.changes))


def released_reports(changes: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return the ids of the reports whose text a page of the feed releases."""
    return list(
        dict.fromkeys(str(change["reportId"]) for change in changes if _releases_text(change))
    )


def report_texts(connection: Connection, reports: Sequence[str]) -> dict[str, dict[str, Any]]:
    """
    Return the signed texts of reports by id.

    Deleted and unsigned reports are absent, and those whose text does not fit into MAX_CHARACTERS.
    """
    if len(reports) > 1:
        reports = _select_fitting(connection, reports)
    if not reports:
        return {}
    values = {"reports": reports}
    signed = {row.pk: row for row in connection.execute(_REPORT_TEXTS, values)}
    addenda: dict[int, list[dict[str, Any]]] = {key: [] for key in signed}
    for row in connection.execute(_ADDENDUM_TEXTS, values):
        if row.report_pk in addenda:
            addenda[row.report_pk].append(_text_json(row))
    return {
        row.report_id: {"reportInfo": _text_json(row), "addendumInfo": addenda[key]}
        for key, row in signed.items()
    }


def _select_fitting(connection: Connection, reports: Sequence[str]) -> list[str]:
    """Return the reports whose texts have at most MAX_CHARACTERS together, earlier ones first."""
    sizes = dict(map(tuple, connection.execute(_SIZES, {"reports": reports})))
    fitting, left = [], MAX_CHARACTERS
    for report_id in reports:
        if sizes.get(report_id, 0) <= left:
            left -= sizes.get(report_id, 0)
            fitting.append(report_id)
    return fitting


def with_texts(
    changes: Iterable[Mapping[str, Any]], found: Mapping[str, Any]
) -> tuple[Mapping[str, Any], ...]:
    """Add `text` to the changes that release one of the given texts."""
    return tuple(
        {**change, "text": found[change["reportId"]]}
        if _releases_text(change) and change["reportId"] in found
        else change
        for change in changes
    )


def _releases_text(change: Mapping[str, Any]) -> bool:
    return (change["release"] or {}).get("kind") in TEXT_RELEASES


def _text_json(row: Any) -> dict[str, Any]:
    text = row.content_text
    return {
        "content": plain_text(from_text(text)) if row.is_plain else text,
        "signedAt": iso_or_none(row.signed_at),
        "signedBy": _person(row.signed_by),
    }


def _person(stored: Mapping[str, Any] | None) -> dict[str, str] | None:
    if not stored:
        return None
    return {name: str(stored.get(name, "")) for name in ("name", "email")}
