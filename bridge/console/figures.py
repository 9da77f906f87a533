"""
The numbers of the dashboard: what comes in and goes out, what waits and for how long.

Counts what came in the last minute by ids, which are by age, and what is open by its indexes:
the cost depends on the traffic, not on what is stored. Blocking.
"""

from collections.abc import Mapping
from typing import Any

from sqlalchemy import Connection, TableClause, func, select

from bridge.console.searching import id_at
from bridge.queue import browse
from bridge.queue.rows import Depth
from bridge.queue.states import State
from bridge.queue.tables import DELIVERY, MESSAGE
from bridge.store.database import Database

MINUTE, HOUR = 60_000, 3_600_000
_MOST = 20_000
"""So many rows at most are counted one by one."""


def figures(database: Database, now: int) -> dict[str, Any]:
    """Give queues, and the last minute by listener and destination; times in ms."""
    waiting = browse.open_deliveries(database)
    with database.read() as connection:
        return {
            "now": now,
            "inbox": queue(browse.open_messages(database)),
            "outbox": {name: queue(depths) for name, depths in waiting.items()},
            "received": _minute(connection, MESSAGE, "received_at", "listener", now),
            "sent": _minute(connection, DELIVERY, "created_at", "destination", now),
            "hour": {
                "received": _since(connection, MESSAGE, "received_at", now - HOUR),
                "sent": _since(connection, DELIVERY, "created_at", now - HOUR),
            },
        }


def queue(depths: Mapping[State, Depth]) -> dict[str, int | None]:
    """Give how many wait and how many are parked, and since when the oldest waits."""
    open_ = [depths[each] for each in (State.QUEUED, State.CLAIMED) if each in depths]
    parked = depths.get(State.PARKED)
    return {
        "waiting": sum(each.count for each in open_),
        "parked": 0 if parked is None else parked.count,
        "oldest": min((each.oldest for each in open_ if each.count), default=None),
    }


def _minute(
    connection: Connection, rows: TableClause, came: str, source: str, now: int
) -> dict[str, dict[str, int]]:
    """Count what came in the last minute by source and state."""
    newest = connection.execute(select(func.max(rows.c.id))).scalar() or 0
    first = max(id_at(connection, rows, came, now - MINUTE), newest - _MOST)
    counted = select(rows.c[source], rows.c.state, func.count()).where(rows.c.id >= first)
    found: dict[str, dict[str, int]] = {}
    for name, state, number in connection.execute(counted.group_by(rows.c[source], rows.c.state)):
        found.setdefault(name, {})[state] = number
    return found


def _since(connection: Connection, rows: TableClause, came: str, moment: int) -> int:
    newest = connection.execute(select(func.max(rows.c.id))).scalar() or 0
    return max(0, newest + 1 - id_at(connection, rows, came, moment))
