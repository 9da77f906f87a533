"""Changes of the worklist after a message: link and unlink groups, withdraw and close orders.

Pure: given what the sender's signals say and what the report service says, decide the
call. Whether it is allowed in the end, the service's own linking rules decide.

Asks the report service first; what cannot be undone there is kept, and the note says so.

An order that can no longer be linked stands alone; that is a note, not a failure.

One that is held or awaited has no report whose deletion would tell them. What was dictated stays,
as ever.
"""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from bridge.contract import ReportStatus
from bridge.engine_client.errors import EngineFailure
from bridge.engine_client.models import OrderKey, StatusRecord
from bridge.errors import FailureKind
from bridge.intake.process.launches import Launcher, launch_of
from bridge.intake.process.link_signals import bonds
from bridge.intake.process.order_rules import OrderState
from bridge.intake.process.planning import Task
from bridge.store.records.order_index import IndexedOrder, OrderIndexKey

ANCHORS = frozenset({ReportStatus.ORDERED, ReportStatus.DRAFT})


@dataclass(frozen=True, slots=True)
class Member:
    """An order with its link signals; `rank` sorts by first message, then place in it."""

    key: OrderKey
    signals: frozenset[int]
    rank: tuple[int, int]


def _may_join(record: StatusRecord) -> bool:
    """Whether an order may be linked to another's report (interface document, rule 1)."""
    return record.status is ReportStatus.ORDERED and record.has_content is not True


def _may_anchor(record: StatusRecord) -> bool:
    if record.status is ReportStatus.ORDERED:
        return record.has_content is not True
    return record.status in ANCHORS


def group_to_link(
    order: OrderKey, members: Sequence[Member], records: Sequence[StatusRecord]
) -> tuple[OrderKey, ...]:
    """
    Choose whom to link `order` with, anchor first; empty when there is nothing to do.

    `members` share a signal with the order (it is one of them), `records` are the current
    reports of all. The anchor is the order that came first. Reports that can no longer be
    linked are left out; when the order's own cannot, it stands alone.
    """
    report_of = {key: record for record in records for key in record.orders}
    rank = {member.key: member.rank for member in members}
    own = report_of.get(order)
    if own is None:
        return ()
    reports = {
        report_of[member.key].report_id: report_of[member.key]
        for member in sorted(members, key=lambda each: each.rank)
        if member.key in report_of
    }
    ranked = sorted(reports.values(), key=lambda each: _first(each, rank))
    anchor = next((each for each in ranked if _may_anchor(each)), None)
    if anchor is None:
        return ()
    joining = [each for each in ranked if each is not anchor and _may_join(each)]
    chosen = [anchor, *joining]
    if own not in chosen or not joining:
        return ()
    return tuple(each.orders[0] for each in chosen)


def _first(record: StatusRecord, rank: Mapping[OrderKey, tuple[int, int]]) -> tuple[int, int]:
    """Rank a report by the earliest of its orders that we know."""
    return min(rank[key] for key in record.orders if key in rank)


def has_left(
    before: frozenset[int], after: frozenset[int], others: Sequence[frozenset[int]]
) -> bool:
    """
    Whether an order has lost what bound it to the others of its group.

    A group that no signal of ours made (a person linked it) is left alone.
    """
    bound_before = any(before & each for each in others)
    bound_now = any(after & each for each in others)
    return bound_before and not bound_now


BAD_REQUEST = 400
NOT_FOUND = 404
NOTHING = "nothing_to_withdraw"
"""The note of an order that has no report."""

MOST = 500
"""Orders in one status query: what our own engine takes."""
REFUSED = frozenset({BAD_REQUEST, NOT_FOUND})
"""Statuses by which the service says that a group cannot be changed (any more)."""


class ReportService(Protocol):
    """What is needed of the engine's client."""

    async def status(self, orders: Sequence[OrderKey]) -> tuple[StatusRecord, ...]:
        """Read the reports of orders."""

    async def unlink_orders(self, orders: Sequence[OrderKey]) -> tuple[StatusRecord, ...]:
        """Take orders out of their groups."""

    async def link_orders(self, orders: Sequence[OrderKey]) -> tuple[StatusRecord, ...]:
        """Make one report of several orders."""

    async def content(self, order: OrderKey) -> str:
        """Read a report's text."""

    async def delete(
        self, order: OrderKey, *, only_ordered: bool = False, set_aside: bool = False
    ) -> None:
        """Delete an unsigned report."""


async def reports_of(
    service: ReportService, orders: Sequence[OrderKey]
) -> tuple[StatusRecord, ...]:
    """Read the reports of orders, each once; those that do not exist are absent."""
    found: dict[str, StatusRecord] = {}
    for start in range(0, len(orders), MOST):
        try:
            records = await service.status(orders[start : start + MOST])
        except EngineFailure as failure:
            if failure.status == NOT_FOUND and not failure.is_unsupported:
                continue
            raise
        found |= {each.report_id: each for each in records}
    return tuple(found.values())


async def detach(service: ReportService, order: OrderKey) -> tuple[StatusRecord | None, str]:
    """
    Take an order out of its group, if it is in one.

    Gives its report as it is then (None: there is none) and a note ('' when nothing was to
    be done).
    """
    record = _holding(order, await reports_of(service, [order]))
    if record is None or len(record.orders) == 1:
        return record, ""
    try:
        records = await service.unlink_orders([order])
    except EngineFailure as failure:
        if failure.status not in REFUSED:
            raise
        return record, "still_linked"
    return _holding(order, records), "unlinked"


