"""
Delete reports, reset them to orders, and discard Drafts (interface reference, Endpoints).

A deleted report leaves a row in `engine_tombstone`, and its links are revoked. Signed reports
cannot be deleted.
"""

from collections.abc import Sequence

from sqlalchemy import delete, update
from sqlmodel import col, select

from bridge.contract import OrderKey, ReportStatus
from bridge.contract.errors import ErrorCode
from bridge.engine.errors import EngineError
from bridge.engine.records.tables import (
    DeletedReport,
    IssuedLink,
    PatientPointer,
    Report,
    ReportOrder,
    metadata,
)
from bridge.engine.rules.lifecycle import LifecycleEvent
from bridge.engine.rules.order import link_target
from bridge.engine.service import change_feed
from bridge.engine.service.report_lookup import (
    current_identity,
    key_of,
    lock_orders,
    lock_report,
    orders_of,
)
from bridge.engine.service.report_status import has_content
from bridge.engine.service.report_transitions import apply_event, clear
from bridge.engine.service.work import ChangeEvent, Work

LINKS = metadata.tables[str(IssuedLink.__tablename__)]


def delete_report(
    work: Work, identity: OrderKey, *, only_ordered: bool = False, set_aside: bool = False
) -> bool:
    """
    Delete the report of an order with all its linked orders; return False if there is none.

    Without a report the links to the order are still revoked, because opening one would create the
    report. The caller therefore commits before it responds "not found". With `only_ordered` a
    report that was started, or has further orders, is refused (400). The feed reports the order as
    cancelled, except with `set_aside`.
    """
    found = lock_orders(work, [identity])[0]
    if found is None:
        revoke_links(work, [current_identity(work.connection, identity)])
        return False
    if only_ordered and not _is_untouched(work, found.report):
        raise EngineError(ErrorCode.REPORT_BEGUN)
    apply_event(work, found.report, LifecycleEvent.DELETE)
    _remove(work, found.report, ChangeEvent.REPORT_DELETED, cancelled=not set_aside)
    return True


def _is_untouched(work: Work, report: Report) -> bool:
    alone = len(orders_of(work.session, key_of(report))) == 1
    return report.status is ReportStatus.ORDERED and not has_content(report) and alone


def reset_order(work: Work, identity: OrderKey) -> Report:
    """
    Reset the report of an order to an empty, unassigned Ordered report; linked orders stay linked.

    It must be a Draft that began as an order or has a registered one, or an Ordered report with
    content.
    """
    report = lock_report(work, identity).report
    clear(work, report, apply_event(work, report, LifecycleEvent.RESET))
    change_feed.announce(work, report, ChangeEvent.REPORT_RESET)
    return report


def discard(work: Work, report: Report) -> Report | None:
    """
    Discard a locked Draft.

    A registered order becomes Ordered again. Any other report is deleted; the result is then None.
    """
    transition = apply_event(work, report, LifecycleEvent.DISCARD)
    if transition.to is None:
        _remove(work, report, ChangeEvent.REPORT_DISCARDED)
        return None
    clear(work, report, transition)
    change_feed.announce(work, report, ChangeEvent.REPORT_DISCARDED)
    return report


def _remove(work: Work, report: Report, event: ChangeEvent, *, cancelled: bool = True) -> None:
    orders = orders_of(work.session, key_of(report))
    identities = [OrderKey(order.site_id, order.mrn, order.accession) for order in orders]
    change_feed.announce(work, report, event, cancelled=cancelled)
    revoke_links(work, identities)
    work.session.add(
        DeletedReport(
            report_id=report.report_id,
            site_id=report.site_id,
            deleted_at=work.now,
            deleted_by_id=work.actor.account_id,
        )
    )
    delete_rows(work, report)


def revoke_links(work: Work, current: Sequence[OrderKey]) -> None:
    """Revoke every link to orders, which are given under the current patient identifiers."""
    # A link has the patient identifier of its launch, which may be one that was merged.
    identities = [*current, *_prior_identities(work, current)]
    targets = [link_target(identity) for identity in identities]
    work.connection.execute(
        update(LINKS)
        .where(LINKS.c.target.in_(targets), LINKS.c.revoked_at.is_(None))
        .values(revoked_at=work.now)
    )


def _prior_identities(work: Work, current: Sequence[OrderKey]) -> list[OrderKey]:
    """Return the identities of orders under the merged identifiers of their patients."""
    pointers = work.session.exec(
        select(PatientPointer).where(
            col(PatientPointer.site_id).in_({key.site for key in current}),
            col(PatientPointer.mrn).in_({order_key.mrn for order_key in current}),
        )
    ).all()
    return [
        OrderKey(order.site, pointer.prior_mrn, order.accession)
        for order in current
        for pointer in pointers
        if (pointer.site_id, pointer.mrn) == (order.site, order.mrn)
    ]


def delete_rows(work: Work, report: Report) -> None:
    """Delete the rows of a locked report and its orders."""
    report_pk = key_of(report)
    work.session.flush()
    work.session.exec(delete(ReportOrder).where(col(ReportOrder.report_pk) == report_pk))
    work.session.exec(delete(Report).where(col(Report.pk) == report_pk))
