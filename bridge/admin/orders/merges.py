"""
Merged patient numbers: list them, and undo a wrong merge.

Undoing removes the pointer from the merged number to its survivor in the report engine and in the
bridge, and returns the orders that the merge moved. Later orders with the number are those of its
own patient. Orders that cannot return become exceptions: a person checks whose they are.
"""

import asyncio
import time
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from bridge.admin.audit_events import audited
from bridge.admin.orders import wrong_results
from bridge.admin.orders.known_patients import KnownPatient, known_patient
from bridge.admin.orders.reasons import required_reason
from bridge.admin.orders.wrong_results import Corrections, Receivers, SentResult
from bridge.admin.report_engine import report_engine
from bridge.contract import SIGNED, OrderKey, ReportStatus
from bridge.contract.responses import StatusRecordBody
from bridge.engine_client.client import EngineClient
from bridge.engine_client.errors import EngineFailure
from bridge.errors import BridgeError, FailureKind
from bridge.executors import CONSOLE_THREADS
from bridge.index_key import keyed64, signed64
from bridge.intake.process.order_repository import resume_parked, undo_merge
from bridge.intake.process.patient_events import undo_in_engine
from bridge.intake.process.scheduled_steps import StepWriter, active_step_rules
from bridge.intake.process.worklist import reports_of
from bridge.orders import undone_merges
from bridge.orders.order import Order, Patient
from bridge.orders.patients import MergePointer
from bridge.orders.undone_merges import FormerOrder, ReturningOrder
from bridge.queue.arrivals import lane
from bridge.queue.queries import claimed_in_lanes
from bridge.store.database import Database
from bridge.store.databases import bridge_database
from bridge.store.records import (
    identifier_changes,
    order_index,
    patient_records,
    report_events,
)
from bridge.store.records.identifier_changes import UNDO_OF_MESSAGE, UndoChoice, UndoneChange
from config import Settings, load


class NoSuchMerge(BridgeError):
    """No merge has this number, or several sites have one."""


@dataclass(frozen=True, slots=True)
class UndoneMerge:
    """A merge that was undone: how many orders returned, and how many stay with the survivor."""

    site: str
    reference: str
    moved: int
    kept: int


def reference_of(site: str, prior_mrn: str) -> str:
    """Return the reference of a merge in the audit trail, which contains no patient data."""
    return f"{keyed64(signed64(b'merge', site.encode(), prior_mrn.encode())) & (2**64 - 1):016x}"


def list_merges(home: Path, site: str, number: str, limit: int) -> list[dict[str, Any]]:
    """List merges, newest first; of one site or one number, unless that is ''."""
    with bridge_database(home) as database:
        return merges_of(database, site, number, limit)


def merges_of(database: Database, site: str, number: str, limit: int) -> list[dict[str, Any]]:
    with database.read() as connection:
        found = patient_records.list_merges(connection, site, number, limit)
    return [_as_json(pointer) for pointer in found]


def _as_json(pointer: MergePointer) -> dict[str, Any]:
    shown = {name: value for name, value in asdict(pointer).items() if name != "identity"}
    return {**shown, "reference": reference_of(pointer.site, pointer.prior_mrn)}


@dataclass(frozen=True, slots=True)
class MergedOrder:
    """
    An order of a merge; `status` is that of its report, None if the report engine does not answer.

    `sent_since`: it was sent with the merged number after the merge. `stays` says why it stays with
    the survivor if the merge is undone: `unknown`, `signed`, `shared`; it returns if it is ''.
    """

    accession: str
    state: str
    report_id: str
    status: str | None
    sent_since: bool
    stays: str


@dataclass(frozen=True, slots=True)
class MergeDetails:
    """
    A merge and what it moved, or an undone merge and what returned; times in ms.

    `patients` are that of the merged number and the survivor, to be compared.
    `reports` counts the reports of the orders that somebody has begun, `priors` those that are
    signed: they are shown beside other reports of the patient. `linked` counts orders that share a
    report with an order of another patient's. `results` went out under the survivor's number.
    """

    site: str
    prior_mrn: str
    mrn: str
    reference: str
    merged_at: int | None
    undone_at: int | None
    patients: Sequence[KnownPatient]
    orders: Sequence[MergedOrder]
    reports: int
    priors: int
    linked: int
    results: Sequence[SentResult]


def show(home: Path, number: str, site: str) -> MergeDetails:
    """Return what a merge moved; audited. Raises NoSuchMerge."""
    settings = load(home)
    with (
        bridge_database(home) as database,
        audited(home, database, "read merge", ("merge", reference_of(site, number))),
        report_engine(settings) as opened,
    ):
        receivers = wrong_results.receivers_of(settings, database)
        return opened.run(describe(database, opened.engine.client, receivers, number, site))


