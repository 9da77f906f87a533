"""The order repository: reads what a batch of messages needs, and stores its changes.

Blocking: the order processor reads on a thread. Changes are stored in the transaction that
stores the outcomes.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from sqlalchemy import Connection

from bridge.intake.process.job_context import MessageChanges, unread_outcome
from bridge.intake.process.jobs import MessageJob, read, read_inline
from bridge.intake.process.order_lookup import (
    identified_job,
    look_up_orders,
    names_other_person,
    read_redirects,
    redirect_jobs,
)
from bridge.intake.receive.listener_policy import ListenerPolicy
from bridge.orders.addressing import (
    MERGE_CONTRADICTED,
    PATIENT_CONFLICT,
    SEVERAL_PATIENTS,
    MergeContradictedError,
    OrderOfOtherPatientError,
    OrderOfOtherPersonError,
    PatientMergedError,
    SeveralPatientsError,
    names_merged_patient,
)
from bridge.orders.order import Order, OrderIndexKey, Patient, merged_hash
from bridge.orders.patients import (
    IDENTIFYING,
    MergedIdentity,
    is_of_other_person,
    moves_to_merged,
    survivor_tags,
)
from bridge.orders.visits import Redirects, VisitMovedError, goes_to_other_patient
from bridge.queue.claims import ClaimedMessage, MessageOutcome
from bridge.queue.ledger.arrivals import lane
from bridge.queue.operations import replay_parked
from bridge.queue.states import QueueEvent
from bridge.store.database import Database
from bridge.store.errors import StoreError
from bridge.store.postgresql.dedicated_connections import NOTHING_HELD, HeldLocks, SessionLocks
from bridge.store.records import (
    exceptions,
    merged_patients,
    order_index,
    patient_demographics,
    visit_transfers,
)
from bridge.store.records.exceptions import MERGE_UNDONE, ExceptionSubject
from bridge.store.short_work import SHORT
from bridge.workers.host import WorkerError
from config.listeners import MergedPatients, PatientConflict
from mappings.inbound.events import OrderAction

PATIENT_NAME_MISMATCH = "patient_name_mismatch"
"""The code of an order whose patient the report engine knows by another name."""

ORDER_IN_PROGRESS = "order_in_progress"
"""The code of a message that waits because another node is processing the same order."""

_RETRY_LOCKED_MS = 200


def _orders_of(job: MessageJob) -> frozenset[str]:
    """
    Return the lock names of the orders of a job, without their patient.

    A correction that names another patient must wait until the order is stored.
    """
    return frozenset(f"order {each.site} {each.accession}" for each in job.events if each.accession)


@dataclass(frozen=True, slots=True)
class PreparedBatch:
    """A batch of messages: jobs, unreadable messages, and the known orders."""

    jobs: Sequence[MessageJob]
    failures: Sequence[tuple[ClaimedMessage, Exception]]
    index: Mapping[OrderIndexKey, Order]
    requeued: Sequence[MessageOutcome] = ()
    """Outcomes of messages that wait again: redirected to another lane, or not readable now."""
    locks: HeldLocks = field(default=NOTHING_HELD, compare=False)
    """Locks on the orders; no other node processes them until `OrderRepository.release`."""


class OrderRepository:
    """Access of the order processor to the order index."""

    def __init__(self, database: Database, clock: Callable[[], int]) -> None:
        """`clock` returns milliseconds."""
        self._database = database
        self._locks = SessionLocks(database)
        self.now = clock

    def prepare(
        self, claimed: Sequence[ClaimedMessage], listeners: Mapping[str, ListenerPolicy]
    ) -> PreparedBatch:
        """Read a batch of messages. Call `release` after it was applied. Raises StoreError."""
        jobs: list[MessageJob] = []
        failures: list[tuple[ClaimedMessage, Exception]] = []
        requeued: list[MessageOutcome] = []
        for each in claimed:
            try:
                jobs.append(read(each, listeners))
            except WorkerError:
                requeued.append(unread_outcome(each))
            except StoreError:  # an earlier version of a mapping could not be looked up
                raise
            except Exception as error:  # noqa: BLE001  # it becomes the outcome of this message
                failures.append((each, error))
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

    def release(self, prepared: PreparedBatch) -> None:
        """Release the locks of a batch. Does not block."""
        self._locks.release(prepared.locks)

    def _postponed(self, job: MessageJob) -> MessageOutcome:
        retry_at = self.now() + _RETRY_LOCKED_MS
        number = job.claimed.message_id
        return MessageOutcome(
            number, QueueEvent.POSTPONED, code=ORDER_IN_PROGRESS, retry_at=retry_at
        )

    def prepare_inline(
        self, claimed: Sequence[ClaimedMessage], listeners: Mapping[str, ListenerPolicy]
    ) -> PreparedBatch | None:
        """As `prepare`, within a few milliseconds on the event loop; None if it may take longer."""
        if len(claimed) > SHORT or self._database.short_work is None:
            return None
        jobs: list[MessageJob] = []
        for each in claimed:
            job = read_inline(each, listeners)
            if job is None:
                return None
            jobs.append(job)
        try:
            with self._database.read_on_loop() as connection:
                return self._look_up(connection, jobs)
        except StoreError:
            return None

    def _look_up(self, connection: Connection, jobs: Sequence[MessageJob]) -> PreparedBatch:
        """Redirect the jobs to the current patients, and read the known orders."""
        redirects = read_redirects(connection, jobs)
        requeued: list[MessageOutcome] = []
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
        accepted: list[MessageJob] = []
        for job in addressed:
            if job.conflicts and job.patient_conflict is not PatientConflict.MOVE:
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
        moved_to = {(each.site, each.mrn) for was, each in pairs if was.mrn != each.mrn}
        other_lanes = {lane(f"{site}|{mrn}") for site, mrn in moved_to} - {*lanes}
        if len(lanes) != 1 or len(other_lanes) != 1:
            return None
        retry_at = self.now()
        return MessageOutcome(
            number, QueueEvent.POSTPONED, code="merged", retry_at=retry_at, lane=other_lanes.pop()
        )

    def known_tags(self, key: OrderIndexKey) -> list[Mapping[str, Any]]:
        """Read the known tags of an order's patient: the last correction, then its orders."""
        patient = (key.site, key.mrn)
        with self._database.read_committed() as connection:
            demographics = patient_demographics.find(connection, [patient])
            orders = order_index.find_by_patient(connection, [patient])
        known = [order for order in orders if not order.moved_away]
        known.sort(key=lambda order: -order.last_message)
        return [*(each.tags for each in demographics.values()), *(order.tags for order in known)]

    def write(self, connection: Connection, changes: Sequence[MessageChanges]) -> None:
        """Store the changes within a transaction. Raises StoreError."""
        for change in changes:
            for merge in change.merges:
                site, prior_mrn = merge.site, merge.prior_mrn
                survivor = merged_patients.merge(
                    connection, site, prior_mrn, merge.mrn, merge.identity, self.now()
                )
                order_index.move_patient(connection, site, prior_mrn, survivor)
                visit_transfers.merge(connection, site, prior_mrn, survivor)
            for site, prior_mrn in change.undone_merges:
                undo_merge(connection, site, prior_mrn, self.now())
            for prior, move in change.moves:
                visit_transfers.add(connection, prior, move)
        for correction in (each for change in changes for each in change.demographics):
            patient_demographics.save(connection, correction)
        orders = [each for change in changes for each in change.orders]
        order_index.delete_orders(connection, {key for change in changes for key in change.removed})
        order_index.save(connection, _moved_to_survivors(connection, orders))
        reports = {key: value for change in changes for key, value in change.reports.items()}
        order_index.set_reports(connection, reports)
        renamed = {patient for change in changes for patient in change.renamed_patients}
        resume_parked(self._database, connection, renamed)
        codes = [(each.message_id, each.exception_code) for each in changes if each.exception_code]
        exceptions.add(connection, ExceptionSubject.MESSAGE, codes, self.now())


