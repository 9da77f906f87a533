"""Visits of orders: the orders that an event about a visit changes, and redirected messages.

Pure. An order belongs to a visit by the number in its Metadata. When a visit moves to another
patient, its orders move too, unless the report engine refuses. Later messages that name the visit's
former patient or number are redirected; `addressing` redirects after merges. An order that could
not move, because its report was begun, stays with its patient, and so do later messages about it.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

from bridge.intake.patients.demographics import (
    DEMOGRAPHICS,
    demographics_of,
    with_new_patient,
)
from bridge.intake.process.addressing import Patient, redirected_to_survivor
from bridge.intake.process.duplicate_orders import (
    combined_with_existing,
    may_be_same_order,
    order_numbers,
)
from bridge.intake.process.jobs import MessageJob
from bridge.intake.process.order_plans import key_of
from bridge.intake.process.order_rules import CREATING_ACTIONS, ORDER_ACTIONS, OrderState
from bridge.intake.process.order_values import has_moved_away, is_unordered
from bridge.store.records.message_time import MessageTime, is_earlier
from bridge.store.records.order_index import IndexedOrder, OrderIndexKey
from bridge.store.records.visit_transfers import VisitReference, VisitTransfer, VisitTransfers
from mappings.inbound.events import OrderAction, OrderEvent, PatientVisit
from mappings.inbound.procedures import replace_identifiers, replace_number

METADATA = "Metadata"
VISIT_NUMBER_FIELDS: Mapping[str, int] = MappingProxyType({"PV1": 19, "PID": 18})
"""Fields of an order's segments that contain the visit or account number."""


@dataclass(frozen=True, slots=True)
class VisitChange:
    """One order before and after; `updates` are the tags for the report engine."""

    before: IndexedOrder
    after: IndexedOrder
    updates: dict[str, Any]

    @property
    def moves(self) -> bool:
        """Whether the order moves to another patient."""
        return self.before.key != self.after.key


def visit_changes(
    event: OrderEvent, orders: Iterable[IndexedOrder], sent_at: MessageTime | None = None
) -> list[VisitChange]:
    """
    Return the orders that an event about a visit changes.

    An update that was sent before the newest message about an order adds only values that the
    order does not have.
    """
    visit = event.visit
    if visit is None:
        return []
    known = list(orders)
    is_move = event.action is OrderAction.VISIT_MOVE
    mrn = event.prior_mrn or event.mrn if is_move else event.mrn
    number = visit.prior or visit.number if is_move else visit.number
    found = [
        each
        for each in known
        if number
        and (each.key.site, each.key.mrn) == (event.site, mrn)
        and not has_moved_away(each)
        and (is_move or each.state != OrderState.CANCELLED)  # a cancelled order moves too
        and _metadata(each).get(visit.key) == number
    ]
    changed = (
        _visit_change(each, event, visit, overtaken=not is_move and _is_overtaken(each, sent_at))
        for each in found
    )
    combined_changes = (_with_existing(each, known) if each.moves else each for each in changed)
    return [each for each in combined_changes if each.before != each.after]


def _with_existing(change: VisitChange, known: Iterable[IndexedOrder]) -> VisitChange:
    after = combined_with_existing(change.after, known)
    return replace(change, after=after, updates=dict(after.tags))


def _is_overtaken(order: IndexedOrder, sent_at: MessageTime | None) -> bool:
    has_visit = any(line[:3].upper() == "PV1" for line in order.echo)
    return has_visit and is_earlier(sent_at, order.tags_sent_at)


def overtaken_by_orders(
    event: OrderEvent, sent_at: MessageTime | None, orders: Iterable[IndexedOrder]
) -> dict[str, str]:
    found: dict[str, str] = {}
    for order in orders:
        is_own = (order.key.site, order.key.mrn) == (event.site, event.mrn)
        if is_own and not has_moved_away(order) and is_earlier(sent_at, order.tags_sent_at):
            values = {tag: str(order.tags[tag]) for tag in DEMOGRAPHICS if order.tags.get(tag)}
            found = {**values, **found}
    return found


def _visit_change(
    order: IndexedOrder, event: OrderEvent, visit: PatientVisit, *, overtaken: bool
) -> VisitChange:
    values = {**visit.values, visit.key: visit.number} if visit.number else dict(visit.values)
    known = _metadata(order)
    changed_values = {
        key: value
        for key, value in values.items()
        if known.get(key) != value and not (overtaken and known.get(key))
    }
    tags = (
        {**order.tags, METADATA: {**_metadata(order), **changed_values}}
        if changed_values
        else dict(order.tags)
    )
    key = order.key._replace(mrn=event.mrn)
    updates: dict[str, Any] = {METADATA: changed_values}
    if key != order.key:
        tags = {**with_new_patient(tags, demographics_of(event)), "PatientMRN": event.mrn}
        updates = dict(tags)
    echo = replace_number(order.echo, VISIT_NUMBER_FIELDS, visit.prior, visit.number)
    echo = replace_identifiers(echo, event.echo) if key != order.key else echo
    return VisitChange(order, replace(order, key=key, tags=tags, echo=echo), updates)


