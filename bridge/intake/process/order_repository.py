"""What is read before and written after a batch of messages: definitions, the order index.

Blocking: reading is the forwarder's, in a thread; what is written goes with the outcomes, in the
transaction that settles them.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from sqlalchemy import Connection

from bridge.intake.patients.visit_transfers import MovedVisit, Whereabouts, others_visits
from bridge.intake.process.addressing import (
    PATIENT_CONFLICT,
    MergedPatient,
    OrderOfAnother,
    is_about_merged,
)
from bridge.intake.process.jobs import Job, read, readily
from bridge.intake.process.link_signals import has_moved_away
from bridge.intake.process.order_lookup import lead, look_up, whereabouts
from bridge.intake.process.outcomes import unread
from bridge.intake.receive.identity import lane
from bridge.intake.receive.listener import Listening, Merged, PatientConflict
from bridge.queue.claims import ClaimedMessage, MessageOutcome
from bridge.queue.operations import replay_parked
from bridge.queue.states import QueueEvent
from bridge.store.database import Database
from bridge.store.errors import StoreError
from bridge.store.postgresql.session_locks import NOTHING_HELD, HeldLocks, SessionLocks
from bridge.store.records import (
    exceptions,
    merged_patients,
    order_index,
    order_writes,
    patient_demographics,
    visit_transfers,
)
from bridge.store.records.exceptions import ExceptionSubject
from bridge.store.records.merged_patients import Patient
from bridge.store.records.order_index import IndexedOrder, OrderIndexKey
from bridge.store.records.patient_demographics import DemographicsUpdate
from bridge.store.records.visit_transfers import VisitReference, VisitTransfer
from bridge.store.short_work import SHORT
from bridge.workers.errors import WorkerError

OTHER_NAME = "patient_name_mismatch"
"""The code of an order whose patient the report service knows by another name."""

ORDER_IN_PROGRESS = "order_in_progress"
"""The code of a message that waits because another node works on the order that it names."""

_OTHERS_WORK_MS = 200


def _orders_of(job: Job) -> frozenset[str]:
    """
    Name the orders that a job is about, whichever patient they are said of.

    A correction that names another patient must not be read before its order was written down.
    """
    return frozenset(f"order {each.site} {each.accession}" for each in job.events if each.accession)


@dataclass(frozen=True, slots=True)
class Prepared:
    """A batch, read: jobs, what could not be read, and what the index knows of their orders."""

    jobs: Sequence[Job]
    failures: Sequence[tuple[ClaimedMessage, Exception]]
    index: Mapping[OrderIndexKey, IndexedOrder]
    moved: Sequence[MessageOutcome] = ()
    """What waits again: about others since it came, or for whom it could not be read."""
    held: HeldLocks = field(default=NOTHING_HELD, compare=False)
    """The orders that no other node works on until `Memory.release`."""


@dataclass(frozen=True, slots=True)
class Change:
    """What one message changes: orders, reports of further orders, merged patients."""

    message_id: int
    orders: Sequence[IndexedOrder]
    reports: Mapping[OrderIndexKey, str] = field(default_factory=dict)
    merges: Sequence[tuple[str, str, str]] = ()  # site, prior MRN, surviving MRN
    moves: Sequence[tuple[VisitReference, VisitTransfer]] = ()
    concern: str = ""
    """The code by which the message still wants a person."""
    words: Sequence[DemographicsUpdate] = ()
    renamed: Sequence[Patient] = ()
    """Patients who may be whom a refused order said they are."""
    gone: Sequence[OrderIndexKey] = ()
    """Orders that are one with another by now."""

    @property
    def is_brief(self) -> bool:
        """Whether it is a few rows, by keys alone: no patient's or visit's orders move with it."""
        rows = len(self.orders) + len(self.reports) + len(self.words) + len(self.gone)
        return rows <= SHORT and not (self.merges or self.moves or self.renamed)


class Memory:
    """The order index as the forwarder uses it."""

    def __init__(self, database: Database, clock: Callable[[], int]) -> None:
        """Take the bridge's database, and a clock in milliseconds."""
        self._database = database
        self._locks = SessionLocks(database)
        self.now = clock

    def prepare(
        self, claimed: Sequence[ClaimedMessage], listeners: Mapping[str, Listening]
    ) -> Prepared:
        """Read a batch of messages; call `release` when it was applied. Raises StoreError."""
        jobs: list[Job] = []
        failures: list[tuple[ClaimedMessage, Exception]] = []
        again: list[MessageOutcome] = []
        for each in claimed:
            try:
                jobs.append(read(each, listeners))
            except WorkerError:
                again.append(unread(each))
            except StoreError:  # an earlier version of a mapping could not be looked up
                raise
            except Exception as error:  # noqa: BLE001  # a bad message is nobody else's business
                failures.append((each, error))
        held = self._locks.take({name for job in jobs for name in _orders_of(job)})
        try:
            free = [job for job in jobs if _orders_of(job) <= held.names]
            again += [self._postponed(job) for job in jobs if not _orders_of(job) <= held.names]
            with self._database.read_committed() as connection:
                found = self._found(connection, free)
        except BaseException:
            self._locks.release(held)
            raise
        moved, refused = [*again, *found.moved], [*failures, *found.failures]
        return replace(found, failures=refused, moved=moved, held=held)

    def release(self, prepared: Prepared) -> None:
        """Let other nodes work on the orders of a batch. Does not wait."""
        self._locks.release(prepared.held)

    def _postponed(self, job: Job) -> MessageOutcome:
        """Have a message wait for the one about the same order that another node works on."""
        retry_at = self.now() + _OTHERS_WORK_MS
        number = job.claimed.message_id
        return MessageOutcome(
            number, QueueEvent.POSTPONED, code=ORDER_IN_PROGRESS, retry_at=retry_at
        )

    def prepare_readily(
        self, claimed: Sequence[ClaimedMessage], listeners: Mapping[str, Listening]
    ) -> Prepared | None:
        """As `prepare`, within a millisecond or two; None where it may take longer."""
        if len(claimed) > SHORT or self._database.short_work is None:
            return None
        jobs: list[Job] = []
        for each in claimed:
            job = readily(each, listeners)
            if job is None:
                return None
            jobs.append(job)
        try:
            with self._database.read_on_loop() as connection:
                return self._found(connection, jobs)
        except StoreError:
            return None

    def _found(self, connection: Connection, jobs: Sequence[Job]) -> Prepared:
        """Look up whom the jobs are about now, and what the index knows of their orders."""
        where = whereabouts(connection, jobs)
        moved: list[MessageOutcome] = []
        refused: list[tuple[ClaimedMessage, Exception]] = []
        if where.survivors or where.moves:  # hardly ever
            jobs, refused, moved = self._lead(connection, jobs, where)
        addressed, index = look_up(connection, jobs)
        taken: list[Job] = []
        for job in addressed:
            if job.conflicts and job.patient_conflict is not PatientConflict.MOVE:
                refused = [*refused, (job.claimed, OrderOfAnother())]
            else:
                taken.append(job)
        return Prepared(taken, refused, index, moved)

    def _lead(
        self, connection: Connection, jobs: Sequence[Job], where: Whereabouts
    ) -> tuple[list[Job], list[tuple[ClaimedMessage, Exception]], list[MessageOutcome]]:
        """Give jobs to whom they are about now; and what is refused, and what waits in a lane."""
        taken: list[Job] = []
        refused: list[tuple[ClaimedMessage, Exception]] = []
        moved: list[MessageOutcome] = []
        for job, now in zip(jobs, lead(connection, jobs, where), strict=True):
            if error := _refusal(job, now, where):
                refused.append((job.claimed, error))
            elif outcome := self._moved(job, now):
                moved.append(outcome)
            else:
                taken.append(now)
        return taken, refused, moved

    def _moved(self, job: Job, now: Job) -> MessageOutcome | None:
        """Have a message about a patient who is another wait for those about her, on any node."""
        number, lanes = job.claimed.message_id, job.claimed.lanes
        pairs = zip(job.events, now.events, strict=True)
        whose = {(each.site, each.mrn) for was, each in pairs if was.mrn != each.mrn}
        also = {lane(f"{site}|{mrn}") for site, mrn in whose} - {*lanes}
        if len(lanes) != 1 or len(also) != 1:
            return None
        retry_at = self.now()
        return MessageOutcome(
            number, QueueEvent.POSTPONED, code="merged", retry_at=retry_at, lane=also.pop()
        )

    def tags_of(self, key: OrderIndexKey) -> list[Mapping[str, Any]]:
        """Read what is known of the patient of an order: her last correction, then her orders."""
        who = (key.site, key.mrn)
        with self._database.read_committed() as connection:
            words = patient_demographics.find(connection, [who])
            orders = order_index.find_by_patient(connection, [who])
        others = [each for each in orders if each.key != key and not has_moved_away(each)]
        others.sort(key=lambda each: -each.last_message)
        return [*(each.tags for each in words.values()), *(each.tags for each in others)]

    def write(self, connection: Connection, changes: Sequence[Change]) -> None:
        """Write down what was learned, within a transaction. Raises StoreError."""
        for change in changes:
            for site, prior_mrn, mrn in change.merges:
                survivor = merged_patients.merge(connection, site, prior_mrn, mrn)
                order_index.move_patient(connection, site, prior_mrn, survivor)
                visit_transfers.merge(connection, site, prior_mrn, survivor)
            for prior, to in change.moves:
                visit_transfers.move(connection, prior, to)
        for word in (each for change in changes for each in change.words):
            patient_demographics.save(connection, word)
        orders = [each for change in changes for each in change.orders]
        order_index.forget(connection, {key for change in changes for key in change.gone})
        order_writes.save(connection, _of_survivors(connection, orders))
        reports = {key: value for change in changes for key, value in change.reports.items()}
        order_writes.set_reports(connection, reports)
        self._resume(connection, {who for change in changes for who in change.renamed})
        codes = [(each.message_id, each.concern) for each in changes if each.concern]
        exceptions.add(connection, ExceptionSubject.MESSAGE, codes, self.now())

    def _resume(self, connection: Connection, renamed: set[Patient]) -> None:
        """Apply again what is parked because its patient is not who we took her for."""
        if renamed:
            everybody = merged_patients.identifiers(connection, renamed)
            lanes = sorted({lane(f"{site}|{mrn}") for site, mrn in everybody})
            for code in (OTHER_NAME, PATIENT_CONFLICT):
                resumed = replay_parked(self._database, connection, code, lanes)
                exceptions.forget(connection, ExceptionSubject.MESSAGE, resumed)


def _refusal(job: Job, now: Job, where: Whereabouts) -> MergedPatient | MovedVisit | None:
    """Say why a listener that redirects nobody does not take a job."""
    if job.merged is not Merged.REFUSE:
        return None
    if is_about_merged(job.events, where.survivors):
        return MergedPatient()
    return MovedVisit() if others_visits(job, now, where.survivors) else None


def _of_survivors(connection: Connection, orders: Sequence[IndexedOrder]) -> Sequence[IndexedOrder]:
    """Give orders to those into whom their patients were merged while they were applied."""
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
