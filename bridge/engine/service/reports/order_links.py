"""
Link and unlink orders (interface reference, link-orders, unlink-orders): all of them, or none.

Linking moves the other orders to the anchor's report, in the order of the request, and deletes
their reports. Unlinking gives each removed order a new, empty Ordered report. The earliest-linked
order that stays becomes the anchor.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from bridge.contract import MAX_REPORT_ORDERS, OrderKey
from bridge.contract.errors import ErrorCode
from bridge.contract.responses import StatusRecordBody
from bridge.engine.errors import EngineError
from bridge.engine.records.tables import Report, ReportOrder
from bridge.engine.rules.lifecycle import ReportOrigin
from bridge.engine.rules.order import (
    MIN_LINKED_ORDERS,
    Candidate,
    already_linked,
    refuse_link,
    refuse_unlink,
)
from bridge.engine.service import change_feed
from bridge.engine.service.launch.registration import create_ordered
from bridge.engine.service.report_lookup import key_of, lock_orders, mark_updated, orders_of
from bridge.engine.service.report_status import has_content, status_records
from bridge.engine.service.report_transitions import keep_registration
from bridge.engine.service.reports.deletion import delete_rows
from bridge.engine.service.reports.files import move_files, split_files
from bridge.engine.service.work import ChangeEvent, Work


@dataclass(frozen=True, slots=True)
class RequestedOrder:
    """A locked order of the request, and its first position there."""

    place: int
    order: ReportOrder
    report: Report


def link_orders(work: Work, identities: Sequence[OrderKey]) -> list[StatusRecordBody]:
    """
    Link orders of one site; the first is the anchor. Return the record of their report.

    Raise EngineError with the position of the refused order, `report_not_found`, or `changed`.
    """
    if len(set(identities)) < MIN_LINKED_ORDERS:
        raise EngineError(ErrorCode.TOO_FEW_ORDERS, pointer="/clinicalInfo")
    found = lock_requested(work, identities)
    if len(found) < MIN_LINKED_ORDERS:  # after a merge two identifiers can name one order
        raise EngineError(ErrorCode.TOO_FEW_ORDERS, pointer="/clinicalInfo")
    candidates = [_candidate(work, order) for order in found]
    anchor = found[0].report
    if not already_linked(candidates):
        if broken := refuse_link(candidates[0], candidates[1:]):
            raise EngineError(broken.reason, pointer=f"/clinicalInfo/{broken.place}")
        if (
            sum({candidate.report_id: len(candidate.patients) for candidate in candidates}.values())
            > MAX_REPORT_ORDERS
        ):
            raise EngineError(ErrorCode.GROUP_TOO_LARGE, pointer="/clinicalInfo")
        _join(work, anchor, [requested_order.report for requested_order in found[1:]])
    return status_records(work.session, [anchor], work.now)


def lock_requested(work: Work, identities: Sequence[OrderKey]) -> list[RequestedOrder]:
    """Find and lock orders, each once; raise EngineError with the position of an unknown one."""
    found: dict[int | None, RequestedOrder] = {}
    for position, locked in enumerate(lock_orders(work, identities)):
        if locked is None:
            raise EngineError(ErrorCode.REPORT_NOT_FOUND, pointer=f"/clinicalInfo/{position}")
        found.setdefault(locked.order.pk, RequestedOrder(position, locked.order, locked.report))
    return list(found.values())


def _candidate(work: Work, found: RequestedOrder) -> Candidate:
    group = orders_of(work.session, key_of(found.report))
    orders = [found.order, *(order for order in group if order.pk != found.order.pk)]
    return Candidate(
        place=found.place,
        report_id=found.report.report_id,
        status=found.report.status,
        has_content=has_content(found.report),
        is_anchor=group[0].pk == found.order.pk,
        mrn=found.order.mrn,
        patients=[{**order.tags, "PatientMRN": order.mrn} for order in orders],
    )


def _join(work: Work, anchor: Report, others: Sequence[Report]) -> None:
    anchor_pk = key_of(anchor)
    position = len(orders_of(work.session, anchor_pk))
    removed: list[str] = []
    for other in {key_of(report): report for report in others}.values():
        if key_of(other) == anchor_pk:
            continue
        removed.append(other.report_id)
        moving = orders_of(work.session, key_of(other))
        for order in moving:
            _move(work, order, anchor_pk, position)
            position += 1
        move_files(work, key_of(other), anchor_pk)
        keep_registration(anchor, other)
        delete_rows(work, other)
    mark_updated(work, anchor)
    change_feed.announce(work, anchor, ChangeEvent.ORDERS_LINKED, removed=removed)


def _move(work: Work, order: ReportOrder, report_pk: int, position: int) -> None:
    order.report_pk = report_pk
    order.position = position
    order.updated_at = work.now
    work.session.add(order)


@dataclass(slots=True)
class _UnlinkedReports:
    surviving: list[Report] = field(default_factory=list)
    created: dict[int, Report] = field(default_factory=dict)  # by the key of the order
    untouched: list[Report] = field(default_factory=list)


def unlink_orders(work: Work, identities: Sequence[OrderKey]) -> list[StatusRecordBody]:
    """Unlink orders of one site; return the records of changed, new and unchanged reports."""
    found = lock_requested(work, identities)
    by_report: dict[int, list[RequestedOrder]] = {}
    for order in found:
        by_report.setdefault(key_of(order.report), []).append(order)
    groups = {key: orders_of(work.session, key) for key in by_report}
    for key, leaving in by_report.items():
        _refuse(leaving[0], groups[key])
    outcome = _UnlinkedReports()
    for key, leaving in by_report.items():
        _unlink_group(work, leaving, groups[key], outcome)
    keys = [requested_order.order.pk or 0 for requested_order in found]
    created = [outcome.created[key] for key in keys if key in outcome.created]
    reports = [*outcome.surviving, *created, *outcome.untouched]
    return status_records(work.session, reports, work.now)


def _refuse(first: RequestedOrder, group: Sequence[ReportOrder]) -> None:
    if len(group) == 1:
        return
    report = first.report
    if reason := refuse_unlink(report.status, has_content=has_content(report)):
        raise EngineError(reason, pointer=f"/clinicalInfo/{first.place}")


def _unlink_group(
    work: Work,
    leaving: Sequence[RequestedOrder],
    group: Sequence[ReportOrder],
    outcome: _UnlinkedReports,
) -> None:
    report = leaving[0].report
    if len(group) == 1:
        outcome.untouched.append(report)
        return
    going = [requested_order.order for requested_order in leaving]
    staying = [order for order in group if all(order.pk != other.pk for other in going)]
    created = [_move_to_new_report(work, order) for order in going]
    for order, new in zip(going, created, strict=True):
        split_files(work, order, key_of(report), key_of(new))
        outcome.created[order.pk or 0] = new
    if staying:
        _renumber(work, report, staying)
        outcome.surviving.append(report)
    else:
        first = min(range(len(going)), key=lambda n: group.index(going[n]))
        move_files(work, key_of(report), key_of(created[first]))
        delete_rows(work, report)
    for new in created:
        change_feed.announce(work, new, ChangeEvent.ORDERS_UNLINKED, formerly=report.report_id)


def _move_to_new_report(work: Work, order: ReportOrder) -> Report:
    report = create_ordered(work, order.site_id, ReportOrigin.UNLINK)
    order.report_pk = key_of(report)
    order.position = 0
    order.updated_at = work.now
    work.session.add(order)
    work.session.flush()
    return report


def _renumber(work: Work, report: Report, staying: Sequence[ReportOrder]) -> None:
    for position, order in enumerate(staying):
        order.position = position
        work.session.add(order)
    mark_updated(work, report)
    change_feed.announce(work, report, ChangeEvent.ORDERS_UNLINKED)
