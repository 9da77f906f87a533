"""Whose a visit is now: orders that name what it was before are its new patient's.

Pure. Merges are `addressing`'s. An order that could not move along, since somebody had begun its
report, stays whose it was, and so does what is said of it.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from bridge.intake.patients.demographics import anothers, said_in
from bridge.intake.patients.visits import METADATA, NUMBERS
from bridge.intake.process.addressing import Patient, surviving
from bridge.intake.process.early_events import is_same, numbers
from bridge.intake.process.jobs import Job
from bridge.intake.process.link_signals import has_moved_away, is_unordered
from bridge.intake.process.order_rules import ORDERING, ORDERS, OrderState
from bridge.intake.process.planning import key_of
from bridge.store.records.message_time import MessageTime, is_earlier
from bridge.store.records.order_index import IndexedOrder, OrderIndexKey
from bridge.store.records.visit_transfers import VisitReference, VisitTransfer, VisitTransfers
from mappings.inbound.events import OrderAction, OrderEvent, PatientVisit
from mappings.inbound.procedures import replace_identifiers, replace_number

OTHER_PATIENT = "other_patient"
"""The code of an order that names whose visit it was, though it was sent after the move."""


class MovedVisit(Exception):  # noqa: N818  # says what the visit is
    """A message is about a visit that moved to another patient, and the listener redirects none."""

    def __init__(self) -> None:
        """Say so; never which."""
        super().__init__("the visit was moved to another patient")


@dataclass(frozen=True, slots=True)
class Whereabouts:
    """Who was merged into whom, and which visits moved."""

    survivors: Mapping[Patient, str] = field(default_factory=dict)
    moves: VisitTransfers = field(default_factory=dict)


def led(job: Job, where: Whereabouts, known: Mapping[OrderIndexKey, IndexedOrder]) -> Job:
    """Give a job whose events are about those who are the patients now; `known`: their orders."""
    survivors = [surviving(each, where.survivors) for each in job.events]
    events = [_named(each, where.moves, known) for each in survivors]
    followed = [_followed(each, where.moves, known, job.occasion.sent_at) for each in events]
    late = any(
        was.mrn != now.mrn and not _sent_before(job, was, where.moves, known)
        for was, now in zip(events, followed, strict=True)
        if now.action in ORDERS
    )
    doubt = OTHER_PATIENT if late else job.doubt
    return replace(job, events=followed, doubt=doubt, moves=where.moves)


def asked_for(job: Job, where: Whereabouts) -> tuple[set[OrderIndexKey], set[Patient], set[str]]:
    """
    Name the orders that have to be known to say where a job leads, at both patients.

    By their keys; and those patients, with the numbers by which events name their orders.
    """
    whose = {(each.site, each.mrn) for each in where.moves}
    keys, patients, named = set[OrderIndexKey](), set[Patient](), set[str]()
    for event in (surviving(each, where.survivors) for each in job.events):
        own = {(event.site, event.mrn), (event.site, event.prior_mrn)}
        if event.action in ORDERS and own & whose:
            targets = {to.now.mrn for visit, to in where.moves.items() if visit[:2] in own}
            keys |= {key_of(event)._replace(mrn=mrn) for mrn in {event.mrn, *targets}}
            if event.accession in {event.placer, event.filler}:
                patients |= {(event.site, mrn) for mrn in {event.mrn, *targets}}
                named |= {event.placer, event.filler} - {""}
    return keys, patients, named


def _named(
    event: OrderEvent, moves: VisitTransfers, known: Mapping[OrderIndexKey, IndexedOrder]
) -> OrderEvent:
    """Give an event by a number the accession of the one order that moved, or came after a move."""
    by_number = event.accession in {event.placer, event.filler}
    if not by_number or event.action not in ORDERS or key_of(event) in known:
        return event
    there = {to.now for visit, to in moves.items() if visit[:2] == (event.site, event.mrn)}
    found = {
        each.key.accession
        for each in known.values()
        if not is_unordered(each)
        and numbers(event).agree(each)
        and ((is_same(event, each) and has_moved_away(each)) or _is_at(each, there))
    }
    if len(found) != 1:
        return event
    (accession,) = found
    info = {**event.clinical_info, "Accession": accession}
    return replace(event, accession=accession, clinical_info=info)


def _is_at(order: IndexedOrder, visits: Collection[VisitReference]) -> bool:
    key = order.key
    return any(
        (each.site, each.mrn, each.number) == (key.site, key.mrn, _number(order.tags, each.key))
        for each in visits
    )


def others_visits(before: Job, after: Job, survivors: Collection[Patient]) -> bool:
    """Tell whether an order goes to another patient, and not for a merge."""
    return any(
        was.mrn != now.mrn and (was.site, was.mrn) not in survivors
        for was, now in zip(before.events, after.events, strict=True)
        if now.action in ORDERS
    )


def _followed(
    event: OrderEvent,
    moves: VisitTransfers,
    known: Mapping[OrderIndexKey, IndexedOrder],
    sent_at: MessageTime | None,
) -> OrderEvent:
    if not moves:
        return event
    if event.action is OrderAction.VISIT_MOVE:
        return _move_on(event, moves, sent_at)
    found = _move_of(event, moves, known)
    return event if found is None else _given(event, *found)


def _sent_before(
    job: Job, event: OrderEvent, moves: VisitTransfers, known: Mapping[OrderIndexKey, IndexedOrder]
) -> bool:
    found = _move_of(event, moves, known)
    return found is not None and is_earlier(job.occasion.sent_at, found[1].sent)


def _move_of(
    event: OrderEvent, moves: VisitTransfers, known: Mapping[OrderIndexKey, IndexedOrder]
) -> tuple[VisitReference, VisitTransfer] | None:
    """Find the move of an order's visit, by its own word or by what is known of the order."""
    if event.action not in ORDERS:
        return None
    key = key_of(event)
    own = known.get(key)
    for visit, move in moves.items():
        if visit[:2] not in {(event.site, event.mrn), (event.site, event.prior_mrn)}:
            continue
        target = known.get(key._replace(mrn=move.now.mrn))
        stays = move.now.mrn != event.mrn and not _goes_along(event, own, visit.key)
        if not stays and _is_of(event, own, target, visit, move):
            return visit, move
    return None


