"""
Worklist changes: link, unlink, withdraw and close orders in the report engine.

The decision follows from the link signals of the sender and the state of the reports. The engine's
own linking rules decide whether a call succeeds.

A report that was begun is never deleted; a note reports it. An order that can no longer be linked
keeps its own report; this is a note, not a failure.
"""

import asyncio
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from types import MappingProxyType
from typing import Any, Protocol

from bridge.contract import MAX_REPORT_ORDERS, SIGNED, OrderKey, ReportStatus
from bridge.contract.errors import ErrorCode
from bridge.contract.responses import LaunchResponse, StatusRecordBody
from bridge.engine_client.client import EngineClient, LaunchRequest
from bridge.engine_client.errors import EngineFailure
from bridge.errors import FailureKind
from bridge.executors import set_outcome
from bridge.orders.order import Link, Order, OrderState
from bridge.orders.plans import OrderTask

SHARED_FAILURES = frozenset({None, 401, 429, 502, 503, 504})
"""Statuses of a failed batch (None: no answer) that do not depend on its members."""


_Request = tuple[LaunchRequest, "asyncio.Future[LaunchResponse]"]


class Launching(Protocol):
    """Launches reports."""

    async def launch(self, launch: LaunchRequest) -> LaunchResponse:
        """Launch one report. Raises EngineFailure."""


class Launcher:
    """Collects launches, sends them in batches, and returns to each caller its own result."""

    def __init__(self, client: EngineClient, *, batch_size: int = 100, parallel: int = 8) -> None:
        """Send at most `batch_size` launches in a batch, and `parallel` single ones at a time."""
        self._client = client
        self._batch_size = batch_size
        self._slots = asyncio.Semaphore(parallel)
        self._waiting: list[_Request] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._has_batch = True

    async def launch(self, launch: LaunchRequest) -> LaunchResponse:
        """Launch one report, together with other waiting launches. Raises EngineFailure."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[LaunchResponse] = loop.create_future()
        if not self._waiting:
            loop.call_soon(self._flush)
        self._waiting.append((launch, future))
        return await future

    def _flush(self) -> None:
        waiting, self._waiting = self._waiting, []
        task = asyncio.ensure_future(self._dispatch(waiting))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _dispatch(self, waiting: Sequence[_Request]) -> None:
        """
        Send the waiting launches, one batch for each token. Every caller gets a result or an
        error.
        """
        try:
            by_token: defaultdict[str, list[_Request]] = defaultdict(list)
            for request in waiting:
                by_token[self._client.token_of(request[0].site)].append(request)
            chunks = [
                chunk for group in by_token.values() for chunk in _chunks(group, self._batch_size)
            ]
            await asyncio.gather(*map(self._send, chunks))
        except Exception as error:  # noqa: BLE001  # raised to all callers
            for _, future in waiting:
                set_outcome(future, error)

    async def _send(self, chunk: Sequence[_Request]) -> None:
        try:
            results = await self._results([launch for launch, _ in chunk])
        except Exception as error:  # noqa: BLE001  # raised to the callers of this batch
            results = [error] * len(chunk)
        for (_, future), result in zip(chunk, results, strict=True):
            set_outcome(future, result)

    async def _results(
        self, launches: Sequence[LaunchRequest]
    ) -> Sequence[LaunchResponse | Exception]:
        if len(launches) > 1 and self._has_batch:
            try:
                return await self._client.launch_batch(launches)
            except EngineFailure as failure:
                if failure.status in SHARED_FAILURES:
                    raise
                self._has_batch = not failure.is_unsupported
        return await asyncio.gather(*(self._single(launch) for launch in launches))

    async def _single(self, launch: LaunchRequest) -> LaunchResponse | Exception:
        async with self._slots:
            try:
                return await self._client.launch(replace(launch, link_group=""))
            except Exception as error:  # noqa: BLE001  # raised to its own caller
                return error


def _chunks(items: Sequence[_Request], size: int) -> Iterator[list[_Request]]:
    remaining = iter(items)
    while chunk := list(islice(remaining, size)):
        yield chunk


def launch_of(task: OrderTask, link_group: str = "") -> LaunchRequest:
    """
    Return the launch that registers an order with all its values.

    `link_group` names the new orders of the message that share a report.
    """
    event = task.event
    location = {"SiteLocation": event.location} if event.location else {}
    tags = {**task.after.tags, **location}
    return registration(task.after.key, tags, event.reporting_app, link_group)


def registration(
    key: OrderKey,
    tags: Mapping[str, Any],
    app: Mapping[str, Any] = MappingProxyType({}),
    link_group: str = "",
) -> LaunchRequest:
    own = {"SiteID": key.site, "PatientMRN": key.mrn, "Accession": key.accession}
    return LaunchRequest(
        {**tags, **own}, app, lazy=True, register_order=True, link_group=link_group
    )


ANCHOR_STATUSES = frozenset({ReportStatus.ORDERED, ReportStatus.DRAFT})


@dataclass(frozen=True, slots=True)
class GroupMember:
    """An order of a link group; `rank` sorts by first message, then by position in it."""

    key: OrderKey
    rank: tuple[int, int]


def _may_join(record: StatusRecordBody) -> bool:
    """True if an order may join another one's report (interface reference, link-orders rule 1)."""
    return record.status is ReportStatus.ORDERED and record.has_content is not True


