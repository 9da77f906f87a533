"""
The history of merged patient numbers: what each merge moved, so that it can be undone.

A merge stores what it replaces before it moves anything: the demographics and numbers of each
order, and the pointers of visits. The newest entry of a number that is not undone belongs to its
pointer (`patient_records`). An undone merge stays in the history.
"""

import json
from collections.abc import Mapping
from typing import Any, Final

from sqlalchemy import Connection, delete, insert, select, update

from bridge.orders.order import merged_hash
from bridge.orders.patients import DEMOGRAPHICS as DEMOGRAPHIC_TAGS
from bridge.orders.patients import MergePointer
from bridge.orders.undone_merges import (
    FormerOrder,
    ReturningOrder,
    UndoneMerge,
    returning_order,
)
from bridge.store.records import order_index, patient_records
from bridge.store.tables import (
    IDENTIFIER_CHANGE_ITEMS,
    IDENTIFIER_CHANGES,
    ORDERS,
    VISIT_TRANSFERS,
    upsert,
)

_CHANGE, _ITEM = IDENTIFIER_CHANGES.c, IDENTIFIER_CHANGE_ITEMS.c
_ORDER, _VISIT = ORDERS.c, VISIT_TRANSFERS.c

_MOVED_ORDER: Final = "order"
_MOVED_VISIT: Final = "visit"
"""A pointer to a visit of the merged number."""
_COPIED_VISIT: Final = "visit copy"
"""A pointer from a visit of the survivor, which the merge made from one of the merged number."""


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
    items = [*_orders(connection, site, prior_mrn, mrn), *_visits(connection, site, prior_mrn, mrn)]
    if items:
        rows = [
            {"change_id": change_id, "kind": kind, "name": name, "before": json.dumps(before)}
            for kind, name, before in items
        ]
        connection.execute(insert(IDENTIFIER_CHANGE_ITEMS), rows)


_Item = tuple[str, str, Any]


def _orders(connection: Connection, site: str, prior_mrn: str, mrn: str) -> list[_Item]:
    """Return the orders that will move. Those that both patients have are combined for good."""
    taken = select(_ORDER.accession).where(_ORDER.site == site, _ORDER.mrn == mrn)
    rows = connection.execute(
        select(_ORDER.accession, _ORDER.tags, _ORDER.echo)
        .where(_ORDER.site == site, _ORDER.mrn == prior_mrn)
        .where(_ORDER.accession.not_in(taken))
    )
    found = []
    for row in rows:
        tags = json.loads(row.tags)
        demographics = {name: tags[name] for name in DEMOGRAPHIC_TAGS if name in tags}
        before = {"demographics": demographics, "echo": json.loads(row.echo)}
        found.append((_MOVED_ORDER, row.accession, before))
    return found


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


def _newest(connection: Connection, pointer: MergePointer) -> Any:
    """Return the entry of a pointer, or None."""
    return connection.execute(
        select(IDENTIFIER_CHANGES)
        .where(_CHANGE.site == pointer.site, _CHANGE.prior_mrn == pointer.prior_mrn)
        .where(_CHANGE.undone_at.is_(None))
        .order_by(_CHANGE.id.desc())
        .limit(1)
    ).one_or_none()


def _items(connection: Connection, change_id: int, *kinds: str) -> list[_Item]:
    rows = connection.execute(
        select(IDENTIFIER_CHANGE_ITEMS)
        .where(_ITEM.change_id == change_id, _ITEM.kind.in_(kinds))
        .order_by(_ITEM.id)
    )
    return [(row.kind, row.name, json.loads(row.before)) for row in rows]


def _numbers(connection: Connection, pointer: MergePointer) -> set[str]:
    """Return the freed number and those that lead to it again."""
    return {pointer.prior_mrn, *patient_records.merged_through_prior(connection, pointer)}


def returning_orders(connection: Connection, pointer: MergePointer) -> list[ReturningOrder]:
    """
    Return the orders of a survivor that return if the merge is undone.

    Orders stay whose former state is not known, and those that the freed number has already.
    """
    change = _newest(connection, pointer)
    items = [] if change is None else _items(connection, change.id, _MOVED_ORDER)
    former: Mapping[str, FormerOrder] = {
        name: FormerOrder(before["demographics"], before["echo"]) for _, name, before in items
    }
    numbers = _numbers(connection, pointer)
    patient, freed = (pointer.site, pointer.mrn), (pointer.site, pointer.prior_mrn)
    known = patient_records.demographics(connection, [freed])
    tags = known[freed].tags if freed in known else {}
    marks = frozenset(map(merged_hash, numbers))
    own = {
        order.key.accession
        for order in order_index.find_by_patient(connection, [freed])
        if not order.moved_away
    }
    found = [
        returning_order(order, pointer.prior_mrn, numbers, former.get(order.key.accession), tags)
        for order in order_index.find_by_patient(connection, [patient])
        if not marks.isdisjoint(order.merged_from) and order.key.accession not in own
    ]
    return [order for order in found if order is not None]


def undo(
    connection: Connection,
    pointer: MergePointer,
    undone: UndoneMerge,
    now: int,
    message_id: int | None,
) -> tuple[int, list[int]]:
    """
    Undo a merge; return how many orders returned, and the row ids of those that stay.

    The orders return that the report engine gave back or does not have.
    """
    returning = returning_orders(connection, pointer)
    numbers = _numbers(connection, pointer)
    change = _newest(connection, pointer)
    patient_records.undo_merge(connection, pointer.site, pointer.prior_mrn)
    if change is not None:
        values = {"undone_at": now, "undone_by_message": message_id}
        connection.execute(update(IDENTIFIER_CHANGES).where(_CHANGE.id == change.id).values(values))
        _return_visits(connection, pointer, change)
    results = [(order.before.key, undone.result(order)) for order in returning]
    moved = [(before, after) for before, after in results if after is not None]
    order_index.move(connection, moved)
    stay = order_index.ids_merged_from(connection, pointer.site, pointer.mrn, numbers)
    order_index.forget_numbers(connection, stay, numbers)
    return len(moved), stay


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
