"""
The numbers of the dashboard: what comes in and goes out, what waits and for how long.

Counts what came in the last minute by ids, which are by age, and what is open by its indexes:
the cost depends on the traffic, not on what is stored. Blocking.
"""

from collections.abc import Collection, Mapping
from itertools import pairwise
from typing import Any

from sqlalchemy import Connection, TableClause, func, select

from bridge.console.searching import id_at
from bridge.queue import browse
from bridge.queue.rows import Depth
from bridge.queue.states import State
from bridge.queue.tables import DELIVERY, MESSAGE
from bridge.store.database import Database

MINUTE, HOUR = 60_000, 3_600_000
STEPS = 12
"""So many parts of an hour are counted by themselves."""
_MOST = 20_000
"""So many rows at most are counted one by one."""
Depths = Mapping[str, Mapping[State, Depth]]
Names = Collection[str] | None


def figures(
    database: Database, now: int, *, listeners: Names = None, destinations: Names = None
) -> dict[str, Any]:
    """
    Give queues, the last minute by listener and destination, and the last hour; times in ms.

    Of these listeners and destinations only, where they are given: the hour is nobody's own then.
    """
    inbox = _own(browse.open_by_listener(database), listeners)
    outbox = _own(browse.open_deliveries(database), destinations)
    with database.read() as connection:
        received = _minute(connection, MESSAGE, "received_at", "listener", now)
        sent = _minute(connection, DELIVERY, "created_at", "destination", now)
        hour = None
        if listeners is None:
            hour = {
                "received": _parts(connection, MESSAGE, "received_at", now),
                "sent": _parts(connection, DELIVERY, "created_at", now),
            }
    return {
        "now": now,
        "inbox": {name: queue(depths) for name, depths in inbox.items()},
        "outbox": {name: queue(depths) for name, depths in outbox.items()},
        "received": _own(received, listeners),
        "sent": _own(sent, destinations),
        "hour": hour,
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


def _own(by_name: Mapping[str, Any], names: Names) -> dict[str, Any]:
    return {each: found for each, found in by_name.items() if names is None or each in names}


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


def _parts(connection: Connection, rows: TableClause, came: str, now: int) -> list[int]:
    """Give how many came in each part of the last hour, the oldest part first."""
    newest = connection.execute(select(func.max(rows.c.id))).scalar() or 0
    part = HOUR // STEPS
    ids = [1]
    for left in range(STEPS, 0, -1):  # the older mark is where the search for the next begins
        ids.append(id_at(connection, rows, came, now - part * left, ids[-1]))
    return [max(0, end - begin) for begin, end in pairwise([*ids[1:], newest + 1])]
