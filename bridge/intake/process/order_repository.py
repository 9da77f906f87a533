"""The order repository: reads what a batch of messages needs, and stores its changes.

Blocking: the order processor reads on a thread. Changes are stored in the transaction that
stores the outcomes.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

from sqlalchemy import Connection

from bridge.contract import OrderKey
from bridge.contract.errors import ErrorCode
from bridge.intake.process.job_context import MessageChanges, unread_outcome
from bridge.intake.process.jobs import MessageJob, read
from bridge.intake.process.received_objects import (
    change_steps,
    has_other_match,
    read_received,
    status_events,
)
from bridge.intake.process.scheduled_steps import StepWriter
from bridge.intake.receive.listener_policy import ListenerPolicy
from bridge.intake.receive.patient_check import identified_event
from bridge.orders.addressing import (
    MERGE_CONTRADICTED,
    NUMBER_REUSED,
    PATIENT_CONFLICT,
    SEVERAL_PATIENTS,
    MergeContradictedError,
    NumberReusedError,
    OrderOfOtherPatientError,
    OrderOfOtherPersonError,
    PatientMergedError,
    SeveralPatientsError,
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
from bridge.orders.received_objects import DICOM_LISTENER, is_message_kind, order_keys
from bridge.orders.rules import (
    ADDRESSED_ACTIONS,
    CASCADING_ACTIONS,
    CREATING_ACTIONS,
    PATIENT_ACTIONS,
)
from bridge.orders.undone_merges import UndoneMerge
from bridge.orders.values import as_moved_by_merge, links_of, parents_of
from bridge.orders.visits import (
    OTHER_PATIENT,
    Redirects,
    VisitMovedError,
    VisitTransfer,
    goes_to_other_patient,
    orders_to_read,
    redirected_events,
)
from bridge.queue.arrivals import lane
from bridge.queue.claims import ClaimedMessage, MessageOutcome
from bridge.queue.operations import replay_parked, replay_waiting
from bridge.queue.states import QueueEvent
from bridge.store.database import Database
from bridge.store.errors import StoreError
from bridge.store.postgresql.dedicated_connections import NOTHING_HELD, HeldLocks, SessionLocks
from bridge.store.records import (
    exceptions,
    identifier_changes,
    order_index,
    patient_records,
    step_events,
    waiting_messages,
)
from bridge.store.records.exceptions import MERGE_UNDONE, ExceptionSubject
from bridge.workers.host import WorkerError
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


def _named_patients(job: MessageJob) -> set[Patient]:
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
    pointers = patient_records.merge_pointers(connection, _named_patients(job))
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


PATIENT_NAME_MISMATCH = ErrorCode.PATIENT_NAME_MISMATCH.value
"""The code of an order whose patient the report engine knows by another name."""

ORDER_IN_PROGRESS = "order_in_progress"
"""The code of a message that waits because another node is processing the same order."""

MERGE_BEING_UNDONE = "merge_being_undone"
"""The code of a message that waits while an operator undoes a merge of its patient."""

_RETRY_LOCKED_MS = 200


def _orders_of(job: MessageJob) -> frozenset[str]:
    """
    Return the lock names of the orders of a job, without their patient.

    A correction that names another patient must wait until the order is stored.
    """
    return frozenset(
        f"order {event.site} {event.accession}" for event in job.events if event.accession
    )


@dataclass(frozen=True, slots=True)
class PreparedBatch:
    """A batch of messages: jobs, unreadable messages, and the known orders."""

    jobs: Sequence[MessageJob]
    failures: Sequence[tuple[ClaimedMessage, Exception]]
    index: Mapping[OrderKey, Order]
    requeued: Sequence[MessageOutcome] = ()
    """Outcomes of messages that wait again: redirected to another lane, or not readable now."""
    locks: HeldLocks = field(default=NOTHING_HELD, compare=False)
    """Locks on the orders; no other node processes them until `OrderRepository.release`."""


class OrderRepository:
    """Access of the order processor to the order index."""

    def __init__(
        self,
        database: Database,
        clock: Callable[[], int],
        steps: StepWriter | None = None,
        peer_sites: Mapping[str, Collection[str]] = MappingProxyType({}),
    ) -> None:
        """
        `clock` returns milliseconds; without `steps` there is no worklist. `peer_sites` are the
        sites of DICOM peers by AE title.
        """
        self._database = database
        self.steps = steps or StepWriter()
        self.peer_sites = peer_sites
        self._locks = SessionLocks(database)
        self.now = clock

    def prepare(
        self, claimed: Sequence[ClaimedMessage], listeners: Mapping[str, ListenerPolicy]
    ) -> PreparedBatch:
        """Read a batch of messages. Call `release` after it was applied. Raises StoreError."""
        jobs: list[MessageJob] = []
        failures: list[tuple[ClaimedMessage, Exception]] = []
        requeued: list[MessageOutcome] = []
        for message in claimed:
            try:
                jobs.append(self._read(message, listeners))
            except WorkerError:
                requeued.append(unread_outcome(message))
            except StoreError:  # an earlier version of a mapping could not be looked up
                raise
            except Exception as error:  # noqa: BLE001  # it becomes the outcome of this message
                failures.append((message, error))
        locks = self._locks.take({name for job in jobs for name in _orders_of(job)})
        try:
            locked = [job for job in jobs if _orders_of(job) <= locks.names]
            requeued += [self._postponed(job) for job in jobs if not _orders_of(job) <= locks.names]
            with self._database.read_committed() as connection:
                found = self._look_up(connection, locked)
        except BaseException:
            self._locks.release(locks)
            raise
        return replace(
            found,
            failures=[*failures, *found.failures],
            requeued=[*requeued, *found.requeued],
            locks=locks,
        )

    def _read(self, message: ClaimedMessage, listeners: Mapping[str, ListenerPolicy]) -> MessageJob:
        if message.listener != DICOM_LISTENER or not is_message_kind(message.message_type):
            return read(message, listeners)
        with self._database.read_committed() as connection:
            return read_received(connection, message, self.peer_sites)

    def release(self, prepared: PreparedBatch) -> None:
        """Release the locks of a batch. Does not block."""
        self._locks.release(prepared.locks)

    def _postponed(self, job: MessageJob, code: str = ORDER_IN_PROGRESS) -> MessageOutcome:
        retry_at = self.now() + _RETRY_LOCKED_MS
        number = job.claimed.message_id
        return MessageOutcome(number, QueueEvent.POSTPONED, code=code, retry_at=retry_at)

    def _look_up(self, connection: Connection, jobs: Sequence[MessageJob]) -> PreparedBatch:
        """Redirect the jobs to the current patients, and read the known orders."""
        requeued: list[MessageOutcome] = []
        if freed := patient_records.patients_of_undos(connection, self.now()):
            busy = [job for job in jobs if not freed.isdisjoint(_named_patients(job))]
            requeued += [self._postponed(job, MERGE_BEING_UNDONE) for job in busy]
            jobs = [job for job in jobs if job not in busy]
        redirects = read_redirects(connection, jobs)
        refused: list[tuple[ClaimedMessage, Exception]] = []
        identified: list[MessageJob] = []
        for job in jobs:
            known = identified_job(connection, job, redirects.survivors)
            if known is None:
                refused.append((job.claimed, SeveralPatientsError()))
            elif outcome := self._requeued(job, known):
                requeued.append(outcome)
            else:
                identified.append(known)
        jobs = identified
        if redirects.survivors or redirects.moves:
            jobs, others, waiting = self._redirect(connection, jobs, redirects)
            refused += others
            requeued += waiting
        addressed, index = look_up_orders(connection, jobs)
        reused = _reused_numbers(connection, addressed, index)
        accepted: list[MessageJob] = []
        for job in addressed:
            if not reused.isdisjoint(_renamed_patients(job)):
                refused = [*refused, (job.claimed, NumberReusedError())]
            elif job.conflicts and job.patient_conflict is not PatientConflict.MOVE:
                refused = [*refused, (job.claimed, OrderOfOtherPatientError())]
            elif names_other_person(job, index):
                refused = [*refused, (job.claimed, OrderOfOtherPersonError())]
            else:
                accepted.append(job)
        return PreparedBatch(accepted, refused, index, requeued)

    def _redirect(
        self, connection: Connection, jobs: Sequence[MessageJob], redirects: Redirects
    ) -> tuple[list[MessageJob], list[tuple[ClaimedMessage, Exception]], list[MessageOutcome]]:
        """
        Redirect jobs; return also those that are refused and those that must wait in another
        lane.
        """
        accepted: list[MessageJob] = []
        refused: list[tuple[ClaimedMessage, Exception]] = []
        requeued: list[MessageOutcome] = []
        identities = _merged_identities(connection, jobs, redirects)
        for job, redirected in zip(jobs, redirect_jobs(connection, jobs, redirects), strict=True):
            if error := _redirect_refusal(job, redirected, redirects):
                refused.append((job.claimed, error))
            elif _contradicts_merge(job, identities, redirects):
                refused.append((job.claimed, MergeContradictedError()))
            elif outcome := self._requeued(job, redirected):
                requeued.append(outcome)
            else:
                accepted.append(redirected)
        return accepted, refused, requeued

    def _requeued(self, job: MessageJob, redirected: MessageJob) -> MessageOutcome | None:
        """Return the outcome that moves a message to the current patient's lane, or None."""
        number, lanes = job.claimed.message_id, job.claimed.lanes
        pairs = zip(job.events, redirected.events, strict=True)
        moved_to = {(event.site, event.mrn) for was, event in pairs if was.mrn != event.mrn}
        other_lanes = {lane(f"{site}|{mrn}") for site, mrn in moved_to} - {*lanes}
        if len(lanes) != 1 or len(other_lanes) != 1:
            return None
        retry_at = self.now()
        return MessageOutcome(
            number, QueueEvent.POSTPONED, code="merged", retry_at=retry_at, lane=other_lanes.pop()
        )

    def known_tags(self, key: OrderKey) -> list[Mapping[str, Any]]:
        """Read the known tags of an order's patient: the last correction, then its orders."""
        patient = (key.site, key.mrn)
        with self._database.read_committed() as connection:
            demographics = patient_records.demographics(connection, [patient])
            orders = order_index.find_by_patient(connection, [patient])
        known = [order for order in orders if not order.moved_away]
        known.sort(key=lambda order: -order.last_message)
        return [
            *(demographic.tags for demographic in demographics.values()),
            *(order.tags for order in known),
        ]

    def write(self, connection: Connection, changes: Sequence[MessageChanges]) -> None:
        """Store the changes within a transaction. Raises StoreError."""
        moved: set[Patient] = set()
        for change in changes:
            for merge in change.merges:
                site, prior_mrn = merge.site, merge.prior_mrn
                named = (site, merge.mrn)
                survivor = patient_records.current_identifiers(connection, [named])[named]
                if survivor == prior_mrn:
                    continue
                identifier_changes.add_merge(
                    connection, site, prior_mrn, survivor, self.now(), change.message_id
                )
                patient_records.merge(
                    connection, site, prior_mrn, merge.mrn, merge.identity, self.now(), merge.sent
                )
                order_index.move_patient(connection, site, prior_mrn, survivor)
                moved |= {(site, prior_mrn), (site, survivor)}
            for undone in change.undone_merges:
                undo_merge(connection, undone, self.now(), self.steps, change.message_id)
            for separation in change.separations:
                patient_records.add_separation(connection, separation)
            for prior, move in change.moves:
                patient_records.add_transfer(connection, prior, move)
        for correction in (
            demographic for change in changes for demographic in change.demographics
        ):
            patient_records.save_demographics(connection, correction)
        orders = [order for change in changes for order in change.orders]
        removed = {key for change in changes for key in change.removed}
        order_index.delete_orders(connection, removed)
        orders = list(_moved_to_survivors(connection, orders))
        order_index.save(connection, orders)
        messages = {change.message_id for change in changes}
        sent = [order for order in orders if order.merged_from and order.first_message in messages]
        if sent:
            identifier_changes.add_sent_orders(connection, sent)
        freed = [(row_id, MERGE_UNDONE) for row_id in _of_freed_numbers(connection, orders)]
        exceptions.add(connection, ExceptionSubject.ORDER, freed, self.now())
        if self.steps.rules is not None:
            self.steps.remove(connection, removed)
            discontinued = {key for change in changes for key in change.discontinued}
            moved |= _patients_of_moved(orders)
            others = [order for order in orders if order.patient not in moved]
            self.steps.write(connection, others, self.now(), discontinued=discontinued)
            self.steps.move(connection, moved, self.now())
        reports = {key: value for change in changes for key, value in change.reports.items()}
        order_index.set_reports(connection, reports)
        renamed = {patient for change in changes for patient in change.renamed_patients}
        resume_parked(self._database, connection, renamed)
        codes = [
            (message_changes.message_id, message_changes.exception_code)
            for message_changes in changes
            if message_changes.exception_code
        ]
        exceptions.add(connection, ExceptionSubject.MESSAGE, codes, self.now())
        self._write_received(connection, changes)

    def _write_received(self, connection: Connection, changes: Sequence[MessageChanges]) -> None:
        """
        Store what modalities said of steps, and which messages wait for an order.

        An order may have been stored after a message that waits for it was read.
        """
        waiting = [change for change in changes if change.waits_for]
        with_orders = [change for change in changes if change.orders]
        if waiting or (with_orders and self.peer_sites):
            waiting_messages.lock(connection, waits=bool(waiting))
        for change in changes:
            if change.received is not None:
                if change.received.kind.is_step:
                    received, now = change.received, self.now()
                    said = status_events(connection, change.message_id, received, now)
                    step_events.add(connection, said)
                    change_steps(connection, received, now)
                waiting_messages.forget(connection, [change.message_id])
        waiting_messages.add(
            connection, {change.message_id: change.waits_for for change in waiting}
        )
        for change in waiting:
            match = change.received
            if match is not None and has_other_match(connection, match, self.peer_sites):
                resume(self._database, connection, [change.message_id])
        if with_orders and waiting_messages.exist(connection):
            for change in with_orders:
                resume_waiting(self._database, connection, change)


