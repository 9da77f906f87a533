"""
Reconcile: compare what the bridge knows with what the report service says, and name what differs.

A round goes through all live orders, page by page, then through the reports on the worklist that
are Ordered and looks for those that nobody ordered here. Reports that a reader has begun are left
out: a host may launch a report without an order. A round takes a day at most, where the service
answers. Nothing is repaired: differences are counted, and an operator is shown where to look. A
release that was learned of owes nothing to receivers that came later, and nothing any more once its
deliveries are old enough to be forgotten.
"""

import asyncio
import sys
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Protocol

import structlog
from sqlalchemy import Connection, bindparam, text

from bridge.delivery.destinations import Destination
from bridge.delivery.known_reports import released_of
from bridge.delivery.status_poll import is_released
from bridge.engine_client.errors import EngineFailure
from bridge.engine_client.models import OrderKey, StatusRecord, WorklistPage
from bridge.errors import FailureKind
from bridge.executors import Threads
from bridge.metrics import Metrics
from bridge.store.database import Database
from bridge.store.records import exceptions, order_index, reconcile_rounds
from bridge.store.records.exceptions import ExceptionSubject
from bridge.store.records.order_index import OrderIndexKey
from bridge.store.records.reconcile_rounds import EXAMPLES, Round
from mappings.outbound.results import ResultEvent

PAGE = 200
PAGES_A_DAY = 1440
"""Of one page a minute."""
LAST = 2**62
"""Behind the row of any order."""
NOT_FOUND = 404
LIVE = "ordered"
STILL_ORDERED = "still_ordered"
NOT_ORDERED = "not_ordered"
UNAUTHORIZED = 401
UNSUPPORTED = "no_worklist"

_QUEUED = text(
    "SELECT DISTINCT destination, report_id FROM delivery "
    "WHERE report_id IN :reports AND event = 'final'"
).bindparams(bindparam("reports", expanding=True))


Missed = dict[int, str]
"""Rows of orders that the service would not speak of, and its code for why."""


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


class Service(Protocol):
    """What is needed of the engine's client."""

    async def status(self, orders: Sequence[OrderKey]) -> tuple[StatusRecord, ...]:
        """Read the reports of orders of one token."""

    def token_of(self, site: str) -> str:
        """Name the token that a site's calls bear."""

    async def worklist(
        self, site: str, *, status: str, sort: str, limit: int, cursor: str
    ) -> WorklistPage:
        """Read a page of a site's worklist."""


def compare(
    orders: Sequence[tuple[int, OrderIndexKey]],
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
        service: Service,
        database: Database,
        destinations: Sequence[Destination],
        metrics: Metrics,
        pause: float = 0.0,
    ) -> None:
        """
        Take both sides.

        What seems to differ is looked at again after `pause` seconds: an order may just be
        cancelled, a result just be queued.
        """
        self._log = structlog.get_logger("reconciler")
        self._service = service
        self._database = database
        self.adopt(destinations)
        self._metrics = metrics
        self._pause = pause

    def adopt(self, destinations: Sequence[Destination]) -> None:
        """Go on with other definitions (a mapping was activated)."""
        self._destinations = tuple(destinations)

    async def reconcile(self, now: int) -> list[Finding]:
        """
        Compare the next orders, or the next of the worklist; `now` in ms.

        All of a round where somebody waits for it. Gives the orders that differ. Raises
        EngineFailure, StoreError: then the same comes next. Not called beside itself.
        """
        one, turns = await Threads.DELIVERY.run(self._begin, now)
        findings: list[Finding] = []
        while turns and not one.ended_at:
            turns -= 1
            if one.in_worklist:
                await read_page(self._service, self._database, one, self._pause)
            else:
                findings += await self._orders(one, now)
                turns += one.in_worklist
            one.ended_at = now if one.is_through else 0
            await Threads.DELIVERY.run(self._keep, one, now)
        return findings

    def wish(self) -> int:
        """Return the start (ms) of the requested round, 0 without one. Blocking."""
        with self._database.read_committed() as connection:
            return reconcile_rounds.wish(connection)

    def _begin(self, now: int) -> tuple[Round, int]:
        """Give the round that goes on, and how many pages make a round of at most a day."""
        with self._database.read() as connection:
            before = reconcile_rounds.last(connection)
            size = before.orders + before.reports if before is not None else 0
            turns = (
                sys.maxsize
                if reconcile_rounds.wish(connection)
                else 1 + size // PAGES_A_DAY // PAGE
            )
            return reconcile_rounds.running(connection, now), turns

    def _keep(self, one: Round, now: int) -> None:
        """Write down how far it is; at the end, which orders wait there and not here."""
        with self._database.write() as connection:
            reconcile_rounds.save(connection, one, now)
            if one.ended_at:
                before = exceptions.rows_with_code(
                    connection, ExceptionSubject.ORDER, STILL_ORDERED
                )
                rows = sorted({*(before if one.whole else ()), *one.still_ordered})
                codes = [(row_id, STILL_ORDERED) for row_id in one.still_ordered]
                exceptions.replace_all(connection, ExceptionSubject.ORDER, rows, codes, now)

    async def _orders(self, one: Round, now: int) -> list[Finding]:
        """Take the next page of orders into the round."""
        orders = await Threads.DELIVERY.run(self._page, one.after)
        missed: Missed = {}
        findings = await self._compared(orders, now, missed)
        if findings:
            await asyncio.sleep(self._pause)
            suspects = await Threads.DELIVERY.run(self._still, {each.order_id for each in findings})
            confirmed = await self._compared(suspects, now, {})
            findings = [each for each in findings if each in confirmed]
        ends = len(orders) < PAGE
        upto = LAST if ends else orders[-1][0]
        await Threads.DELIVERY.run(self._note, one.after, upto, missed, findings, now)
        one.after, one.in_worklist = upto, ends
        if ends:
            one.sites = await Threads.DELIVERY.run(self._sites)
        one.orders += len(orders) - len(missed)
        one.count(each.code for each in findings)
        for code in missed.values():
            one.miss(code, 1)
        for finding in findings:
            self._metrics.differences.labels(finding.difference.value).inc()
        if findings:
            kinds = sorted({finding.difference.value for finding in findings})
            self._log.warning("both sides differ", count=len(findings), reason=", ".join(kinds))
        return findings

    async def _compared(
        self, orders: Sequence[tuple[int, OrderIndexKey]], now: int, missed: Missed
    ) -> list[Finding]:
        """Compare orders; note in `missed` those that the service would not speak of, and why."""
        by_token: defaultdict[str, list[tuple[int, OrderIndexKey]]] = defaultdict(list)
        for order_id, key in orders:
            by_token[self._service.token_of(key.site)].append((order_id, key))
        findings: list[Finding] = []
        for group in by_token.values():
            try:
                records = await self._records([OrderKey(*key) for _, key in group])
            except EngineFailure as failure:
                if not says_no(failure):
                    raise
                missed |= {order_id: failure.code for order_id, _ in group}
                continue
            queued, learned = await Threads.DELIVERY.run(self._known, records)
            findings += compare(group, records, queued, learned, self._destinations, now)
        return findings

    def _note(
        self,
        after: int,
        upto: int,
        missed: Missed,
        findings: Sequence[Finding],
        now: int,
    ) -> None:
        """Keep what differs for people to look at; what no longer differs, or lives, is over."""
        codes = [(each.order_id, each.code) for each in findings]
        with self._database.write() as connection:
            before = exceptions.rows_in_range(
                connection, ExceptionSubject.ORDER, after, upto, STILL_ORDERED
            )
            rows = sorted(before.union(each.order_id for each in findings).difference(missed))
            exceptions.replace_all(connection, ExceptionSubject.ORDER, rows, codes, now)

    def _page(self, after: int) -> list[tuple[int, OrderIndexKey]]:
        with self._database.read() as connection:
            return order_index.page(connection, after, PAGE)

    def _sites(self) -> list[str]:
        with self._database.read() as connection:
            return order_index.sites(connection)

    def _still(self, ids: Collection[int]) -> list[tuple[int, OrderIndexKey]]:
        with self._database.read() as connection:
            return order_index.live(connection, ids)

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
        keys = [OrderIndexKey(k.site, k.mrn, k.accession) for each in records for k in each.orders]
        with self._database.read() as connection:
            queued = _pairs(connection, [each.report_id for each in records])
            return queued, released_of(connection, keys)


