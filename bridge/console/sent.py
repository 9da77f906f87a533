"""
What was sent to whom and accepted, for the record: reports, destinations and times.

What has no index is looked for in a window of ids, newest first. Blocking.
"""

import json
from dataclasses import dataclass
from typing import Any

from sqlalchemy import func, select

from bridge.console.ownership import delivery_sites
from bridge.console.searching import WINDOW
from bridge.queue.states import State
from bridge.queue.tables import DELIVERY
from bridge.store.database import Database

_TOLD = ("id", "destination", "report_id", "event", "code", "attempts", "acknowledged_at")


@dataclass(frozen=True, slots=True)
class SentQuery:
    """What is looked for; None leaves it open; times in ms, `until` and `before` excluded."""

    sites: frozenset[str] | None = None
    destination: str | None = None
    report_id: str | None = None
    since: int | None = None
    until: int | None = None
    before: int | None = None
    limit: int = 100


def sent(database: Database, wanted: SentQuery) -> dict[str, Any]:
    """Give `rows`, newest first, and in `further` the id to go on before; None: that was all."""
    accepted = DELIVERY.c.acknowledged_at
    conditions = [DELIVERY.c.state == State.DONE.value, accepted.is_not(None)]
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
        floor = 0 if wanted.report_id is not None else max(0, high - WINDOW)
        statement = select(*(DELIVERY.c[name] for name in _TOLD), DELIVERY.c.orders)
        ranged = statement.where(DELIVERY.c.id >= floor, DELIVERY.c.id < high, *conditions)
        found = connection.execute(ranged.order_by(DELIVERY.c.id.desc()).limit(wanted.limit))
        rows = [dict(row) for row in found.mappings()]
    last = rows[-1]["id"] if len(rows) == wanted.limit else None
    own = [each for each in rows if _is_own(each.pop("orders"), wanted.sites)]
    return {"rows": own, "further": last or (floor if floor > 1 else None)}


def _is_own(orders: str, reach: frozenset[str] | None) -> bool:
    sites = delivery_sites(json.loads(orders)) if reach is not None else frozenset()
    return reach is None or (bool(sites) and reach.issuperset(sites))
