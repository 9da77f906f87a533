"""
Ask for the status of reports, in batches: for services that have no change feed.

One round at a time, called by the scheduler. A status record is compared with what was known: the
difference is news, as a change of the feed is. What is known and the deliveries that follow are
written in one transaction. Reports that changed lately are asked for most often.
"""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol

from sqlalchemy import Connection, text

from bridge.contract import ReportStatus
from bridge.delivery.change_processor import ChangeProcessor
from bridge.delivery.known_reports import NEVER, Seen, remember
from bridge.delivery.news import News, released
from bridge.engine_client.errors import EngineFailure
from bridge.engine_client.models import SIGNED, Export, OrderKey, StatusRecord
from bridge.executors import Threads
from bridge.store.records import order_index
from bridge.store.records.order_index import OrderIndexKey
from mappings.outbound.results import ResultEvent

MOST_IN_A_ROUND = 25_000
OVERLAP = 1000  # row ids looked at again: transactions need not commit in the order of their ids

_NEW = text(
    """
    INSERT INTO report_seen (site, accession, mrn, report_id, status, final, addenda, changed_at,
                             check_at)
    SELECT site, accession, mrn, '', '', 0, 0, 0, 0 FROM bridge_order
    WHERE id > :after AND state = 'ordered'
    ON CONFLICT (site, accession, mrn) DO NOTHING
    """
)

_DUE = text(
    """
    SELECT site, accession, mrn, report_id, status, final, addenda, changed_at, check_at
    FROM report_seen WHERE check_at <= :now ORDER BY changed_at DESC LIMIT :limit
    """
)

_LAST = text("SELECT coalesce(max(id), 0) FROM bridge_order")

NOT_FOUND = 404

SLOWEST = 600_000  # ms between two looks at a report that is still open
SLOWEST_SIGNED = 3_600_000  # ms; an addendum may still come
FORGET_AFTER = 90 * 86_400_000  # ms after the last change of a signed report
_WITHOUT_READ = frozenset({ReportStatus.DRAFT, ReportStatus.ORDERED})
"""Statuses of a report that has no preliminary read: it was withdrawn, reset or discarded."""
SHARE = 10  # a report unchanged for n seconds is asked for every n / SHARE

LEAST, MOST = 50, 500
"""Reports of one request."""
BEARABLE = 0.0025
"""Seconds that the making of one answer may take: other requests to the service wait for it."""

_WEIGHT = 0.2  # of the newest answers in the average
_LESS = 0.7  # of the size, every other time: two sizes tell what is the way and what the making


class StatusService(Protocol):
    """What is needed of the engine's client."""

    async def status(self, orders: Sequence[OrderKey]) -> tuple[StatusRecord, ...]:
        """Read the reports of orders of one token."""

    async def export_json(self, order: OrderKey) -> Export:
        """Export a report."""

    def token_of(self, site: str) -> str:
        """Name the token that a site's calls bear."""


class StatusPoller:
    """Polls; `every` is the quickest pace in seconds."""

    def __init__(
        self,
        service: StatusService,
        processor: ChangeProcessor,
        notify: Callable[[], None],
        *,
        every: float = 5.0,
    ) -> None:
        """Take whom to notify when there is something to deliver."""
        self._service = service
        self._processor = processor
        self._notify = notify
        self._every = round(every * 1000)
        self._highest = 0
        self._pace = Pace()

    async def poll(self) -> int:
        """Make one round; give how many reports were asked for. Raises EngineFailure."""
        asked = 0
        while asked < MOST_IN_A_ROUND:
            limit = self._pace.size
            due = await Threads.DELIVERY.run(self._due, limit)
            by_token: defaultdict[str, list[Seen]] = defaultdict(list)
            for seen in due:
                by_token[self._service.token_of(seen.key.site)].append(seen)
            for group in by_token.values():
                await self._ask(group)
            asked += len(due)
            if len(due) < limit:
                break
        return asked

    def _due(self, limit: int) -> list[Seen]:
        now = self._processor.clock()
        with self._processor.database.write() as connection:
            connection.execute(_NEW, {"after": max(0, self._highest - OVERLAP)})
            self._highest = int(connection.execute(_LAST).scalar_one())
            rows = connection.execute(_DUE, {"now": now, "limit": limit}).all()
        return [
            Seen(
                OrderIndexKey(r.site, r.mrn, r.accession),
                r.report_id,
                r.status,
                bool(r.final),
                *r[6:],
            )
            for r in rows
        ]

    async def _ask(self, group: Sequence[Seen]) -> None:
        records = await self._records([OrderKey(*each.key) for each in group])
        by_key = {OrderIndexKey(k.site, k.mrn, k.accession): r for r in records for k in r.orders}
        counts = {
            record.report_id: await self._count_addenda(record)
            for record in records
            if record.status is ReportStatus.ADDENDUM
        }
        if await Threads.DELIVERY.run(self._process, group, by_key, counts):
            self._notify()

    async def _records(self, keys: Sequence[OrderKey]) -> tuple[StatusRecord, ...]:
        loop = asyncio.get_running_loop()
        began = loop.time()
        try:
            records = await self._service.status(keys)
        except EngineFailure as failure:
            if failure.status == NOT_FOUND and not failure.is_unsupported:
                return ()
            raise
        self._pace.took(len(keys), loop.time() - began)
        return records

    async def _count_addenda(self, record: StatusRecord) -> int:
        export = await self._service.export_json(record.orders[0])
        return len(export.addenda)

    def _process(
        self,
        group: Sequence[Seen],
        by_key: Mapping[OrderIndexKey, StatusRecord],
        counts: Mapping[str, int],
    ) -> int:
        now = self._processor.clock()
        with self._processor.database.write() as connection:
            queued = 0
            for seen in group:
                record = by_key.get(seen.key)
                if record is None:
                    remember(connection, [after_silence(seen, now, self._every)])
                    continue
                addenda = released_addenda(record, counts.get(record.report_id, 0), now)
                orders = _tags(connection, record)
                queued += self._processor.queue(
                    connection, news_from(seen, record, addenda, orders, now)
                )
                remember(connection, [after_record(seen, record, addenda, now, self._every)])
            return queued


