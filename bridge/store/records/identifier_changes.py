"""
The history of merged patient numbers: what each merge moved, so that it can be undone.

A merge stores what it replaces before it moves anything: the demographics and numbers of each
order, and the pointers of visits. Orders that are sent with the merged number later are added with
the demographics in their messages. The newest entry of a number that is not undone belongs to its
pointer (`patient_records`). An undone merge stays in the history with the identity under which its
orders had been, so that what was sent under it can be corrected.
"""

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from sqlalchemy import Connection, Select, bindparam, delete, insert, or_, select, update

from bridge.orders.order import Order, Patient, merged_hash
from bridge.orders.patients import DEMOGRAPHICS as DEMOGRAPHIC_TAGS
from bridge.orders.patients import MergePointer
from bridge.orders.undone_merges import (
    FormerOrder,
    ReturningOrder,
    UndoneMerge,
    returning_order,
    sent_demographics,
)
from bridge.store.columns import one_of
from bridge.store.database import Database
from bridge.store.records import order_index, patient_records
from bridge.store.tables import (
    IDENTIFIER_CHANGE_ITEMS,
    IDENTIFIER_CHANGES,
    MERGE_UNDOS,
    VISIT_TRANSFERS,
    upsert,
)

_CHANGE, _ITEM = IDENTIFIER_CHANGES.c, IDENTIFIER_CHANGE_ITEMS.c
_VISIT, _UNDO = VISIT_TRANSFERS.c, MERGE_UNDOS.c

_MOVED_ORDER: Final = "order"
_SENT_ORDER: Final = "sent order"
"""An order that was sent with the number when it had been merged."""
_MOVED_AWAY: Final = "moved away"
"""A row that remained of an order whose visit had moved, and that a merge removes or moves."""
_RETURNED: Final = "returned"
"""An order that an undone merge returned, as it was under the survivor."""
_STAYED: Final = "stayed"
"""An order that an undone merge left with the survivor, as it would have returned."""
_ORDER_KINDS: Final = (_MOVED_ORDER, _SENT_ORDER)
_MOVED_VISIT: Final = "visit"
"""A pointer to a visit of the merged number."""
_COPIED_VISIT: Final = "visit copy"
"""A pointer from a visit of the survivor, which the merge made from one of the merged number."""


# A constant, because making a statement costs more than executing it.
_FREED: Final = (
    select(_CHANGE.prior_mrn)
    .where(_CHANGE.site == bindparam("site"), one_of(_CHANGE.prior_mrn, "mrns"))
    .where(_CHANGE.undone_at.is_not(None))
    .distinct()
)


def add_merge(
    connection: Connection, site: str, prior_mrn: str, mrn: str, now: int, message_id: int | None
) -> None:
    """
    Store what a merge will move to `mrn`, its final survivor; call it before anything moves.

    A merge that changes nothing leaves no entry: the pointer leads there already.
    """
    if patient_records.survivors(connection, [(site, prior_mrn)]).get((site, prior_mrn)) == mrn:
        return
    values = {"site": site, "prior_mrn": prior_mrn, "mrn": mrn, "at": now, "message_id": message_id}
    inserted = insert(IDENTIFIER_CHANGES).values(values).returning(_CHANGE.id)
    change_id = connection.execute(inserted).scalar_one()
    _add_items(connection, change_id, _orders(connection, site, prior_mrn, mrn))
    _add_items(connection, change_id, _visits(connection, site, prior_mrn, mrn))


_Item = tuple[str, str, Any]


def _add_items(connection: Connection, change_id: int, items: Sequence[_Item]) -> None:
    if items:
        rows = [
            {"change_id": change_id, "kind": kind, "name": name, "before": json.dumps(before)}
            for kind, name, before in items
        ]
        connection.execute(insert(IDENTIFIER_CHANGE_ITEMS), rows)


