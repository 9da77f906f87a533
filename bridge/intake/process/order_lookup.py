"""
The order lookup: what a batch of messages needs of the database before it is applied.

Redirects messages to the current patients, addresses them to the orders that they name by any
number, and reads these orders with all related ones. Blocking.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from sqlalchemy import Connection

from bridge.contract import OrderKey
from bridge.intake.process.jobs import MessageJob
from bridge.intake.receive.patient_check import identified_event
from bridge.orders.addressing import (
    PATIENT_CONFLICT,
    PatientMergedError,
    has_other_accession,
    is_known,
    may_share_closing,
    names_merged_patient,
    numbers_by_order,
    numbers_to_look_up,
    orders_of_others,
    with_known_accession,
)
from bridge.orders.hierarchy import numbers_of
from bridge.orders.order import Order, OrderState, Patient, key_of, merged_hash, parent_hash
from bridge.orders.patients import (
    IDENTIFYING,
    MergedIdentity,
    has_conflicting_name,
    is_of_other_person,
    is_other_name,
    moves_to_merged,
    names_new_owner,
    survivor_tags,
    with_correction,
    with_known_name,
)
from bridge.orders.plans import SEVERAL_ORDERS, merge_events
from bridge.orders.rules import (
    ADDRESSED_ACTIONS,
    CASCADING_ACTIONS,
    CREATING_ACTIONS,
    PATIENT_ACTIONS,
)
from bridge.orders.values import links_of, parents_of
from bridge.orders.visits import (
    OTHER_PATIENT,
    Redirects,
    VisitMovedError,
    VisitTransfer,
    goes_to_other_patient,
    orders_to_read,
    redirected_events,
)
from bridge.store.records import (
    identifier_changes,
    order_index,
    patient_records,
)
from config.listeners import MergedPatients, PatientConflict
from mappings.inbound.events import OrderAction, OrderEvent
from mappings.inbound.order_mapping import PatientNames

Index = dict[OrderKey, Order]


_RENAMING_ACTIONS = frozenset({OrderAction.PATIENT_UPDATE, OrderAction.PATIENT_MERGE})
"""Actions that give the orders of a number the demographics in the message."""


def read_redirects(connection: Connection, jobs: Sequence[MessageJob]) -> Redirects:
    """Read the merges of the jobs' patients and the moves of their visits."""
    patients = {patient for job in jobs for patient in _patients_to_redirect(job)}
    survivors, moves = patient_records.find_merges_and_transfers(connection, patients)
    if survivors:
        others = {(site, mrn) for (site, _), mrn in survivors.items()} - patients
        moves |= patient_records.find_merges_and_transfers(connection, others)[1]
    return Redirects(survivors, moves)


def _patients_to_redirect(job: MessageJob) -> set[Patient]:
    return {
        (event.site, mrn)
        for event in job.events
        for mrn in (
            event.mrn,
            event.prior_mrn if event.action is OrderAction.VISIT_MOVE else "",
            *event.other_mrns,
        )
        if mrn
    }


def named_patients(job: MessageJob) -> set[Patient]:
    others = {(event.site, mrn) for event in job.events for mrn in event.other_mrns}
    return job.patients | others


def identified_job(
    connection: Connection, job: MessageJob, survivors: Mapping[Patient, str]
) -> MessageJob | None:
    """
    Give the events of a job the numbers in PID-3 by which their patients are known.

    Returns None if PID-3 has the numbers of several patients.
    """
    if not any(event.other_mrns for event in job.events):
        return job
    events = [identified_event(connection, event, survivors) for event in job.events]
    identified = [event for event in events if event is not None]
    return replace(job, events=identified) if len(identified) == len(events) else None


def redirect_jobs(
    connection: Connection, jobs: Sequence[MessageJob], redirects: Redirects
) -> list[MessageJob]:
    """Redirect jobs to the current patients; one for each, in order."""
    if not redirects.moves:
        return [_redirected(job, redirects, {}) for job in jobs]
    to_read = [orders_to_read(job.events, redirects) for job in jobs]
    known = order_index.find(connection, {key for keys, _, _ in to_read for key in keys})
    patients = {patient for _, some, _ in to_read for patient in some}
    numbers = {number for _, _, some in to_read for number in some}
    for order in order_index.find_by_number(connection, patients, numbers):
        known.setdefault(order.key, order)
    return [_redirected(job, redirects, known) for job in jobs]


