"""
Merged patient numbers: list them, and undo a wrong merge.

Undoing removes the pointer from the merged number to its survivor in the report engine and in the
bridge, and returns the orders that the merge moved. Later orders with the number are those of its
own patient. Orders that cannot return become exceptions: a person checks whose they are.
"""

import asyncio
import time
from collections.abc import Collection
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from bridge.admin.audit_events import audited
from bridge.admin.orders.reasons import required_reason
from bridge.admin.report_engine import report_engine
from bridge.engine_client.client import EngineClient
from bridge.errors import BridgeError
from bridge.executors import CONSOLE_THREADS
from bridge.index_key import keyed64, signed64
from bridge.intake.process.order_repository import resume_parked, undo_merge
from bridge.intake.process.patient_events import undo_in_engine
from bridge.orders import undone_merges
from bridge.orders.order import Patient
from bridge.orders.patients import MergePointer
from bridge.orders.undone_merges import ReturningOrder
from bridge.queue.arrivals import lane
from bridge.queue.queries import claimed_in_lanes
from bridge.store.database import Database
from bridge.store.databases import bridge_database
from bridge.store.records import identifier_changes, patient_records
from config import load


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
    with bridge_database(home) as database, database.read() as connection:
        found = patient_records.list_merges(connection, site, number, limit)
    return [_as_json(pointer) for pointer in found]


def _as_json(pointer: MergePointer) -> dict[str, Any]:
    shown = {name: value for name, value in asdict(pointer).items() if name != "identity"}
    return {**shown, "reference": reference_of(pointer.site, pointer.prior_mrn)}


def undo(home: Path, number: str, site: str, reason: str) -> UndoneMerge:
    """Undo the merge of a number; audited. Raises NoSuchMerge, ReasonRequired."""
    given = required_reason(reason)
    with bridge_database(home) as database:
        pointer = find(database, number, site)
        reference = reference_of(pointer.site, pointer.prior_mrn)
        with (
            audited(home, database, "undo merge", ("merge", reference), reason=given),
            report_engine(load(home)) as opened,
        ):
            moved, kept = opened.run(undo_pointer(database, opened.engine.client, pointer))
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


class MergeBusy(BridgeError):
    """Messages about the patients of a merge are being applied and do not end."""


_WAIT_SECONDS = 30.0
_POLL_SECONDS = 0.05


async def undo_pointer(
    database: Database, client: EngineClient, pointer: MergePointer
) -> tuple[int, int]:
    """
    Undo a merge; return how many orders returned, and how many stay with the survivor.

    Messages about its patients wait until it is done, or `UNDO_ENDS_AFTER_MS` after a failure. It
    may be repeated then. Raises MergeBusy.
    """
    patients = await CONSOLE_THREADS.run(_begin, database, pointer)
    try:
        await _wait_for_messages(database, patients)
        returning = await CONSOLE_THREADS.run(_returning, database, pointer)
    except BaseException:
        await CONSOLE_THREADS.run(_end, database, pointer)
        raise
    undone = await undo_in_engine(client, pointer, returning)
    return await CONSOLE_THREADS.run(_undo_in_bridge, database, pointer, undone)


def _begin(database: Database, pointer: MergePointer) -> set[Patient]:
    with database.write() as connection:
        return identifier_changes.begin_undo(connection, pointer, time.time_ns() // 1_000_000)


def _end(database: Database, pointer: MergePointer) -> None:
    with database.write() as connection:
        identifier_changes.end_undo(connection, pointer)


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
    with database.read() as connection:
        return identifier_changes.returning_orders(connection, pointer)


def _undo_in_bridge(
    database: Database, pointer: MergePointer, undone: undone_merges.UndoneMerge
) -> tuple[int, int]:
    now = time.time_ns() // 1_000_000
    with database.write() as connection:
        orders = undo_merge(connection, undone, now)
        waiting = {(pointer.site, pointer.prior_mrn), (pointer.site, pointer.mrn)}
        resume_parked(database, connection, waiting)
    return orders
