"""
Patients: merged identifiers, the latest demographics, and visits that moved.

A merge stores a pointer from the merged identifier to the surviving one. Pointers never chain: if a
survivor is merged, all pointers to it are moved. Each row keeps the identifier that its merge
named, so that a merge can be undone.

An order that was sent before a correction may arrive after it, and must not overwrite it. So the
latest demographics of all patients are stored, and deleted after a time if a patient has no orders.

A later order may name a visit that moved to another patient or got another number. A pointer leads
from the former visit to the current one.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from operator import itemgetter
from typing import Any, Final

from sqlalchemy import (
    ColumnElement,
    Connection,
    Row,
    Select,
    Table,
    bindparam,
    delete,
    exists,
    func,
    literal,
    or_,
    select,
    tuple_,
    update,
)
from sqlalchemy.dialects.postgresql import insert

from bridge.orders.order import Patient
from bridge.orders.patients import DemographicsUpdate, MergePointer, Separation
from bridge.orders.times import MessageTime, comparable_time
from bridge.orders.visits import VisitReference, VisitTransfer
from bridge.store.columns import one_of
from bridge.store.database import Database
from bridge.store.merge_chains import merged_through
from bridge.store.tables import (
    DEMOGRAPHICS,
    MERGE_UNDOS,
    MERGED_PATIENTS,
    ORDERS,
    SEPARATED_PATIENTS,
    VISIT_TRANSFERS,
    upsert,
)

_BATCH: Final = 1000
_MERGED, _MOVED = MERGED_PATIENTS.c, VISIT_TRANSFERS.c


def _of_patients(table: Table, mrn: str, *columns: str) -> Select[Any]:
    """Return the statement that reads columns of a site's rows with one of several MRNs."""
    chosen: list[Any] = [table.c[name] for name in columns] or [table]
    own = (table.c.site == bindparam("site"), one_of(table.c[mrn], "mrns"))
    return select(*chosen).where(*own)


# Constants, because making a statement costs more than executing it.
_KNOWN: Final = [
    _of_patients(table, "mrn", "mrn").distinct()
    for table in (ORDERS, DEMOGRAPHICS, MERGED_PATIENTS)
]
_SURVIVORS: Final = _of_patients(MERGED_PATIENTS, "prior_mrn", "prior_mrn", "mrn")
_MERGED_INTO: Final = _of_patients(MERGED_PATIENTS, "mrn", "prior_mrn")
_POINTERS: Final = _of_patients(MERGED_PATIENTS, "prior_mrn")
_SEPARATIONS: Final = _of_patients(SEPARATED_PATIENTS, "prior_mrn")
_DEMOGRAPHICS: Final = _of_patients(DEMOGRAPHICS, "mrn")
_TRANSFERS: Final = _of_patients(VISIT_TRANSFERS, "prior_mrn")


def by_site(patients: Iterable[Patient]) -> Iterator[tuple[str, Sequence[str]]]:
    """
    Group patients into a site and its MRNs, as statements need them.

    SQLite scans the whole table for `(site, mrn) IN (VALUES …)`.
    """
    for site, own in groupby(sorted(set(patients)), key=itemgetter(0)):
        yield site, [mrn for _, mrn in own]


def _rows(
    connection: Connection, statement: Select[Any], patients: Iterable[Patient]
) -> Iterator[tuple[str, Row[Any]]]:
    """Yield each row of a statement of `_of_patients` with its site."""
    for site, mrns in by_site(patients):
        for row in connection.execute(statement, {"site": site, "mrns": mrns}):
            yield site, row


def known_patients(connection: Connection, patients: Iterable[Patient]) -> set[Patient]:
    """
    Return which of these patients are known by an order, a correction, or a merge into them.

    They must not be merged ones.
    """
    wanted = set(patients)
    return {
        (site, row.mrn)
        for statement in _KNOWN
        for site, row in _rows(connection, statement, wanted)
    }


def survivors(connection: Connection, patients: Iterable[Patient]) -> dict[Patient, str]:
    """Return the surviving MRN of each merged patient; others are absent."""
    return {(site, row.prior_mrn): row.mrn for site, row in _rows(connection, _SURVIVORS, patients)}


