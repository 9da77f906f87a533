"""
Second half of reconciling: find reports on the worklist that are not ordered here.

Reads reports with the status Ordered, page by page, site by site. Reports that a reader has begun
are left out: a host may launch a report without an order.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from bridge.delivery.rounds import EXAMPLES, Round
from bridge.engine_client.errors import EngineFailure
from bridge.engine_client.models import WorklistPage
from bridge.executors import Threads
from bridge.queue.states import Failure
from bridge.store.database import Database
from bridge.store.records import order_index
from bridge.store.records.order_index import Key

PAGE = 200
LIVE = "ordered"
STILL_ORDERED = "still_ordered"
NOT_ORDERED = "not_ordered"
UNAUTHORIZED = 401
UNSUPPORTED = "no_worklist"


class WorklistService(Protocol):
    """What is needed of the engine's client."""

    async def worklist(
        self, site: str, *, status: str, sort: str, limit: int, cursor: str
    ) -> WorklistPage:
        """Read a page of a site's worklist."""


@dataclass(frozen=True, slots=True)
class WorklistDifferences:
    """What differs of one page: rows that are not live here, reports that no row is of."""

    rows: frozenset[int] = frozenset()
    reports: frozenset[str] = frozenset()


async def read_page(service: WorklistService, database: Database, one: Round, pause: float) -> None:
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
    return failure.failure is Failure.PERMANENT or failure.status == UNAUTHORIZED


async def _page(service: WorklistService, site: str, cursor: str) -> WorklistPage:
    return await service.worklist(site, status="Ordered", sort="created", limit=PAGE, cursor=cursor)


def _strange(
    database: Database, site: str, items: Sequence[Mapping[str, Any]]
) -> WorklistDifferences:
    asked = {
        Key(site, str(each.get("PatientMRN")), str(each.get("Accession"))): str(item["reportId"])
        for item in items
        for each in item["clinicalInfo"]
    }
    with database.read() as connection:
        known = order_index.states(connection, asked)
    return WorklistDifferences(
        frozenset(row_id for row_id, state in known.values() if state != LIVE),
        frozenset(report for key, report in asked.items() if key not in known),
    )