def _tags(connection: Connection, record: StatusRecord) -> list[Mapping[str, Any]]:
    """Give the tags of a report's orders as their senders said them."""
    keys = [OrderIndexKey(k.site, k.mrn, k.accession) for k in record.orders]
    found = order_index.find(connection, keys)
    return [
        {**(found[key].tags if key in found else {}), **order.tags()}
        for key, order in zip(keys, record.orders, strict=True)
    ]


class Pace:
    """
    How many reports to ask for in one request; `size` is for the next one.

    An answer about many keeps other callers of the service waiting while it is made. Many answers
    about few cost a round trip each.
    """

    def __init__(self) -> None:
        self.size = MOST
        self._each = 0.0
        self._before: tuple[int, float] | None = None

    def took(self, count: int, seconds: float) -> None:
        """Note how long an answer about so many took."""
        before, self._before = self._before, (count, seconds)
        if before is not None and before[0] != count:
            each = max(0.0, (seconds - before[1]) / (count - before[0]))
            self._each += (each - self._each) * (_WEIGHT if self._each else 1.0)
        best = min(MOST, max(LEAST, int(BEARABLE / self._each))) if self._each else MOST
        self.size = best if count < best else max(LEAST // 2, int(best * _LESS))


def is_released(record: StatusRecord, now: int) -> bool:
    """Whether a report is signed and its sign delay is over."""
    return record.status in SIGNED and (record.unsign_until is None or record.unsign_until <= now)


def released_addenda(record: StatusRecord, count: int, now: int) -> int:
    """Of `count` signed addenda, how many are beyond their sign delay."""
    cooling = record.addendum_unsign_until
    return count - 1 if count and cooling is not None and cooling > now else count


def news_from(
    seen: Seen, record: StatusRecord, addenda: int, orders: Sequence[Mapping[str, Any]], now: int
) -> list[News]:
    """
    Compare a record with what was known; `addenda` of the report are released by now.

    A release has the name that the feed would give it, so that the two never both send it.
    """
    common: dict[str, Any] = {
        "report_id": record.report_id,
        "status": record.status.value,
        "orders": orders,
        "at": now,
    }
    news: list[News] = []
    if seen.status != record.status:
        news += [
            News(event, name=f"{event}:{now}", addenda=seen.addenda, **common)
            for event in _progress(seen.status, record.status)
        ]
    if not is_released(record, now):
        return news
    if not seen.final:
        news += released(News(ResultEvent.FINAL, name="final:1", addenda=seen.addenda, **common))
    for number in range(seen.addenda + 1, addenda + 1):
        news += released(
            News(ResultEvent.ADDENDUM, name=f"addendum:{number}", addenda=number, **common)
        )
    return news


def _progress(before: str, after: ReportStatus) -> list[ResultEvent]:
    signed = {status.value for status in SIGNED}
    if after is ReportStatus.PRELIMINARY and before not in signed:
        return [ResultEvent.PRELIMINARY, ResultEvent.ORDER_STATUS]
    if before in signed and after not in SIGNED:
        return [ResultEvent.RECALL, ResultEvent.ORDER_STATUS]
    if before == ReportStatus.PRELIMINARY.value and after in _WITHOUT_READ:
        return [ResultEvent.CANCELLATION, ResultEvent.ORDER_STATUS]
    # Signed, and perhaps to be taken back: only its release tells of it.
    return [ResultEvent.ORDER_STATUS] if before and after not in SIGNED else []


def after_record(seen: Seen, record: StatusRecord, addenda: int, now: int, every: int) -> Seen:
    """Give what is known now, and when to ask again; `every` is the quickest pace in ms."""
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
    return replace(after, check_at=_next_look(record, changed_at, now, every))


def _next_look(record: StatusRecord, changed_at: int, now: int, every: int) -> int:
    windows = (record.unsign_until, record.addendum_unsign_until)
    ends = [each for each in windows if each is not None and each > now]
    if ends:
        return min([*ends, now + every])
    idle = now - changed_at
    signed = record.status in SIGNED
    if signed and idle > FORGET_AFTER:
        return NEVER
    return now + min(max(every, idle // SHARE), SLOWEST_SIGNED if signed else SLOWEST)


def after_silence(seen: Seen, now: int, every: int) -> Seen:
    """Give when to ask again for an order that the service did not speak of."""
    idle = now - seen.changed_at if seen.changed_at else 0
    return replace(seen, check_at=now + min(max(every, idle // SHARE), SLOWEST))
