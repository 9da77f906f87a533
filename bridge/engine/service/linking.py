"""
Link orders into one report (interface document, link-orders): all of them, or none.

The others' reports go, their orders move to the anchor's report in the order of the request.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from bridge.engine.errors import ReportNotFound, RuleBroken
from bridge.engine.records.tables import Report, ReportOrder
from bridge.engine.rules.identity import Triple
from bridge.engine.rules.linking import MINIMUM, Candidate, already_linked, refuse_link
from bridge.engine.rules.reasons import Reason
from bridge.engine.service import feed
from bridge.engine.service.deletion import drop_rows
from bridge.engine.service.files import move_files
from bridge.engine.service.finding import group_of, key_of, lock_orders, stamp
from bridge.engine.service.reading import StatusRecord, has_content, status_records
from bridge.engine.service.work import ChangeEvent, Work


@dataclass(frozen=True, slots=True)
class Requested:
    """An order of the request, locked, and its first place there."""

    place: int
    order: ReportOrder
    report: Report


def link_orders(work: Work, triples: Sequence[Triple]) -> list[StatusRecord]:
    """
    Link orders of one site; the first is the anchor. Return the record of their report.

    Raise RuleBroken with the place of the guilty order, ReportNotFound, or Changed.
    """
    if len(set(triples)) < MINIMUM:
        raise RuleBroken(Reason.TOO_FEW_ORDERS, pointer="/clinicalInfo")
    found = lock_all(work, triples)
    if len(found) < MINIMUM:  # two names of one merged patient's order
        raise RuleBroken(Reason.TOO_FEW_ORDERS, pointer="/clinicalInfo")
    candidates = [_candidate(work, each) for each in found]
    anchor = found[0].report
    if not already_linked(candidates):
        if broken := refuse_link(candidates[0], candidates[1:]):
            raise RuleBroken(broken.reason, pointer=f"/clinicalInfo/{broken.place}")
        _join(work, anchor, [each.report for each in found[1:]])
    return status_records(work.session, [anchor], work.now)


def lock_all(work: Work, triples: Sequence[Triple]) -> list[Requested]:
    """Find and lock orders, each once; raise ReportNotFound at the first that is not there."""
    found: dict[int | None, Requested] = {}
    for place, each in enumerate(lock_orders(work, triples)):
        if each is None:
            raise ReportNotFound(pointer=f"/clinicalInfo/{place}")
        found.setdefault(each.order.pk, Requested(place, each.order, each.report))
    return list(found.values())


def _candidate(work: Work, found: Requested) -> Candidate:
    group = group_of(work.session, key_of(found.report))
    own = [found.order, *(order for order in group if order.pk != found.order.pk)]
    return Candidate(
        place=found.place,
        report_id=found.report.report_id,
        status=found.report.status,
        has_content=has_content(found.report),
        is_anchor=group[0].pk == found.order.pk,
        mrn=found.order.mrn,
        patients=[{**order.tags, "PatientMRN": order.mrn} for order in own],
    )


def _join(work: Work, anchor: Report, others: Sequence[Report]) -> None:
    own = key_of(anchor)
    position = len(group_of(work.session, own))
    removed: list[str] = []
    for other in {key_of(report): report for report in others}.values():
        if key_of(other) == own:
            continue
        removed.append(other.report_id)
        moving = group_of(work.session, key_of(other))
        for order in moving:
            _move(work, order, own, position)
            position += 1
        move_files(work, key_of(other), own)
        drop_rows(work, other)
    stamp(work, anchor)
    feed.announce(work, anchor, ChangeEvent.ORDERS_LINKED, removed=removed)


def _move(work: Work, order: ReportOrder, report_pk: int, position: int) -> None:
    order.report_pk = report_pk
    order.position = position
    order.updated_at = work.now
    work.session.add(order)