_RESUMED = (
    PATIENT_NAME_MISMATCH,
    PATIENT_CONFLICT,
    MERGE_CONTRADICTED,
    NUMBER_REUSED,
    SEVERAL_PATIENTS,
    ErrorCode.MERGED_ELSEWHERE.value,
    ErrorCode.MERGE_CYCLE.value,
)
"""The codes of messages that wait until it is known who their patient is."""


def resume_parked(database: Database, connection: Connection, patients: set[Patient]) -> None:
    """Queue messages again that are parked because of the identity of these patients."""
    if not patients:
        return
    named = patient_records.identifiers(connection, patients)
    lanes = sorted({lane(f"{site}|{mrn}") for site, mrn in named})
    for code in _RESUMED:
        resumed = replay_parked(database, connection, code, lanes)
        exceptions.forget(connection, ExceptionSubject.MESSAGE, resumed)


def resume_waiting(database: Database, connection: Connection, change: MessageChanges) -> None:
    """Queue messages again that wait for the orders of a change."""
    keys = set[int]().union(*(order_keys(order) for order in change.orders))
    waiting = [
        message_id
        for message_id in waiting_messages.find(connection, keys)
        if message_id != change.message_id
    ]
    resume(database, connection, waiting)


def resume(database: Database, connection: Connection, message_ids: Sequence[int]) -> None:
    """Queue messages again that wait for an order."""
    resumed = replay_waiting(database, connection, message_ids)
    waiting_messages.forget(connection, message_ids)
    exceptions.forget(connection, ExceptionSubject.MESSAGE, resumed)