def add_sent_orders(connection: Connection, orders: Iterable[Order]) -> None:
    """Store new orders that were sent with merged numbers, as their messages described them."""
    for order in orders:
        merged = patient_records.identifiers(connection, [order.patient]) - {order.patient}
        for patient in sorted(merged):
            if merged_hash(patient[1]) not in order.merged_from:
                continue
            change = _newest(connection, patient)
            accession = order.key.accession
            if change is None or _items(connection, change.id, *_ORDER_KINDS, name=accession):
                continue
            before = {"demographics": sent_demographics(order), "echo": order.echo}
            _add_items(connection, change.id, [(_SENT_ORDER, accession, before)])


def _orders(connection: Connection, site: str, prior_mrn: str, mrn: str) -> list[_Item]:
    """
    Return the orders that will move. Those that both patients have are combined for good.

    A row that remains of an order that one patient gave to the other is no order.
    """
    priors, survivors = (
        {order.key.accession: order for order in found}
        for number in (prior_mrn, mrn)
        for found in [order_index.find_by_patient(connection, [(site, number)])]
    )
    items: list[_Item] = []
    for accession, order in priors.items():
        twin = survivors.get(accession)
        if not order.moved_away and (twin is None or twin.moved_away):
            items.append((_MOVED_ORDER, accession, _identity(order)))
        items += [
            (_MOVED_AWAY, accession, order_index.moved_away_row(row))
            for row in (order, twin)
            if row is not None and row.moved_away
        ]
    return items


def _identity(order: Order) -> dict[str, Any]:
    demographics = {tag: order.tags[tag] for tag in DEMOGRAPHIC_TAGS if tag in order.tags}
    return {"demographics": demographics, "echo": order.echo}


def _visits(connection: Connection, site: str, prior_mrn: str, mrn: str) -> list[_Item]:
    own = connection.execute(
        select(VISIT_TRANSFERS).where(_VISIT.site == site, _VISIT.mrn == prior_mrn)
    )
    moved = [(_MOVED_VISIT, row.prior_number, row._asdict()) for row in own]
    existing = {
        (row.visit_key, row.prior_number)
        for row in connection.execute(
            select(VISIT_TRANSFERS).where(_VISIT.site == site, _VISIT.prior_mrn == mrn)
        )
    }
    from_prior = connection.execute(
        select(VISIT_TRANSFERS).where(_VISIT.site == site, _VISIT.prior_mrn == prior_mrn)
    )
    copied = [
        (_COPIED_VISIT, row.prior_number, {"visit_key": row.visit_key})
        for row in from_prior
        if (row.visit_key, row.prior_number) not in existing
    ]
    return [*moved, *copied]


@dataclass(frozen=True, slots=True)
class UndoneChange:
    """
    A merge that was undone, times in ms.

    `returned` has the demographics and segments of each order that returned, by accession, as they
    were under the survivor.
    """

    id: int
    site: str
    prior_mrn: str
    mrn: str
    merged_at: int
    undone_at: int
    returned: Mapping[str, FormerOrder] = field(default_factory=dict, repr=False)


def undone(connection: Connection, site: str, number: str, limit: int) -> Sequence[UndoneChange]:
    """List merges that were undone, the last one first; of one site or number unless it is ''."""
    query = select(IDENTIFIER_CHANGES).where(_CHANGE.undone_at.is_not(None))
    if site:
        query = query.where(_CHANGE.site == site)
    if number:
        query = query.where(or_(_CHANGE.prior_mrn == number, _CHANGE.mrn == number))
    rows = connection.execute(query.order_by(_CHANGE.id.desc()).limit(limit))
    return [
        UndoneChange(
            row.id,
            row.site,
            row.prior_mrn,
            row.mrn,
            row.at,
            row.undone_at,
            {
                accession: FormerOrder(True, before["demographics"], before["echo"])
                for _, accession, before in _items(connection, row.id, _RETURNED)
            },
        )
        for row in rows
    ]


def freed_numbers(connection: Connection, patients: Iterable[Patient]) -> set[Patient]:
    """Return which of these patients have a number that was merged, and is free again."""
    return {
        (site, mrn)
        for site, mrns in patient_records.by_site(patients)
        for mrn in connection.scalars(_FREED, {"site": site, "mrns": mrns})
    }


