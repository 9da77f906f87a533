"""
The order repository: prepares a batch of messages, and stores what they change.

Blocking: the order processor prepares on a thread. Changes are stored in the transaction that
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
from bridge.intake.process.order_lookup import (
    contradicts_merge,
    identified_job,
    look_up_orders,
    merged_identities,
    named_patients,
    names_other_person,
    read_redirects,
    redirect_jobs,
    redirect_refusal,
    renamed_patients,
    reused_numbers,
)
from bridge.intake.process.received_objects import (
    change_steps,
    has_other_match,
    read_received,
    status_events,
)
from bridge.intake.process.scheduled_steps import StepWriter
from bridge.intake.receive.listener_policy import ListenerPolicy
from bridge.orders.addressing import (
    MERGE_CONTRADICTED,
    NUMBER_REUSED,
    PATIENT_CONFLICT,
    SEVERAL_PATIENTS,
    MergeContradictedError,
    NumberReusedError,
    OrderOfOtherPatientError,
    OrderOfOtherPersonError,
    SeveralPatientsError,
)
from bridge.orders.order import Order, Patient, merged_hash
from bridge.orders.received_objects import DICOM_LISTENER, is_message_kind, order_keys
from bridge.orders.undone_merges import UndoneMerge
from bridge.orders.values import as_moved_by_merge
from bridge.orders.visits import (
    Redirects,
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
from config.listeners import PatientConflict

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
            busy = [job for job in jobs if not freed.isdisjoint(named_patients(job))]
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
        reused = reused_numbers(connection, addressed, index)
        accepted: list[MessageJob] = []
        for job in addressed:
            if not reused.isdisjoint(renamed_patients(job)):
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
        identities = merged_identities(connection, jobs, redirects)
        for job, redirected in zip(jobs, redirect_jobs(connection, jobs, redirects), strict=True):
            if error := redirect_refusal(job, redirected, redirects):
                refused.append((job.claimed, error))
            elif contradicts_merge(job, identities, redirects):
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
