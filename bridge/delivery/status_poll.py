"""
Status poll: reads the status of reports in batches from a service without a change feed.

The scheduler calls it, one round at a time. It compares each status record with the known report
and turns differences into report events, as the change feed does. The new state and the deliveries
are stored in one transaction. Reports that changed recently are polled most often. Linked orders
have one state and are polled together.
"""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from operator import attrgetter
from typing import Any

from sqlalchemy import Connection, func, literal, select
from sqlalchemy.dialects.postgresql import insert

from bridge.contract import SIGNED, OrderKey, ReportStatus
from bridge.contract.responses import SignedTextBody, StatusRecordBody
from bridge.delivery.change_feed import (
    NEVER,
    ChangeProcessor,
    KnownReport,
    known_report,
    known_reports,
    save,
)
from bridge.delivery.destinations import ReportEvent, named_progress, with_status_event
from bridge.engine_client.client import EngineClient
from bridge.engine_client.errors import EngineFailure
from bridge.errors import FailureKind
from bridge.executors import DELIVERIES
from bridge.orders.order import OrderState
from bridge.store.records import order_index, report_events
from bridge.store.records.report_events import STATUS_SEEN, ReportEventRow
from bridge.store.tables import KNOWN_REPORTS, ORDERS
from mappings.outbound.results import ResultEvent

MAX_REPORTS_PER_ROUND = 25_000
OVERLAP = 1000  # row ids read again: transactions need not commit in the order of their ids

NOT_FOUND = 404

MAX_INTERVAL = 600_000  # ms between two polls of an open report
MAX_INTERVAL_SIGNED = 3_600_000  # ms between two polls of a signed report, for addenda
FORGET_AFTER = 90 * 86_400_000  # ms after the last change until a signed report is no longer polled
_WITHOUT_READ = frozenset({ReportStatus.DRAFT, ReportStatus.ORDERED})
"""Statuses after a preliminary read was withdrawn, reset or discarded."""
IDLE_FRACTION = 10  # a report unchanged for n seconds is polled every n / IDLE_FRACTION

MIN_BATCH, MAX_BATCH = 50, 500
"""Reports in one request."""
MAX_BLOCKING_SECONDS = 0.0025
"""Seconds that the service may need for one response, because other requests wait for it."""

_WEIGHT = 0.2  # weight of the newest response in the moving average
_SMALLER = 0.7  # factor for every other request: two sizes tell the work per report from latency


class StatusPoller:
    """Polls the status of reports; `every` is the shortest interval in seconds."""

    def __init__(
        self,
        service: EngineClient,
        processor: ChangeProcessor,
        notify: Callable[[], None],
        *,
        every: float = 5.0,
    ) -> None:
        """`notify` is called after deliveries were queued."""
        self._service = service
        self._processor = processor
        self._notify = notify
        self._every = round(every * 1000)
        self._last_order_id = 0
        self._batch_size = BatchSize()

    async def poll(self) -> int:
        """
        Run one round; return the number of reports polled.

        Raises EngineFailure, at the end if the service refused some reports: they are postponed.
        """
        polled = 0
        refusals: list[EngineFailure] = []
        while polled < MAX_REPORTS_PER_ROUND:
            limit = self._batch_size.size
            due = await DELIVERIES.run(self._due, limit)
            by_token: defaultdict[str, list[KnownReport]] = defaultdict(list)
            for seen in due:
                by_token[self._service.token_of(seen.key.site)].append(seen)
            for group in by_token.values():
                refusals += await self._poll_group(group)
            polled += len(due)
            if len(due) < limit:
                break
        if refusals:
            raise refusals[0]
        return polled

    def _due(self, limit: int) -> list[KnownReport]:
        known = KNOWN_REPORTS.c
        due = (
            select(KNOWN_REPORTS)
            .where(known.check_at <= self._processor.clock())
            .order_by(known.changed_at.desc())
            .limit(limit)
        )
        with self._processor.database.write() as connection:
            _add_new_orders(connection, max(0, self._last_order_id - OVERLAP))
            self._last_order_id = connection.scalar(select(func.max(ORDERS.c.id))) or 0
            return [known_report(row) for row in connection.execute(due)]

    async def _poll_group(self, group: Sequence[KnownReport]) -> list[EngineFailure]:
        """Poll reports of one token; return the refusals for which some were postponed."""
        try:
            records = await self._records([report.key for report in group])
        except EngineFailure as failure:
            if not failure.is_permanent_refusal:
                raise
            await DELIVERIES.run(self._postpone, group)
            return [failure]
        times, refusals = await self._addendum_times(records)
        if await DELIVERIES.run(self._process, group, _by_order(records), times):
            self._notify()
        return refusals

    async def _records(self, keys: Sequence[OrderKey]) -> tuple[StatusRecordBody, ...]:
        loop = asyncio.get_running_loop()
        began = loop.time()
        try:
            records = await self._service.status(keys)
        except EngineFailure as failure:
            if failure.status == NOT_FOUND and not failure.is_unsupported:
                return ()
            raise
        self._batch_size.record(len(keys), loop.time() - began)
        return records

    async def _addendum_times(
        self, records: Sequence[StatusRecordBody]
    ) -> tuple[dict[str, list[int] | None], list[EngineFailure]]:
        """
        Return when the addenda of reports were signed, in ms; None if the service cannot export
        the report.
        """
        times: dict[str, list[int] | None] = {}
        failures: list[EngineFailure] = []
        for record in records:
            if record.status is not ReportStatus.ADDENDUM:
                continue
            try:
                export = await self._service.export_json(record.orders[0])
                times[record.report_id] = [_signed_at(addendum) for addendum in export.addenda]
            except EngineFailure as failure:
                if failure.status is None and failure.failure is FailureKind.TRANSIENT:
                    raise  # the service is unreachable
                times[record.report_id] = None
                failures.append(failure)
        return times, failures

    def _postpone(self, group: Sequence[KnownReport]) -> None:
        now = self._processor.clock()
        with self._processor.database.write() as connection:
            save(connection, [reschedule(report, now, self._every) for report in group])

    def _process(
        self,
        group: Sequence[KnownReport],
        by_order: Mapping[OrderKey, StatusRecordBody],
        times: Mapping[str, list[int] | None],
    ) -> int:
        now, queued = self._processor.clock(), 0
        changed: dict[OrderKey, KnownReport] = {}
        seen_events: list[ReportEventRow] = []
        with self._processor.database.write() as connection:
            known = known_reports(connection, list(by_order))
            for seen in group:
                if seen.key in changed:  # processed with another order of its report
                    continue
                record = by_order.get(seen.key)
                signed = None if record is None else times.get(record.report_id, [])
                if record is None or signed is None:
                    changed[seen.key] = reschedule(seen, now, self._every)
                    continue
                addenda = released_addenda(record, signed, now)
                same = linked_reports(seen, record, known)
                before = common_state(same)
                events = events_from_record(before, record, addenda, _tags(connection, record), now)
                queued += self._processor.queue(connection, events)
                after = apply_record(before, record, addenda, now, self._every)
                if before.status != after.status:
                    seen_events.append(_seen_status(seen.key.site, record, now))
                changed |= {report.key: replace(after, key=report.key) for report in same}
            save(connection, list(changed.values()))
            report_events.add(connection, seen_events)
        return queued


