"""What the index knows of the orders that a batch of messages is about. Reads, and decides nothing.

Blocking. Few statements for the whole batch, and those for numbers, children and merged patients
only where a message gives cause.
"""

from collections.abc import Sequence
from dataclasses import replace

from sqlalchemy import Connection

from bridge.intake.patients.demographics import as_corrected
from bridge.intake.patients.names import calls_otherwise
from bridge.intake.patients.visit_transfers import Whereabouts, asked_for, led
from bridge.intake.process.addressing import (
    PATIENT_CONFLICT,
    Patient,
    has_other_accession,
    is_known,
    numbers_of,
    orders_of_others,
    resolved,
    shares_end,
)
from bridge.intake.process.jobs import Job
from bridge.intake.process.link_signals import is_unordered, signals_after
from bridge.intake.process.order_hierarchy import child_signals
from bridge.intake.process.order_rules import CASCADING, ORDERING, ORDERS, PATIENTS
from bridge.intake.process.planning import fold, key_of
from bridge.intake.receive.listener import PatientConflict
from bridge.store.records import order_index, patient_demographics, visit_transfers
from bridge.store.records.order_index import IndexedOrder, OrderIndexKey
from bridge.store.records.visit_transfers import VisitTransfer
from mappings.inbound.events import OrderAction, OrderEvent

Index = dict[OrderIndexKey, IndexedOrder]


def whereabouts(connection: Connection, jobs: Sequence[Job]) -> Whereabouts:
    """Read which of the jobs' patients were merged into whom, and which of their visits moved."""
    everybody = {
        (event.site, mrn)
        for job in jobs
        for event in job.events
        for mrn in (event.mrn, event.prior_mrn if event.action is OrderAction.VISIT_MOVE else "")
        if mrn
    }
    survivors, moves = visit_transfers.find_merges_and_transfers(connection, everybody)
    if survivors:
        others = {(site, mrn) for (site, _), mrn in survivors.items()} - everybody
        moves |= visit_transfers.find_merges_and_transfers(connection, others)[1]
    return Whereabouts(survivors, moves)


def lead(connection: Connection, jobs: Sequence[Job], where: Whereabouts) -> list[Job]:
    """Give the jobs to whom they are about now; one for each, in order."""
    if not where.moves:
        return [led(job, where, {}) for job in jobs]
    asked = [asked_for(job, where) for job in jobs]
    known = order_index.find(connection, {key for keys, _, _ in asked for key in keys})
    patients = {each for _, some, _ in asked for each in some}
    numbers = {each for _, _, some in asked for each in some}
    for order in order_index.find_by_number(connection, patients, numbers):
        known.setdefault(order.key, order)
    return [led(job, where, known) for job in jobs]


def look_up(connection: Connection, jobs: Sequence[Job]) -> tuple[list[Job], Index]:
    """Address the jobs' events, and read the orders they are about with all that are akin."""
    jobs = _as_corrected(connection, jobs)
    keys = [key for each in _orders(jobs) for key in _keys(each)]
    index, others = order_index.find_with_others(connection, keys)
    jobs = _addressed(connection, jobs, index)
    if others:
        jobs = [_with_conflicts(job, index, others) for job in jobs]
    events = _orders(jobs)
    signals = {each for event in events for each in _shown(event, index)}
    patients = {each for job in jobs for each in job.patients}
    for order in order_index.find_related(connection, patients, signals) if signals else ():
        index.setdefault(order.key, order)
    _children(connection, events, index)
    for order in order_index.find_by_patient(connection, _visited(jobs)):
        index.setdefault(order.key, order)
    if any(map(is_unordered, index.values())):
        jobs = [replace(job, heard=True) for job in jobs]
    return list(jobs), index


def _with_conflicts(job: Job, index: Index, others: Sequence[IndexedOrder]) -> Job:
    """Note which orders of other patients a job names; one that is new is no reason to stop it."""
    found = [(each, orders_of_others(each, index, others)) for each in job.events]
    if not any(orders for _, orders in found):
        return job
    known = [order for event, orders in found if event.action not in ORDERING for order in orders]
    accepts = not known or job.patient_conflict is PatientConflict.ACCEPT
    doubt = PATIENT_CONFLICT if accepts else job.doubt
    return replace(job, doubt=doubt, conflicts=() if accepts else known)


