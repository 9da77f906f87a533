"""
Recall a signed report within its cooling period (interface document, unsign).

What was made after signing is cleared; the text that was signed stays in the history. An
addendum that had already been delivered is retracted downstream.
"""

from typing import Any

from sqlalchemy import delete
from sqlmodel import col, select

from bridge.engine.records.tables import Addendum, Billing, Report, Share, Signature
from bridge.engine.rules.identity import Triple
from bridge.engine.rules.lifecycle import Event
from bridge.engine.rules.status import ReleaseKind, Status
from bridge.engine.service import feed, releases
from bridge.engine.service.finding import key_of, lock_report
from bridge.engine.service.lifecycle import addenda_of, prelim_reads, take
from bridge.engine.service.work import ChangeEvent, Work


def unsign(work: Work, triple: Triple) -> Report:
    """Recall the report of an order."""
    return unsign_report(work, lock_report(work, triple).report)


def unsign_report(work: Work, report: Report) -> Report:
    """Recall a locked report: Preliminary if it has an active preliminary read, else Draft."""
    take(work, report, Event.UNSIGN)
    signed_at = report.signed_at or 0
    releases.withdraw(work, report)
    addenda = addenda_of(work, report)
    _keep_history(work, report, addenda)
    delivered = [each for each in addenda if each.released_at is not None]
    _clear_signature(report)
    if report.status is Status.PRELIMINARY:
        _restore_prelim(work, report, signed_at)
    _clear_later(work, report, signed_at)
    feed.announce(work, report, ChangeEvent.REPORT_UNSIGNED)
    for addendum in delivered:
        releases.schedule(work, report, ReleaseKind.RETRACTION, addendum=addendum)
    work.session.flush()
    for addendum in addenda:
        work.session.delete(addendum)
    return report


def _keep_history(work: Work, report: Report, addenda: list[Addendum]) -> None:
    newest = work.session.exec(
        select(Signature)
        .where(Signature.report_pk == key_of(report), col(Signature.withdrawn_at).is_(None))
        .order_by(col(Signature.pk).desc())
    ).first()
    if newest is not None:
        newest.withdrawn_at = work.now
        newest.cleared = [_history_of(each) for each in addenda]
        work.session.add(newest)


def _history_of(addendum: Addendum) -> dict[str, Any]:
    return {
        "number": addendum.number,
        "state": addendum.state.value,
        "document": addendum.document,
        "content": addendum.content_text,
        "signedAt": addendum.signed_at,
        "signedBy": addendum.signed_by,
        "releasedAt": addendum.released_at,
    }


def _clear_signature(report: Report) -> None:
    report.signed_at = report.signed_by_id = report.cooling_until = None
    report.signed_by = report.signed_zone = report.content_hash = None


def _restore_prelim(work: Work, report: Report, signed_at: int) -> None:
    """Bring the newest active preliminary read back, and undo the review by this signing."""
    reads = [read for read in prelim_reads(work, report) if read.withdrawn_at is None]
    report.document = reads[-1].document
    report.content_text = reads[-1].content_text
    for read in reads:
        if read.reviewed_at == signed_at:
            read.reviewed_at = read.reviewed_by = None
            work.session.add(read)


def _clear_later(work: Work, report: Report, signed_at: int) -> None:
    own = key_of(report)
    for table in (Billing, Share):
        work.session.exec(
            delete(table).where(col(table.report_pk) == own, col(table.created_at) >= signed_at)
        )