def undo_merge(
    connection: Connection,
    undone: UndoneMerge,
    now: int,
    steps: StepWriter,
    message_id: int | None = None,
) -> tuple[int, int]:
    """
    Store an undone merge; return how many orders returned, and how many stay with the survivor.

    Both become exceptions: a person must check whose they are. If the merge is undone already,
    orders that it left with the survivor return.
    """
    patient = (undone.site, undone.prior_mrn)
    pointer = patient_records.merge_pointers(connection, [patient]).get(patient)
    if pointer is None:
        return _return_stayed(connection, undone, now, steps)
    moved, stay = identifier_changes.undo(connection, pointer, undone, now, message_id)
    steps.move(connection, {patient, (pointer.site, pointer.mrn)}, now)
    codes = [(order_id, MERGE_UNDONE) for order_id in (*moved, *stay)]
    exceptions.add(connection, ExceptionSubject.ORDER, codes, now)
    return len(moved), len(stay)


def _return_stayed(
    connection: Connection, undone: UndoneMerge, now: int, steps: StepWriter
) -> tuple[int, int]:
    patient = (undone.site, undone.prior_mrn)
    pointer = identifier_changes.merge_with_stayed(connection, patient)
    if pointer is None:
        return 0, 0
    moved, stay = identifier_changes.return_stayed(connection, pointer, undone)
    steps.move(connection, {patient, (pointer.site, pointer.mrn)}, now)
    codes = [(order_id, MERGE_UNDONE) for order_id in moved]
    exceptions.add(connection, ExceptionSubject.ORDER, codes, now)
    return len(moved), stay


