"""
Visits of orders: the orders that an event about a visit changes, and redirected messages.

An order belongs to a visit by the number in its Metadata. When a visit moves to another patient,
its orders move too, unless the report engine refuses. Later messages that name the visit's former
patient or number are redirected; `addressing` redirects after merges. An order that could not move,
because its report was begun, stays with its patient, and so do later messages about it.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, NamedTuple

from bridge.contract import OrderKey
from bridge.orders.addressing import redirected_to_survivor
from bridge.orders.duplicates import combined_with_existing, may_be_same_order, order_numbers
from bridge.orders.hierarchy import numbers_of
from bridge.orders.order import Order, OrderState, Patient, Survivors, key_of
from bridge.orders.patients import DEMOGRAPHICS, demographics_of, with_new_patient
from bridge.orders.rules import ADDRESSED_ACTIONS, CREATING_ACTIONS
from bridge.orders.times import UNKNOWN, MessageTime, comparable_time, is_earlier
from mappings.inbound.events import OrderAction, OrderEvent, PatientVisit
from mappings.inbound.procedures import replace_identifiers, replace_number


class VisitReference(NamedTuple):
    """A visit as orders name it: SiteID, PatientMRN, a key in Metadata, and its visit number."""

    site: str
    mrn: str
    key: str
    number: str


@dataclass(frozen=True, slots=True)
class VisitTransfer:
    """
    A transfer: `now` is the current visit.

    `tags` and `echo` are the demographics and segments of the message. If MSH-7 cannot be trusted,
    `sent_at` is the time of arrival and `clock` is 0.
    """

    now: VisitReference
    sent_at: int
    tags: Mapping[str, str] = field(default_factory=dict)
    echo: tuple[str, ...] = ()
    clock: int = UNKNOWN

    @property
    def sent(self) -> MessageTime | None:
        return comparable_time(self.sent_at, self.clock)


VisitTransfers = Mapping[VisitReference, VisitTransfer]

METADATA = "Metadata"
VISIT_NUMBER_FIELDS: Mapping[str, int] = MappingProxyType({"PV1": 19, "PID": 18})
"""Fields of an order's segments that contain the visit or account number."""


@dataclass(frozen=True, slots=True)
class VisitChange:
    """One order before and after; `updates` are the tags for the report engine."""

    before: Order
    after: Order
    updates: dict[str, Any]

    @property
    def moves(self) -> bool:
        """Whether the order moves to another patient."""
        return self.before.key != self.after.key


def visit_changes(
    event: OrderEvent, orders: Iterable[Order], sent_at: MessageTime | None = None
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
        order
        for order in known
        if number
        and order.patient == (event.site, mrn)
        and not order.moved_away
        and (is_move or order.state != OrderState.CANCELLED)  # a cancelled order moves too
        and _metadata(order).get(visit.key) == number
    ]
    changed = (
        _visit_change(order, event, visit, overtaken=not is_move and _is_overtaken(order, sent_at))
        for order in found
    )
    combined = (_with_existing(change, known) if change.moves else change for change in changed)
    return [change for change in combined if change.before != change.after]


def _with_existing(change: VisitChange, known: Iterable[Order]) -> VisitChange:
    after = combined_with_existing(change.after, known)
    return replace(change, after=after, updates=dict(after.tags))


def _is_overtaken(order: Order, sent_at: MessageTime | None) -> bool:
    has_visit = any(line[:3].upper() == "PV1" for line in order.echo)
    return has_visit and is_earlier(sent_at, order.tags_sent_at)


def overtaken_by_orders(
    event: OrderEvent, sent_at: MessageTime | None, orders: Iterable[Order]
) -> dict[str, str]:
    found: dict[str, str] = {}
    for order in orders:
        is_own = order.patient == (event.site, event.mrn)
        if is_own and not order.moved_away and is_earlier(sent_at, order.tags_sent_at):
            values = {tag: str(order.tags[tag]) for tag in DEMOGRAPHICS if order.tags.get(tag)}
            found = {**values, **found}
    return found


