"""
Orders that a page opened and left without a word: they return to the worklist.

Opening an order makes it the reader's Draft at once, so that nobody reads it twice. It stays theirs
while their page is open, and for good once something is saved. When the page is left, its session
ends, or its browser crashes, an untouched order returns to the worklist, without the initial text
that the opening wrote. A page that was only cut off opens its order again when it is back, if
nobody else has.
"""

from typing import Any

from sqlalchemy import Connection, update
from sqlmodel import select

from bridge.contract import ReportStatus
from bridge.engine.records.tables import Report
from bridge.engine.service.accounts.sessions import SESSIONS
from bridge.engine.service.launch.report_updates import assign_report, unassign_report
from bridge.engine.service.signing.lease import (
    LOADING_MS,
    WINDOWS,
    Editor,
    loading_session,
    open_windows,
)
from bridge.engine.service.work import Work
from bridge.store.lease_clock import lease_time

SILENT_MS = 300_000
"""
A window whose page has sent no request for this time does not keep an untouched order.

Pages send one every ten seconds, hidden ones every minute. The connection of a machine that lost
its power looks open for longer.
"""

MAX_RETURNED = 100
"""Reports that one sweep returns; the next one continues."""

REPORTS = Report.__table__  # type: ignore[attr-defined]
RETURNED = "returned"
"""The member of a session's details that says that its untouched order has returned."""


def find_untouched(connection: Connection) -> list[str]:
    """Return the ids of untouched reports, oldest opening first."""
    query = (
        select(REPORTS.c.report_id)
        .where(REPORTS.c.untouched_since.is_not(None))
        .order_by(REPORTS.c.untouched_since)
        .limit(MAX_RETURNED)
    )
    return list(connection.execute(query).scalars())


def return_abandoned(work: Work, report_id: str) -> bool:
    """Return an untouched report if none of its owner's pages is open; True if it returned."""
    query = select(Report).where(Report.report_id == report_id).with_for_update()
    report = work.session.exec(query).first()
    if report is None or not _is_untouched(report) or _is_open(work, report):
        return False
    _return(work, report)
    return True


def return_left(work: Work, editor: Editor, report: Report) -> None:
    """Return a locked report whose page is being left, unless its reader has another page open."""
    if not _is_untouched(report) or report.owner_id != editor.account_id:
        return
    if loading_session(work, editor, report) or _other_window(work, editor, report):
        return
    _return(work, report)


def open_again(work: Work, editor: Editor, report: Report) -> None:
    """Open a locked order again for a page that was cut off, if it has returned and is free."""
    if report.status is not ReportStatus.ORDERED or report.owner_id is not None:
        return
    details = SESSIONS.c.details
    session = SESSIONS.c.pk == editor.session_pk
    row = work.connection.execute(select(details).where(session)).scalar_one_or_none() or {}
    if row.get(RETURNED) != report.report_id:
        return
    kept = {name: value for name, value in row.items() if name != RETURNED}
    work.connection.execute(update(SESSIONS).where(session).values(details=kept))
    assign_report(work, report, editor.account_id, untouched=True)


def _is_untouched(report: Report) -> bool:
    return report.untouched_since is not None and report.status is ReportStatus.DRAFT


def _return(work: Work, report: Report) -> None:
    for row in _sessions(work, report):
        details = {**row.details, RETURNED: report.report_id}
        session = SESSIONS.c.pk == row.pk
        work.connection.execute(update(SESSIONS).where(session).values(details=details))
    if report.content_text == report.key_findings:  # the initial text; the next opening writes it
        report.document = report.template_number = None
        report.content_text = report.key_findings = ""
    unassign_report(work, report)


def _is_open(work: Work, report: Report) -> bool:
    """True if a page of the owner is open, is loading, or was cut off a moment ago."""
    moment = lease_time(work.connection, work.now)
    window = (
        select(WINDOWS.c.session_pk)
        .join(SESSIONS, SESSIONS.c.pk == WINDOWS.c.session_pk)
        .where(
            WINDOWS.c.report_id == report.report_id,
            WINDOWS.c.account_id == report.owner_id,
            SESSIONS.c.last_seen_at > work.now - SILENT_MS,
            *open_windows(moment),
        )
    )
    if work.connection.execute(window).first() is not None:
        return True
    return any(row.last_seen_at > work.now - LOADING_MS for row in _sessions(work, report))


def _sessions(work: Work, report: Report) -> list[Any]:
    query = select(SESSIONS.c.pk, SESSIONS.c.details, SESSIONS.c.last_seen_at).where(
        SESSIONS.c.account_id == report.owner_id,
        SESSIONS.c.ended_at.is_(None),
        SESSIONS.c.details["report_id"].as_string() == report.report_id,
    )
    return list(work.connection.execute(query))


def _other_window(work: Work, editor: Editor, report: Report) -> bool:
    query = select(WINDOWS.c.session_pk).where(
        WINDOWS.c.report_id == report.report_id,
        WINDOWS.c.account_id == editor.account_id,
        WINDOWS.c.session_pk != editor.session_pk,
        *open_windows(lease_time(work.connection, work.now)),
    )
    return work.connection.execute(query).first() is not None