async def describe(
    database: Database, client: EngineClient, receivers: Receivers, number: str, site: str
) -> MergeDetails:
    """Return what the merge of a number moved, or its last merge if that was undone."""
    found = await CONSOLE_THREADS.run(_merge_of, database, receivers, number, site)
    orders = found.orders
    keys = [order.key for order in orders if order.report_id]
    try:
        records = await reports_of(client, keys) if keys else ()
    except EngineFailure:
        return _details(found, None)
    return _details(found, {key: record for record in records for key in record.orders})


@dataclass(frozen=True, slots=True)
class _Merge:
    """
    An active merge, or one that was undone, and its orders.

    `stayed` are the accessions of those that an undone merge left with the survivor.
    """

    pointer: MergePointer
    undone: UndoneChange | None
    patients: Sequence[KnownPatient]
    orders: Sequence[Order]
    former: Mapping[str, FormerOrder]
    stayed: Collection[str]
    returning: Collection[str]
    released: Collection[str]
    """The reports of which a text was released since the merge."""
    results: Sequence[SentResult]


def _merge_of(database: Database, receivers: Receivers, number: str, site: str) -> _Merge:
    try:
        pointer, undone = find(database, number, site), None
    except NoSuchMerge:
        undone = find_undone(database, number, site)
        pointer = MergePointer(
            undone.site, undone.prior_mrn, undone.mrn, undone.mrn, undone.merged_at
        )
    freed = (pointer.site, pointer.prior_mrn)
    with database.read() as connection:
        if undone is None:
            former: Mapping[str, FormerOrder] = identifier_changes.numbers_left(connection, pointer)
            returning = identifier_changes.returning_orders(connection, pointer)
            back = {order.before.key.accession for order in returning}
            owner = pointer.mrn
        else:
            former, back, owner = undone.returned, set(undone.returned), pointer.prior_mrn
        orders = [
            order
            for order in order_index.find_by_patient(connection, [(pointer.site, owner)])
            if order.key.accession in former and not order.moved_away
        ]
        left = None if undone is None else identifier_changes.merge_with_stayed(connection, freed)
        stayed = [] if left is None else identifier_changes.stayed_orders(connection, left)
        reports = {order.report_id: order.key.accession for order in orders if order.report_id}
        since = pointer.merged_at or 0
        results = wrong_results.wrong_results(
            connection,
            receivers,
            pointer.mrn,
            pointer.prior_mrn,
            since,
            reports,
            undone.id if undone else 0,
        )
        orders += [order.before for order in stayed]
        known = {order.report_id: order.key.accession for order in orders if order.report_id}
        released = report_events.released_since(connection, known, since)
        patients = [
            known_patient(connection, (pointer.site, mrn))
            for mrn in (pointer.prior_mrn, pointer.mrn)
        ]
    own = {order.before.key.accession for order in stayed}
    return _Merge(pointer, undone, patients, orders, former, own, back, released, results)


def _details(merge: _Merge, records: Mapping[OrderKey, StatusRecordBody] | None) -> MergeDetails:
    own = {order.key for order in merge.orders}
    rows: list[MergedOrder] = []
    linked = 0
    for order in merge.orders:
        record = None if records is None else records.get(order.key)
        shared = record is not None and not own.issuperset(record.orders)
        linked += shared
        stays = ""
        if order.key.accession in merge.stayed:
            stays = "signed" if order.report_id in merge.released else "shared"
        elif merge.undone is None:
            if order.key.accession not in merge.returning:
                stays = "unknown"
            elif order.report_id in merge.released:
                stays = "signed"
            elif shared and record is not None and record.status is not ReportStatus.ORDERED:
                stays = "shared"
        status = None if record is None else record.status.value
        former = merge.former.get(order.key.accession)
        sent_since = former is not None and not former.was_moved
        rows.append(
            MergedOrder(
                order.key.accession,
                order.state.value,
                order.report_id,
                status,
                sent_since and merge.undone is None,
                stays,
            )
        )
    begun = {row.report_id for row in rows if row.status not in {None, ReportStatus.ORDERED.value}}
    signed = {row.report_id for row in rows if row.status in {each.value for each in SIGNED}}
    pointer = merge.pointer
    return MergeDetails(
        pointer.site,
        pointer.prior_mrn,
        pointer.mrn,
        reference_of(pointer.site, pointer.prior_mrn),
        pointer.merged_at,
        merge.undone.undone_at if merge.undone else None,
        merge.patients,
        rows,
        len(begun),
        len(signed),
        linked,
        merge.results,
    )


def list_undone(home: Path, site: str, number: str, limit: int) -> list[dict[str, Any]]:
    """List merges that were undone, the last one first; of one site or number unless it is ''."""
    with bridge_database(home) as database:
        return undone_merges_of(database, site, number, limit)


