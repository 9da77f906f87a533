"""Order lookup: reads the known orders that a batch of messages is about.

Blocking. Few statements for the whole batch. Numbers, children and merged patients are read only
if a message needs them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from sqlalchemy import Connection

from bridge.intake.process.jobs import MessageJob
from bridge.orders.addressing import (
    PATIENT_CONFLICT,
    has_other_accession,
    is_known,
    may_share_closing,
    numbers_by_order,
    numbers_to_look_up,
    orders_of_others,
    patients_in_identifiers,
    with_known_accession,
    with_number,
)
from bridge.orders.hierarchy import numbers_of
from bridge.orders.order import Order, OrderIndexKey, OrderState, Patient, parent_hash
from bridge.orders.patients import (
    MergedIdentity,
    has_conflicting_name,
    is_of_other_person,
    is_other_name,
    survivor_tags,
    with_correction,
    with_known_name,
)
from bridge.orders.plans import SEVERAL_ORDERS, key_of, merge_events
from bridge.orders.rules import (
    CASCADING_ACTIONS,
    CREATING_ACTIONS,
    ORDER_ACTIONS,
    PATIENT_ACTIONS,
)
from bridge.orders.values import links_of, parents_of
from bridge.orders.visits import (
    OTHER_PATIENT,
    Redirects,
    VisitTransfer,
    orders_to_read,
    redirected_events,
)
from bridge.store.records import merged_patients, order_index, patient_demographics, visit_transfers
from bridge.store.records.known_patients import known_patients
from config.listeners import PatientConflict
from mappings.inbound.events import OrderAction, OrderEvent
from mappings.inbound.order_mapping import PatientNames

Index = dict[OrderIndexKey, Order]


def read_redirects(connection: Connection, jobs: Sequence[MessageJob]) -> Redirects:
    """Read the merges of the jobs' patients and the moves of their visits."""
    patients = {
        (event.site, mrn)
        for job in jobs
        for event in job.events
        for mrn in (
            event.mrn,
            event.prior_mrn if event.action is OrderAction.VISIT_MOVE else "",
            *event.other_mrns,
        )
        if mrn
    }
    survivors, moves = visit_transfers.find_merges_and_transfers(connection, patients)
    if survivors:
        others = {(site, mrn) for (site, _), mrn in survivors.items()} - patients
        moves |= visit_transfers.find_merges_and_transfers(connection, others)[1]
    return Redirects(survivors, moves)


def names_several_patients(
    connection: Connection, events: Sequence[OrderEvent], survivors: Mapping[Patient, str]
) -> bool:
    """True if PID-3 of an event has the numbers of several patients."""
    return any(
        _identified_event(connection, event, survivors) is None
        for event in events
        if event.other_mrns
    )


def identified_job(
    connection: Connection, job: MessageJob, survivors: Mapping[Patient, str]
) -> MessageJob | None:
    """
    Give the events of a job the numbers in PID-3 by which their patients are known.

    Returns None if PID-3 has the numbers of several patients.
    """
    if not any(event.other_mrns for event in job.events):
        return job
    events = [_identified_event(connection, event, survivors) for event in job.events]
    identified = [event for event in events if event is not None]
    return replace(job, events=identified) if len(identified) == len(events) else None


def _identified_event(
    connection: Connection, event: OrderEvent, survivors: Mapping[Patient, str]
) -> OrderEvent | None:
    """
    Return an event with the number of its known patient; None if it names several patients.

    The first number in PID-3 may be new. It is the known patient's if name, date of birth and sex
    do not contradict that.
    """
    patients = patients_in_identifiers(event, survivors)
    known = known_patients(connection, patients) if patients else set()
    if len(known) > 1:
        return None
    own = (event.site, survivors.get((event.site, event.mrn), event.mrn))
    if not known or own in known:
        return event
    (patient,) = known
    if is_of_other_person(event, MergedIdentity(_known_tags(connection, patient))):
        return None
    return with_number(event, patient[1])


def _known_tags(connection: Connection, patient: Patient) -> Sequence[Mapping[str, Any]]:
    """Read what is known of a patient: the last correction, and else the orders."""
    demographics = patient_demographics.find(connection, [patient])
    tags = demographics[patient].tags if patient in demographics else {}
    orders = order_index.find_by_patient(connection, [patient])
    return survivor_tags(tags, {}, [order.tags for order in orders if not order.moved_away])