def _redirected(job: MessageJob, redirects: Redirects, known: Index) -> MessageJob:
    events, names_former_patient = redirected_events(
        job.events, job.source.sent_at, redirects, known
    )
    exception_code = OTHER_PATIENT if names_former_patient else job.exception_code
    return replace(
        job,
        events=events,
        exception_code=exception_code,
        moves=redirects.moves,
        redirected=redirects.survivors.keys(),
    )


def look_up_orders(
    connection: Connection, jobs: Sequence[MessageJob]
) -> tuple[list[MessageJob], Index]:
    """Address the jobs' events, and read their orders with all related ones."""
    jobs = [_with_patients_of_orders(connection, job) for job in jobs]
    jobs = _with_corrections(connection, jobs)
    numbers = numbers_by_order(event for job in jobs for event in job.events)
    keys = [key for order_event in _order_events(jobs) for key in _keys(order_event)]
    wanted = {key: numbers.get(key, set()) for key in keys}
    index, others = order_index.find_with_others(connection, wanted)
    jobs = _addressed(connection, jobs, index)
    if others:
        jobs = [_with_conflicts(job, index, others) for job in jobs]
    events = _order_events(jobs)
    signals = {signal for event in events for signal in _signals_to_look_up(event, index)}
    patients = {patient for job in jobs for patient in job.patients}
    for order in order_index.find_related(connection, patients, signals) if signals else ():
        index.setdefault(order.key, order)
    _add_children(connection, events, index)
    for order in order_index.find_by_patient(connection, _patients_with_all_orders(jobs)):
        index.setdefault(order.key, order)
    if any(order.number_only for order in index.values()):
        jobs = [replace(job, has_early_rows=True) for job in jobs]
    jobs = [_with_pointers(connection, job) for job in jobs]
    return [_with_known_names(job, index) for job in jobs], index


def _with_patients_of_orders(connection: Connection, job: MessageJob) -> MessageJob:
    """
    Address outside reports without a patient number to the patient whose order they name.

    Their tags stay without a number: the report follows the order, also in merges. The report
    engine refuses it if name or birth date contradict.
    """
    if all(event.mrn or event.outside is None for event in job.events):
        return job
    return replace(job, events=[_with_patient_of_order(connection, event) for event in job.events])


def _with_patient_of_order(connection: Connection, event: OrderEvent) -> OrderEvent:
    if event.mrn or event.outside is None:
        return event
    named = order_index.find_named(connection, [event.site], event.accession, "")
    patients = {order.key.mrn for order in named if not (order.number_only or order.moved_away)}
    return replace(event, mrn=patients.pop()) if len(patients) == 1 else event


def _with_pointers(connection: Connection, job: MessageJob) -> MessageJob:
    """
    Add the merges of its patients, and what they moved, to a job that undoes one.

    A job that merges patients gets the undos that were sent.
    """
    actions = {event.action for event in job.events}
    if OrderAction.PATIENT_MERGE in actions:
        return replace(job, separations=patient_records.separations(connection, job.patients))
    if OrderAction.PATIENT_UNMERGE not in actions:
        return job
    pointers = patient_records.merge_pointers(connection, named_patients(job))
    returning = {
        patient: identifier_changes.returning_orders(connection, pointer)
        for patient, pointer in pointers.items()
    }
    return replace(job, pointers=pointers, returning=returning)


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


def names_other_person(job: MessageJob, index: Mapping[OrderKey, Order]) -> bool:
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


def _known_order(event: OrderEvent, index: Mapping[OrderKey, Order]) -> Order | None:
    known = index.get(key_of(event)) if event.action in ADDRESSED_ACTIONS else None
    return None if known is None or known.number_only or known.moved_away else known


def _with_conflicts(job: MessageJob, index: Index, others: Sequence[Order]) -> MessageJob:
    found = [(event, orders_of_others(event, index, others)) for event in job.events]
    if not any(orders for _, orders in found):
        return job
    known = [
        order for event, orders in found if event.action not in CREATING_ACTIONS for order in orders
    ]
    accepts = not known or job.patient_conflict is PatientConflict.ACCEPT
    exception_code = PATIENT_CONFLICT if accepts else job.exception_code
    return replace(job, exception_code=exception_code, conflicts=() if accepts else known)


def _keys(event: OrderEvent) -> list[OrderKey]:
    """Return the keys of an order: with its patient, and with the former patient of its visit."""
    key = key_of(event)
    return [key, replace(key, mrn=event.prior_mrn)] if event.prior_mrn else [key]


