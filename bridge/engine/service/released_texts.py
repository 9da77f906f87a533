"""
Texts of released reports, for pages of the change feed and for status records.

Texts, times and people are those of the JSON export without images, tags and preliminary reads. Two
statements read them for all reports of a page.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final

from sqlalchemy import Connection

from bridge.engine.documents.exports.json_record import timestamp
from bridge.engine.rules.lifecycle import AddendumState, ReleaseKind
from bridge.engine.rules.text.document import from_text
from bridge.engine.rules.text.plain_text import plain_text
from bridge.engine.service.change_feed import FeedPage, read_changes
from bridge.engine.service.reports.export import utc_time
from bridge.store.statements import (
    StatementResult,
    bind_keys,
    execute_all,
    execute_keys,
    key_statement,
    stored_json,
)

TEXT_RELEASES = frozenset({ReleaseKind.FINAL.value, ReleaseKind.ADDENDUM.value})
"""Kinds of releases that have a text. A retraction has none."""

MAX_CHARACTERS: Final = 16_000_000
"""Maximum number of characters of the texts of several reports; the others get no text."""

# Each release is read with these statements: they bypass SQLAlchemy's statement objects.
_REPORT_TEXTS: Final = key_statement(
    """
    SELECT pk, report_id, content_text, document IS NULL AS is_plain, signed_at, signed_by
    FROM engine_report
    WHERE report_id IN :reports AND signed_at IS NOT NULL
    """,
    "reports",
    "text",
)
_ADDENDUM_TEXTS: Final = key_statement(
    """
    SELECT d.report_pk, d.content_text, d.document IS NULL AS is_plain, d.signed_at, d.signed_by
    FROM engine_report AS r JOIN engine_addendum AS d ON d.report_pk = r.pk
    WHERE r.report_id IN :reports AND d.state = :signed
    ORDER BY d.report_pk, d.signed_at, d.number
    """,
    "reports",
    "text",
)
_SIZES: Final = key_statement(
    """
    SELECT r.report_id, length(r.content_text) + (
        SELECT coalesce(sum(length(d.content_text)), 0) FROM engine_addendum AS d
        WHERE d.report_pk = r.pk AND d.state = :signed
    ) AS characters
    FROM engine_report AS r WHERE r.report_id IN :reports AND r.signed_at IS NOT NULL
    """,
    "reports",
    "text",
)


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
    return list(dict.fromkeys(str(each["reportId"]) for each in changes if _releases_text(each)))


def report_texts(connection: Connection, reports: Sequence[str]) -> dict[str, dict[str, Any]]:
    """
    Return the signed texts of reports by id.

    Deleted and unsigned reports are absent, and those whose text does not fit into MAX_CHARACTERS.
    """
    if len(reports) > 1:
        reports = _select_fitting(connection, reports)
    if not reports:
        return {}
    statements = [
        bind_keys(connection, _REPORT_TEXTS, reports),
        bind_keys(connection, _ADDENDUM_TEXTS, reports, signed=AddendumState.SIGNED.value),
    ]
    return _by_report(*execute_all(connection, statements))


def _select_fitting(connection: Connection, reports: Sequence[str]) -> list[str]:
    """Return the reports whose texts have at most MAX_CHARACTERS together, earlier ones first."""
    rows = execute_keys(connection, _SIZES, reports, signed=AddendumState.SIGNED.value)
    sizes = {row.report_id: int(row.characters) for row in rows}
    fitting, left = [], MAX_CHARACTERS
    for each in reports:
        if sizes.get(each, 0) <= left:
            left -= sizes.get(each, 0)
            fitting.append(each)
    return fitting


def _by_report(found: StatementResult, added: StatementResult) -> dict[str, dict[str, Any]]:
    signed = {row.pk: row for row in found}
    addenda: dict[int, list[dict[str, Any]]] = {key: [] for key in signed}
    for row in added:
        if row.report_pk in addenda:
            addenda[row.report_pk].append(_text_json(row))
    return {
        row.report_id: {"reportInfo": _text_json(row), "addendumInfo": addenda[key]}
        for key, row in signed.items()
    }


def with_texts(
    changes: Iterable[Mapping[str, Any]], found: Mapping[str, Any]
) -> tuple[Mapping[str, Any], ...]:
    """Add `text` to the changes that release one of the given texts."""
    return tuple(
        {**each, "text": found[each["reportId"]]}
        if _releases_text(each) and each["reportId"] in found
        else each
        for each in changes
    )


def _releases_text(change: Mapping[str, Any]) -> bool:
    return (change["release"] or {}).get("kind") in TEXT_RELEASES


def _text_json(row: Any) -> dict[str, Any]:
    text = row.content_text
    return {
        "content": plain_text(from_text(text)) if row.is_plain else text,
        "signedAt": timestamp(utc_time(row.signed_at)),
        "signedBy": _person(stored_json(row.signed_by)),
    }


def _person(stored: Mapping[str, Any] | None) -> dict[str, str] | None:
    if not stored:
        return None
    return {name: str(stored.get(name, "")) for name in ("name", "email")}