def undone_merges_of(
    database: Database, site: str, number: str, limit: int
) -> list[dict[str, Any]]:
    with database.read() as connection:
        found = identifier_changes.undone(connection, site, number, limit)
    return [_undone_as_json(change) for change in found]


def _undone_as_json(change: UndoneChange) -> dict[str, Any]:
    shown = {name: value for name, value in asdict(change).items() if name != "returned"}
    reference = reference_of(change.site, change.prior_mrn)
    return {**shown, "orders": len(change.returned), "reference": reference}


def find_undone(database: Database, number: str, site: str) -> UndoneChange:
    """Return the last undone merge of a number. Raises NoSuchMerge."""
    with database.read() as connection:
        found = [
            change
            for change in identifier_changes.undone(connection, site, number, 1000)
            if change.prior_mrn == number
        ]
    if not found:
        raise NoSuchMerge("this number was not merged into another one")
    if len({change.site for change in found}) > 1:
        raise NoSuchMerge("several sites have a merge of this number: name the site")
    return next((change for change in found if change.returned), found[0])


def correct(home: Path, number: str, site: str, reason: str) -> Corrections:
    """
    Queue corrections of the results that went out under the survivor of an undone merge.

    Audited. Raises NoSuchMerge, ReasonRequired.
    """
    given = required_reason(reason)
    with bridge_database(home) as database:
        change = find_undone(database, number, site)
        subject = ("merge", reference_of(change.site, change.prior_mrn))
        with audited(home, database, "correct results", subject, reason=given):
            receivers = wrong_results.receivers_of(load(home), database)
            return queue_corrections(database, receivers, change)


def queue_corrections(
    database: Database, receivers: Receivers, change: UndoneChange
) -> Corrections:
    """Queue the corrections of an undone merge."""
    with database.write() as connection:
        now = time.time_ns() // 1_000_000
        return wrong_results.send_corrections(database, connection, receivers, change, now)


def undo(
    home: Path,
    number: str,
    site: str,
    reason: str,
    *,
    include_signed: bool = False,
    keep: Collection[str] = (),
) -> UndoneMerge:
    """
    Undo the merge of a number; audited.

    If it is undone already, the orders return that it left with the survivor.

    Raises NoSuchMerge, NoSuchMergedOrder, ReasonRequired, MergeBusy.
    """
    given, settings = required_reason(reason), load(home)
    with bridge_database(home) as database:
        pointer = find_to_undo(database, number, site)
        choice = choice_of(database, pointer, keep, include_signed=include_signed)
        reference = reference_of(pointer.site, pointer.prior_mrn)
        with (
            audited(home, database, "undo merge", ("merge", reference), reason=given),
            report_engine(settings) as opened,
        ):
            client = opened.engine.client
            moved, kept = opened.run(
                undo_pointer(database, client, pointer, step_writer(settings, database), choice)
            )
    return UndoneMerge(pointer.site, reference, moved, kept)


def find(database: Database, number: str, site: str) -> MergePointer:
    """Return the merge of a number; of one site, unless that is ''. Raises NoSuchMerge."""
    with database.read() as connection:
        found = [
            pointer
            for pointer in patient_records.list_merges(connection, site, number, 1000)
            if pointer.prior_mrn == number
        ]
    if not found:
        raise NoSuchMerge("this number was not merged into another one")
    if len(found) > 1:
        raise NoSuchMerge("several sites have a merge of this number: name the site")
    return found[0]


def find_to_undo(database: Database, number: str, site: str) -> MergePointer:
    """Return the merge of a number, or an undone one that left orders. Raises NoSuchMerge."""
    try:
        return find(database, number, site)
    except NoSuchMerge:
        change = find_undone(database, number, site)
        with database.read() as connection:
            patient = (change.site, change.prior_mrn)
            left = identifier_changes.merge_with_stayed(connection, patient)
        if left is None:
            raise
        return left


class NoSuchMergedOrder(BridgeError):
    """An order that is to stay with the survivor would not return."""


def choice_of(
    database: Database, pointer: MergePointer, keep: Collection[str], *, include_signed: bool
) -> UndoChoice:
    """
    Return what an undo does; `keep` has the accessions of orders that stay with the survivor.

    `include_signed`: also orders return whose text was released under the survivor's name. Raises
    NoSuchMergedOrder.
    """
    returning = {order.before.key.accession for order in _returning(database, pointer)}
    if not returning.issuperset(keep):
        text = "an order that is to stay with the survivor is not one that would return"
        raise NoSuchMergedOrder(text)
    return UndoChoice(include_signed, frozenset(keep))


class MergeBusy(BridgeError):
    """Messages about the patients of a merge are being applied and do not end."""


_WAIT_SECONDS = 30.0
_POLL_SECONDS = 0.05


