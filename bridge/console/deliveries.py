"""
Find deliveries by state, destination and report.

As `bridge.console.searching`: what has no index is looked for in a window of ids. Blocking.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import ColumnElement, false, or_, select

from bridge.console.ownership import delivery_sites
from bridge.console.searching import WINDOW
from bridge.queue.ages import newest_id
from bridge.queue.browse import ATTENTION, are_few, in_state, list_id, listed_delivery
from bridge.queue.rows import DeliveryRow
from bridge.queue.states import State
from bridge.queue.tables import DELIVERY
from bridge.store.database import Database


@dataclass(frozen=True, slots=True)
class DeliverySearching:
    """What is looked for; None leaves it open; `sites` None: of any."""

    state: State | None = None
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


def search(database: Database, wanted: DeliverySearching) -> DeliveryPage:
    """Find deliveries."""
    with database.read() as connection:
        newest = newest_id(connection, DELIVERY)
        high = newest + 1 if wanted.before is None else wanted.before
        few = are_few(connection, DELIVERY, wanted.state)
        indexed = wanted.report_id is not None or wanted.state in ATTENTION or few
        floor = 0 if indexed else max(0, high - WINDOW)
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


def _conditions(wanted: DeliverySearching) -> list[ColumnElement[bool]]:
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
