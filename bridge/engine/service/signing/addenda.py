"""
Addenda: written and signed in the app, released and unsigned by the app and the API.

Each has its own cooling period (interface reference, addendum/sign and addendum/unsign).
"""

from typing import Any

from sqlalchemy import func
from sqlmodel import col, select

from bridge.contract import OrderKey
from bridge.contract.errors import ErrorCode
from bridge.engine.errors import EngineError
from bridge.engine.records.tables import Addendum, Report, ReportRelease
from bridge.engine.rules.lifecycle import AddendumState, LifecycleEvent, ReleaseKind
from bridge.engine.rules.signing import cooling_end, fingerprint
from bridge.engine.rules.text.document import Document, to_json
from bridge.engine.rules.text.plain_text import plain_text
from bridge.engine.service import change_feed
from bridge.engine.service.report_lookup import key_of, lock_report, orders_of
from bridge.engine.service.report_status import ReportContext
from bridge.engine.service.report_transitions import (
    addenda_of,
    apply_event,
    collect_facts,
    describe_person,
    document_json,
    open_addendum,
    signed_addenda,
)
from bridge.engine.service.signing import releases
from bridge.engine.service.stored_texts import require_room_for_states
from bridge.engine.service.work import ChangeEvent, Work


def release_addendum(work: Work, identity: OrderKey) -> Report:
    """Release the most recently signed addendum now (POST addendum/sign)."""
    return release_newest(work, lock_report(work, identity).report)


def release_newest(work: Work, report: Report) -> Report:
    """Release the signed addenda of a locked report up to the newest; they are not signed again."""
    apply_event(work, report, LifecycleEvent.ADDENDUM_RELEASE)
    releases.release_now(work, report, ReleaseKind.ADDENDUM)
    return report


def unsign_addendum(work: Work, identity: OrderKey) -> Report:
    """Unsign the most recently signed addendum (POST addendum/unsign)."""
    return unsign_newest(work, lock_report(work, identity).report)


def unsign_newest(work: Work, report: Report) -> Report:
    """Unsign the most recently signed addendum of a locked report; its text becomes a draft."""
    apply_event(work, report, LifecycleEvent.ADDENDUM_UNSIGN)
    addendum = _newest(work, report)
    releases.delete_pending(work, report, addendum)
    addendum.state = AddendumState.DRAFT
    addendum.signed_at = addendum.cooling_until = None
    addendum.signed_by = addendum.content_hash = None
    addendum.version += 1
    work.session.add(addendum)
    change_feed.announce(work, report, ChangeEvent.ADDENDUM_UNSIGNED, addendum=addendum.number)
    return report


def _newest(work: Work, report: Report) -> Addendum:
    signed = signed_addenda(addenda_of(work, report))
    if not signed:
        raise EngineError(ErrorCode.NO_SIGNED_ADDENDUM)
    return signed[-1]


def create_addendum(work: Work, report: Report, author_id: int | None) -> Addendum:
    """Create an addendum to a locked, signed report; only one may be open."""
    apply_event(work, report, LifecycleEvent.ADDENDUM_CREATE)
    if open_addendum(addenda_of(work, report)):
        raise EngineError(ErrorCode.ADDENDUM_ALREADY_OPEN)
    require_room_for_states(work, report)
    addendum = Addendum(
        report_pk=key_of(report),
        number=_next_number(work, report),
        created_by_id=author_id,
        created_at=work.now,
    )
    work.session.add(addendum)
    change_feed.announce(work, report, ChangeEvent.ADDENDUM_CREATED, addendum=addendum.number)
    return addendum


def _next_number(work: Work, report: Report) -> int:
    """Return the next number. Numbers of released addenda that were cleared are not reused."""
    report_pk = key_of(report)
    written = work.session.exec(
        select(func.max(Addendum.number)).where(Addendum.report_pk == report_pk)
    ).one()
    delivered = work.session.exec(
        select(func.max(ReportRelease.sequence)).where(
            ReportRelease.report_pk == report_pk, col(ReportRelease.kind) != ReleaseKind.FINAL
        )
    ).one()
    return max(written or 0, delivered or 0) + 1


def save_addendum(work: Work, report: Report, document: Document) -> Addendum:
    """Store the text of the open addendum of a locked report."""
    apply_event(work, report, LifecycleEvent.ADDENDUM_SAVE)
    addendum = _open(work, report)
    addendum.document = to_json(document)
    addendum.content_text = plain_text(document)
    addendum.version += 1
    work.session.add(addendum)
    change_feed.announce(
        work, report, ChangeEvent.ADDENDUM_CONTENT_UPDATED, addendum=addendum.number
    )
    return addendum


def cancel_addendum(work: Work, report: Report) -> None:
    """Delete the open addendum of a locked report."""
    apply_event(work, report, LifecycleEvent.ADDENDUM_CANCEL)
    addendum = _open(work, report)
    number = addendum.number
    work.session.delete(addendum)
    change_feed.announce(work, report, ChangeEvent.ADDENDUM_CANCELLED, addendum=number)


def sign_addendum(
    work: Work, report: Report, signer_id: int | None, *, ignore_delay: bool = False
) -> Addendum:
    """Sign the open addendum of a locked report; it is released at once, or after cooling."""
    addendum = open_addendum(addenda_of(work, report))
    context = ReportContext.of(work.session, report, work.now)
    facts = collect_facts(work, report, context)
    apply_event(work, report, LifecycleEvent.ADDENDUM_SIGN, facts=facts)
    if addendum is None or not addendum.content_text.strip():
        raise EngineError(ErrorCode.EMPTY_ADDENDUM)
    signer = describe_person(work, report.site_id, signer_id)
    ends = cooling_end(work.now, context.sign_delay, ignore_delay=ignore_delay)
    addendum.state = AddendumState.SIGNED
    addendum.signed_at = work.now
    addendum.signed_by = signer
    addendum.cooling_until = ends
    addendum.content_hash = _fingerprint(work, report, addendum, signer)
    addendum.version += 1
    work.session.add(addendum)
    change_feed.announce(work, report, ChangeEvent.ADDENDUM_SIGNED, addendum=addendum.number)
    if ends is None:
        releases.release_now(work, report, ReleaseKind.ADDENDUM)  # earlier ones, in their order
    releases.schedule(work, report, ReleaseKind.ADDENDUM, due_at=ends, addendum=addendum)
    return addendum


def _fingerprint(work: Work, report: Report, addendum: Addendum, signer: dict[str, Any]) -> str:
    orders = [
        OrderKey(order.site_id, order.mrn, order.accession)
        for order in orders_of(work.session, key_of(report))
    ]
    content = {"addendum": addendum.number, "document": document_json(addendum)}
    return fingerprint(report.report_id, orders, content, signer["email"], work.now)


def _open(work: Work, report: Report) -> Addendum:
    addendum = open_addendum(addenda_of(work, report))
    if addendum is None:
        raise EngineError(ErrorCode.NO_OPEN_ADDENDUM)
    return addendum