def current_identifiers(connection: Connection, patients: Iterable[Patient]) -> dict[Patient, str]:
    """Return the MRN that each patient has now: its own one if it was not merged."""
    own = {(site, mrn): mrn for site, mrn in patients}
    return own | survivors(connection, own)


def identifiers(connection: Connection, patients: Iterable[Patient]) -> set[Patient]:
    """Return these patients with all identifiers that were merged into them."""
    known = set(patients)
    merged = _rows(connection, _MERGED_INTO, known)
    return known | {*((site, row.prior_mrn) for site, row in merged)}


def merge(
    connection: Connection,
    site: str,
    prior_mrn: str,
    mrn: str,
    identity: Mapping[str, Any] | None = None,
    now: int | None = None,
    sent: MessageTime | None = None,
) -> str:
    """
    Merge a prior identifier, and all that were merged into it; return the surviving MRN.

    If `mrn` was merged before, its own survivor is used. If that is `prior_mrn`, or if the number
    leads there already, nothing changes.
    The visits of the prior identifier, and the pointers to them, move too. `identity` are the
    survivor's demographics in the merge; `now` in ms.
    """
    target = survivors(connection, [(site, mrn)]).get((site, mrn), mrn)
    if target == prior_mrn:
        return target
    if survivors(connection, [(site, prior_mrn)]).get((site, prior_mrn)) == target:
        _repeat_merge(connection, site, prior_mrn, sent)
        return target
    for table in (MERGED_PATIENTS, VISIT_TRANSFERS):
        own = (table.c.site == site, table.c.mrn == prior_mrn)
        connection.execute(update(table).where(*own).values(mrn=target))
    pointer = {"site": site, "prior_mrn": prior_mrn, "mrn": target, "merged_into": mrn}
    named = json.dumps(dict(identity or {}))
    at, clock = sent or (None, None)
    values = {"merged_at": now, "identity": named, "sent_at": at, "clock": clock}
    connection.execute(upsert(MERGED_PATIENTS), {**pointer, **values})
    copied = [literal(target) if column.name == "prior_mrn" else column for column in _MOVED]
    rows = select(*copied).where(_MOVED.site == site, _MOVED.prior_mrn == prior_mrn)
    names = [column.name for column in _MOVED]
    connection.execute(insert(VISIT_TRANSFERS).from_select(names, rows).on_conflict_do_nothing())
    _delete_self_pointers(connection, site, target)
    return target


def _repeat_merge(
    connection: Connection, site: str, prior_mrn: str, sent: MessageTime | None
) -> None:
    """A repetition may have been sent after an undo that arrives later."""
    if sent is not None:
        own = (_MERGED.site == site, _MERGED.prior_mrn == prior_mrn)
        is_newer = or_(
            _MERGED.clock.is_(None), _is_not_newer(MERGED_PATIENTS, sent.at, literal(sent.clock))
        )
        statement = update(MERGED_PATIENTS).where(*own, is_newer)
        connection.execute(statement.values(sent_at=sent.at, clock=sent.clock))


def add_separation(connection: Connection, separation: Separation) -> None:
    """Store a separation unless one is stored that was sent later by the same clock."""
    at, clock = separation.sent
    key = separation._asdict()
    del key["sent"]
    statement = insert(SEPARATED_PATIENTS).values(**key, sent_at=at, clock=clock)
    given = statement.excluded
    connection.execute(
        statement.on_conflict_do_update(
            index_elements=list(key),
            set_={"sent_at": given.sent_at, "clock": given.clock},
            where=_is_not_newer(SEPARATED_PATIENTS, given.sent_at, given.clock),
        )
    )


def separations(connection: Connection, patients: Iterable[Patient]) -> list[Separation]:
    """Return when these numbers were last separated from others."""
    return [
        Separation(site, row.prior_mrn, row.mrn, MessageTime(row.sent_at, row.clock))
        for site, row in _rows(connection, _SEPARATIONS, patients)
    ]


def merge_pointers(
    connection: Connection, patients: Iterable[Patient]
) -> dict[Patient, MergePointer]:
    """
    Return the pointers of these merged patients; others are absent.

    Their identity is that of the final survivor: the last merge of a chain named it.
    """
    pointers = _stored_pointers(connection, patients)
    return {
        patient: replace(pointer, identity=_last_of_chain(connection, pointer).identity)
        for patient, pointer in pointers.items()
    }