async def withdraw(
    service: ReportService, order: OrderKey, *, cancelled: bool = False
) -> list[str]:
    """
    Delete an order's report if it is Ordered and empty; give the notes.

    Receivers of status messages are told that it was `cancelled`; otherwise nothing.
    """
    record, note = await detach(service, order)
    notes = [note] if note else []
    if record is None:
        return [*notes, NOTHING]
    if len(record.orders) > 1 or not await _is_empty(service, order, record):
        return [*notes, "report_kept"]
    try:
        # It may have been opened meanwhile.
        await service.delete(order, only_ordered=True, set_aside=not cancelled)
    except EngineFailure as failure:
        if failure.status not in REFUSED:
            raise
        return [*notes, "report_kept" if failure.status == BAD_REQUEST else NOTHING]
    return [*notes, "withdrawn"]


async def _is_empty(service: ReportService, order: OrderKey, record: StatusRecord) -> bool:
    if record.status is not ReportStatus.ORDERED:
        return False
    if record.has_content is not None:
        return not record.has_content
    return not await service.content(order)  # a service that does not say has to be asked


def _holding(order: OrderKey, records: Sequence[StatusRecord]) -> StatusRecord | None:
    """Find the report that an order is in; the key may be resolved to a survivor's."""
    for record in records:
        if order in record.orders:
            return record
    accession = [r for r in records if any(k.accession == order.accession for k in r.orders)]
    return accession[0] if len(accession) == 1 else None


MOST_LINKED = 50
"""Orders in one call: what our own engine takes. Larger groups are linked in several calls."""

Groups = dict[OrderIndexKey, str]
"""Which report each order belongs to, as the service said last."""


def neighbours(
    own: IndexedOrder, index: Mapping[OrderIndexKey, IndexedOrder]
) -> list[IndexedOrder]:
    """Give the live orders of the same patient that share a signal with an order, and it."""
    wanted = bonds(own.signals)
    found = {own.key: own}
    for order in index.values():
        same_patient = (order.key.site, order.key.mrn) == (own.key.site, own.key.mrn)
        shares = not wanted.isdisjoint(bonds(order.signals))
        if same_patient and shares and order.state == OrderState.ORDERED:
            found.setdefault(order.key, order)
    return list(found.values())


def order_key(key: OrderIndexKey) -> OrderKey:
    """Give the key as the engine's client takes it."""
    return OrderKey(key.site, key.mrn, key.accession)


def member(order: IndexedOrder) -> Member:
    """Give an order as the grouping rules see it."""
    place = (order.first_message, order.place)
    return Member(order_key(order.key), bonds(order.signals), place)


def link_groups(tasks: Sequence[Task], message_id: int) -> dict[OrderIndexKey, str]:
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
        if 1 < len(group) <= MOST_LINKED and _in_sequence(group)
        for order in group
        if steps[order.key] == 1
    }


def _in_sequence(group: Sequence[IndexedOrder]) -> bool:
    """Tell whether the first order of a group is the one that came first, and so on."""
    ranks = [member(order).rank for order in group]
    return ranks == sorted(ranks)


def linked_from_the_start(together: Mapping[OrderIndexKey, str], groups: Groups) -> list[str]:
    """Note the link groups that the service gave one report each."""
    reports: dict[str, set[str]] = {}
    for key, name in together.items():
        reports.setdefault(name, set()).add(groups.get(key, ""))
    return ["linked" for each in reports.values() if len(each) == 1 and "" not in each]


async def leave(
    service: ReportService, task: Task, index: Mapping[OrderIndexKey, IndexedOrder], groups: Groups
) -> list[str]:
    """Unlink an order that has lost what bound it to its group."""
    before = task.before
    if before is None or not before.signals - task.after.signals:
        return []
    records = await reports_of(service, [order_key(task.after.key)])
    others = [
        bonds(index[key].signals)
        for record in records
        for key in (OrderIndexKey(each.site, each.mrn, each.accession) for each in record.orders)
        if key != task.after.key and key in index
    ]
    if not has_left(bonds(before.signals), bonds(task.after.signals), others):
        return []
    record, note = await detach(service, order_key(task.after.key))
    if record is not None:
        groups |= {
            OrderIndexKey(k.site, k.mrn, k.accession): record.report_id for k in record.orders
        }
    return [note] if note else []


async def join(
    service: ReportService,
    order: IndexedOrder,
    index: Mapping[OrderIndexKey, IndexedOrder],
    groups: Groups,
    fresh: Collection[OrderIndexKey] = (),
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
    if len(orders) <= MOST_LINKED and all(each.key in fresh for each in orders):
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
    for start in range(0, len(others), MOST_LINKED - 1):
        some = others[start : start + MOST_LINKED - 1]
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
        groups |= {
            OrderIndexKey(k.site, k.mrn, k.accession): record.report_id for k in record.orders
        }


def _together(members: Sequence[Member], groups: Groups) -> bool:
    """Whether a call for this same message has put all of them into one report already."""
    reports = {
        groups.get(OrderIndexKey(m.key.site, m.key.mrn, m.key.accession), "") for m in members
    }
    return len(reports) == 1 and "" not in reports


async def close(service: ReportService, launcher: Launcher, task: Task, *, over: bool) -> list[str]:
    """Take an order off the worklist, for good where it is `over`; give the notes."""
    key = order_key(task.after.key)
    notes = await withdraw(service, key, cancelled=over)
    if not (over and notes == [NOTHING] and _was_set_aside(task)):
        return notes
    try:
        await launcher.launch(launch_of(task))
    except EngineFailure as failure:
        if failure.failure is not FailureKind.PERMANENT:
            raise
        return notes
    return await withdraw(service, key, cancelled=True)


def _was_set_aside(task: Task) -> bool:
    before = task.before
    return before is not None and before.state in {OrderState.HELD, OrderState.AWAITED}
