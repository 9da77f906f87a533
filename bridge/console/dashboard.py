"""
The figures of the dashboard: throughput, queue lengths, age of the oldest work; and exceptions.

Exceptions are accepted messages and orders whose outcome needs attention, until a user marks them
as seen. Rows contain ids and codes. Order numbers are added only for users who may search.
Blocking.
"""

from collections.abc import Collection, Mapping
from typing import Any

from sqlalchemy import (
    Connection,
    TableClause,
    func,
    select,
)

from bridge.queue import queries
from bridge.queue.attempts import AttemptKind
from bridge.queue.listing_rows import Depth
from bridge.queue.retention.rows import id_at, newest_id
from bridge.queue.statements import DELIVERY, MESSAGE
from bridge.queue.states import QueueState
from bridge.store.database import Database
from bridge.store.tables import DELIVERY_ATTEMPTS

MINUTE, HOUR = 60_000, 3_600_000
STEPS = 12
"""The number of parts into which the last hour is divided."""
_MAX_COUNTED = 20_000
"""Above this number of rows, counts are taken from ids or from the index alone."""
Depths = Mapping[str, Mapping[QueueState, Depth]]
Names = Collection[str] | None


def read_figures(
    database: Database, now: int, *, listeners: Names = None, destinations: Names = None
) -> dict[str, Any]:
    """
    Return queues, counts of the last minute by listener and destination, and the last hour.

    Times in ms. `listeners` and `destinations` limit the figures; None means all. The counts of
    the last hour cover all connections, so they are left out if `listeners` is given.
    """
    inbox = _limited(_inbox(database), listeners)
    outbox = _limited(queries.open_deliveries(database), destinations)
    with database.read() as connection:
        received = _last_minute(connection, MESSAGE, "received_at", "listener", now)
        sent = _last_minute(connection, DELIVERY, "created_at", "destination", now)
        hour = None
        if listeners is None:
            hour = {
                "received": _last_hour(connection, MESSAGE, "received_at", now),
                "sent": _last_hour(connection, DELIVERY, "created_at", now),
            }
        failed = _failed_attempts(connection, now)
    return {
        "now": now,
        "failed": _limited(failed, destinations),
        "inbox": {name: queue(depths) for name, depths in inbox.items()},
        "outbox": {name: queue(depths) for name, depths in outbox.items()},
        "received": _limited(received, listeners),
        "sent": _limited(sent, destinations),
        "hour": hour,
    }


def _inbox(database: Database) -> Depths:
    """Return open messages by listener; a long queue is one total under the name ''."""
    total = queries.open_messages(database)
    if sum(depth.count for depth in total.values()) > _MAX_COUNTED:
        return {"": total}
    return queries.open_by_listener(database)


def queue(depths: Mapping[QueueState, Depth]) -> dict[str, int | None]:
    """Return the numbers of waiting and parked items, and since when (ms) the oldest waits."""
    open_ = [depths[state] for state in (QueueState.QUEUED, QueueState.CLAIMED) if state in depths]
    parked = depths.get(QueueState.PARKED)
    return {
        "waiting": sum(depth.count for depth in open_),
        "parked": 0 if parked is None else parked.count,
        "oldest": min((depth.oldest for depth in open_ if depth.count), default=None),
    }


def _limited(by_name: Mapping[str, Any], names: Names) -> dict[str, Any]:
    return {name: found for name, found in by_name.items() if names is None or name in names}


def _last_minute(
    connection: Connection, rows: TableClause, time_column: str, name_column: str, now: int
) -> dict[str, dict[str, int]]:
    """Count the rows of the last minute by listener or destination, and by state."""
    newest = newest_id(connection, rows)
    first = max(id_at(connection, rows, time_column, now - MINUTE), newest - _MAX_COUNTED)
    name_of = queries.unindexed(rows.c[name_column])
    counted = select(name_of, rows.c.state, func.count()).where(rows.c.id >= first)
    found: dict[str, dict[str, int]] = {}
    for name, state, number in connection.execute(counted.group_by(name_of, rows.c.state)):
        found.setdefault(name, {})[state] = number
    return found


def _failed_attempts(connection: Connection, now: int) -> dict[str, int]:
    """Count the attempts of the last minute that were not accepted, by destination."""
    attempt = DELIVERY_ATTEMPTS.c
    newest = select(func.coalesce(func.max(attempt.id), 0)).scalar_subquery()
    failed = (
        select(DELIVERY.c.destination, func.count())
        .join_from(DELIVERY_ATTEMPTS, DELIVERY, DELIVERY.c.id == attempt.delivery_id)
        .where(attempt.id > newest - _MAX_COUNTED, attempt.at >= now - MINUTE)
        .where(attempt.kind == AttemptKind.ATTEMPT.value)
        .group_by(DELIVERY.c.destination)
    )
    return {row[0]: row[1] for row in connection.execute(failed)}


def _last_hour(connection: Connection, rows: TableClause, time_column: str, now: int) -> list[int]:
    """Return the numbers of rows in each part of the last hour, oldest part first."""
    newest, part = newest_id(connection, rows), HOUR // STEPS
    first = id_at(connection, rows, time_column, now - HOUR)
    if newest - first < _MAX_COUNTED:
        step = (rows.c[time_column] - (now - HOUR)) // part
        counted = select(step, func.count()).where(rows.c.id >= first).group_by(step)
        found = {int(row[0]): int(row[1]) for row in connection.execute(counted)}
        return [found.get(number, 0) for number in range(STEPS)]
    ids = [first]
    for left in range(STEPS - 1, 0, -1):
        ids.append(id_at(connection, rows, time_column, now - part * left, low=ids[-1]))
    return [max(0, end - begin) for begin, end in zip(ids, [*ids[1:], newest + 1], strict=True)]