def _stored_pointers(
    connection: Connection, patients: Iterable[Patient]
) -> dict[Patient, MergePointer]:
    return {
        (site, row.prior_mrn): _merge_pointer(row)
        for site, row in _rows(connection, _POINTERS, patients)
    }


def _last_of_chain(connection: Connection, pointer: MergePointer) -> MergePointer:
    """Return the pointer of the merge that named the final survivor."""
    seen = {pointer.prior_mrn}
    while pointer.merged_into not in {pointer.mrn, *seen}:
        patient = (pointer.site, pointer.merged_into)
        following = _stored_pointers(connection, [patient]).get(patient)
        if following is None:  # a merge of an earlier version
            break
        pointer = following
        seen.add(pointer.prior_mrn)
    return pointer


def list_merges(
    connection: Connection, site: str, number: str, limit: int
) -> Sequence[MergePointer]:
    """List pointers, newest first; of one site or one number, unless that is ''."""
    query = select(MERGED_PATIENTS)
    if site:
        query = query.where(_MERGED.site == site)
    if number:
        query = query.where(or_(_MERGED.prior_mrn == number, _MERGED.mrn == number))
    newest = func.coalesce(_MERGED.merged_at, 0).desc()
    rows = connection.execute(query.order_by(newest, _MERGED.site, _MERGED.prior_mrn).limit(limit))
    return [_merge_pointer(row) for row in rows]


def _merge_pointer(row: Any) -> MergePointer:
    return MergePointer(
        row.site,
        row.prior_mrn,
        row.mrn,
        row.merged_into or row.mrn,
        row.merged_at,
        json.loads(row.identity or "{}"),
        comparable_time(row.sent_at, row.clock),
    )


def merged_through_prior(connection: Connection, pointer: MergePointer) -> set[str]:
    """Return the numbers that lead to the prior one of a pointer if its merge is undone."""
    same = select(MERGED_PATIENTS).where(_MERGED.site == pointer.site, _MERGED.mrn == pointer.mrn)
    rows = connection.execute(same)
    merged_into = {row.prior_mrn: row.merged_into or pointer.mrn for row in rows}
    return merged_through(pointer.prior_mrn, merged_into)


def undo_merge(connection: Connection, site: str, prior_mrn: str) -> str | None:
    """
    Remove the pointer of an identifier; return the survivor to which it led, None without one.

    Identifiers that were merged into this one belong to it again. Orders are not moved.
    """
    pointer = merge_pointers(connection, [(site, prior_mrn)]).get((site, prior_mrn))
    if pointer is None:
        return None
    for other in merged_through_prior(connection, pointer):
        row = (_MERGED.site == site, _MERGED.prior_mrn == other)
        connection.execute(update(MERGED_PATIENTS).where(*row).values(mrn=prior_mrn))
    own = (_MERGED.site == site, _MERGED.prior_mrn == prior_mrn)
    connection.execute(delete(MERGED_PATIENTS).where(*own))
    return pointer.mrn


def demographics(
    connection: Connection, patients: Iterable[Patient]
) -> dict[Patient, DemographicsUpdate]:
    """Return the latest update of each of these patients; most have none."""
    return {
        (site, row.mrn): DemographicsUpdate(
            site, row.mrn, row.sent_at, json.loads(row.tags), row.clock
        )
        for site, row in _rows(connection, _DEMOGRAPHICS, patients)
    }


def save_demographics(connection: Connection, update: DemographicsUpdate) -> None:
    """Store an update unless one is stored that was sent later by the same clock."""
    statement = insert(DEMOGRAPHICS).values(
        site=update.site,
        mrn=update.mrn,
        sent_at=update.sent_at,
        clock=update.clock,
        tags=json.dumps(dict(update.tags)),
    )
    given = statement.excluded
    connection.execute(
        statement.on_conflict_do_update(
            index_elements=["site", "mrn"],
            set_={"sent_at": given.sent_at, "clock": given.clock, "tags": given.tags},
            where=_is_not_newer(DEMOGRAPHICS, given.sent_at, given.clock),
        )
    )