def redirect_jobs(
    connection: Connection, jobs: Sequence[MessageJob], redirects: Redirects
) -> list[MessageJob]:
    """Redirect jobs to the current patients; one for each, in order."""
    if not redirects.moves:
        return [_redirected(job, redirects, {}) for job in jobs]
    to_read = [orders_to_read(job.events, redirects) for job in jobs]
    known = order_index.find(connection, {key for keys, _, _ in to_read for key in keys})
    patients = {each for _, some, _ in to_read for each in some}
    numbers = {each for _, _, some in to_read for each in some}
    for order in order_index.find_by_number(connection, patients, numbers):
        known.setdefault(order.key, order)
    return [_redirected(job, redirects, known) for job in jobs]


def _redirected(job: MessageJob, redirects: Redirects, known: Index) -> MessageJob:
    events, names_former_patient = redirected_events(
        job.events, job.source.sent_at, redirects, known
    )
    exception_code = OTHER_PATIENT if names_former_patient else job.exception_code
    return replace(job, events=events, exception_code=exception_code, moves=redirects.moves)


def look_up_orders(
    connection: Connection, jobs: Sequence[MessageJob]
) -> tuple[list[MessageJob], Index]:
    """Address the jobs' events, and read their orders with all related ones."""
    jobs = _with_corrections(connection, jobs)
    numbers = numbers_by_order(event for job in jobs for event in job.events)
    keys = [key for each in _order_events(jobs) for key in _keys(each)]
    wanted = {key: numbers.get(key, set()) for key in keys}
    index, others = order_index.find_with_others(connection, wanted)
    jobs = _addressed(connection, jobs, index)
    if others:
        jobs = [_with_conflicts(job, index, others) for job in jobs]
    events = _order_events(jobs)
    signals = {each for event in events for each in _signals_to_look_up(event, index)}
    patients = {each for job in jobs for each in job.patients}
    for order in order_index.find_related(connection, patients, signals) if signals else ():
        index.setdefault(order.key, order)
    _add_children(connection, events, index)
    for order in order_index.find_by_patient(connection, _patients_with_all_orders(jobs)):
        index.setdefault(order.key, order)
    if any(order.number_only for order in index.values()):
        jobs = [replace(job, has_early_rows=True) for job in jobs]
    jobs = [_with_pointers(connection, job) for job in jobs]
    return [_with_known_names(job, index) for job in jobs], index


def _with_pointers(connection: Connection, job: MessageJob) -> MessageJob:
    """Add the merges of its patients to a job that undoes one."""
    if all(event.action is not OrderAction.PATIENT_UNMERGE for event in job.events):
        return job
    return replace(job, pointers=merged_patients.pointers(connection, job.patients))


def _with_known_names(job: MessageJob, index: Index) -> MessageJob:
    """Give the events the names that their orders have, if they have spellings of these names."""
    if not index or job.patient_names is not PatientNames.COMPATIBLE:
        return job
    events = [
        with_known_name(event, known.tags) if known is not None else event
        for event in job.events
        for known in [_known_order(event, index)]
    ]
    changed = any(now is not was for now, was in zip(events, job.events, strict=True))
    return replace(job, events=events) if changed else job


def names_other_person(job: MessageJob, index: Mapping[OrderIndexKey, Order]) -> bool:
    """
    True if an event names another person than its order.

    The report engine knows only the orders on the worklist, and no names of cancellations.
    """
    if job.patient_names is PatientNames.UPDATE:
        return False
    return any(
        known.state != OrderState.CANCELLED and is_other_name(event, known.tags)
        for event in job.events
        if (known := _known_order(event, index)) is not None
    )


def _known_order(event: OrderEvent, index: Mapping[OrderIndexKey, Order]) -> Order | None:
    known = index.get(key_of(event)) if event.action in ORDER_ACTIONS else None
    return None if known is None or known.number_only or known.moved_away else known


def _with_conflicts(job: MessageJob, index: Index, others: Sequence[Order]) -> MessageJob:
    found = [(each, orders_of_others(each, index, others)) for each in job.events]
    if not any(orders for _, orders in found):
        return job
    known = [
        order for event, orders in found if event.action not in CREATING_ACTIONS for order in orders
    ]
    accepts = not known or job.patient_conflict is PatientConflict.ACCEPT
    exception_code = PATIENT_CONFLICT if accepts else job.exception_code
    return replace(job, exception_code=exception_code, conflicts=() if accepts else known)


