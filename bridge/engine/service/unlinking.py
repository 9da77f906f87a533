"""
Take orders out of their groups (interface document, unlink-orders): all of them, or none.

A removed order becomes a new, empty Ordered report; the earliest-linked order that stays is the
anchor of what stays.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from bridge.engine.errors import RuleBroken
from bridge.engine.records.tables import Report, ReportOrder
from bridge.engine.rules.identity import Triple
from bridge.engine.rules.linking import refuse_unlink
from bridge.engine.rules.status import Origin
from bridge.engine.service import feed
from bridge.engine.service.creation import create_ordered
from bridge.engine.service.deletion import drop_rows
from bridge.engine.service.files import move_files, take_files
from bridge.engine.service.finding import group_of, key_of, stamp
from bridge.engine.service.linking import Requested, lock_all
from bridge.engine.service.reading import StatusRecord, has_content, status_records
from bridge.engine.service.work import ChangeEvent, Work


@dataclass(slots=True)
class _Outcome:
    """The reports that stay, the new ones in the order of the request, the untouched ones."""

    surviving: list[Report] = field(default_factory=list)
    created: dict[int, Report] = field(default_factory=dict)  # by the order's key
    untouched: list[Report] = field(default_factory=list)


def unlink_orders(work: Work, triples: Sequence[Triple]) -> list[StatusRecord]:
    """Unlink orders of one site; return the records of what changed, is new or was asked for."""
    found = lock_all(work, triples)
    by_report: dict[int, list[Requested]] = {}
    for each in found:
        by_report.setdefault(key_of(each.report), []).append(each)
    groups = {key: group_of(work.session, key) for key in by_report}
    for key, leaving in by_report.items():
        _refuse(leaving[0], groups[key])
    outcome = _Outcome()
    for key, leaving in by_report.items():
        _take_apart(work, leaving, groups[key], outcome)
    keys = [each.order.pk or 0 for each in found]
    created = [outcome.created[key] for key in keys if key in outcome.created]
    reports = [*outcome.surviving, *created, *outcome.untouched]
    return status_records(work.session, reports, work.now)


def _refuse(first: Requested, group: Sequence[ReportOrder]) -> None:
    if len(group) == 1:
        return
    report = first.report
    if reason := refuse_unlink(report.status, has_content=has_content(report)):
        raise RuleBroken(reason, pointer=f"/clinicalInfo/{first.place}")


def _take_apart(
    work: Work, leaving: Sequence[Requested], group: Sequence[ReportOrder], outcome: _Outcome
) -> None:
    report = leaving[0].report
    if len(group) == 1:
        outcome.untouched.append(report)
        return
    going = [each.order for each in leaving]
    staying = [order for order in group if all(order.pk != each.pk for each in going)]
    created = [_alone(work, order) for order in going]
    for order, new in zip(going, created, strict=True):
        take_files(work, order, key_of(report), key_of(new))
        outcome.created[order.pk or 0] = new
    if staying:
        _close_ranks(work, report, staying)
        outcome.surviving.append(report)
    else:
        first = min(range(len(going)), key=lambda n: group.index(going[n]))
        move_files(work, key_of(report), key_of(created[first]))
        drop_rows(work, report)
    for new in created:
        feed.announce(work, new, ChangeEvent.ORDERS_UNLINKED, formerly=report.report_id)


def _alone(work: Work, order: ReportOrder) -> Report:
    report = create_ordered(work, order.site_id, Origin.UNLINK)
    order.report_pk = key_of(report)
    order.position = 0
    order.updated_at = work.now
    work.session.add(order)
    work.session.flush()
    return report


def _close_ranks(work: Work, report: Report, staying: Sequence[ReportOrder]) -> None:
    for position, order in enumerate(staying):
        order.position = position
        work.session.add(order)
    stamp(work, report)
    feed.announce(work, report, ChangeEvent.ORDERS_UNLINKED)