def _pairs(connection: Connection, reports: Sequence[str]) -> frozenset[tuple[str, str]]:
    if not reports:
        return frozenset()
    rows = connection.execute(_QUEUED, {"reports": list(reports)})
    return frozenset((row.destination, row.report_id) for row in rows)


@dataclass(frozen=True, slots=True)
class WorklistDifferences:
    """What differs of one page: rows that are not live here, reports that no row is of."""

    rows: frozenset[int] = frozenset()
    reports: frozenset[str] = frozenset()


async def read_page(service: Service, database: Database, one: Round, pause: float) -> None:
    """
    Take the next page of the worklist into the round. Raises EngineFailure.

    What seems to differ is looked at again after `pause` seconds: an order may just come or go.
    """
    if not one.site:
        one.site, one.cursor = one.sites.pop(0), ""
    try:
        page = await _page(service, one.site, one.cursor)
    except EngineFailure as failure:
        if not (says_no(failure) or failure.is_unsupported):
            raise
        one.miss(f"{UNSUPPORTED} {one.site}" if failure.is_unsupported else failure.code, 1)
        one.site, one.whole = "", False
        return
    found = await Threads.DELIVERY.run(_strange, database, one.site, page.items)
    if found != WorklistDifferences():
        await asyncio.sleep(pause)
        again = await _page(service, one.site, one.cursor)
        second = await Threads.DELIVERY.run(_strange, database, one.site, again.items)
        found = WorklistDifferences(found.rows & second.rows, found.reports & second.reports)
    one.reports += len(page.items)
    one.still_ordered += sorted(found.rows)
    one.not_ordered = [*one.not_ordered, *sorted(found.reports)][:EXAMPLES]
    one.count([STILL_ORDERED] * len(found.rows))
    one.count([f"{NOT_ORDERED} {one.site}"] * len(found.reports))
    one.cursor = page.next
    if not page.next:
        one.site = ""


def says_no(failure: EngineFailure) -> bool:
    """Whether a service answers so whenever it is asked, a wrong token for some sites included."""
    return failure.failure is FailureKind.PERMANENT or failure.status == UNAUTHORIZED


async def _page(service: Service, site: str, cursor: str) -> WorklistPage:
    return await service.worklist(site, status="Ordered", sort="created", limit=PAGE, cursor=cursor)


def _strange(
    database: Database, site: str, items: Sequence[Mapping[str, Any]]
) -> WorklistDifferences:
    asked = {
        OrderIndexKey(site, str(each.get("PatientMRN")), str(each.get("Accession"))): str(
            item["reportId"]
        )
        for item in items
        for each in item["clinicalInfo"]
    }
    with database.read() as connection:
        known = order_index.states(connection, asked)
    return WorklistDifferences(
        frozenset(row_id for row_id, state in known.values() if state != LIVE),
        frozenset(report for key, report in asked.items() if key not in known),
    )