def _seen_status(site: str, record: StatusRecordBody, now: int) -> ReportEventRow:
    status = record.status.value
    return ReportEventRow(site, record.report_id, now, STATUS_SEEN, status, record.user_email)


def _add_new_orders(connection: Connection, after: int) -> None:
    order = ORDERS.c
    key = [order.site, order.accession, order.mrn]
    unknown = {"report_id": "", "status": "", "final": 0, "addenda": 0}
    unknown |= {"changed_at": 0, "check_at": 0}
    new = select(*key, *map(literal, unknown.values())).where(
        order.id > after,
        order.state.in_([OrderState.ORDERED.value, OrderState.REPORTED.value]),
    )
    names = [*(column.name for column in key), *unknown]
    connection.execute(insert(KNOWN_REPORTS).from_select(names, new).on_conflict_do_nothing())


def _by_order(records: Sequence[StatusRecordBody]) -> dict[OrderKey, StatusRecordBody]:
    return {key: record for record in records for key in record.orders}


def _tags(connection: Connection, record: StatusRecordBody) -> list[Mapping[str, Any]]:
    """Return the tags of a report's orders as their senders sent them."""
    found = order_index.find(connection, record.orders)
    return [{**(found[key].tags if key in found else {}), **key.tags()} for key in record.orders]


def linked_reports(
    seen: KnownReport, record: StatusRecordBody, known: Mapping[OrderKey, KnownReport]
) -> list[KnownReport]:
    """
    Return the known reports of the orders whose events are those of `seen`, linked in one report.

    An order that is new, or had another report before, is not among them: it had no events yet.
    """
    found = [known[key] for key in record.orders if key in known]
    same = [report for report in found if report.report_id == seen.report_id == record.report_id]
    return same or [seen]


def common_state(reports: Sequence[KnownReport]) -> KnownReport:
    """Return the newest state of a report; earlier releases stored one for each of its orders."""
    newest = max(reports, key=attrgetter("changed_at"))
    return replace(
        newest,
        final=all(report.final for report in reports),
        addenda=min(report.addenda for report in reports),
    )


