"""
Patients: update demographics, merge identifiers and undo merges, over all reports of a site.

All are idempotent. Signed reports get the new demographics too; their signed text and fingerprint
do not change. After a merge the prior identifier leads to the survivor, or is refused by the site
setting `report_lookup.REFUSE_MERGED`.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Any

from sqlalchemy import update
from sqlmodel import col, select

from bridge.contract import SIGNED, OrderKey, ReportStatus
from bridge.contract.errors import ErrorCode
from bridge.contract.requests import ReturnedOrder
from bridge.contract.responses import KeptOrderBody, ReturnedOrderBody, UndoneMergeBody
from bridge.engine.errors import EngineError
from bridge.engine.records.tables import (
    Addendum,
    IssuedLink,
    PatientPointer,
    PrelimRead,
    Report,
    ReportOrder,
)
from bridge.engine.rules.order import (
    PATIENT,
    corrected_tags,
    link_target,
    refuse_unlink,
    search_text,
)
from bridge.engine.service import change_feed
from bridge.engine.service.report_lookup import (
    ATTEMPTS,
    follow_pointers,
    key_of,
    lock_patients,
    lock_reports,
    mark_updated,
    orders_of,
)
from bridge.engine.service.report_status import has_content
from bridge.engine.service.report_transitions import keep_registration
from bridge.engine.service.reports.deletion import delete_rows
from bridge.engine.service.reports.files import move_files
from bridge.engine.service.reports.order_links import link_orders, unlink_orders
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
    if prior not in pointers:
        _point(work, site_id, prior, survivor, target)
    return _move_orders(work, site_id, prior, target)


def undo_merge(
    work: Work,
    site_id: str,
    survivor: str,
    prior: str,
    returning: Sequence[ReturnedOrder] = (),
    *,
    include_signed: bool = False,
) -> UndoneMergeBody:
    """
    Let the prior identifier lead to the survivor no longer, and give its orders back to it.

    Identifiers that were merged into the prior one lead to it again. Of the orders, only those of
    `returning` move. They get the demographics that they had before, or if they were registered
    after the merge, those given with them. An order stays whose text a person has released under
    the survivor's name since the merge, unless `include_signed`, and one that shares a begun report
    with others. Without a pointer the answer is the same, and nothing changes, except that with
    `include_signed` orders return that stayed when the merge was undone.

    Raise EngineError if the prior identifier leads to another survivor.
    """
    lock_patients(work, site_id, [survivor, prior])
    pointers = _pointers(work, site_id, [survivor, prior])
    target = pointers.get(prior)
    wanted = {order.Accession: order for order in returning}
    if target is None:
        current = pointers.get(survivor, survivor)
        if include_signed:
            _return_stayed(work, site_id, current, prior, wanted)
        orders = _orders(work, site_id, [prior, current])
        known = [order for order in orders if order.accession in wanted]
        back = [order for order in known if order.mrn == prior]
        returned = {order.accession for order in back}
        kept = {order.accession for order in known} - returned
        return _undone(work, back, dict.fromkeys(sorted(kept), "stayed"))
    if target != pointers.get(survivor, survivor):
        raise EngineError(ErrorCode.MERGED_ELSEWHERE, pointer="/PriorPatientMRN")
    merged_at, through = _remove_pointer(work, site_id, prior, target)
    since = None if include_signed else merged_at
    return _return_orders(work, Returned(site_id, target, prior, since, through), wanted)


def _return_stayed(
    work: Work, site_id: str, target: str, prior: str, wanted: Mapping[str, ReturnedOrder]
) -> None:
    """Return orders that the prior identifier had, and that stayed when its merge was undone."""
    through = select(PatientPointer.prior_mrn).where(
        PatientPointer.site_id == site_id, PatientPointer.mrn == prior
    )
    freed = Returned(site_id, target, prior, None, set(work.session.exec(through)))
    _return_orders(work, freed, wanted)


@dataclass(frozen=True, slots=True)
class Returned:
    """
    A number that is freed from its survivor `target`.

    `through` are the numbers that lead to it again. Texts that were released since `merged_at`
    stay; None: no text stays for this reason.
    """

    site_id: str
    target: str
    prior: str
    merged_at: int | None
    through: Collection[str]


def _remove_pointer(
    work: Work, site_id: str, prior: str, target: str
) -> tuple[int, Collection[str]]:
    """Remove a pointer; return when the merge was, and the numbers that lead to the prior one."""
    rows = work.session.exec(
        select(PatientPointer).where(
            PatientPointer.site_id == site_id, PatientPointer.mrn == target
        )
    ).all()
    merged_into = {row.prior_mrn: row.merged_into or row.mrn for row in rows}
    own = merged_through(prior, merged_into)
    merged_at = 0
    for row in rows:
        if row.prior_mrn in own:
            row.mrn = prior
            work.session.add(row)
        elif row.prior_mrn == prior:
            merged_at = row.merged_at
            work.session.delete(row)
    work.session.flush()
    return merged_at, own


def _undone(work: Work, moved: Sequence[ReportOrder], kept: Mapping[str, str]) -> UndoneMergeBody:
    reports = select(Report).where(col(Report.pk).in_({order.report_pk for order in moved}))
    ids = {report.pk: report.report_id for report in work.session.exec(reports)}
    return UndoneMergeBody(
        moved=tuple(
            ReturnedOrderBody(accession=order.accession, report_id=ids[order.report_pk])
            for order in moved
        ),
        kept=tuple(
            KeptOrderBody(accession=accession, reason=reason) for accession, reason in kept.items()
        ),
    )


def _return_orders(
    work: Work, freed: Returned, wanted: Mapping[str, ReturnedOrder]
) -> UndoneMergeBody:
    mrns = [freed.target, freed.prior]
    orders, reports = _locked(work, freed.site_id, mrns) if wanted else ([], {})
    taken = {order.accession for order in orders if order.mrn == freed.prior}
    going = [order for order in orders if order.mrn == freed.target and order.accession in wanted]
    kept: dict[str, str] = {}
    for order in going:
        report = reports[order.report_pk]
        if order.accession in taken:
            kept[order.accession] = "order_exists"
        elif freed.merged_at is not None and _released_since(work, report, freed.merged_at):
            kept[order.accession] = "signed"
    kept |= _shared(work, [order for order in going if order.accession not in kept], reports)
    moving = [order for order in going if order.accession not in kept]
    _separate(work, moving)
    for order in moving:
        _restore(work, order, freed, wanted[order.accession])
    changed = lock_reports(work, {order.report_pk for order in moving})
    for key in sorted(changed):
        mark_updated(work, changed[key])
        change_feed.announce(work, changed[key], ChangeEvent.PATIENT_UPDATED)
    return _undone(work, moving, kept)


def _restore(work: Work, order: ReportOrder, freed: Returned, given: ReturnedOrder) -> None:
    """Give an order the number and the patient's tags back; `given` if it never had that number."""
    left = order.merged_from or []
    before = next((former["tags"] for former in left if former["mrn"] == freed.prior), None)
    if before is None:
        tags = corrected_tags(order.tags, {name: getattr(given, name) for name in PATIENT})
    else:
        tags = {name: value for name, value in order.tags.items() if name not in PATIENT} | before
    order.merged_from = [*takewhile(lambda former: former["mrn"] in freed.through, left)] or None
    _move_to_patient(work, order, freed.prior, tags)