def _visit_change(
    order: Order, event: OrderEvent, visit: PatientVisit, *, overtaken: bool
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
    key = replace(order.key, mrn=event.mrn)
    updates: dict[str, Any] = {METADATA: changed_values}
    if key != order.key:
        tags = {**with_new_patient(tags, demographics_of(event)), "PatientMRN": event.mrn}
        updates = dict(tags)
    echo = replace_number(order.echo, VISIT_NUMBER_FIELDS, visit.prior, visit.number)
    echo = replace_identifiers(echo, event.echo) if key != order.key else echo
    after = replace(order, key=key, tags=tags, echo=echo)
    # It belongs to this patient now, whatever merges are undone later.
    after = replace(after, merged_from=frozenset()) if key != order.key else after
    return VisitChange(order, after, updates)


def _metadata(order: Order) -> dict[str, Any]:
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

    survivors: Survivors = field(default_factory=dict)
    moves: VisitTransfers = field(default_factory=dict)


def redirected_events(
    given: Sequence[OrderEvent],
    sent_at: MessageTime | None,
    redirects: Redirects,
    known: Mapping[OrderKey, Order],
) -> tuple[list[OrderEvent], bool]:
    """
    Redirect events to the current patients; `known` are their orders.

    Returns also whether an order names the former patient of a visit although it was sent after
    the move.
    """
    moves = redirects.moves
    survivors = [redirected_to_survivor(event, redirects.survivors) for event in given]
    events = [_with_accession_of_moved(event, moves, known) for event in survivors]
    redirected = [_redirected_event(event, moves, known, sent_at) for event in events]
    names_former_patient = any(
        was.mrn != now.mrn and not _was_sent_before_move(was, sent_at, moves, known)
        for was, now in zip(events, redirected, strict=True)
        if now.action in ADDRESSED_ACTIONS
    )
    return redirected, names_former_patient


def orders_to_read(
    events: Iterable[OrderEvent], redirects: Redirects
) -> tuple[set[OrderKey], set[Patient], set[str]]:
    """Return the orders that are needed to redirect events: keys, patients, order numbers."""
    moved_patients = {(visit.site, visit.mrn) for visit in redirects.moves}
    keys, patients, named = set[OrderKey](), set[Patient](), set[str]()
    for event in (redirected_to_survivor(event, redirects.survivors) for event in events):
        own = {(event.site, event.mrn), (event.site, event.prior_mrn)}
        if event.action in ADDRESSED_ACTIONS and own & moved_patients:
            targets = {move.now.mrn for visit, move in redirects.moves.items() if visit[:2] in own}
            keys |= {replace(key_of(event), mrn=mrn) for mrn in {event.mrn, *targets}}
            if event.accession in {event.placer, event.filler}:
                patients |= {(event.site, mrn) for mrn in {event.mrn, *targets}}
                named |= numbers_of(event)
    return keys, patients, named


def _with_accession_of_moved(
    event: OrderEvent, moves: VisitTransfers, known: Mapping[OrderKey, Order]
) -> OrderEvent:
    by_number = event.accession in {event.placer, event.filler}
    if not by_number or event.action not in ADDRESSED_ACTIONS or key_of(event) in known:
        return event
    visits = {move.now for visit, move in moves.items() if visit[:2] == (event.site, event.mrn)}
    found = {
        order.key.accession
        for order in known.values()
        if not order.number_only
        and order_numbers(event).match(order)
        and ((may_be_same_order(event, order) and order.moved_away) or _is_of_visit(order, visits))
    }
    if len(found) != 1:
        return event
    (accession,) = found
    info = {**event.clinical_info, "Accession": accession}
    return replace(event, accession=accession, clinical_info=info)


def _is_of_visit(order: Order, visits: Collection[VisitReference]) -> bool:
    key = order.key
    return any(
        (visit.site, visit.mrn, visit.number)
        == (key.site, key.mrn, _visit_number(order.tags, visit.key))
        for visit in visits
    )


def goes_to_other_patient(
    before: Sequence[OrderEvent], after: Sequence[OrderEvent], survivors: Collection[Patient]
) -> bool:
    """True if an order is redirected to another patient, and not because of a merge."""
    return any(
        was.mrn != now.mrn and (was.site, was.mrn) not in survivors
        for was, now in zip(before, after, strict=True)
        if now.action in ADDRESSED_ACTIONS
    )


def _redirected_event(
    event: OrderEvent,
    moves: VisitTransfers,
    known: Mapping[OrderKey, Order],
    sent_at: MessageTime | None,
) -> OrderEvent:
    if not moves:
        return event
    if event.action is OrderAction.VISIT_MOVE:
        return _continued_move(event, moves, sent_at)
    found = _move_of(event, moves, known)
    return event if found is None else _readdressed(event, *found)


def _was_sent_before_move(
    event: OrderEvent,
    sent_at: MessageTime | None,
    moves: VisitTransfers,
    known: Mapping[OrderKey, Order],
) -> bool:
    found = _move_of(event, moves, known)
    return found is not None and is_earlier(sent_at, found[1].sent)


def _move_of(
    event: OrderEvent, moves: VisitTransfers, known: Mapping[OrderKey, Order]
) -> tuple[VisitReference, VisitTransfer] | None:
    if event.action not in ADDRESSED_ACTIONS:
        return None
    key = key_of(event)
    own = known.get(key)
    for visit, move in moves.items():
        if visit[:2] not in {(event.site, event.mrn), (event.site, event.prior_mrn)}:
            continue
        target = known.get(replace(key, mrn=move.now.mrn))
        stays = move.now.mrn != event.mrn and not _follows_visit(event, own, visit.key)
        if not stays and _belongs_to_visit(event, own, target, visit, move):
            return visit, move
    return None


def _belongs_to_visit(
    event: OrderEvent,
    own: Order | None,
    target: Order | None,
    visit: VisitReference,
    move: VisitTransfer,
) -> bool:
    number = _visit_number(event.clinical_info, visit.key)
    if not number and own is not None:
        number = _visit_number(own.tags, visit.key)
    if number and own is not None and own.moved_away:
        return number in {visit.number, move.now.number}
    if number:
        return number == visit.number
    return target is not None and _visit_number(target.tags, visit.key) == move.now.number


def _visit_number(tags: Mapping[str, Any], key: str) -> str:
    return str((tags.get(METADATA) or {}).get(key) or "")


def _follows_visit(event: OrderEvent, own: Order | None, key: str) -> bool:
    """True if an order moves with its visit: it did not stay with the former patient."""
    if own is None or own.moved_away or not _visit_number(own.tags, key):
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
    event: OrderEvent,
    sent_at: MessageTime | None,
    moves: VisitTransfers,
    orders: Iterable[Order],
) -> list[OrderEvent]:
    """
    Return the moves of a survivor's visits that were sent after the merge and arrived before it.

    Orders that come with the merge may belong to those visits.
    """
    own = [
        order
        for order in orders
        if order.patient == (event.site, event.mrn) and not order.moved_away
    ]
    found = []
    for visit, move in moves.items():
        if is_earlier(sent_at, move.sent) and any(_is_of_visit(order, [visit]) for order in own):
            info = {**move.tags, "PatientMRN": move.now.mrn}
            moved = PatientVisit(visit.key, move.now.number, prior=visit.number)
            at_survivor = replace(event, mrn=move.now.mrn, prior_mrn=visit.mrn, clinical_info=info)
            found.append(
                replace(at_survivor, action=OrderAction.VISIT_MOVE, visit=moved, echo=move.echo)
            )
    return found