_RESUMED = (PATIENT_NAME_MISMATCH, PATIENT_CONFLICT, MERGE_CONTRADICTED, SEVERAL_PATIENTS)
"""The codes of messages that wait until it is known who their patient is."""


def resume_parked(database: Database, connection: Connection, patients: set[Patient]) -> None:
    """Queue messages again that are parked because of the identity of these patients."""
    if not patients:
        return
    named = merged_patients.identifiers(connection, patients)
    lanes = sorted({lane(f"{site}|{mrn}") for site, mrn in named})
    for code in _RESUMED:
        resumed = replay_parked(database, connection, code, lanes)
        exceptions.forget(connection, ExceptionSubject.MESSAGE, resumed)


def undo_merge(connection: Connection, site: str, prior_mrn: str, now: int) -> int:
    """
    Remove the pointer of a merged number; return how many orders its merge had moved.

    These orders become exceptions: a person must check whose they are.
    """
    survivor = merged_patients.undo(connection, site, prior_mrn)
    if survivor is None:
        return 0
    moved = order_index.ids_merged_from(connection, site, survivor, prior_mrn)
    codes = [(order_id, MERGE_UNDONE) for order_id in moved]
    exceptions.add(connection, ExceptionSubject.ORDER, codes, now)
    return len(moved)


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
    pointers = merged_patients.pointers(connection, merged)
    survivors = {(pointer.site, pointer.mrn) for pointer in pointers.values()}
    known = patient_demographics.find(connection, merged | survivors)
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


def _moved_to_survivors(connection: Connection, orders: Sequence[Order]) -> Sequence[Order]:
    """Move orders whose patients were merged while they were applied."""
    survivors = merged_patients.survivors(
        connection, {(each.key.site, each.key.mrn) for each in orders}
    )
    if not survivors:
        return orders
    moved = []
    for each in orders:
        mrn = survivors.get((each.key.site, each.key.mrn), each.key.mrn)
        moved.append(replace(each, key=each.key._replace(mrn=mrn)))
    return moved