def has_undone(connection: Connection, patient: Patient, mrn: str) -> bool:
    """True if a merge of a patient into `mrn` was undone."""
    site, prior_mrn = patient
    query = select(_CHANGE.id).where(_CHANGE.site == site, _CHANGE.prior_mrn == prior_mrn)
    query = query.where(_CHANGE.mrn == mrn, _CHANGE.undone_at.is_not(None))
    return connection.execute(query.limit(1)).first() is not None


def _newest(connection: Connection, patient: Patient) -> Any:
    """Return the entry of the pointer of a merged number, or None."""
    return connection.execute(
        select(IDENTIFIER_CHANGES)
        .where(_CHANGE.site == patient[0], _CHANGE.prior_mrn == patient[1])
        .where(_CHANGE.undone_at.is_(None))
        .order_by(_CHANGE.id.desc())
        .limit(1)
    ).one_or_none()


def _items(connection: Connection, change_id: int, *kinds: str, name: str = "") -> list[_Item]:
    query = select(IDENTIFIER_CHANGE_ITEMS).where(_ITEM.change_id == change_id)
    query = query.where(_ITEM.kind.in_(kinds)).order_by(_ITEM.id)
    rows = connection.execute(query.where(_ITEM.name == name) if name else query)
    return [(row.kind, row.name, json.loads(row.before)) for row in rows]


def _former_orders(
    connection: Connection, site: str, numbers: Iterable[str]
) -> dict[str, dict[str, FormerOrder]]:
    """Return what the orders were under these merged numbers, by accession and number."""
    found: defaultdict[str, dict[str, FormerOrder]] = defaultdict(dict)
    for number in numbers:
        change = _newest(connection, (site, number))
        items = [] if change is None else _items(connection, change.id, *_ORDER_KINDS)
        for kind, accession, before in items:
            found[accession][number] = FormerOrder(
                kind == _MOVED_ORDER, before["demographics"], before["echo"]
            )
    return found


def returning_orders(connection: Connection, pointer: MergePointer) -> list[ReturningOrder]:
    """
    Return the orders of a survivor that return if the merge is undone.

    Orders stay whose former state is not known, and those that the freed number has already.
    """
    through = patient_records.merged_through_prior(connection, pointer)
    numbers = {pointer.prior_mrn, *through}
    former = _former_orders(connection, pointer.site, numbers)
    patient, freed = (pointer.site, pointer.mrn), (pointer.site, pointer.prior_mrn)
    known = patient_records.demographics(connection, [freed])
    tags = known[freed].tags if freed in known else {}
    marks = {merged_hash(number): number for number in numbers}
    own = {
        order.key.accession
        for order in order_index.find_by_patient(connection, [freed])
        if not order.moved_away
    }
    found: list[ReturningOrder] = []
    for order in order_index.find_by_patient(connection, [patient]):
        accession = order.key.accession
        left = {marks[mark] for mark in order.merged_from & marks.keys()}
        states = former.get(accession, {})
        before = {number: state for number, state in states.items() if number in left}
        back = returning_order(order, pointer.prior_mrn, through, before, tags)
        if back is not None and accession not in own:
            found.append(back)
    return found


@dataclass(frozen=True, slots=True)
class UndoChoice:
    """
    What an operator wants of an undo.

    `include_signed`: also orders return whose text was released under the survivor's name. `keep`
    has the accessions of orders that stay with the survivor.
    """

    include_signed: bool = False
    keep: frozenset[str] = frozenset()


UNDO_OF_MESSAGE: Final = UndoChoice()
"""An undo without a choice, as a message asks for it."""


def begin_undo(
    connection: Connection, pointer: MergePointer, now: int, choice: UndoChoice
) -> tuple[set[Patient], UndoChoice]:
    """
    Let messages wait that are about the patients of a merge; return these patients.

    An operator undoes the merge outside the lanes of the messages. The choice is stored for another
    process that completes the undo. If an interrupted undo is repeated, its orders are those that
    were chosen first, because the report engine may have returned them.
    """
    own = (_UNDO.site == pointer.site, _UNDO.prior_mrn == pointer.prior_mrn)
    begun = connection.scalar(select(_UNDO.keep).where(*own))
    if begun is not None:
        choice = replace(choice, keep=frozenset(json.loads(begun)))
    values = {"site": pointer.site, "prior_mrn": pointer.prior_mrn, "begun_at": now}
    values |= {
        "include_signed": int(choice.include_signed),
        "keep": json.dumps(sorted(choice.keep)),
    }
    connection.execute(upsert(MERGE_UNDOS), values)
    both = [(pointer.site, pointer.mrn), (pointer.site, pointer.prior_mrn)]
    return patient_records.identifiers(connection, both), choice