def _is_not_newer(table: Table, sent_at: Any, clock: Any) -> ColumnElement[bool]:
    """True if a stored time is not later, or if another clock measured it."""
    stored = table.c
    return or_(stored.clock == 0, stored.clock // 4 != clock // 4, stored.sent_at <= sent_at)


def find_merges_and_transfers(
    connection: Connection, patients: Iterable[Patient]
) -> tuple[dict[Patient, str], dict[VisitReference, VisitTransfer]]:
    """Return the survivors of merged patients, and the visits that left these patients."""
    wanted = set(patients)
    transfers = {
        VisitReference(site, row.prior_mrn, row.visit_key, row.prior_number): VisitTransfer(
            VisitReference(site, row.mrn, row.visit_key, row.number),
            row.sent_at,
            json.loads(row.tags),
            tuple(json.loads(row.echo)),
            row.clock,
        )
        for site, row in _rows(connection, _TRANSFERS, wanted)
    }
    return survivors(connection, wanted), transfers


def add_transfer(connection: Connection, prior: VisitReference, transfer: VisitTransfer) -> None:
    """
    Add a transfer, and move all pointers to the prior visit.

    A visit that returns to where it was before loses its pointer. Of two transfers of one visit,
    the one that was sent later is stored if one clock timed both, else the one that arrived last.
    """
    if prior == transfer.now:
        return
    current = {
        "mrn": transfer.now.mrn,
        "number": transfer.now.number,
        "sent_at": transfer.sent_at,
        "clock": transfer.clock,
        "tags": json.dumps(dict(transfer.tags)),
        "echo": json.dumps(transfer.echo),
    }
    is_not_newer = _is_not_newer(VISIT_TRANSFERS, transfer.sent_at, transfer.clock)
    connection.execute(
        update(VISIT_TRANSFERS)
        .where(_MOVED.site == prior.site, _MOVED.mrn == prior.mrn)
        .where(_MOVED.visit_key == prior.key, _MOVED.number == prior.number, is_not_newer)
        .values(current)
    )
    key = {
        "site": prior.site,
        "prior_mrn": prior.mrn,
        "visit_key": prior.key,
        "prior_number": prior.number,
    }
    connection.execute(
        insert(VISIT_TRANSFERS)
        .values(**key, **current)
        .on_conflict_do_update(index_elements=list(key), set_=current, where=is_not_newer)
    )
    _delete_self_pointers(connection, prior.site, transfer.now.mrn)


def _delete_self_pointers(connection: Connection, site: str, mrn: str) -> None:
    connection.execute(
        delete(VISIT_TRANSFERS)
        .where(_MOVED.site == site, _MOVED.prior_mrn == mrn, _MOVED.mrn == mrn)
        .where(_MOVED.prior_number == _MOVED.number)
    )


def delete_old(database: Database, before: int) -> None:
    """
    Delete demographics and transfers before a time (ms) of patients without orders, and undos of
    merges: a merge that was sent before them arrives no more.
    """
    for table in (DEMOGRAPHICS, VISIT_TRANSFERS):
        row, order = table.c, ORDERS.c
        has_orders = exists().where(order.site == row.site, order.mrn == row.mrn)
        old = (row.sent_at < before, ~has_orders)
        key = tuple_(*table.primary_key)
        some = select(*table.primary_key).where(*old).limit(_BATCH)
        deleted = _BATCH
        while deleted == _BATCH:
            with database.delete_without_sync() as connection:
                statement = delete(table).where(key.in_(some), row.sent_at < before)
                deleted = connection.execute(statement).rowcount
    with database.delete_without_sync() as connection:
        old_undo = SEPARATED_PATIENTS.c.sent_at < before
        connection.execute(delete(SEPARATED_PATIENTS).where(old_undo))


UNDO_ENDS_AFTER_MS: Final = 120_000
"""Milliseconds after which an undo by an operator has failed: messages wait for it no longer."""


def patients_of_undos(connection: Connection, now: int) -> set[Patient]:
    """Return the patients of the merges that operators are undoing."""
    begun = select(MERGE_UNDOS).where(MERGE_UNDOS.c.begun_at > now - UNDO_ENDS_AFTER_MS)
    freed = {(row.site, row.prior_mrn) for row in connection.execute(begun)}
    if not freed:
        return set()
    current = current_identifiers(connection, freed)
    survivors = {(site, mrn) for (site, _), mrn in current.items()}
    return identifiers(connection, freed | survivors)
