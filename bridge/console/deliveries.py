"""Deliveries for the console: by state, destination and report; accepted ones for the record.

As `bridge.console.message_search`: what has no index is looked for in a window of ids. Blocking.

What has no index is looked for in a window of ids, newest first. Blocking.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, false, func, or_, select

from bridge.console.message_search import ID_WINDOW
from bridge.console.ownership import delivery_sites
from bridge.queue.listing_rows import DeliveryRow
from bridge.queue.queries import ATTENTION, are_few, in_state, list_id, listed_delivery
from bridge.queue.retention.rows import newest_id
from bridge.queue.statements import DELIVERY
from bridge.queue.states import QueueState
from bridge.store.database import Database


@dataclass(frozen=True, slots=True)
class DeliveryQuery:
    """What is looked for; None leaves it open; `sites` None: of any."""

    state: QueueState | None = None
    destination: str | None = None
    report_id: str | None = None
    before: int | None = None
    limit: int = 50
    sites: frozenset[str] | None = None


@dataclass(frozen=True, slots=True)
class DeliveryPage:
    """What was found, newest first; `further` is the id to go on before, None: that was all."""

    rows: Sequence[DeliveryRow]
    further: int | None


def search_deliveries(database: Database, wanted: DeliveryQuery) -> DeliveryPage:
    """Find deliveries."""
    with database.read() as connection:
        newest = newest_id(connection, DELIVERY)
        high = newest + 1 if wanted.before is None else wanted.before
        few = are_few(connection, DELIVERY, wanted.state)
        indexed = wanted.report_id is not None or wanted.state in ATTENTION or few
        floor = 0 if indexed else max(0, high - ID_WINDOW)
        key = list_id(DELIVERY, alone=few)
        statement = (
            select(*(DELIVERY.c[name] for name in DeliveryRow.__slots__), DELIVERY.c.orders)
            .where(key >= floor, key < high, *_conditions(wanted))
            .order_by(key.desc())
            .limit(wanted.limit)
        )
        found = [dict(row) for row in connection.execute(statement).mappings()]
    last = found[-1]["id"] if len(found) == wanted.limit else None
    rows = [listed_delivery(each) for each in found if _is_own(each.pop("orders"), wanted.sites)]
    return DeliveryPage(rows, last or (floor if floor > 1 else None))


def _conditions(wanted: DeliveryQuery) -> list[ColumnElement[bool]]:
    made: list[ColumnElement[bool]] = []
    if wanted.state is not None:
        made += in_state(DELIVERY, wanted.state)
    if wanted.destination is not None:
        made.append(DELIVERY.c.destination == wanted.destination)
    if wanted.report_id is not None:
        made.append(DELIVERY.c.report_id == wanted.report_id)
    if wanted.sites is not None:
        # A quick look at the text leaves out most of the others'; what is left is read.
        marks = (f'"SiteID": {json.dumps(each, ensure_ascii=False)}' for each in wanted.sites)
        made.append(or_(false(), *(DELIVERY.c.orders.contains(m, autoescape=True) for m in marks)))
    return made


def _is_own(orders: str, sites: frozenset[str] | None) -> bool:
    if sites is None:
        return True
    own = delivery_sites(json.loads(orders))
    return bool(own) and sites.issuperset(own)


_TOLD = ("id", "destination", "report_id", "event", "code", "attempts", "acknowledged_at")


@dataclass(frozen=True, slots=True)
class AcceptedDeliveryQuery:
    """What is looked for; None leaves it open; times in ms, `until` and `before` excluded."""

    sites: frozenset[str] | None = None
    destination: str | None = None
    report_id: str | None = None
    since: int | None = None
    until: int | None = None
    before: int | None = None
    limit: int = 100


def accepted_deliveries(database: Database, wanted: AcceptedDeliveryQuery) -> dict[str, Any]:
    """Give `rows`, newest first, and in `further` the id to go on before; None: that was all."""
    accepted = DELIVERY.c.acknowledged_at
    conditions = [DELIVERY.c.state == QueueState.DONE.value, accepted.is_not(None)]
    if wanted.destination is not None:
        conditions.append(DELIVERY.c.destination == wanted.destination)
    if wanted.report_id is not None:
        conditions.append(DELIVERY.c.report_id == wanted.report_id)
    if wanted.since is not None:
        conditions.append(accepted >= wanted.since)
    if wanted.until is not None:
        conditions.append(accepted < wanted.until)
    with database.read() as connection:
        newest = connection.execute(select(func.max(DELIVERY.c.id))).scalar() or 0
        high = newest + 1 if wanted.before is None else wanted.before
        floor = 0 if wanted.report_id is not None else max(0, high - ID_WINDOW)
        statement = select(*(DELIVERY.c[name] for name in _TOLD), DELIVERY.c.orders)
        ranged = statement.where(DELIVERY.c.id >= floor, DELIVERY.c.id < high, *conditions)
        found = connection.execute(ranged.order_by(DELIVERY.c.id.desc()).limit(wanted.limit))
        rows = [dict(row) for row in found.mappings()]
    last = rows[-1]["id"] if len(rows) == wanted.limit else None
    own = [each for each in rows if _is_own_report(each.pop("orders"), wanted.sites)]
    return {"rows": own, "further": last or (floor if floor > 1 else None)}


def _is_own_report(orders: str, reach: frozenset[str] | None) -> bool:
    sites = delivery_sites(json.loads(orders)) if reach is not None else frozenset()
    return reach is None or (bool(sites) and reach.issuperset(sites))