def _keys(event: OrderEvent) -> list[OrderIndexKey]:
    """Return the keys of an order: with its patient, and with the former patient of its visit."""
    key = key_of(event)
    return [key, key._replace(mrn=event.prior_mrn)] if event.prior_mrn else [key]


def _with_corrections(connection: Connection, jobs: Sequence[MessageJob]) -> Sequence[MessageJob]:
    """Apply later corrections of their patients to late orders."""
    patients = {
        (event.site, mrn)
        for job in jobs
        for event in job.events
        for mrn in (event.mrn, event.prior_mrn)
        if mrn
    }
    demographics = patient_demographics.find(connection, patients)
    if not demographics:
        return jobs
    conflicting = {
        (each.site, each.mrn)
        for job in jobs
        for each in job.events
        if has_conflicting_name(each, job.source.sent_at, demographics)
    }
    own = order_index.find_by_patient(connection, conflicting) if conflicting else []
    return [
        replace(
            job,
            events=[
                with_correction(each, job.source.sent_at, demographics, own) for each in job.events
            ],
            demographics=demographics,
        )
        for job in jobs
    ]


def _patients_with_all_orders(jobs: Sequence[MessageJob]) -> set[Patient]:
    """Return the patients of patient events and visits: all orders of these patients are needed."""
    return {
        (event.site, mrn)
        for job in jobs
        for event in job.events
        if event.visit is not None or event.action in PATIENT_ACTIONS
        for mrn in (event.mrn, event.prior_mrn)
        if mrn
    } | {(move.now.site, move.now.mrn) for job in jobs for move in _moves_to_follow(job)}


def _moves_to_follow(job: MessageJob) -> list[VisitTransfer]:
    merges = any(each.action is OrderAction.PATIENT_MERGE for each in job.events)
    return list(job.moves.values()) if merges else []


def _order_events(jobs: Sequence[MessageJob]) -> list[OrderEvent]:
    return [
        each for job in jobs for each in merge_events(job.events) if each.action in ORDER_ACTIONS
    ]


def _addressed(
    connection: Connection, jobs: Sequence[MessageJob], index: Index
) -> Sequence[MessageJob]:
    """Resolve events whose order is known by other numbers."""
    unknown = [each for each in _order_events(jobs) if not is_known(each, index)]
    numbers = {number for each in unknown for number in numbers_to_look_up(each)}
    patients = {(each.site, mrn) for each in unknown for mrn in (each.mrn, each.prior_mrn) if mrn}
    found = order_index.find_by_number(connection, patients, numbers)
    if not found:
        return jobs
    addressed = []
    for job in jobs:
        resolved_events = [with_known_accession(event, index, found) for event in job.events]
        events = [event for event, _ in resolved_events]
        ambiguous = any(
            is_ambiguous or may_share_closing(event, found)
            for event, is_ambiguous in resolved_events
        )
        other_accession = any(has_other_accession(event, index, found) for event in events)
        exception_code = (
            SEVERAL_ORDERS if ambiguous else "other_accession" if other_accession else ""
        )
        addressed.append(
            replace(job, events=events, exception_code=exception_code or job.exception_code)
        )
    for order in found:
        index.setdefault(order.key, order)
    return addressed


def _signals_to_look_up(event: OrderEvent, index: Index) -> set[int]:
    known = index.get(key_of(event))
    own = {link.value for link in links_of(event)} | parents_of(event)
    if known is None:
        return own
    values = {link.value for link in known.links}
    return own.union(values, known.parents, known.closed_by, known.merged_from)


def _add_children(connection: Connection, events: Sequence[OrderEvent], index: Index) -> None:
    """
    Read the children of orders that are cancelled, held, released or replaced, and their
    children.
    """
    closing = [
        event for event in events if event.action in CASCADING_ACTIONS | {OrderAction.REPLACE}
    ]
    numbers = {number for event in closing for number in numbers_of(event)}
    for known in (index.get(key_of(event)) for event in closing):
        numbers |= known.numbers if known else set()
    looked_up: set[int] = set()
    while missing := set(map(parent_hash, numbers)) - looked_up:
        looked_up |= missing
        found = order_index.find_by_signal(connection, missing)
        numbers = {number for order in found for number in order.numbers}
        for order in found:
            index.setdefault(order.key, order)