def _may_anchor(record: StatusRecordBody) -> bool:
    if record.status is ReportStatus.ORDERED:
        return record.has_content is not True
    return record.status in ANCHOR_STATUSES


def group_to_link(
    order: OrderKey, members: Sequence[GroupMember], records: Sequence[StatusRecordBody]
) -> tuple[OrderKey, ...]:
    """
    Return the orders to link with `order`, anchor first; empty if there is nothing to link.

    `members` share a link signal with the order and include it. `records` are their current
    reports. The anchor is the order that came first. Reports that can no longer be linked are
    left out. If the order's own report is one of them, the order stays alone.
    """
    report_of = {key: record for record in records for key in record.orders}
    rank = {member.key: member.rank for member in members}
    own = report_of.get(order)
    if own is None:
        return ()
    reports = {
        report_of[member.key].report_id: report_of[member.key]
        for member in sorted(members, key=lambda open_order: open_order.rank)
        if member.key in report_of
    }
    ranked = sorted(reports.values(), key=lambda report: _first(report, rank))
    anchor = next((report for report in ranked if _may_anchor(report)), None)
    if anchor is None:
        return ()
    joining = [report for report in ranked if report is not anchor and _may_join(report)]
    chosen = [anchor, *joining]
    if own not in chosen or not joining:
        return ()
    return tuple(report.orders[0] for report in chosen)


def _first(record: StatusRecordBody, rank: Mapping[OrderKey, tuple[int, int]]) -> tuple[int, int]:
    """Return the rank of a report: the earliest of its known orders."""
    return min(rank[key] for key in record.orders if key in rank)


def has_lost_links(
    before: frozenset[Link], after: frozenset[Link], others: Sequence[frozenset[Link]]
) -> bool:
    """
    True if an order no longer shares a link signal with the others of its group.

    False if it never shared one: a person linked the group.
    """
    bound_before = any(before & signals for signals in others)
    bound_now = any(after & signals for signals in others)
    return bound_before and not bound_now


BAD_REQUEST = 400
NOT_FOUND = 404
NOTHING_TO_WITHDRAW = "nothing_to_withdraw"
"""The note of an order that has no report."""

MAX_STATUS_ORDERS = 500
"""Orders in one status query: the limit of our engine."""
REFUSED_STATUSES = frozenset({BAD_REQUEST, NOT_FOUND})
"""Statuses by which the engine refuses to change a group."""


async def reports_of(
    client: EngineClient, orders: Sequence[OrderKey]
) -> tuple[StatusRecordBody, ...]:
    """Read the reports of orders, each once; missing reports are left out."""
    found: dict[str, StatusRecordBody] = {}
    for start in range(0, len(orders), MAX_STATUS_ORDERS):
        try:
            records = await client.status(orders[start : start + MAX_STATUS_ORDERS])
        except EngineFailure as failure:
            if failure.status == NOT_FOUND and not failure.is_unsupported:
                continue
            raise
        found |= {record.report_id: record for record in records}
    return tuple(found.values())


async def detach(client: EngineClient, order: OrderKey) -> tuple[StatusRecordBody | None, str]:
    """
    Take an order out of its group.

    Returns its report afterwards (None: there is none) and a note ('' if there was nothing to
    do).
    """
    record = _record_of(order, await reports_of(client, [order]))
    if record is None or len(record.orders) == 1:
        return record, ""
    try:
        records = await client.unlink_orders([order])
    except EngineFailure as failure:
        if failure.status not in REFUSED_STATUSES:
            raise
        return record, "still_linked"
    return _record_of(order, records), "unlinked"