def _is_of(
    event: OrderEvent,
    own: IndexedOrder | None,
    target: IndexedOrder | None,
    visit: VisitReference,
    move: VisitTransfer,
) -> bool:
    """Tell whether an order is of a visit: by its own word, else by what is known of it."""
    said = _number(event.clinical_info, visit.key)
    if not said and own is not None:
        said = _number(own.tags, visit.key)
    if said and own is not None and has_moved_away(own):
        return said in {visit.number, move.now.number}
    if said:
        return said == visit.number
    return target is not None and _number(target.tags, visit.key) == move.now.number


def _number(tags: Mapping[str, Any], key: str) -> str:
    return str((tags.get(METADATA) or {}).get(key) or "")


def _goes_along(event: OrderEvent, own: IndexedOrder | None, key: str) -> bool:
    """Tell whether an order is not one that stayed with the former patient, known as of a visit."""
    if own is None or has_moved_away(own) or not _number(own.tags, key):
        return True
    return own.state == OrderState.CANCELLED and event.action in ORDERING


def _given(event: OrderEvent, visit: VisitReference, move: VisitTransfer) -> OrderEvent:
    """Give an order to whose its visit is now."""
    info: dict[str, Any] = dict(event.clinical_info)
    moves = move.now.mrn != event.mrn
    if moves:
        info = {**anothers(info, move.tags), "PatientMRN": move.now.mrn}
    info[METADATA] = {**(info.get(METADATA) or {}), visit.key: move.now.number}
    echo = replace_number(event.echo, NUMBERS, visit.number, move.now.number)
    return replace(
        event,
        mrn=move.now.mrn,
        prior_mrn=event.mrn if moves else event.prior_mrn,
        clinical_info=info,
        echo=replace_identifiers(echo, move.echo) if moves else echo,
    )


def _move_on(event: OrderEvent, moves: VisitTransfers, sent_at: MessageTime | None) -> OrderEvent:
    """Let a move begin where its visit is by now, and end where it was moved on to since."""
    visit = event.visit
    if visit is None:
        return event
    prior, to = _ends(event, visit)
    source = moves.get(prior)
    if source is not None and not is_earlier(sent_at, source.sent):
        visit = replace(visit, prior=source.now.number)
        event = replace(event, prior_mrn=source.now.mrn, visit=visit)
    target = moves.get(to)
    if target is not None and is_earlier(sent_at, target.sent):
        info = {**event.clinical_info, **target.tags, "PatientMRN": target.now.mrn}
        visit = replace(visit, number=target.now.number, prior=visit.prior or prior.number)
        prior_mrn = event.prior_mrn or event.mrn
        event = replace(event, mrn=target.now.mrn, prior_mrn=prior_mrn, visit=visit)
        event = replace(event, clinical_info=info, echo=target.echo)
    return event


def _ends(event: OrderEvent, visit: PatientVisit) -> tuple[VisitReference, VisitReference]:
    """Give what a move's visit was before, and what it is then."""
    number = visit.prior or visit.number
    prior = VisitReference(event.site, event.prior_mrn or event.mrn, visit.key, number)
    return prior, VisitReference(event.site, event.mrn, visit.key, visit.number or number)


def moved_by(event: OrderEvent, said: MessageTime) -> list[tuple[VisitReference, VisitTransfer]]:
    """Give what is to be remembered of an event that moves a visit, sent at this time."""
    if event.action is not OrderAction.VISIT_MOVE or event.visit is None:
        return []
    prior, now = _ends(event, event.visit)
    return [(prior, VisitTransfer(now, said.at, said_in(event), event.echo, said.clock))]


def moved_since(event: OrderEvent, job: Job, orders: Iterable[IndexedOrder]) -> list[OrderEvent]:
    """
    Give the moves of a survivor's visits that were sent after her merge and came before it.

    Orders that the merge brings her may be of those visits.
    """
    own = [each for each in orders if each.key[:2] == (event.site, event.mrn)]
    found = []
    for visit, to in job.moves.items():
        since = is_earlier(job.occasion.sent_at, to.sent)
        hers = any(_is_at(each, [visit]) and not has_moved_away(each) for each in own)
        if since and hers:
            info = {**to.tags, "PatientMRN": to.now.mrn}
            moved = PatientVisit(visit.key, to.now.number, prior=visit.number)
            who = replace(event, mrn=to.now.mrn, prior_mrn=visit.mrn, clinical_info=info)
            found.append(replace(who, action=OrderAction.VISIT_MOVE, visit=moved, echo=to.echo))
    return found