def _metadata(order: IndexedOrder) -> dict[str, Any]:
    return dict(order.tags.get(METADATA) or {})


OTHER_PATIENT = "other_patient"
"""The code of an order that names a visit's former patient although it was sent after the move."""


class VisitMovedError(Exception):
    """A message is about a visit that moved to another patient; the listener does not redirect."""

    def __init__(self) -> None:
        super().__init__("the visit was moved to another patient")


@dataclass(frozen=True, slots=True)
class Redirects:
    """Merges and visit moves that apply to a batch: survivors by merged patient, moves by visit."""

    survivors: Mapping[Patient, str] = field(default_factory=dict)
    moves: VisitTransfers = field(default_factory=dict)


def redirected_job(
    job: MessageJob, redirects: Redirects, known: Mapping[OrderIndexKey, IndexedOrder]
) -> MessageJob:
    """Redirect a job's events to the current patients; `known` are their orders."""
    survivors = [redirected_to_survivor(each, redirects.survivors) for each in job.events]
    events = [_with_accession_of_moved(each, redirects.moves, known) for each in survivors]
    redirected = [
        _redirected_event(each, redirects.moves, known, job.source.sent_at) for each in events
    ]
    names_former_patient = any(
        was.mrn != now.mrn and not _was_sent_before_move(job, was, redirects.moves, known)
        for was, now in zip(events, redirected, strict=True)
        if now.action in ORDER_ACTIONS
    )
    exception_code = OTHER_PATIENT if names_former_patient else job.exception_code
    return replace(job, events=redirected, exception_code=exception_code, moves=redirects.moves)


def orders_to_read(
    job: MessageJob, redirects: Redirects
) -> tuple[set[OrderIndexKey], set[Patient], set[str]]:
    """Return the orders that are needed to redirect a job: keys, patients, order numbers."""
    moved_patients = {(each.site, each.mrn) for each in redirects.moves}
    keys, patients, named = set[OrderIndexKey](), set[Patient](), set[str]()
    for event in (redirected_to_survivor(each, redirects.survivors) for each in job.events):
        own = {(event.site, event.mrn), (event.site, event.prior_mrn)}
        if event.action in ORDER_ACTIONS and own & moved_patients:
            targets = {move.now.mrn for visit, move in redirects.moves.items() if visit[:2] in own}
            keys |= {key_of(event)._replace(mrn=mrn) for mrn in {event.mrn, *targets}}
            if event.accession in {event.placer, event.filler}:
                patients |= {(event.site, mrn) for mrn in {event.mrn, *targets}}
                named |= {event.placer, event.filler} - {""}
    return keys, patients, named


def _with_accession_of_moved(
    event: OrderEvent, moves: VisitTransfers, known: Mapping[OrderIndexKey, IndexedOrder]
) -> OrderEvent:
    by_number = event.accession in {event.placer, event.filler}
    if not by_number or event.action not in ORDER_ACTIONS or key_of(event) in known:
        return event
    visits = {move.now for visit, move in moves.items() if visit[:2] == (event.site, event.mrn)}
    found = {
        each.key.accession
        for each in known.values()
        if not is_unordered(each)
        and order_numbers(event).match(each)
        and (
            (may_be_same_order(event, each) and has_moved_away(each)) or _is_of_visit(each, visits)
        )
    }
    if len(found) != 1:
        return event
    (accession,) = found
    info = {**event.clinical_info, "Accession": accession}
    return replace(event, accession=accession, clinical_info=info)


def _is_of_visit(order: IndexedOrder, visits: Collection[VisitReference]) -> bool:
    key = order.key
    return any(
        (each.site, each.mrn, each.number)
        == (key.site, key.mrn, _visit_number(order.tags, each.key))
        for each in visits
    )


def goes_to_other_patient(
    before: MessageJob, after: MessageJob, survivors: Collection[Patient]
) -> bool:
    """True if an order is redirected to another patient, and not because of a merge."""
    return any(
        was.mrn != now.mrn and (was.site, was.mrn) not in survivors
        for was, now in zip(before.events, after.events, strict=True)
        if now.action in ORDER_ACTIONS
    )


def _redirected_event(
    event: OrderEvent,
    moves: VisitTransfers,
    known: Mapping[OrderIndexKey, IndexedOrder],
    sent_at: MessageTime | None,
) -> OrderEvent:
    if not moves:
        return event
    if event.action is OrderAction.VISIT_MOVE:
        return _continued_move(event, moves, sent_at)
    found = _move_of(event, moves, known)
    return event if found is None else _readdressed(event, *found)


def _was_sent_before_move(
    job: MessageJob,
    event: OrderEvent,
    moves: VisitTransfers,
    known: Mapping[OrderIndexKey, IndexedOrder],
) -> bool:
    found = _move_of(event, moves, known)
    return found is not None and is_earlier(job.source.sent_at, found[1].sent)


