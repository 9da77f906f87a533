"""
What changes of the feed released, in words: the signed report and its addenda as they are now.

The same texts, times and people as the JSON export's, without pictures, tags and preliminary
reads; for a whole page of the feed in two statements.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, bindparam, select

from bridge.engine.documents.record import timestamp
from bridge.engine.records.tables import Addendum, Report, metadata
from bridge.engine.rules.document import from_text, plain_text
from bridge.engine.rules.status import AddendumState, ReleaseKind
from bridge.engine.service.export import moment

TOLD = frozenset({ReleaseKind.FINAL.value, ReleaseKind.ADDENDUM.value})
"""Releases that say something: a retraction takes back."""

_REPORTS = metadata.tables[str(Report.__tablename__)]
_ADDENDA = metadata.tables[str(Addendum.__tablename__)]

_SAID = ("content_text", "document", "signed_at", "signed_by")
# Made once: to make a statement costs more than to run it.
_REPORT_TEXTS = select(
    *(_REPORTS.c[name] for name in ("pk", "report_id", "site_id", *_SAID)),
).where(_REPORTS.c.report_id.in_(bindparam("reports", expanding=True)))
_ADDENDUM_TEXTS = (
    select(*(_ADDENDA.c[name] for name in ("report_pk", *_SAID)))
    .where(
        _ADDENDA.c.report_pk.in_(bindparam("keys", expanding=True)),
        _ADDENDA.c.state == AddendumState.SIGNED,
    )
    .order_by(_ADDENDA.c.report_pk, _ADDENDA.c.signed_at, _ADDENDA.c.number)
)


def released_reports(changes: Iterable[Mapping[str, Any]]) -> list[str]:
    """Name the reports of which a page of the feed releases something to read."""
    return list(dict.fromkeys(str(each["reportId"]) for each in changes if _tells(each)))


def texts(connection: Connection, reports: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Read what reports say, by their ids; absent are those that are gone or not signed."""
    if not reports:
        return {}
    found = connection.execute(_REPORT_TEXTS, {"reports": list(reports)}).all()
    signed = {row.pk: row for row in found if row.signed_at is not None}
    if not signed:
        return {}
    addenda: dict[int, list[dict[str, Any]]] = {key: [] for key in signed}
    for row in connection.execute(_ADDENDUM_TEXTS, {"keys": list(signed)}):
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
        "signedBy": _person(row.signed_by),
    }


def _person(stored: Mapping[str, Any] | None) -> dict[str, str] | None:
    if not stored:
        return None
    return {name: str(stored.get(name, "")) for name in ("name", "email")}