def end_undo(connection: Connection, patient: Patient) -> None:
    own = (_UNDO.site == patient[0], _UNDO.prior_mrn == patient[1])
    connection.execute(delete(MERGE_UNDOS).where(*own))


def undos_begun_before(connection: Connection, before: int) -> dict[Patient, UndoChoice]:
    """Return the undos that began before a time (ms) and have not ended."""
    rows = connection.execute(select(MERGE_UNDOS).where(_UNDO.begun_at < before))
    return {
        (row.site, row.prior_mrn): UndoChoice(
            bool(row.include_signed), frozenset(json.loads(row.keep))
        )
        for row in rows
    }


def numbers_left(connection: Connection, pointer: MergePointer) -> dict[str, FormerOrder]:
    """Return what the orders were that a merge moved, or that were sent with its number since."""
    former = _former_orders(connection, pointer.site, [pointer.prior_mrn])
    return {accession: states[pointer.prior_mrn] for accession, states in former.items()}


def delete_old(database: Database, before: int) -> None:
    """Delete entries of merges that were undone before a time (ms)."""
    with database.delete_without_sync() as connection:
        old = _CHANGE.undone_at < before
        ids = select(_CHANGE.id).where(old)
        connection.execute(delete(IDENTIFIER_CHANGE_ITEMS).where(_ITEM.change_id.in_(ids)))
        connection.execute(delete(IDENTIFIER_CHANGES).where(old))
        connection.execute(delete(MERGE_UNDOS).where(_UNDO.begun_at < before))


def undo(
    connection: Connection,
    pointer: MergePointer,
    undone: UndoneMerge,
    now: int,
    message_id: int | None,
) -> tuple[list[int], list[int]]:
    """
    Undo a merge; return the row ids of the orders that returned, and of those that stay.

    The orders return that the report engine gave back or does not have.
    """
    returning = returning_orders(connection, pointer)
    numbers = {pointer.prior_mrn, *patient_records.merged_through_prior(connection, pointer)}
    change = _newest(connection, (pointer.site, pointer.prior_mrn))
    patient_records.undo_merge(connection, pointer.site, pointer.prior_mrn)
    if change is not None:
        values = {"undone_at": now, "undone_by_message": message_id, "mrn": pointer.mrn}
        connection.execute(update(IDENTIFIER_CHANGES).where(_CHANGE.id == change.id).values(values))
        _return_visits(connection, pointer, change)
    results = [(order.before.key, undone.result(order)) for order in returning]
    moved = [(before, after) for before, after in results if after is not None]
    under_survivor = [
        (_RETURNED, order.before.key.accession, _identity(order.before))
        for order, (_, after) in zip(returning, results, strict=True)
        if after is not None
    ]
    stayed = [
        (_STAYED, order.after.key.accession, _identity(order.after))
        for order in returning
        if order.after.key.accession in undone.kept
    ]
    order_index.move(connection, moved)
    if change is not None:
        away = [row for _, _, row in _items(connection, change.id, _MOVED_AWAY)]
        order_index.restore_moved_away(connection, away, pointer.mrn)
        connection.execute(delete(IDENTIFIER_CHANGE_ITEMS).where(_ITEM.change_id == change.id))
        _add_items(connection, change.id, [*under_survivor, *stayed])
    stay = order_index.ids_merged_from(connection, pointer.site, pointer.mrn, numbers)
    order_index.forget_numbers(connection, stay, numbers)
    end_undo(connection, (pointer.site, pointer.prior_mrn))
    returned = order_index.states(connection, [after.key for _, after in moved])
    return [row_id for row_id, _ in returned.values()], stay


