"""
Ask for the status of reports, in batches: for services that have no change feed.

One round at a time, called by the scheduler. What was learned and what is owed for it are
written in one transaction.
"""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from sqlalchemy import Connection, text

from bridge.contract import ReportStatus
from bridge.delivery.learning import Learner
from bridge.delivery.pacing import Pace
from bridge.delivery.polling import after_record, after_silence, news_from, released_addenda
from bridge.delivery.seen import Seen, remember
from bridge.engine_client.errors import EngineFailure
from bridge.engine_client.models import Export, OrderKey, StatusRecord
from bridge.executors import Threads
from bridge.store import order_index
from bridge.store.order_index import Key

MOST = 25_000  # reports a round
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
        learner: Learner,
        notify: Callable[[], None],
        *,
        every: float = 5.0,
    ) -> None:
        """Take whom to notify when there is something to deliver."""
        self._service = service
        self._learner = learner
        self._notify = notify
        self._every = round(every * 1000)
        self._highest = 0
        self._pace = Pace()

    async def poll(self) -> int:
        """Make one round; give how many reports were asked for. Raises EngineFailure."""
        asked = 0
        while asked < MOST:
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
        now = self._learner.clock()
        with self._learner.database.write() as connection:
            connection.execute(_NEW, {"after": max(0, self._highest - OVERLAP)})
            self._highest = int(connection.execute(_LAST).scalar_one())
            rows = connection.execute(_DUE, {"now": now, "limit": limit}).all()
        return [
            Seen(Key(r.site, r.mrn, r.accession), r.report_id, r.status, bool(r.final), *r[6:])
            for r in rows
        ]

    async def _ask(self, group: Sequence[Seen]) -> None:
        records = await self._records([OrderKey(*each.key) for each in group])
        by_key = {Key(k.site, k.mrn, k.accession): r for r in records for k in r.orders}
        counts = {
            record.report_id: await self._count_addenda(record)
            for record in records
            if record.status is ReportStatus.ADDENDUM
        }
        if await Threads.DELIVERY.run(self._learn, group, by_key, counts):
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

    def _learn(
        self,
        group: Sequence[Seen],
        by_key: Mapping[Key, StatusRecord],
        counts: Mapping[str, int],
    ) -> int:
        now = self._learner.clock()
        with self._learner.database.write() as connection:
            queued = 0
            for seen in group:
                record = by_key.get(seen.key)
                if record is None:
                    remember(connection, [after_silence(seen, now, self._every)])
                    continue
                addenda = released_addenda(record, counts.get(record.report_id, 0), now)
                orders = _tags(connection, record)
                queued += self._learner.queue(
                    connection, news_from(seen, record, addenda, orders, now)
                )
                remember(connection, [after_record(seen, record, addenda, now, self._every)])
            return queued


def _tags(connection: Connection, record: StatusRecord) -> list[Mapping[str, Any]]:
    """Give the tags of a report's orders as their senders said them."""
    keys = [Key(k.site, k.mrn, k.accession) for k in record.orders]
    found = order_index.find(connection, keys)
    return [
        {**(found[key].tags if key in found else {}), **order.tags()}
        for key, order in zip(keys, record.orders, strict=True)
    ]