def _with_corrections(connection: Connection, jobs: Sequence[MessageJob]) -> Sequence[MessageJob]:
    """Apply later corrections of their patients to late orders."""
    patients = {
        (event.site, mrn)
        for job in jobs
        for event in job.events
        for mrn in (event.mrn, event.prior_mrn, event.merged_into)
        if mrn
    }
    demographics = patient_records.demographics(connection, patients)
    if not demographics:
        return jobs
    conflicting = {
        (event.site, event.mrn)
        for job in jobs
        for event in job.events
        if has_conflicting_name(event, job.source.sent_at, demographics)
    }
    own = order_index.find_by_patient(connection, conflicting) if conflicting else []
    return [
        replace(
            job,
            events=[
                with_correction(event, job.source.sent_at, demographics, own)
                for event in job.events
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
    merges = any(event.action is OrderAction.PATIENT_MERGE for event in job.events)
    return list(job.moves.values()) if merges else []


def _order_events(jobs: Sequence[MessageJob]) -> list[OrderEvent]:
    return [
        event
        for job in jobs
        for event in merge_events(job.events)
        if event.action in ADDRESSED_ACTIONS
    ]


def _addressed(
    connection: Connection, jobs: Sequence[MessageJob], index: Index
) -> Sequence[MessageJob]:
    """Resolve events whose order is known by other numbers."""
    unknown = [
        order_event for order_event in _order_events(jobs) if not is_known(order_event, index)
    ]
    numbers = {number for event in unknown for number in numbers_to_look_up(event)}
    patients = {
        (event.site, mrn) for event in unknown for mrn in (event.mrn, event.prior_mrn) if mrn
    }
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


def merged_identities(
    connection: Connection, jobs: Sequence[MessageJob], redirects: Redirects
) -> Mapping[Patient, MergedIdentity]:
    merged = {
        (event.site, event.mrn)
        for job in jobs
        for event in job.events
        if (event.site, event.mrn) in redirects.survivors
        and event.action is not OrderAction.PATIENT_UNMERGE
    }
    if not merged:
        return {}
    pointers = patient_records.merge_pointers(connection, merged)
    survivors = {(pointer.site, pointer.mrn) for pointer in pointers.values()}
    known = patient_records.demographics(connection, merged | survivors)
    found: dict[Patient, MergedIdentity] = {}
    for patient, pointer in pointers.items():
        current = (pointer.site, pointer.mrn)
        now = known[current].tags if current in known else {}
        former = known[patient].tags if patient in known else {}
        orders = (
            order_index.find_by_patient(connection, [current])
            if not all(now.get(tag) or pointer.identity.get(tag) for tag in IDENTIFYING)
            else ()
        )
        mark = merged_hash(pointer.prior_mrn)
        own = [order.tags for order in orders if mark not in order.merged_from]
        found[patient] = MergedIdentity(survivor_tags(now, pointer.identity, own), former)
    return found


def contradicts_merge(
    job: MessageJob, identities: Mapping[Patient, MergedIdentity], redirects: Redirects
) -> bool:
    """True if an event with a merged number is about another person than the survivor."""
    return any(
        moves_to_merged(event, redirects.survivors)
        or (
            (event.site, event.mrn) in identities
            and is_of_other_person(event, identities[event.site, event.mrn])
        )
        for event in job.events
    )


def redirect_refusal(
    job: MessageJob, redirected: MessageJob, redirects: Redirects
) -> PatientMergedError | VisitMovedError | None:
    """Return why a listener that does not redirect refuses a job."""
    if job.merged is not MergedPatients.REFUSE:
        return None
    if names_merged_patient(job.events, redirects.survivors):
        return PatientMergedError()
    return (
        VisitMovedError()
        if goes_to_other_patient(job.events, redirected.events, redirects.survivors)
        else None
    )


def renamed_patients(job: MessageJob) -> set[Patient]:
    """Return the patients whose demographics a job corrects."""
    return {(event.site, event.mrn) for event in job.events if event.action in _RENAMING_ACTIONS}


def reused_numbers(
    connection: Connection, jobs: Sequence[MessageJob], index: Index
) -> set[Patient]:
    """Return the freed numbers that a job gives to another person than that of their orders."""
    renamed = set[Patient]().union(*map(renamed_patients, jobs))
    freed = identifier_changes.freed_numbers(connection, renamed) if renamed else set()
    if not freed:
        return freed
    orders = [order for order in index.values() if order.patient in freed and not order.moved_away]
    return {
        order.patient
        for job in jobs
        for event in job.events
        if event.action in _RENAMING_ACTIONS
        for order in orders
        if order.patient == (event.site, event.mrn) and names_new_owner(event, order.tags)
    }
