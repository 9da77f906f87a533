"""
Reconciler: compares the orders and results of the bridge with those of the report service.

A round compares all live orders page by page. Then it reads the Ordered reports of each site's
worklist and looks for those without an order in the bridge. Reports in progress are skipped,
because a host may launch a report without an order. A round takes at most a day while the service
responds. Nothing is repaired: differences are counted and shown to operators. A release that the
bridge has processed is no difference, even if a destination was added later or retention removed
its deliveries.
"""

import asyncio
import sys
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import structlog
from sqlalchemy import Connection, select

from bridge.contract import OrderKey
from bridge.contract.responses import StatusRecordBody, WorklistResponse
from bridge.delivery.change_feed import released_reports
from bridge.delivery.destinations import CompiledDestination
from bridge.delivery.status_poll import is_released
from bridge.engine_client.client import EngineClient
from bridge.engine_client.errors import EngineFailure
from bridge.executors import DELIVERIES
from bridge.metrics import Metrics
from bridge.queue.statements import DELIVERY
from bridge.store.database import Database
from bridge.store.records import exceptions, order_index, reconcile_rounds
from bridge.store.records.exceptions import ExceptionSubject
from bridge.store.records.reconcile_rounds import EXAMPLES, ReconcileRound
from mappings.outbound.results import ResultEvent

PAGE = 200
PAGES_A_DAY = 1440
"""Pages per day, at one page per minute."""
END_OF_ORDERS = 2**62
"""A row id after all orders."""
NOT_FOUND = 404
LIVE_STATE = "ordered"
STILL_ORDERED = "still_ordered"
NOT_ORDERED = "not_ordered"
UNSUPPORTED = "no_worklist"

SkippedOrders = dict[int, str]
"""Row ids of orders that the service refused to show, with its error code."""


class DifferenceKind(StrEnum):
    """The kinds of differences in live orders."""

    NO_REPORT = "no_report"  # the service has no report for the order
    NOT_QUEUED = "not_queued"  # the report is released, and no delivery was queued


@dataclass(frozen=True, slots=True)
class OrderDifference:
    """A difference of one order, by its row id; `destination` is the one without a result."""

    difference: DifferenceKind
    order_id: int
    destination: str = ""

    @property
    def code(self) -> str:
        """The code of the exception: the kind, and the destination if there is one."""
        return f"{self.difference.value} {self.destination}".strip()


def compare(
    orders: Sequence[tuple[int, OrderKey]],
    records: Sequence[StatusRecordBody],
    queued: frozenset[tuple[str, str]],
    processed: frozenset[str],
    destinations: Sequence[CompiledDestination],
    now: int,
) -> list[OrderDifference]:
    """
    Return the differences of orders.

    `queued` are (destination, report id) pairs with a queued result. `processed` are the ids of
    reports whose release was processed, together with all deliveries for it.
    """
    report_of: Mapping[OrderKey, StatusRecordBody] = {
        key: record for record in records for key in record.orders
    }
    findings: list[OrderDifference] = []
    for order_id, key in orders:
        record = report_of.get(key)
        if record is None:
            findings.append(OrderDifference(DifferenceKind.NO_REPORT, order_id))
            continue
        findings += [
            OrderDifference(DifferenceKind.NOT_QUEUED, order_id, destination.name)
            for destination in destinations
            if is_released(record, now)
            and record.report_id not in processed
            and destination.wants(key.site, ResultEvent.FINAL)
            and (destination.name, record.report_id) not in queued
        ]
    return findings


