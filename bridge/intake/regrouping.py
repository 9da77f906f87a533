"""
Link what belongs together and unlink what no longer does, after orders were registered.

An order that can no longer be linked stands alone; that is a note, not a failure.
"""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence

from bridge.engine_client.errors import EngineFailure
from bridge.engine_client.models import OrderKey, StatusRecord
from bridge.intake.grouping import Member, group_to_link, has_left
from bridge.intake.order_rules import OrderState
from bridge.intake.planning import Task
from bridge.intake.signals import bonds
from bridge.intake.withdrawal import REFUSED, ReportService, detach, reports_of
from bridge.store.order_index import IndexedOrder, Key

MOST = 50
"""Orders in one call: what our own engine takes. Larger groups are linked in several calls."""

Groups = dict[Key, str]
"""Which report each order belongs to, as the service said last."""


def neighbours(own: IndexedOrder, index: Mapping[Key, IndexedOrder]) -> list[IndexedOrder]:
    """Give the live orders of the same patient that share a signal with an order, and it."""
    wanted = bonds(own.signals)
    found = {own.key: own}
    for order in index.values():
        same_patient = (order.key.site, order.key.mrn) == (own.key.site, own.key.mrn)
        shares = not wanted.isdisjoint(bonds(order.signals))
        if same_patient and shares and order.state == OrderState.ORDERED:
            found.setdefault(order.key, order)
    return list(found.values())


def order_key(key: Key) -> OrderKey:
    """Give the key as the engine's client takes it."""
    return OrderKey(key.site, key.mrn, key.accession)


def member(order: IndexedOrder) -> Member:
    """Give an order as the grouping rules see it."""
    place = (order.first_message, order.place)
    return Member(order_key(order.key), bonds(order.signals), place)


def link_groups(tasks: Sequence[Task], message_id: int) -> dict[Key, str]:
    """
    Name the link groups of a message's new orders: the service gives each group one report.

    An order that several tasks are about, or that is not in the order of its group, has none:
    `join` links it.
    """
    steps = Counter(task.after.key for task in tasks)
    groups: dict[tuple[str, str, int], list[IndexedOrder]] = {}
    found: list[list[IndexedOrder]] = []
    new = (task for task in tasks if task.regroups and task.before is None and not task.absorbed)
    for order in (task.after for task in new):
        signals = [(order.key.site, order.key.mrn, each) for each in bonds(order.signals)]
        group = next((groups[each] for each in signals if each in groups), None)
        if group is None:
            found.append(group := [])
        group.append(order)
        for each in signals:
            groups.setdefault(each, group)
    return {
        order.key: f"{message_id}.{number}"
        for number, group in enumerate(found)
        if 1 < len(group) <= MOST and _in_sequence(group)
        for order in group
        if steps[order.key] == 1
    }


def _in_sequence(group: Sequence[IndexedOrder]) -> bool:
    """Tell whether the first order of a group is the one that came first, and so on."""
    ranks = [member(order).rank for order in group]
    return ranks == sorted(ranks)


def linked_from_the_start(together: Mapping[Key, str], groups: Groups) -> list[str]:
    """Note the link groups that the service gave one report each."""
    reports: dict[str, set[str]] = {}
    for key, name in together.items():
        reports.setdefault(name, set()).add(groups.get(key, ""))
    return ["linked" for each in reports.values() if len(each) == 1 and "" not in each]


async def leave(
    service: ReportService, task: Task, index: Mapping[Key, IndexedOrder], groups: Groups
) -> list[str]:
    """Unlink an order that has lost what bound it to its group."""
    before = task.before
    if before is None or not before.signals - task.after.signals:
        return []
    records = await reports_of(service, [order_key(task.after.key)])
    others = [
        bonds(index[key].signals)
        for record in records
        for key in (Key(each.site, each.mrn, each.accession) for each in record.orders)
        if key != task.after.key and key in index
    ]
    if not has_left(bonds(before.signals), bonds(task.after.signals), others):
        return []
    record, note = await detach(service, order_key(task.after.key))
    if record is not None:
        groups |= {Key(k.site, k.mrn, k.accession): record.report_id for k in record.orders}
    return [note] if note else []


async def join(
    service: ReportService,
    order: IndexedOrder,
    index: Mapping[Key, IndexedOrder],
    groups: Groups,
    fresh: Collection[Key] = (),
) -> list[str]:
    """
    Link an order with those that share a signal with it.

    Orders that are all `fresh` (this message registered them, and nobody has begun their reports)
    are linked without a question about their state. The service refuses where that has changed.
    """
    orders = neighbours(order, index)
    members = [member(each) for each in orders]
    if len(members) == 1 or _together(members, groups):
        return []
    if len(orders) <= MOST and all(each.key in fresh for each in orders):
        ranked = [each.key for each in sorted(members, key=lambda each: each.rank)]
        try:
            records = await service.link_orders(ranked)
        except EngineFailure as failure:
            if failure.status not in REFUSED:
                raise
        else:
            _note_reports(records, groups)
            return ["linked"]
    own = order_key(order.key)
    chosen = group_to_link(own, members, await reports_of(service, [m.key for m in members]))
    if not chosen:
        return []
    anchor, *others = chosen
    notes: dict[str, None] = {}
    for start in range(0, len(others), MOST - 1):
        some = others[start : start + MOST - 1]
        try:
            records = await service.link_orders([anchor, *some])
        except EngineFailure as failure:
            if failure.status not in REFUSED:
                raise
            notes["stands_alone"] = None
            continue
        notes["linked"] = None
        _note_reports(records, groups)
    return list(notes)


def _note_reports(records: Sequence[StatusRecord], groups: Groups) -> None:
    for record in records:
        groups |= {Key(k.site, k.mrn, k.accession): record.report_id for k in record.orders}


def _together(members: Sequence[Member], groups: Groups) -> bool:
    """Whether a call for this same message has put all of them into one report already."""
    reports = {groups.get(Key(m.key.site, m.key.mrn, m.key.accession), "") for m in members}
    return len(reports) == 1 and "" not in reports
