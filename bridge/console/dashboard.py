"""The numbers of the dashboard: what comes in and goes out, what waits and for how long.

Counts what came in the last minute by ids, which are by age, and what is open by its indexes:
the cost depends on the traffic, not on what is stored. Blocking.
"""

from collections.abc import Collection, Mapping
from typing import Any

from sqlalchemy import Connection, TableClause, func, select

from bridge.queue import queries
from bridge.queue.listing_rows import Depth
from bridge.queue.retention.rows import id_at, newest_id
from bridge.queue.statements import DELIVERY, MESSAGE
from bridge.queue.states import QueueState
from bridge.store.database import Database

MINUTE, HOUR = 60_000, 3_600_000
STEPS = 12
"""So many parts of an hour are counted by themselves."""
_MOST = 20_000
"""So many rows at most are counted one by one."""
Depths = Mapping[str, Mapping[QueueState, Depth]]
Names = Collection[str] | None


def figures(
    database: Database, now: int, *, listeners: Names = None, destinations: Names = None
) -> dict[str, Any]:
    """
    Give queues, the last minute by listener and destination, and the last hour; times in ms.

    Of these listeners and destinations only, where they are given: the hour is nobody's own then.
    """
    inbox = _own(_inbox(database), listeners)
    outbox = _own(queries.open_deliveries(database), destinations)
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


def _inbox(database: Database) -> Depths:
    """Give what is open by listener; under '' in all where it is too much to look at each."""
    whole = queries.open_messages(database)
    if sum(each.count for each in whole.values()) > _MOST:
        return {"": whole}
    return queries.open_by_listener(database)


def queue(depths: Mapping[QueueState, Depth]) -> dict[str, int | None]:
    """Give how many wait and how many are parked, and since when the oldest waits."""
    open_ = [depths[each] for each in (QueueState.QUEUED, QueueState.CLAIMED) if each in depths]
    parked = depths.get(QueueState.PARKED)
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
    newest = newest_id(connection, rows)
    first = max(id_at(connection, rows, came, now - MINUTE), newest - _MOST)
    name_of = queries.out_of_order(rows.c[source])
    counted = select(name_of, rows.c.state, func.count()).where(rows.c.id >= first)
    found: dict[str, dict[str, int]] = {}
    for name, state, number in connection.execute(counted.group_by(name_of, rows.c.state)):
        found.setdefault(name, {})[state] = number
    return found


def _parts(connection: Connection, rows: TableClause, came: str, now: int) -> list[int]:
    """Give how many came in each part of the last hour, the oldest part first."""
    newest, part = newest_id(connection, rows), HOUR // STEPS
    first = id_at(connection, rows, came, now - HOUR)
    if newest - first < _MOST:
        number = (rows.c[came] - (now - HOUR)) // part
        counted = select(number, func.count()).where(rows.c.id >= first).group_by(number)
        found = {int(row[0]): int(row[1]) for row in connection.execute(counted)}
        return [found.get(each, 0) for each in range(STEPS)]
    ids = [first]
    for left in range(STEPS - 1, 0, -1):
        ids.append(id_at(connection, rows, came, now - part * left, low=ids[-1]))
    return [max(0, end - begin) for begin, end in zip(ids, [*ids[1:], newest + 1], strict=True)]