class Reconciler:
    """Runs the reconcile job, one round after the other; called by the scheduler."""

    def __init__(
        self,
        service: EngineClient,
        database: Database,
        destinations: Sequence[CompiledDestination],
        metrics: Metrics,
        pause: float = 0.0,
    ) -> None:
        """
        Compare `database` with `service`.

        A difference counts if it still exists after `pause` seconds: the order may be cancelled
        or the result queued at this moment.
        """
        self._log = structlog.get_logger("reconciler")
        self._service = service
        self._database = database
        self.use(destinations)
        self._metrics = metrics
        self._pause = pause

    def use(self, destinations: Sequence[CompiledDestination]) -> None:
        """Use other destinations from now on: a mapping or connection was activated."""
        self._destinations = tuple(destinations)

    async def reconcile(self, now: int) -> list[OrderDifference]:
        """
        Compare the next page of orders or of a worklist; `now` is in ms.

        Compares all pages of a round that was requested. Returns the orders that differ. Raises
        EngineFailure or StoreError; the next call repeats the page. Calls must not overlap.
        """
        round_, pages = await DELIVERIES.run(self._begin, now)
        findings: list[OrderDifference] = []
        while pages and not round_.ended_at:
            pages -= 1
            if round_.in_worklist:
                await read_worklist_page(self._service, self._database, round_, self._pause)
            else:
                findings += await self._orders(round_, now)
                pages += round_.in_worklist
            round_.ended_at = now if round_.is_complete else 0
            await DELIVERIES.run(self._save, round_, now)
        return findings

    def requested_since(self) -> int:
        """Return the time (ms) of an unfinished request for a round, or 0. Raises StoreError."""
        with self._database.read_committed() as connection:
            return reconcile_rounds.requested_since(connection)

    def _begin(self, now: int) -> tuple[ReconcileRound, int]:
        """Return the current round, and the pages per run with which it takes at most a day."""
        with self._database.read() as connection:
            before = reconcile_rounds.last_round(connection)
            size = before.orders + before.reports if before is not None else 0
            pages = (
                sys.maxsize
                if reconcile_rounds.requested_since(connection)
                else 1 + size // PAGES_A_DAY // PAGE
            )
            return reconcile_rounds.current_round(connection, now), pages

    def _save(self, round_: ReconcileRound, now: int) -> None:
        """Store the progress; at the end of a round, renew the `still_ordered` exceptions."""
        with self._database.write() as connection:
            reconcile_rounds.save_round(connection, round_, now)
            if round_.ended_at:
                before = exceptions.rows_with_code(
                    connection, ExceptionSubject.ORDER, STILL_ORDERED
                )
                rows = sorted({*(before if round_.whole else ()), *round_.still_ordered})
                codes = [(row_id, STILL_ORDERED) for row_id in round_.still_ordered]
                exceptions.replace_all(connection, ExceptionSubject.ORDER, rows, codes, now)

    async def _orders(self, round_: ReconcileRound, now: int) -> list[OrderDifference]:
        """Compare the next page of orders."""
        orders = await DELIVERIES.run(self._page, round_.after)
        skipped: SkippedOrders = {}
        findings = await self._compared(orders, now, skipped)
        if findings:
            await asyncio.sleep(self._pause)
            ids = {difference.order_id for difference in findings}
            suspects = await DELIVERIES.run(self._still_live, ids)
            confirmed = await self._compared(suspects, now, {})
            findings = [
                order_difference for order_difference in findings if order_difference in confirmed
            ]
        is_last_page = len(orders) < PAGE
        upto = END_OF_ORDERS if is_last_page else orders[-1][0]
        await DELIVERIES.run(self._store_findings, round_.after, upto, skipped, findings, now)
        round_.after, round_.in_worklist = upto, is_last_page
        if is_last_page:
            round_.sites = await DELIVERIES.run(self._sites)
        round_.orders += len(orders) - len(skipped)
        round_.count(finding.code for finding in findings)
        for code in skipped.values():
            round_.count_skipped(code, 1)
        for finding in findings:
            self._metrics.differences.labels(finding.difference.value).inc()
        if findings:
            kinds = sorted({finding.difference.value for finding in findings})
            self._log.warning(
                "orders differ from the report service",
                count=len(findings),
                reason=", ".join(kinds),
            )
        return findings

    async def _compared(
        self, orders: Sequence[tuple[int, OrderKey]], now: int, skipped: SkippedOrders
    ) -> list[OrderDifference]:
        """Return differences; add orders that the service refused to show to `skipped`."""
        by_token: defaultdict[str, list[tuple[int, OrderKey]]] = defaultdict(list)
        for order_id, key in orders:
            by_token[self._service.token_of(key.site)].append((order_id, key))
        findings: list[OrderDifference] = []
        for group in by_token.values():
            try:
                records = await self._records([key for _, key in group])
            except EngineFailure as failure:
                if not failure.is_permanent_refusal:
                    raise
                skipped |= {order_id: failure.code for order_id, _ in group}
                continue
            queued, processed = await DELIVERIES.run(self._known, records)
            findings += compare(group, records, queued, processed, self._destinations, now)
        return findings

    def _store_findings(
        self,
        after: int,
        upto: int,
        skipped: SkippedOrders,
        findings: Sequence[OrderDifference],
        now: int,
    ) -> None:
        """Renew the exceptions of a page: add differences, remove those that are gone."""
        codes = [(finding.order_id, finding.code) for finding in findings]
        with self._database.write() as connection:
            before = exceptions.rows_in_range(
                connection, ExceptionSubject.ORDER, after, upto, STILL_ORDERED
            )
            rows = sorted(
                before.union(difference.order_id for difference in findings).difference(skipped)
            )
            exceptions.replace_all(connection, ExceptionSubject.ORDER, rows, codes, now)

    def _page(self, after: int) -> list[tuple[int, OrderKey]]:
        with self._database.read() as connection:
            return order_index.ordered_page(connection, after, PAGE)

    def _sites(self) -> list[str]:
        with self._database.read() as connection:
            return order_index.sites(connection)

    def _still_live(self, ids: Collection[int]) -> list[tuple[int, OrderKey]]:
        with self._database.read() as connection:
            return order_index.ordered_keys(connection, ids)

    async def _records(self, keys: Sequence[OrderKey]) -> tuple[StatusRecordBody, ...]:
        try:
            return await self._service.status(keys)
        except EngineFailure as failure:
            if failure.status == NOT_FOUND and not failure.is_unsupported:
                return ()
            raise

    def _known(
        self, records: Sequence[StatusRecordBody]
    ) -> tuple[frozenset[tuple[str, str]], frozenset[str]]:
        keys = [key for record in records for key in record.orders]
        with self._database.read() as connection:
            queued = _queued_pairs(connection, [body.report_id for body in records])
            return queued, released_reports(connection, keys)