def _released_since(work: Work, report: Report, since: int) -> bool:
    """True if a text of a report was signed, or read preliminarily, and still stands."""
    if report.status in SIGNED and (report.signed_at or 0) >= since:
        return True
    key = key_of(report)
    addenda = select(Addendum.pk).where(Addendum.report_pk == key, col(Addendum.signed_at) >= since)
    prelims = select(PrelimRead.pk).where(
        PrelimRead.report_pk == key,
        PrelimRead.read_at >= since,
        col(PrelimRead.withdrawn_at).is_(None),
    )
    return any(
        work.session.exec(found.limit(1)).first() is not None for found in (addenda, prelims)
    )


def _shared(
    work: Work, going: Sequence[ReportOrder], reports: Mapping[int, Report]
) -> dict[str, str]:
    """Return the orders of begun reports that have other orders, too: nobody can divide a text."""
    leaving = {order.pk for order in going}
    return {
        order.accession: "shared"
        for order in going
        for report in [reports[order.report_pk]]
        if any(other.pk not in leaving for other in orders_of(work.session, order.report_pk))
        and refuse_unlink(report.status, has_content=has_content(report))
    }


def _separate(work: Work, moving: Sequence[ReportOrder]) -> None:
    """
    Take orders out of unopened reports that they share with orders that stay.

    Those that shared a report still share one.
    """
    groups: dict[int, list[ReportOrder]] = {}
    for order in moving:
        groups.setdefault(order.report_pk, []).append(order)
    for report_pk, leaving in groups.items():
        if len(orders_of(work.session, report_pk)) == len(leaving):
            continue
        keys = [OrderKey(order.site_id, order.mrn, order.accession) for order in leaving]
        unlink_orders(work, keys)
        if len(keys) > 1:
            link_orders(work, keys)


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
        before = {name: order.tags[name] for name in PATIENT if name in order.tags}
        order.merged_from = [*(order.merged_from or []), {"mrn": prior, "tags": before}]
        _move_to_patient(work, order, target, corrected_tags(order.tags, demographics))
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


def _move_to_patient(work: Work, order: ReportOrder, mrn: str, tags: dict[str, Any]) -> None:
    old = link_target(OrderKey(order.site_id, order.mrn, order.accession))
    new = link_target(OrderKey(order.site_id, mrn, order.accession))
    work.session.exec(update(IssuedLink).where(col(IssuedLink.target) == old).values(target=new))
    order.mrn = mrn
    order.tags = tags
    order.search = search_text(mrn, order.accession, tags)
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
