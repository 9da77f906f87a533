"""
Sign a report and unsign it (interface reference, sign and unsign).

The server determines the time and the cooling period. Unsigning deletes the addenda, and the
billing codes and shares that were made after signing. The signed text stays in the history. The
feed announces the retraction of each addendum that was already released.
"""

from typing import Any, Final

from sqlalchemy import delete, insert
from sqlmodel import col, select

from bridge.contract import SIGNED, OrderKey, ReportStatus
from bridge.contract.errors import ErrorCode
from bridge.engine.errors import EngineError
from bridge.engine.records.tables import Addendum, Billing, Report, Share, Signature, metadata
from bridge.engine.rules.lifecycle import LifecycleEvent, ReleaseKind, ReportFact
from bridge.engine.rules.signing import cooling_end, fingerprint
from bridge.engine.rules.site_roles import ReportAction
from bridge.engine.service import change_feed
from bridge.engine.service.report_lookup import key_of, lock_report
from bridge.engine.service.report_status import ReportContext, identity_of
from bridge.engine.service.report_transitions import (
    addenda_of,
    apply_event,
    collect_facts,
    describe_person,
    document_json,
    prelim_reads,
    require_author,
)
from bridge.engine.service.signing import releases
from bridge.engine.service.signing.prelims import review
from bridge.engine.service.stored_texts import require_room_for_states
from bridge.engine.service.work import ChangeEvent, Work

SIGNATURES = metadata.tables[str(Signature.__tablename__)]
_INSERT: Final = insert(SIGNATURES)


def sign(
    work: Work, identity: OrderKey, *, ignore_delay: bool = False, time_zone: str | None = None
) -> Report:
    """
    Sign in the name of the report's owner, as the API does.

    The owner must also have the permission to sign in the application. The signature names the
    owner and the account that acted. Raise `EngineError`.
    """
    report = lock_report(work, identity).report
    return sign_report(
        work, report, report.owner_id, ignore_delay=ignore_delay, time_zone=time_zone
    )


def sign_report(
    work: Work,
    report: Report,
    signer_id: int | None,
    *,
    ignore_delay: bool = False,
    time_zone: str | None = None,
) -> Report:
    """Sign a locked report, or end the cooling period of one that is already signed."""
    was_signed = report.status in SIGNED
    # Read before anything changes, so that the session writes the report once.
    context = ReportContext.of(work.session, report, work.now)
    facts = collect_facts(work, report, context, ignores_delay=ignore_delay)
    apply_event(work, report, LifecycleEvent.SIGN, facts=facts)
    if was_signed:
        releases.release_now(work, report)
        return report
    if signer_id is None:
        raise EngineError(ErrorCode.REPORT_NOT_ASSIGNED)
    signer, _ = require_author(work, report, signer_id, ReportAction.SIGN)
    if work.actor.account_id not in (None, signer_id):
        actor = describe_person(work, report.site_id, work.actor.account_id)
        signer["actedBy"] = {"name": actor["name"], "email": actor["email"]}
    _add_signature(work, report, signer_id, signer, context, time_zone)
    if ReportFact.PRELIM_READ in facts:
        review(work, report, signer_id)
    ends = cooling_end(work.now, context.sign_delay, ignore_delay=ignore_delay)
    report.cooling_until = ends
    change_feed.announce(work, report, ChangeEvent.REPORT_SIGNED, context=context)
    releases.schedule(work, report, ReleaseKind.FINAL, due_at=ends, context=context)
    return report


def _add_signature(
    work: Work,
    report: Report,
    signer_id: int,
    signer: dict[str, Any],
    context: ReportContext,
    time_zone: str | None,
) -> None:
    content = document_json(report)
    report.signed_at = work.now
    report.signed_by_id = signer_id
    report.signed_by = signer
    report.signed_zone = time_zone
    report.content_hash = fingerprint(
        report.report_id, [*map(identity_of, context.orders)], content, signer["email"], work.now
    )
    report.lease_holder = report.lease_until = None
    row = {
        "report_pk": key_of(report),
        "signed_at": work.now,
        "signed_by": signer,
        "acted_by_id": work.actor.account_id,
        "document": content,
        "content_text": report.content_text,
        "content_hash": report.content_hash,
        "cleared": [],
    }
    work.connection.execute(_INSERT, row)


def unsign(work: Work, identity: OrderKey) -> Report:
    return unsign_report(work, lock_report(work, identity).report)


def unsign_report(work: Work, report: Report) -> Report:
    """Unsign a locked report: Preliminary if it has an active preliminary read, else Draft."""
    apply_event(work, report, LifecycleEvent.UNSIGN)
    require_room_for_states(work, report)
    signed_at = report.signed_at or 0
    releases.delete_pending(work, report)
    addenda = addenda_of(work, report)
    _mark_unsigned(work, report, addenda)
    delivered = [addendum for addendum in addenda if addendum.released_at is not None]
    _clear_signature(report)
    if report.status is ReportStatus.PRELIMINARY:
        _restore_prelim(work, report, signed_at)
    _delete_made_after(work, report, signed_at)
    change_feed.announce(work, report, ChangeEvent.REPORT_UNSIGNED)
    for addendum in delivered:
        releases.schedule(work, report, ReleaseKind.RETRACTION, addendum=addendum)
    work.session.flush()
    for addendum in addenda:
        work.session.delete(addendum)
    return report


def _mark_unsigned(work: Work, report: Report, addenda: list[Addendum]) -> None:
    newest = work.session.exec(
        select(Signature)
        .where(Signature.report_pk == key_of(report), col(Signature.withdrawn_at).is_(None))
        .order_by(col(Signature.pk).desc())
    ).first()
    if newest is not None:
        newest.withdrawn_at = work.now
        newest.cleared = [_history_json(addendum) for addendum in addenda]
        work.session.add(newest)


def _history_json(addendum: Addendum) -> dict[str, Any]:
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
    """Restore the newest active preliminary read, and undo the review by this signing."""
    reads = [read for read in prelim_reads(work, report) if read.withdrawn_at is None]
    report.document = reads[-1].document
    report.content_text = reads[-1].content_text
    for read in reads:
        if read.reviewed_at == signed_at:
            read.reviewed_at = read.reviewed_by = None
            work.session.add(read)


def _delete_made_after(work: Work, report: Report, signed_at: int) -> None:
    report_pk = key_of(report)
    for table in (Billing, Share):
        work.session.exec(
            delete(table).where(
                col(table.report_pk) == report_pk, col(table.created_at) >= signed_at
            )
        )
