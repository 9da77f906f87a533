"""
Compare what the bridge knows with what the report service says, and name what differs.

Goes through all live orders bit by bit, a page a round, for ever. Repairs nothing: it counts,
and tells an operator where to look. A release that was learned of owes nothing to receivers that
came later, and nothing any more once its deliveries are old enough to be forgotten.
"""

import asyncio
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

import structlog
from sqlalchemy import Connection, bindparam, text

from bridge.delivery.destinations import Destination
from bridge.delivery.polling import is_released
from bridge.delivery.seen import released_of
from bridge.engine_client.errors import EngineFailure
from bridge.engine_client.models import OrderKey, StatusRecord
from bridge.observability.metrics import Metrics
from bridge.store import concerns, order_index
from bridge.store.concerns import Subject
from bridge.store.database import Database
from bridge.store.order_index import Key
from mappings.results import ResultEvent

PAGE = 200
NOT_FOUND = 404

_QUEUED = text(
    "SELECT DISTINCT destination, report_id FROM delivery "
    "WHERE report_id IN :reports AND event = 'final'"
).bindparams(bindparam("reports", expanding=True))


class Difference(StrEnum):
    """What can differ."""

    NO_REPORT = "no_report"  # ordered here, unknown there
    NOT_QUEUED = "not_queued"  # released there, nothing to deliver here


@dataclass(frozen=True, slots=True)
class Finding:
    """One order that differs, by its row id, and where its result is missing."""

    difference: Difference
    order_id: int
    destination: str = ""

    @property
    def code(self) -> str:
        """What differs, in a word, and where."""
        return f"{self.difference.value} {self.destination}".strip()


class StatusService(Protocol):
    """What is needed of the engine's client."""

    async def status(self, orders: Sequence[OrderKey]) -> tuple[StatusRecord, ...]:
        """Read the reports of orders of one token."""

    def token_of(self, site: str) -> str:
        """Name the token that a site's calls bear."""


def compare(
    orders: Sequence[tuple[int, Key]],
    records: Sequence[StatusRecord],
    queued: frozenset[tuple[str, str]],
    learned: frozenset[str],
    destinations: Sequence[Destination],
    now: int,
) -> list[Finding]:
    """
    Name what differs.

    `queued` are (destination, report) pairs that have a result, `learned` the reports whose
    release was written down together with all that was owed for it.
    """
    report_of: Mapping[OrderKey, StatusRecord] = {
        key: record for record in records for key in record.orders
    }
    findings: list[Finding] = []
    for order_id, key in orders:
        record = report_of.get(OrderKey(*key))
        if record is None:
            findings.append(Finding(Difference.NO_REPORT, order_id))
            continue
        findings += [
            Finding(Difference.NOT_QUEUED, order_id, each.name)
            for each in destinations
            if is_released(record, now)
            and record.report_id not in learned
            and each.wants(key.site, ResultEvent.FINAL)
            and (each.name, record.report_id) not in queued
        ]
    return findings


class Reconciler:
    """Makes one round at a time; called by the scheduler."""

    def __init__(
        self,
        service: StatusService,
        database: Database,
        destinations: Sequence[Destination],
        metrics: Metrics,
    ) -> None:
        """Take both sides."""
        self._log = structlog.get_logger("reconciler")
        self._service = service
        self._database = database
        self.adopt(destinations)
        self._metrics = metrics
        self._after = 0

    def adopt(self, destinations: Sequence[Destination]) -> None:
        """Go on with other definitions (a mapping was activated)."""
        self._destinations = tuple(destinations)

    async def reconcile(self, now: int) -> list[Finding]:
        """Compare the next page of orders; `now` in ms. Raises EngineFailure, StoreError."""
        orders = await asyncio.to_thread(self._page)
        self._after = orders[-1][0] if len(orders) == PAGE else 0
        by_token: defaultdict[str, list[tuple[int, Key]]] = defaultdict(list)
        for order_id, key in orders:
            by_token[self._service.token_of(key.site)].append((order_id, key))
        findings: list[Finding] = []
        for group in by_token.values():
            records = await self._records([OrderKey(*key) for _, key in group])
            queued, learned = await asyncio.to_thread(self._known, records)
            findings += compare(group, records, queued, learned, self._destinations, now)
        await asyncio.to_thread(self._note, [order_id for order_id, _ in orders], findings, now)
        for finding in findings:
            self._metrics.differences.labels(finding.difference.value).inc()
        if findings:
            kinds = sorted({finding.difference.value for finding in findings})
            self._log.warning("both sides differ", count=len(findings), reason=", ".join(kinds))
        return findings

    def _note(self, order_ids: Sequence[int], findings: Sequence[Finding], now: int) -> None:
        """Keep what differs for people to look at; what no longer differs is over."""
        codes = [(each.order_id, each.code) for each in findings]
        with self._database.write() as connection:
            concerns.renew(connection, Subject.ORDER, order_ids, codes, now)

    def _page(self) -> list[tuple[int, Key]]:
        with self._database.read() as connection:
            return order_index.page(connection, self._after, PAGE)

    async def _records(self, keys: Sequence[OrderKey]) -> tuple[StatusRecord, ...]:
        try:
            return await self._service.status(keys)
        except EngineFailure as failure:
            if failure.status == NOT_FOUND and not failure.is_unsupported:
                return ()
            raise

    def _known(
        self, records: Sequence[StatusRecord]
    ) -> tuple[frozenset[tuple[str, str]], frozenset[str]]:
        keys = [Key(k.site, k.mrn, k.accession) for each in records for k in each.orders]
        with self._database.read() as connection:
            queued = _pairs(connection, [each.report_id for each in records])
            return queued, released_of(connection, keys)


def _pairs(connection: Connection, reports: Sequence[str]) -> frozenset[tuple[str, str]]:
    if not reports:
        return frozenset()
    rows = connection.execute(_QUEUED, {"reports": list(reports)})
    return frozenset((row.destination, row.report_id) for row in rows)