def step_writer(settings: Settings, database: Database) -> StepWriter:
    """Return what stores the steps of orders that return. Blocking."""
    return StepWriter(active_step_rules(settings, database))


async def undo_pointer(
    database: Database,
    client: EngineClient,
    pointer: MergePointer,
    steps: StepWriter,
    choice: UndoChoice = UNDO_OF_MESSAGE,
) -> tuple[int, int]:
    """
    Undo a merge; return how many orders returned, and how many stay with the survivor.

    Messages about its patients wait until it is done. If it ends halfway it may be repeated, and
    the service completes it (`complete_undos`). Raises MergeBusy.
    """
    patients, choice = await CONSOLE_THREADS.run(_begin, database, pointer, choice)
    freed = (pointer.site, pointer.prior_mrn)
    try:
        await _wait_for_messages(database, patients)
        returning = await CONSOLE_THREADS.run(_returning, database, pointer)
    except BaseException:
        await CONSOLE_THREADS.run(_end, database, freed)
        raise
    try:
        undone = await undo_in_engine(client, pointer, returning, choice)
    except EngineFailure as failure:
        if failure.failure is FailureKind.PERMANENT:
            await CONSOLE_THREADS.run(_end, database, freed)
        raise
    return await CONSOLE_THREADS.run(_undo_in_bridge, database, pointer, undone, steps)


_INTERRUPTED_AFTER_MS = 60_000
"""An undo ends sooner, with the time that it waits for messages."""


async def complete_undos(
    database: Database, client: EngineClient, steps: StepWriter, now: int
) -> int:
    """
    Complete the undos that were interrupted; return how many. `now` in ms.

    The process of an operator's undo may be killed between the report engine and the bridge.
    """
    completed = 0
    for pointer, choice in await CONSOLE_THREADS.run(_interrupted, database, now):
        with suppress(EngineFailure, MergeBusy):  # later again
            await undo_pointer(database, client, pointer, steps, choice)
            completed += 1
    return completed


def _interrupted(database: Database, now: int) -> list[tuple[MergePointer, UndoChoice]]:
    """Return the interrupted undos; forget those whose merge is undone."""
    with database.read() as connection:
        begun = identifier_changes.undos_begun_before(connection, now - _INTERRUPTED_AFTER_MS)
        pointers = patient_records.merge_pointers(connection, begun)
        for patient in begun.keys() - pointers.keys():
            left = identifier_changes.merge_with_stayed(connection, patient)
            if left is not None and begun[patient].include_signed:
                pointers[patient] = left
    for patient in begun.keys() - pointers.keys():
        _end(database, patient)
    return [(pointer, begun[patient]) for patient, pointer in pointers.items()]


def _begin(
    database: Database, pointer: MergePointer, choice: UndoChoice
) -> tuple[set[Patient], UndoChoice]:
    now = time.time_ns() // 1_000_000
    with database.write() as connection:
        return identifier_changes.begin_undo(connection, pointer, now, choice)


def _end(database: Database, patient: Patient) -> None:
    with database.write() as connection:
        identifier_changes.end_undo(connection, patient)


async def _wait_for_messages(database: Database, patients: Collection[Patient]) -> None:
    """Wait for the messages that began before messages about these patients had to wait."""
    lanes = {lane(f"{site}|{mrn}") for site, mrn in patients}
    begun = await CONSOLE_THREADS.run(_claimed, database, lanes)
    end = time.monotonic() + _WAIT_SECONDS
    while begun := begun & await CONSOLE_THREADS.run(_claimed, database, lanes):
        if time.monotonic() > end:
            raise MergeBusy("messages about these patients are being applied: try again later")
        await asyncio.sleep(_POLL_SECONDS)


def _claimed(database: Database, lanes: Collection[int]) -> set[tuple[int, int]]:
    with database.read() as connection:
        return claimed_in_lanes(connection, lanes)


def _returning(database: Database, pointer: MergePointer) -> list[ReturningOrder]:
    patient = (pointer.site, pointer.prior_mrn)
    with database.read() as connection:
        if patient_records.survivors(connection, [patient]):
            return identifier_changes.returning_orders(connection, pointer)
        return identifier_changes.stayed_orders(connection, pointer)


def _undo_in_bridge(
    database: Database,
    pointer: MergePointer,
    undone: undone_merges.UndoneMerge,
    steps: StepWriter,
) -> tuple[int, int]:
    now = time.time_ns() // 1_000_000
    with database.write() as connection:
        orders = undo_merge(connection, undone, now, steps)
        identifier_changes.end_undo(connection, (pointer.site, pointer.prior_mrn))
        waiting = {(pointer.site, pointer.prior_mrn), (pointer.site, pointer.mrn)}
        resume_parked(database, connection, waiting)
    return orders