class BatchSize:
    """
    The adaptive number of reports in one request; `size` is that of the next request.

    A large response delays other callers of the service. Many small ones cost many round trips.
    """

    def __init__(self) -> None:
        self.size = MAX_BATCH
        self._seconds_per_report = 0.0
        self._before: tuple[int, float] | None = None

    def record(self, count: int, seconds: float) -> None:
        """Record the duration of a response about `count` reports."""
        before, self._before = self._before, (count, seconds)
        if before is not None and before[0] != count:
            latest = max(0.0, (seconds - before[1]) / (count - before[0]))
            weight = _WEIGHT if self._seconds_per_report else 1.0
            self._seconds_per_report += (latest - self._seconds_per_report) * weight
        best = (
            min(MAX_BATCH, max(MIN_BATCH, int(MAX_BLOCKING_SECONDS / self._seconds_per_report)))
            if self._seconds_per_report
            else MAX_BATCH
        )
        self.size = best if count < best else max(MIN_BATCH // 2, int(best * _SMALLER))


def is_released(record: StatusRecordBody, now: int) -> bool:
    """True if a report is signed and its sign delay is over; `now` in ms."""
    return record.status in SIGNED and (record.unsign_until is None or record.unsign_until <= now)


def _signed_at(addendum: SignedTextBody) -> int:
    """Return when an addendum was signed, in ms; the latest time if that is unknown."""
    try:
        return round(datetime.fromisoformat(addendum.signed_at or "").timestamp() * 1000)
    except ValueError:
        return _LATEST


_LATEST = 2**62


def released_addenda(record: StatusRecordBody, signed_at: Sequence[int], now: int) -> int:
    """
    Return how many addenda are released: their sign delay is over, and that of all before them.

    `signed_at` are their times (ms), in the order of the export. The record has the end of the sign
    delay of the addendum that was signed last; the same delay applies to the others.
    """
    ends = record.addendum_unsign_until
    if not signed_at or ends is None or ends <= now:
        return len(signed_at)
    delay = ends - max(signed_at)
    cooling = (number for number, at in enumerate(signed_at) if at + delay > now)
    return next(cooling, len(signed_at))


def events_from_record(
    seen: KnownReport,
    record: StatusRecordBody,
    addenda: int,
    orders: Sequence[Mapping[str, Any]],
    now: int,
) -> list[ReportEvent]:
    """
    Return the events between a known report and its status record.

    `addenda` is the number of released addenda. A release has the same name as in the change feed,
    so that it is never sent twice.
    """
    common: dict[str, Any] = {
        "report_id": record.report_id,
        "status": record.status.value,
        "orders": orders,
        "at": now,
    }
    events: list[ReportEvent] = []
    if seen.status != record.status:
        events += [
            ReportEvent(event, name=name, addenda=seen.addenda, **common)
            for event, name in named_progress(_progress(seen.status, record.status), now)
        ]
    if not is_released(record, now):
        return events
    if not seen.final:
        events += with_status_event(
            ReportEvent(ResultEvent.FINAL, name="final:1", addenda=seen.addenda, **common)
        )
    for number in range(seen.addenda + 1, addenda + 1):
        events += with_status_event(
            ReportEvent(ResultEvent.ADDENDUM, name=f"addendum:{number}", addenda=number, **common)
        )
    return events


def _progress(before: str, after: ReportStatus) -> list[ResultEvent]:
    if after is ReportStatus.PRELIMINARY and before not in SIGNED:
        return [ResultEvent.PRELIMINARY, ResultEvent.ORDER_STATUS]
    if before in SIGNED and after not in SIGNED:
        restored = [ResultEvent.PRELIMINARY] if after is ReportStatus.PRELIMINARY else []
        return [ResultEvent.RECALL, ResultEvent.ORDER_STATUS, *restored]
    if before == ReportStatus.PRELIMINARY.value and after in _WITHOUT_READ:
        return [ResultEvent.CANCELLATION, ResultEvent.ORDER_STATUS]
    # A signed report can be recalled during the sign delay. Its release is the next event.
    return [ResultEvent.ORDER_STATUS] if before and after not in SIGNED else []


def apply_record(
    seen: KnownReport, record: StatusRecordBody, addenda: int, now: int, every: int
) -> KnownReport:
    """Return the new known state and its next poll; `every` is the shortest interval in ms."""
    released = is_released(record, now)
    changed = seen.status != record.status or (released and addenda > seen.addenda)
    changed_at = now if changed or not seen.changed_at else seen.changed_at
    after = replace(
        seen,
        report_id=record.report_id,
        status=record.status.value,
        final=seen.final or released,
        addenda=max(seen.addenda, addenda) if released else seen.addenda,
        changed_at=changed_at,
    )
    return replace(after, check_at=_next_poll(record, changed_at, now, every))


def _next_poll(record: StatusRecordBody, changed_at: int, now: int, every: int) -> int:
    windows = (record.unsign_until, record.addendum_unsign_until)
    ends = [window for window in windows if window is not None and window > now]
    if ends:
        return min([*ends, now + every])
    idle = now - changed_at
    signed = record.status in SIGNED
    if signed and idle > FORGET_AFTER:
        return NEVER
    return now + min(
        max(every, idle // IDLE_FRACTION), MAX_INTERVAL_SIGNED if signed else MAX_INTERVAL
    )


def reschedule(seen: KnownReport, now: int, every: int) -> KnownReport:
    """Return the next poll of an order whose report the service did not show."""
    idle = now - seen.changed_at if seen.changed_at else 0
    return replace(seen, check_at=now + min(max(every, idle // IDLE_FRACTION), MAX_INTERVAL))