async def withdraw(client: EngineClient, order: OrderKey, *, cancelled: bool = False) -> list[str]:
    """
    Delete the report of an order if it is Ordered and empty; return notes.

    `cancelled`: receivers of status messages are notified.
    """
    record, note = await detach(client, order)
    notes = [note] if note else []
    if record is None:
        return [*notes, NOTHING_TO_WITHDRAW]
    if len(record.orders) > 1 or not await _is_empty(client, order, record):
        return [*notes, "report_kept"]
    try:
        # `only_ordered`: somebody may have opened it since.
        await client.delete(order, only_ordered=True, set_aside=not cancelled)
    except EngineFailure as failure:
        if failure.status not in REFUSED_STATUSES:
            raise
        return [*notes, "report_kept" if failure.status == BAD_REQUEST else NOTHING_TO_WITHDRAW]
    return [*notes, "withdrawn"]


REPORTED_ELSEWHERE_BEGUN = "reported_elsewhere_begun"
"""The note of an order that is reported elsewhere and whose report was begun here."""

REPORTED_HERE = "reported_here"
"""The note of an order whose report is signed here: the message may repeat its result."""

STAYS_UNREAD = "stays_unread"
"""The note of an order that was returned to the unread ones: the message is not later."""


async def mark_reported(
    client: EngineClient, order: OrderKey, at: int, *, sender: str = "", status: str = ""
) -> list[str]:
    """
    Mark an order as reported elsewhere; return notes. Raises EngineFailure.

    `at` (ms) is the time of the message that says so. A service without such marks deletes the
    report if it is Ordered and empty.
    """
    try:
        records = await client.mark_reported(order, at, sender=sender, status=status)
    except EngineFailure as failure:
        if failure.code == ErrorCode.RETURNED_TO_UNREAD:
            return [STAYS_UNREAD]
        if not failure.is_unsupported:
            raise
        notes = await withdraw(client, order)
        return [REPORTED_ELSEWHERE_BEGUN if note == "report_kept" else note for note in notes]
    record = _record_of(order, records)
    if record is not None and record.status in SIGNED:
        return [REPORTED_HERE]
    if record is None or (record.status is ReportStatus.ORDERED and not record.has_content):
        return ["reported_elsewhere"]
    return [REPORTED_ELSEWHERE_BEGUN]


async def return_to_unread(client: EngineClient, order: OrderKey) -> list[str]:
    """Remove the mark of an order that is reported elsewhere; return notes."""
    try:
        await client.unmark_reported(order)
    except EngineFailure as failure:
        if not failure.is_unsupported:
            raise
    return ["returned_to_unread"]


async def _is_empty(client: EngineClient, order: OrderKey, record: StatusRecordBody) -> bool:
    if record.status is not ReportStatus.ORDERED:
        return False
    if record.has_content is not None:
        return not record.has_content
    return not await client.content(order)  # the status has no such field


def _record_of(order: OrderKey, records: Sequence[StatusRecordBody]) -> StatusRecordBody | None:
    """Find the report of an order; the engine may have changed its key to that of a survivor."""
    for record in records:
        if order in record.orders:
            return record
    found = [r for r in records if any(k.accession == order.accession for k in r.orders)]
    return found[0] if len(found) == 1 else None


MAX_LINKED = 50
"""Orders in one link call: the limit of our engine. Larger groups take several calls."""

ReportIds = dict[OrderKey, str]
"""The report id of each order, as the engine returned it last."""


class OpenOrders:
    """Open orders by patient and link signal."""

    def __init__(self, orders: Iterable[Order]) -> None:
        self._by_link: dict[tuple[str, str, Link], list[Order]] = {}
        for order in orders:
            if order.state == OrderState.ORDERED:
                for key in _link_keys(order):
                    self._by_link.setdefault(key, []).append(order)

    def group_of(self, own: Order) -> list[Order]:
        """
        Return the order, and those that share a link signal with it, in the order of their arrival.

        A group of more orders than a report may have consists of several reports.
        """
        found = {own.key: own}
        for key in _link_keys(own):
            for order in self._by_link.get(key, ()):
                found.setdefault(order.key, order)
        ranked = sorted(found.values(), key=lambda order: order.arrival)
        position = next(at for at, candidate in enumerate(ranked) if candidate is own)
        start = position - position % MAX_REPORT_ORDERS
        return ranked[start : start + MAX_REPORT_ORDERS]


def _link_keys(order: Order) -> list[tuple[str, str, Link]]:
    return [(*order.patient, link) for link in order.links]


def group_member(order: Order) -> GroupMember:
    return GroupMember(order.key, order.arrival)


