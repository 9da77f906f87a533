"""
What is read before and written after a batch of messages: definitions, the order index.

Blocking; the forwarder calls it in a thread. One transaction a batch; when that fails, one
for each message, so that only what cannot be stored is left out.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from sqlalchemy import Connection

from bridge.intake.addressing import MergedPatient, is_about_merged, led_to
from bridge.intake.identity import lane
from bridge.intake.listening import Listening, Merged
from bridge.intake.looking_up import Survivors, look_up, merged
from bridge.intake.reading import Job, read
from bridge.queue.operate import resume
from bridge.queue.states import Event
from bridge.queue.work import Claimed, Outcome
from bridge.store import concerns, merged_patients, order_index, order_saving, patient_words
from bridge.store.concerns import Subject
from bridge.store.database import Database
from bridge.store.errors import StoreError, StoreUnavailable
from bridge.store.merged_patients import Patient
from bridge.store.order_index import IndexedOrder, Key
from bridge.store.patient_words import PatientWord

OTHER_NAME = "patient_name_mismatch"
"""The code of an order whose patient the report service knows by another name."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """A batch, read: jobs, what could not be read, and what the index knows of their orders."""

    jobs: Sequence[Job]
    failures: Sequence[tuple[Claimed, Exception]]
    index: Mapping[Key, IndexedOrder]
    moved: Sequence[Outcome] = ()
    """Messages that wait in another lane too: their patients were merged since they came."""


@dataclass(frozen=True, slots=True)
class Change:
    """What one message changes: orders, reports of further orders, merged patients."""

    message_id: int
    orders: Sequence[IndexedOrder]
    reports: Mapping[Key, str] = field(default_factory=dict)
    merges: Sequence[tuple[str, str, str]] = ()  # site, prior MRN, surviving MRN
    concern: str = ""
    """The code by which the message still wants a person."""
    words: Sequence[PatientWord] = ()
    renamed: Sequence[Patient] = ()
    """Patients who may be whom a refused order said they are."""


class Memory:
    """The order index as the forwarder uses it."""

    def __init__(self, database: Database, clock: Callable[[], int]) -> None:
        """Take the bridge's database, and a clock in milliseconds."""
        self._database = database
        self.now = clock

    def prepare(self, claimed: Sequence[Claimed], listeners: Mapping[str, Listening]) -> Prepared:
        """Read a batch of messages. Raises StoreError."""
        jobs: list[Job] = []
        failures: list[tuple[Claimed, Exception]] = []
        for each in claimed:
            try:
                jobs.append(read(each, listeners))
            except StoreError:  # an earlier version of a mapping could not be looked up
                raise
            except Exception as error:  # noqa: BLE001  # a bad message is nobody else's business
                failures.append((each, error))
        with self._database.read() as connection:
            survivors = merged(connection, jobs)
            refused = [job for job in jobs if _refuses(job, survivors)]
            failures += [(job.claimed, MergedPatient()) for job in refused]
            jobs = [job for job in jobs if job not in refused]
            moved = [e for job in jobs if survivors for e in self._moved(job, survivors)]
            elsewhere = {each.message_id for each in moved}
            taken = [job for job in jobs if job.claimed.message_id not in elsewhere]
            addressed, index = look_up(connection, taken, survivors)
        return Prepared(addressed, failures, index, moved)

    def _moved(self, job: Job, survivors: Survivors) -> Iterator[Outcome]:
        """Have a message about a merged patient wait for those about the survivor, on any node."""
        number, lanes = job.claimed.message_id, job.claimed.lanes
        also = {lane(f"{site}|{mrn}") for site, mrn in led_to(job.events, survivors)} - {*lanes}
        if len(lanes) == 1 and len(also) == 1:
            now = self.now()
            yield Outcome(number, Event.POSTPONED, code="merged", retry_at=now, lane=also.pop())

    def keep(self, changes: Sequence[Change]) -> set[int]:
        """Write what was learned; give the messages whose part could not be written."""
        if not changes:
            return set()
        try:
            self._write(changes)
        except StoreUnavailable:
            return {change.message_id for change in changes}
        except StoreError:
            return {change.message_id for change in changes if not self._written(change)}
        return set()

    def _written(self, change: Change) -> bool:
        try:
            self._write([change])
        except StoreError:
            return False
        return True

    def _write(self, changes: Sequence[Change]) -> None:
        with self._database.write() as connection:
            for change in changes:
                for site, prior_mrn, mrn in change.merges:
                    survivor = merged_patients.merge(connection, site, prior_mrn, mrn)
                    order_index.move_patient(connection, site, prior_mrn, survivor)
            for word in (each for change in changes for each in change.words):
                patient_words.say(connection, word)
            orders = [each for change in changes for each in change.orders]
            order_saving.save(connection, _of_survivors(connection, orders))
            reports = {key: value for change in changes for key, value in change.reports.items()}
            order_saving.set_reports(connection, reports)
            self._resume(connection, {who for change in changes for who in change.renamed})
            codes = [(each.message_id, each.concern) for each in changes if each.concern]
            concerns.note(connection, Subject.MESSAGE, codes, self.now())

    def _resume(self, connection: Connection, renamed: set[Patient]) -> None:
        """Have orders tried again that gave their patients other names than we knew."""
        if renamed:
            everybody = merged_patients.identifiers(connection, renamed)
            lanes = sorted({lane(f"{site}|{mrn}") for site, mrn in everybody})
            resume(self._database, connection, OTHER_NAME, lanes)


def _refuses(job: Job, survivors: Survivors) -> bool:
    return job.merged is Merged.REFUSE and is_about_merged(job.events, survivors)


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