def _keys(event: OrderEvent) -> list[OrderIndexKey]:
    """Give the keys under which an order may be known: its patient's, and whose its visit was."""
    key = key_of(event)
    return [key, key._replace(mrn=event.prior_mrn)] if event.prior_mrn else [key]


def _as_corrected(connection: Connection, jobs: Sequence[Job]) -> Sequence[Job]:
    """Let late orders say of their patients what was said since."""
    everybody = {
        (event.site, mrn)
        for job in jobs
        for event in job.events
        for mrn in (event.mrn, event.prior_mrn)
        if mrn
    }
    words = patient_demographics.find(connection, everybody)
    if not words:
        return jobs
    otherwise = {
        (each.site, each.mrn)
        for job in jobs
        for each in job.events
        if calls_otherwise(each, job.occasion.sent_at, words)
    }
    own = order_index.find_by_patient(connection, otherwise) if otherwise else []
    return [
        replace(
            job,
            events=[as_corrected(each, job.occasion.sent_at, words, own) for each in job.events],
            words=words,
        )
        for job in jobs
    ]


def _visited(jobs: Sequence[Job]) -> set[Patient]:
    """Give the patients who are spoken of themselves, or whose visits are."""
    return {
        (event.site, mrn)
        for job in jobs
        for event in job.events
        if event.visit is not None or event.action in PATIENTS
        for mrn in (event.mrn, event.prior_mrn)
        if mrn
    } | {(to.now.site, to.now.mrn) for job in jobs for to in _on(job)}


def _on(job: Job) -> list[VisitTransfer]:
    """Give the moves that a job's merges may make orders follow."""
    merges = any(each.action is OrderAction.PATIENT_MERGE for each in job.events)
    return list(job.moves.values()) if merges else []


def _orders(jobs: Sequence[Job]) -> list[OrderEvent]:
    return [each for job in jobs for each in fold(job.events) if each.action in ORDERS]


def _addressed(connection: Connection, jobs: Sequence[Job], index: Index) -> Sequence[Job]:
    """Find the orders that messages name by other numbers than we know them by."""
    unknown = [each for each in _orders(jobs) if not is_known(each, index)]
    numbers = {number for each in unknown for number in numbers_of(each)}
    patients = {(each.site, mrn) for each in unknown for mrn in (each.mrn, each.prior_mrn) if mrn}
    found = order_index.find_by_number(connection, patients, numbers)
    if not found:
        return jobs
    addressed = []
    for job in jobs:
        answers = [resolved(event, index, found) for event in job.events]
        events = [event for event, _ in answers]
        several = any(doubt or shares_end(each, found) for each, doubt in answers)
        other = any(has_other_accession(event, index, found) for event in events)
        doubt = "several_orders" if several else "other_accession" if other else ""
        addressed.append(replace(job, events=events, doubt=doubt or job.doubt))
    for order in found:
        index.setdefault(order.key, order)
    return addressed


def _shown(event: OrderEvent, index: Index) -> set[int]:
    """Give the signals that an order shows, or has shown."""
    known = index.get(key_of(event))
    before = known.signals if known else frozenset()
    return {each.signal for each in signals_after(before, event) | before}


def _children(connection: Connection, events: Sequence[OrderEvent], index: Index) -> None:
    """Read the children of orders that are cancelled, held, released or replaced, and theirs."""
    closing = [each for each in events if each.action in CASCADING | {OrderAction.REPLACE}]
    numbers = {number for each in closing for number in (each.placer, each.filler)}
    for known in (index.get(key_of(each)) for each in closing):
        numbers |= {known.placer, known.filler} if known else set()
    asked: set[int] = set()
    while wanted := child_signals(numbers) - asked:
        asked |= wanted
        found = order_index.find_by_signal(connection, wanted)
        numbers = {number for each in found for number in (each.placer, each.filler)}
        for order in found:
            index.setdefault(order.key, order)
