"""
Events of a report for its open pages (interface reference, Events): each change once, in commit
order.

This module only reads. `bridge.engine.live` waits for the next change.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import func
from sqlmodel import Session, col, select

from bridge.engine.documents.exports.html import fragment
from bridge.engine.records.tables import Addendum, FeedChange, Report, Signature
from bridge.engine.rules.text.document import Document, from_text, restore
from bridge.engine.service.accounts.sessions import BrowserSession
from bridge.engine.service.accounts.users import find_member
from bridge.engine.service.work import ChangeEvent

LIMIT = 200
"""Changes in one read; the next read returns the rest."""

_OF_ADDENDA = (ChangeEvent.ADDENDUM_SIGNED, ChangeEvent.ADDENDUM_CONTENT_UPDATED)
_OF_REPORTS = (ChangeEvent.REPORT_SIGNED, ChangeEvent.REPORT_CONTENT_UPDATED)
_SIGNED = (ChangeEvent.REPORT_SIGNED, ChangeEvent.ADDENDUM_SIGNED)
_NEW_OWNER = (ChangeEvent.REPORT_TRANSFERRED, ChangeEvent.REPORT_OPENED)


@dataclass(frozen=True, slots=True)
class PageEvent:
    """One change as an event for a page; `data` is JSON."""

    cursor: int
    data: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class _Text:
    """The text at a change; the document may be missing if only text was stored."""

    content: str = ""
    document: Any = None


def latest_cursor(orm: Session, report_id: str) -> int:
    """Return the cursor of a report's newest change, 0 before the first."""
    query = select(func.max(FeedChange.cursor)).where(FeedChange.report_id == report_id)
    return orm.exec(query).one() or 0


def read_page_events(orm: Session, session: BrowserSession, after: int) -> list[PageEvent]:
    """Return the changes of a session's report after a cursor, oldest first."""
    query = (
        select(FeedChange)
        .where(FeedChange.report_id == session.report_id, col(FeedChange.cursor) > after)
        .order_by(col(FeedChange.cursor))
        .limit(LIMIT)
    )
    changes = orm.exec(query).all()
    if not changes:
        return []
    report = orm.exec(select(Report).where(Report.report_id == session.report_id)).first()
    return [
        PageEvent(change.cursor or 0, _event_data(orm, session, report, change))
        for change in changes
    ]


def _event_data(
    orm: Session, session: BrowserSession, report: Report | None, change: FeedChange
) -> dict[str, Any]:
    record = change.body["record"]
    data: dict[str, Any] = {
        "cursor": change.cursor,
        "event": change.event,
        "at": event_time(change.at),
        "own": change.session_pk == session.pk,
        "gone": report is None,
        "status": record["status"],
        "record": record,
    }
    event = ChangeEvent(change.event)
    if event in _SIGNED:
        data["signedAt"] = event_time(change.at)
    if event in _NEW_OWNER:
        data |= _new_owner(orm, session, str(record["userEmail"]))
    text = _text(orm, report, change, event)
    if text is not None:
        data["content"] = text.content
        data["reportContent"] = report.content_text if report else ""
        if event in _SIGNED:
            data["html_content"] = fragment(_document(text))
    return data


def _new_owner(orm: Session, session: BrowserSession, email: str) -> dict[str, Any]:
    owner = find_member(orm.connection(), session.site_id, email)
    return {
        "mine": owner is not None and owner.id == session.account_id,
        "newOwnerName": email if owner is None else owner.shown,
    }


def _text(
    orm: Session, report: Report | None, change: FeedChange, event: ChangeEvent
) -> _Text | None:
    """Return the text of a change: the signed text of a signing, else the current text."""
    if event in _OF_REPORTS:
        signed = _signed_text(orm, report, change) if event in _SIGNED else None
        present = _Text(report.content_text, report.document) if report else _Text()
        return signed or present
    if event in _OF_ADDENDA:
        return _addendum_text(orm, report, change)
    return None


def _signed_text(orm: Session, report: Report | None, change: FeedChange) -> _Text | None:
    if report is None:
        return None
    query = select(Signature).where(
        Signature.report_pk == report.pk, Signature.signed_at == change.at
    )
    found = orm.exec(query).first()
    return None if found is None else _Text(found.content_text, found.document)


def _addendum_text(orm: Session, report: Report | None, change: FeedChange) -> _Text:
    number = change.body.get("addendum")
    if report is None:
        return _Text()
    query = select(Addendum).where(Addendum.report_pk == report.pk, Addendum.number == number)
    found = orm.exec(query).first()
    if found is not None:
        return _Text(found.content_text, found.document)
    return _cleared(orm, report, number)


def _cleared(orm: Session, report: Report, number: object) -> _Text:
    query = (
        select(Signature)
        .where(Signature.report_pk == report.pk, col(Signature.withdrawn_at).is_not(None))
        .order_by(col(Signature.pk).desc())
    )
    for signature in orm.exec(query):
        for addendum in signature.cleared or ():
            if addendum.get("number") == number:
                return _Text(str(addendum.get("content", "")), addendum.get("document"))
    return _Text()


def _document(text: _Text) -> Document:
    return from_text(text.content) if text.document is None else restore(text.document)


def event_time(milliseconds: int) -> str:
    """Format milliseconds since the epoch as events do: ISO 8601 in UTC with `Z`."""
    when = datetime.fromtimestamp(milliseconds / 1000, UTC)
    return when.isoformat(timespec="milliseconds").replace("+00:00", "Z")