def _move_of(
    event: OrderEvent, moves: VisitTransfers, known: Mapping[OrderIndexKey, IndexedOrder]
) -> tuple[VisitReference, VisitTransfer] | None:
    if event.action not in ORDER_ACTIONS:
        return None
    key = key_of(event)
    own = known.get(key)
    for visit, move in moves.items():
        if visit[:2] not in {(event.site, event.mrn), (event.site, event.prior_mrn)}:
            continue
        target = known.get(key._replace(mrn=move.now.mrn))
        stays = move.now.mrn != event.mrn and not _follows_visit(event, own, visit.key)
        if not stays and _belongs_to_visit(event, own, target, visit, move):
            return visit, move
    return None


def _belongs_to_visit(
    event: OrderEvent,
    own: IndexedOrder | None,
    target: IndexedOrder | None,
    visit: VisitReference,
    move: VisitTransfer,
) -> bool:
    number = _visit_number(event.clinical_info, visit.key)
    if not number and own is not None:
        number = _visit_number(own.tags, visit.key)
    if number and own is not None and has_moved_away(own):
        return number in {visit.number, move.now.number}
    if number:
        return number == visit.number
    return target is not None and _visit_number(target.tags, visit.key) == move.now.number


def _visit_number(tags: Mapping[str, Any], key: str) -> str:
    return str((tags.get(METADATA) or {}).get(key) or "")


def _follows_visit(event: OrderEvent, own: IndexedOrder | None, key: str) -> bool:
    """True if an order moves with its visit: it did not stay with the former patient."""
    if own is None or has_moved_away(own) or not _visit_number(own.tags, key):
        return True
    return own.state == OrderState.CANCELLED and event.action in CREATING_ACTIONS


def _readdressed(event: OrderEvent, visit: VisitReference, move: VisitTransfer) -> OrderEvent:
    info: dict[str, Any] = dict(event.clinical_info)
    changes_patient = move.now.mrn != event.mrn
    if changes_patient:
        info = {**with_new_patient(info, move.tags), "PatientMRN": move.now.mrn}
    info[METADATA] = {**(info.get(METADATA) or {}), visit.key: move.now.number}
    echo = replace_number(event.echo, VISIT_NUMBER_FIELDS, visit.number, move.now.number)
    return replace(
        event,
        mrn=move.now.mrn,
        prior_mrn=event.mrn if changes_patient else event.prior_mrn,
        clinical_info=info,
        echo=replace_identifiers(echo, move.echo) if changes_patient else echo,
    )


def _continued_move(
    event: OrderEvent, moves: VisitTransfers, sent_at: MessageTime | None
) -> OrderEvent:
    """
    Adapt a move to other moves of its visit.

    It starts at the visit's current patient. If a later move was sent, it ends where that one ends.
    """
    visit = event.visit
    if visit is None:
        return event
    prior, current = _ends_of_move(event, visit)
    source = moves.get(prior)
    if source is not None and not is_earlier(sent_at, source.sent):
        visit = replace(visit, prior=source.now.number)
        event = replace(event, prior_mrn=source.now.mrn, visit=visit)
    target = moves.get(current)
    if target is not None and is_earlier(sent_at, target.sent):
        info = {**event.clinical_info, **target.tags, "PatientMRN": target.now.mrn}
        visit = replace(visit, number=target.now.number, prior=visit.prior or prior.number)
        prior_mrn = event.prior_mrn or event.mrn
        event = replace(event, mrn=target.now.mrn, prior_mrn=prior_mrn, visit=visit)
        event = replace(event, clinical_info=info, echo=target.echo)
    return event


def _ends_of_move(event: OrderEvent, visit: PatientVisit) -> tuple[VisitReference, VisitReference]:
    number = visit.prior or visit.number
    prior = VisitReference(event.site, event.prior_mrn or event.mrn, visit.key, number)
    return prior, VisitReference(event.site, event.mrn, visit.key, visit.number or number)


def moves_of(event: OrderEvent, sent: MessageTime) -> list[tuple[VisitReference, VisitTransfer]]:
    if event.action is not OrderAction.VISIT_MOVE or event.visit is None:
        return []
    prior, now = _ends_of_move(event, event.visit)
    return [(prior, VisitTransfer(now, sent.at, demographics_of(event), event.echo, sent.clock))]


def later_moves(
    event: OrderEvent, job: MessageJob, orders: Iterable[IndexedOrder]
) -> list[OrderEvent]:
    """
    Return the moves of a survivor's visits that were sent after the merge and arrived before it.

    Orders that come with the merge may belong to those visits.
    """
    own = [each for each in orders if each.key[:2] == (event.site, event.mrn)]
    found = []
    for visit, move in job.moves.items():
        is_later = is_earlier(job.source.sent_at, move.sent)
        belongs = any(_is_of_visit(each, [visit]) and not has_moved_away(each) for each in own)
        if is_later and belongs:
            info = {**move.tags, "PatientMRN": move.now.mrn}
            moved = PatientVisit(visit.key, move.now.number, prior=visit.number)
            at_survivor = replace(event, mrn=move.now.mrn, prior_mrn=visit.mrn, clinical_info=info)
            found.append(
                replace(at_survivor, action=OrderAction.VISIT_MOVE, visit=moved, echo=move.echo)
            )
    return found
