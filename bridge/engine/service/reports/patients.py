"""
Patients: update demographics, merge identifiers and undo merges, over all reports of a site.

All are idempotent. Signed reports get the new demographics too; their signed text and fingerprint
do not change. After a merge the prior identifier leads to the survivor, or is refused by the site
setting `report_lookup.REFUSE_MERGED`.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import update
from sqlmodel import col, select

from bridge.contract import SIGNED, OrderKey, ReportStatus
from bridge.contract.errors import ErrorCode
from bridge.engine.errors import EngineError
from bridge.engine.records.tables import IssuedLink, PatientPointer, Report, ReportOrder
from bridge.engine.rules.order import PATIENT, corrected_tags, link_target, search_text
from bridge.engine.service import change_feed
from bridge.engine.service.report_lookup import (
    ATTEMPTS,
    follow_pointers,
    lock_patients,
    lock_reports,
    mark_updated,
    orders_of,
)
from bridge.engine.service.report_status import has_content
from bridge.engine.service.report_transitions import keep_registration
from bridge.engine.service.reports.deletion import delete_rows
from bridge.engine.service.reports.files import move_files
from bridge.engine.service.work import ChangeEvent, Work
from bridge.store.merge_chains import merged_through


def update_patient(work: Work, site_id: str, mrn: str, given: Mapping[str, str]) -> int:
    """
    Set demographic tags on every order of a patient; return how many reports changed.

    An empty tag is removed, an absent one stays. An unknown patient changes nothing.
    """
    lock_patients(work, site_id, [mrn])
    current = follow_pointers(work.connection, site_id, [mrn]).get(mrn, mrn)
    demographics = {name: value for name, value in given.items() if name in PATIENT}
    orders, reports = _locked(work, site_id, [current])
    changed = {order.report_pk for order in orders if _set_tags(work, order, demographics)}
    for key in sorted(changed):
        mark_updated(work, reports[key])
        change_feed.announce(work, reports[key], ChangeEvent.PATIENT_UPDATED)
    return len(changed)


def merge_patients(work: Work, site_id: str, survivor: str, prior: str) -> int:
    """
    Move all orders of the prior identifier to the survivor; return how many reports changed.

    Raise EngineError for a cycle or a second survivor, and `merge_conflict` if both patients have
    started reports for one accession.
    """
    if survivor == prior:
        raise EngineError(ErrorCode.SAME_PATIENT, pointer="/PriorPatientMRN")
    lock_patients(work, site_id, [survivor, prior])
    pointers = _pointers(work, site_id, [survivor, prior])
    target = pointers.get(survivor, survivor)
    if target == prior:
        raise EngineError(ErrorCode.MERGE_CYCLE, pointer="/PatientMRN")
    if pointers.get(prior, target) != target:
        raise EngineError(ErrorCode.MERGED_ELSEWHERE, pointer="/PriorPatientMRN")
    _point(work, site_id, prior, survivor, target)
    return _move_orders(work, site_id, prior, target)


def undo_merge(work: Work, site_id: str, survivor: str, prior: str) -> None:
    """
    Let the prior identifier lead to the survivor no longer; without a pointer nothing changes.

    Identifiers that were merged into the prior one lead to it again. Orders stay where they are.
    Raise EngineError if the prior identifier leads to another survivor.
    """
    lock_patients(work, site_id, [survivor, prior])
    pointers = _pointers(work, site_id, [survivor, prior])
    target = pointers.get(prior)
    if target is None:
        return
    if target != pointers.get(survivor, survivor):
        raise EngineError(ErrorCode.MERGED_ELSEWHERE, pointer="/PriorPatientMRN")
    rows = work.session.exec(
        select(PatientPointer).where(
            PatientPointer.site_id == site_id, PatientPointer.mrn == target
        )
    ).all()
    merged_into = {row.prior_mrn: row.merged_into or row.mrn for row in rows}
    own = merged_through(prior, merged_into)
    for row in rows:
        if row.prior_mrn in own:
            row.mrn = prior
            work.session.add(row)
        elif row.prior_mrn == prior:
            work.session.delete(row)
    work.session.flush()


def _pointers(work: Work, site_id: str, mrns: Sequence[str]) -> dict[str, str]:
    rows = work.session.exec(
        select(PatientPointer).where(
            PatientPointer.site_id == site_id, col(PatientPointer.prior_mrn).in_(mrns)
        )
    )
    return {row.prior_mrn: row.mrn for row in rows}


def _point(work: Work, site_id: str, prior: str, survivor: str, target: str) -> None:
    """
    Point the prior identifier at the target, to which the survivor that the merge names leads.

    Identifiers that point to the prior one follow, so that there are no chains.
    """
    work.session.exec(
        update(PatientPointer)
        .where(col(PatientPointer.site_id) == site_id, col(PatientPointer.mrn) == prior)
        .values(mrn=target)
    )
    pointer = PatientPointer(
        site_id=site_id, prior_mrn=prior, mrn=target, merged_at=work.now, merged_into=survivor
    )
    work.session.merge(pointer)
    work.session.flush()


def _move_orders(work: Work, site_id: str, prior: str, target: str) -> int:
    orders, reports = _locked(work, site_id, [prior, target])
    known = {order.accession: order for order in orders if order.mrn == target}
    demographics = _demographics(list(known.values()))
    changed: set[int] = set()
    for order in orders:
        if order.mrn != prior:
            continue
        twin = known.get(order.accession)
        if twin is not None and _resolve_duplicate(work, order, twin, reports):
            continue
        _move_to_patient(work, order, target, demographics)
        changed.add(order.report_pk)
    for key in sorted(changed):
        mark_updated(work, reports[key])
        change_feed.announce(work, reports[key], ChangeEvent.PATIENT_MERGED)
    return len(changed)


def _resolve_duplicate(
    work: Work, order: ReportOrder, twin: ReportOrder, reports: dict[int, Report]
) -> bool:
    """
    Delete one of two orders with the same accession: the only order of an empty Ordered report.

    True if the prior's order was deleted. Otherwise the survivor's was, and the prior's moves.
    """
    for one, other in ((order, twin), (twin, order)):
        report = reports[one.report_pk]
        alone = len(orders_of(work.session, one.report_pk)) == 1
        if one.report_pk != other.report_pk and alone and _is_unopened(report):
            if reports[other.report_pk].status not in SIGNED:
                move_files(work, one.report_pk, other.report_pk, new_order=other)
            keep_registration(reports[other.report_pk], report)
            change_feed.announce(work, report, ChangeEvent.REPORT_DELETED)
            delete_rows(work, report)
            return one is order
    raise EngineError(ErrorCode.MERGE_CONFLICT)


def _is_unopened(report: Report) -> bool:
    return report.status is ReportStatus.ORDERED and not has_content(report)


def _demographics(orders: Sequence[ReportOrder]) -> dict[str, Any]:
    """Return the survivor's demographics; values of newer orders replace those of older ones."""
    known: dict[str, Any] = {}
    for order in sorted(orders, key=lambda row: row.updated_at):
        known |= {name: order.tags[name] for name in PATIENT if order.tags.get(name)}
    return known