def _merged_identities(
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


def _contradicts_merge(
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


def _redirect_refusal(
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


def _renamed_patients(job: MessageJob) -> set[Patient]:
    """Return the patients whose demographics a job corrects."""
    return {(event.site, event.mrn) for event in job.events if event.action in _RENAMING_ACTIONS}


def _reused_numbers(
    connection: Connection, jobs: Sequence[MessageJob], index: Index
) -> set[Patient]:
    """Return the freed numbers that a job gives to another person than that of their orders."""
    renamed = set[Patient]().union(*map(_renamed_patients, jobs))
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


def _of_freed_numbers(connection: Connection, orders: Sequence[Order]) -> list[int]:
    """
    Return the row ids of orders that merges moved, and whose number does not lead there any more.

    A person may undo a merge while a message about one of its orders is being applied.
    """
    keys = []
    for order in orders:
        if order.merged_from:  # rare
            numbers = patient_records.identifiers(connection, [order.patient])
            if not order.merged_from <= {merged_hash(number) for _, number in numbers}:
                keys.append(order.key)
    return [row_id for row_id, _ in order_index.states(connection, keys).values()]


def _patients_of_moved(orders: Sequence[Order]) -> set[Patient]:
    """Return the former and the present patients of orders that moved with a visit."""
    away = {(order.key.site, order.key.accession) for order in orders if order.moved_away}
    return {order.patient for order in orders if (order.key.site, order.key.accession) in away}


def _moved_to_survivors(connection: Connection, orders: Sequence[Order]) -> Sequence[Order]:
    """Move orders whose patients were merged while they were applied."""
    survivors = patient_records.survivors(
        connection, {(order.key.site, order.key.mrn) for order in orders}
    )
    if not survivors:
        return orders
    return [_moved_to(order, survivors.get(order.patient)) for order in orders]


def _moved_to(order: Order, mrn: str | None) -> Order:
    if mrn is None:
        return order
    return as_moved_by_merge(replace(order, key=replace(order.key, mrn=mrn)), order.key.mrn)
