"""
What the index knows of the orders that a batch of messages is about. Reads, and decides nothing.

Blocking. Few statements for the whole batch, and those for numbers, children and merged patients
only where a message gives cause.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from sqlalchemy import Connection

from bridge.intake.addressing import (
    Patient,
    has_other_accession,
    numbers_of,
    resolved,
    surviving,
)
from bridge.intake.demographics import as_corrected
from bridge.intake.family import child_signals
from bridge.intake.order_rules import CASCADING
from bridge.intake.planning import ORDERS, PATIENTS, fold, key_of
from bridge.intake.reading import Job
from bridge.intake.signals import signals_after
from bridge.store import merged_patients, order_index, patient_words
from bridge.store.order_index import IndexedOrder, Key
from mappings.events import OrderEvent

Index = dict[Key, IndexedOrder]
Survivors = Mapping[Patient, str]


def merged(connection: Connection, jobs: Sequence[Job]) -> Survivors:
    """Read which of the jobs' patients were merged into whom."""
    everybody = {(event.site, event.mrn) for job in jobs for event in job.events}
    return merged_patients.survivors(connection, everybody)


def look_up(
    connection: Connection, jobs: Sequence[Job], survivors: Survivors
) -> tuple[list[Job], Index]:
    """Address the jobs' events, and read the orders they are about with all that are akin."""
    jobs = [_of_survivors(job, survivors) for job in jobs] if survivors else jobs
    jobs = _as_corrected(connection, jobs)
    index = order_index.find(connection, map(key_of, _orders(jobs)))
    jobs = _addressed(connection, jobs, index)
    events = _orders(jobs)
    signals = {each for event in events for each in _shown(event, index)}
    for order in order_index.sharing(connection, signals) if signals else ():
        index.setdefault(order.key, order)
    _children(connection, events, index)
    for order in order_index.of_patients(connection, _visited(jobs)):
        index.setdefault(order.key, order)
    return list(jobs), index


def _as_corrected(connection: Connection, jobs: Sequence[Job]) -> Sequence[Job]:
    """Let late orders say of their patients what was said since."""
    everybody = {
        (event.site, mrn)
        for job in jobs
        for event in job.events
        for mrn in (event.mrn, event.prior_mrn)
        if mrn
    }
    words = patient_words.words(connection, everybody)
    if not words:
        return jobs
    return [
        replace(
            job,
            events=[as_corrected(each, job.occasion.sent_at, words) for each in job.events],
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
    }


def _of_survivors(job: Job, survivors: Survivors) -> Job:
    return replace(job, events=[surviving(each, survivors) for each in job.events])


def _orders(jobs: Sequence[Job]) -> list[OrderEvent]:
    return [each for job in jobs for each in fold(job.events) if each.action in ORDERS]


def _addressed(connection: Connection, jobs: Sequence[Job], index: Index) -> Sequence[Job]:
    """Find the orders that messages name by other numbers than we know them by."""
    unknown = [each for each in _orders(jobs) if key_of(each) not in index]
    numbers = {number for each in unknown for number in numbers_of(each)}
    patients = {(each.site, each.mrn) for each in unknown}
    found = order_index.numbered(connection, patients, numbers)
    if not found:
        return jobs
    addressed = []
    for job in jobs:
        answers = [resolved(event, index, found) for event in job.events]
        events = [event for event, _ in answers]
        several = any(doubt for _, doubt in answers)
        other = any(has_other_accession(event, index, found) for event in events)
        doubt = "several_orders" if several else "other_accession" if other else ""
        addressed.append(replace(job, events=events, doubt=doubt))
    for order in found:
        index.setdefault(order.key, order)
    return addressed


def _shown(event: OrderEvent, index: Index) -> set[int]:
    """Give the signals that an order shows, or has shown."""
    known = index.get(key_of(event))
    before = known.signals if known else frozenset()
    return {each.signal for each in signals_after(before, event) | before}


def _children(connection: Connection, events: Sequence[OrderEvent], index: Index) -> None:
    """Read the children of orders that are cancelled, held or released, and theirs."""
    closing = [each for each in events if each.action in CASCADING]
    numbers = {number for each in closing for number in (each.placer, each.filler)}
    for known in (index.get(key_of(each)) for each in closing):
        numbers |= {known.placer, known.filler} if known else set()
    asked: set[int] = set()
    while wanted := child_signals(numbers) - asked:
        asked |= wanted
        found = order_index.sharing(connection, wanted)
        numbers = {number for each in found for number in (each.placer, each.filler)}
        for order in found:
            index.setdefault(order.key, order)