def link_group_names(tasks: Sequence[OrderTask], message_id: int) -> dict[OrderKey, str]:
    """
    Name the link groups of a message's new orders: the engine gives each group one report.

    Orders with several tasks, and groups out of order, get no name: `link_to_group` links them.
    """
    steps = Counter(task.after.key for task in tasks)
    groups: dict[tuple[str, str, Link], list[Order]] = {}
    found: list[list[Order]] = []
    new = (
        task for task in tasks if task.regroups and task.before is None and not task.combined_rows
    )
    for order in (task.after for task in new):
        signals = _link_keys(order)
        group = next((groups[signal] for signal in signals if signal in groups), None)
        if group is None:
            found.append(group := [])
        group.append(order)
        for signal in signals:
            groups.setdefault(signal, group)
    return {
        order.key: f"{message_id}.{number}"
        for number, group in enumerate(found)
        if 1 < len(group) <= MAX_LINKED and _in_sequence(group)
        for order in group
        if steps[order.key] == 1
    }


def _in_sequence(group: Sequence[Order]) -> bool:
    ranks = [group_member(order).rank for order in group]
    return ranks == sorted(ranks)


def linked_at_launch(link_groups: Mapping[OrderKey, str], report_ids: ReportIds) -> list[str]:
    reports: dict[str, set[str]] = {}
    for key, name in link_groups.items():
        reports.setdefault(name, set()).add(report_ids.get(key, ""))
    return ["linked" for report in reports.values() if len(report) == 1 and "" not in report]


async def unlink_from_group(
    client: EngineClient,
    task: OrderTask,
    index: Mapping[OrderKey, Order],
    report_ids: ReportIds,
) -> list[str]:
    """Unlink an order that no longer shares a link signal with its group."""
    before = task.before
    if before is None or not before.links - task.after.links:
        return []
    records = await reports_of(client, [task.after.key])
    others = [
        index[key].links
        for record in records
        for key in record.orders
        if key != task.after.key and key in index
    ]
    if not has_lost_links(before.links, task.after.links, others):
        return []
    record, note = await detach(client, task.after.key)
    if record is not None:
        _note_reports([record], report_ids)
    return [note] if note else []


async def link_to_group(
    client: EngineClient,
    order: Order,
    open_orders: OpenOrders,
    report_ids: ReportIds,
    new_orders: Collection[OrderKey] = (),
) -> list[str]:
    """
    Link an order with those that share a link signal with it.

    If all of them are `new_orders` (registered by this message, not opened), they are linked
    without a status query. The engine refuses if their state has changed.
    """
    orders = open_orders.group_of(order)
    members = [group_member(member) for member in orders]
    if len(members) == 1 or _share_report(members, report_ids):
        return []
    if len(orders) <= MAX_LINKED and all(member.key in new_orders for member in orders):
        ranked = [member.key for member in sorted(members, key=lambda candidate: candidate.rank)]
        if await _link(client, ranked, report_ids):
            return ["linked"]
    own = order.key
    chosen = group_to_link(own, members, await reports_of(client, [m.key for m in members]))
    if not chosen:
        return []
    anchor, *others = chosen
    notes: dict[str, None] = {}
    for start in range(0, len(others), MAX_LINKED - 1):
        batch = others[start : start + MAX_LINKED - 1]
        linked = await _link(client, [anchor, *batch], report_ids)
        notes["linked" if linked else "stands_alone"] = None
    return list(notes)


async def _link(client: EngineClient, orders: Sequence[OrderKey], report_ids: ReportIds) -> bool:
    """Link orders, anchor first; return False if the engine refuses."""
    try:
        records = await client.link_orders(orders)
    except EngineFailure as failure:
        if failure.status not in REFUSED_STATUSES:
            raise
        return False
    _note_reports(records, report_ids)
    return True


def _note_reports(records: Sequence[StatusRecordBody], report_ids: ReportIds) -> None:
    for record in records:
        report_ids |= dict.fromkeys(record.orders, record.report_id)


def _share_report(members: Sequence[GroupMember], report_ids: ReportIds) -> bool:
    reports = {report_ids.get(member.key, "") for member in members}
    return len(reports) == 1 and "" not in reports


async def close_order(
    client: EngineClient, launcher: Launching, task: OrderTask, *, is_final: bool
) -> list[str]:
    """Take an order off the worklist, for good if `is_final`. Return notes."""
    key = task.after.key
    notes = await withdraw(client, key, cancelled=is_final)
    if not (is_final and notes == [NOTHING_TO_WITHDRAW] and _was_set_aside(task)):
        return notes
    try:
        await launcher.launch(launch_of(task))
    except EngineFailure as failure:
        if failure.failure is not FailureKind.PERMANENT:
            raise
        return notes
    return await withdraw(client, key, cancelled=True)


def _was_set_aside(task: OrderTask) -> bool:
    before = task.before
    return before is not None and before.state in {OrderState.HELD, OrderState.AWAITED}