def merge_with_stayed(connection: Connection, patient: Patient) -> MergePointer | None:
    """
    Return the undone merge that left orders of a number with the survivor.

    None if there is none, or if the number is merged again.
    """
    if patient_records.survivors(connection, [patient]):
        return None
    row = connection.execute(
        _stayed(patient).with_only_columns(_CHANGE.mrn, _CHANGE.at).order_by(_CHANGE.id.desc())
    ).first()
    if row is None:
        return None
    survivor = (patient[0], row.mrn)
    mrn = patient_records.current_identifiers(connection, [survivor])[survivor]
    return MergePointer(*patient, mrn, row.mrn, row.at)


def _stayed(patient: Patient) -> Select[Any]:
    """Return the statement that reads the orders of a number that stayed with a survivor."""
    own = (_CHANGE.site == patient[0], _CHANGE.prior_mrn == patient[1])
    joined = IDENTIFIER_CHANGE_ITEMS.join(IDENTIFIER_CHANGES, _ITEM.change_id == _CHANGE.id)
    return (
        select(_ITEM.id, _ITEM.name, _ITEM.before)
        .select_from(joined)
        .where(*own, _CHANGE.undone_at.is_not(None), _ITEM.kind == _STAYED)
    )


def stayed_orders(connection: Connection, pointer: MergePointer) -> list[ReturningOrder]:
    """Return the orders that an undone merge left with the survivor, and that still are there."""
    freed = (pointer.site, pointer.prior_mrn)
    former = {
        row.name: FormerOrder(True, **json.loads(row.before))
        for row in connection.execute(_stayed(freed).order_by(_ITEM.id))
    }
    own = {
        order.key.accession
        for order in order_index.find_by_patient(connection, [freed])
        if not order.moved_away
    }
    found = [
        returning_order(order, pointer.prior_mrn, (), {pointer.prior_mrn: before}, {})
        for order in order_index.find_by_patient(connection, [(pointer.site, pointer.mrn)])
        for before in [former.get(order.key.accession)]
        if before is not None and not order.moved_away and order.key.accession not in own
    ]
    return [order for order in found if order is not None]


def return_stayed(
    connection: Connection, pointer: MergePointer, undone: UndoneMerge
) -> tuple[list[int], int]:
    """
    Return orders that an undone merge left with the survivor.

    Returns their row ids, and how many still stay.
    """
    freed = (pointer.site, pointer.prior_mrn)
    returning = stayed_orders(connection, pointer)
    moved = [
        (order.before, after) for order in returning if (after := undone.result(order)) is not None
    ]
    before = {order.key.accession: json.dumps(_identity(order)) for order, _ in moved}
    for row in connection.execute(_stayed(freed)).all():
        if row.name in before:
            values = {"kind": _RETURNED, "before": before[row.name]}
            own = _ITEM.id == row.id
            connection.execute(update(IDENTIFIER_CHANGE_ITEMS).where(own).values(values))
    order_index.move(connection, [(order.key, after) for order, after in moved])
    end_undo(connection, freed)
    returned = order_index.states(connection, [after.key for _, after in moved])
    return [row_id for row_id, _ in returned.values()], len(returning) - len(moved)


def _return_visits(connection: Connection, pointer: MergePointer, change: Any) -> None:
    """Restore the pointers of visits that a merge moved, unless a later message moved them."""
    for kind, number, before in _items(connection, change.id, _MOVED_VISIT, _COPIED_VISIT):
        if kind == _COPIED_VISIT:
            connection.execute(
                delete(VISIT_TRANSFERS)
                .where(_VISIT.site == pointer.site, _VISIT.prior_number == number)
                .where(_VISIT.visit_key == before["visit_key"])
                .where(_VISIT.prior_mrn.in_({change.mrn, pointer.mrn}))
            )
            continue
        key = {name: before[name] for name in ("site", "prior_mrn", "visit_key", "prior_number")}
        matches = [_VISIT[name] == value for name, value in key.items()]
        current = connection.execute(select(VISIT_TRANSFERS).where(*matches)).one_or_none()
        if current is None or (current.mrn, current.number) == (pointer.mrn, before["number"]):
            connection.execute(upsert(VISIT_TRANSFERS), before)