def _queued_pairs(connection: Connection, reports: Sequence[str]) -> frozenset[tuple[str, str]]:
    if not reports:
        return frozenset()
    row = DELIVERY.c
    queued = select(row.destination, row.report_id).where(
        row.report_id.in_(reports), row.event == ResultEvent.FINAL.value
    )
    rows = connection.execute(queued.distinct())
    return frozenset((row.destination, row.report_id) for row in rows)


@dataclass(frozen=True, slots=True)
class WorklistDifferences:
    """Differences of a worklist page: rows of orders that are not live, ids of other reports."""

    rows: frozenset[int] = frozenset()
    reports: frozenset[str] = frozenset()


async def read_worklist_page(
    service: EngineClient, database: Database, round_: ReconcileRound, pause: float
) -> None:
    """
    Compare the next page of a worklist. Raises EngineFailure.

    A difference counts if it still exists after `pause` seconds: an order may be arriving or
    ending.
    """
    if not round_.site:
        round_.site, round_.cursor = round_.sites.pop(0), ""
    try:
        page = await _page(service, round_.site, round_.cursor)
    except EngineFailure as failure:
        if not (failure.is_permanent_refusal or failure.is_unsupported):
            raise
        round_.count_skipped(
            f"{UNSUPPORTED} {round_.site}" if failure.is_unsupported else failure.code, 1
        )
        round_.site, round_.whole = "", False
        return
    found = await DELIVERIES.run(_differences, database, round_.site, page.items)
    if found != WorklistDifferences():
        await asyncio.sleep(pause)
        again = await _page(service, round_.site, round_.cursor)
        second = await DELIVERIES.run(_differences, database, round_.site, again.items)
        found = WorklistDifferences(found.rows & second.rows, found.reports & second.reports)
    round_.reports += len(page.items)
    round_.still_ordered += sorted(found.rows)
    round_.not_ordered = [*round_.not_ordered, *sorted(found.reports)][:EXAMPLES]
    round_.count([STILL_ORDERED] * len(found.rows))
    round_.count([f"{NOT_ORDERED} {round_.site}"] * len(found.reports))
    round_.cursor = page.next or ""
    if not page.next:
        round_.site = ""


async def _page(service: EngineClient, site: str, cursor: str) -> WorklistResponse:
    return await service.worklist(site, status="Ordered", sort="created", limit=PAGE, cursor=cursor)


def _differences(
    database: Database, site: str, items: Sequence[Mapping[str, Any]]
) -> WorklistDifferences:
    service_reports = {
        OrderKey(site, str(info.get("PatientMRN")), str(info.get("Accession"))): str(
            item["reportId"]
        )
        for item in items
        for info in item["clinicalInfo"]
    }
    with database.read() as connection:
        known = order_index.states(connection, service_reports)
    return WorklistDifferences(
        frozenset(row_id for row_id, state in known.values() if state != LIVE_STATE),
        frozenset(report for key, report in service_reports.items() if key not in known),
    )