def _move_to_patient(
    work: Work, order: ReportOrder, mrn: str, demographics: Mapping[str, Any]
) -> None:
    old = link_target(OrderKey(order.site_id, order.mrn, order.accession))
    new = link_target(OrderKey(order.site_id, mrn, order.accession))
    work.session.exec(update(IssuedLink).where(col(IssuedLink.target) == old).values(target=new))
    order.mrn = mrn
    _set_tags(work, order, demographics)
    order.search = search_text(mrn, order.accession, order.tags)
    order.updated_at = work.now
    work.session.add(order)
    work.session.flush()


def _set_tags(work: Work, order: ReportOrder, given: Mapping[str, Any]) -> bool:
    tags = corrected_tags(order.tags, given)
    if tags == order.tags:
        return False
    order.tags = tags
    order.search = search_text(order.mrn, order.accession, tags)
    order.updated_at = work.now
    work.session.add(order)
    return True


def _locked(
    work: Work, site_id: str, mrns: Sequence[str]
) -> tuple[list[ReportOrder], dict[int, Report]]:
    orders = _orders(work, site_id, mrns)
    for _ in range(ATTEMPTS):
        reports = lock_reports(work, (order.report_pk for order in orders))
        orders = _orders(work, site_id, mrns)
        if all(order.report_pk in reports for order in orders):
            return orders, reports
    raise EngineError(ErrorCode.CHANGED)  # other requests keep moving these orders


def _orders(work: Work, site_id: str, mrns: Sequence[str]) -> list[ReportOrder]:
    return list(
        work.session.exec(
            select(ReportOrder)
            .where(ReportOrder.site_id == site_id, col(ReportOrder.mrn).in_(mrns))
            .order_by(col(ReportOrder.pk))
            .execution_options(populate_existing=True)
        )
    )
