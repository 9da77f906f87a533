"""The partitions that messages, their bodies and their numbers lie in, on PostgreSQL: ranges of
ids.

Makes room ahead, and lets go of a whole range. What may go, and what was done with it before, is
others' to decide. Each range is a partition of each table; what has none is in the last one.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from sqlalchemy import Connection, text

from bridge.store.database import Database
from bridge.store.errors import Busy

SIZE: Final = 1_000_000
"""Ids in a partition: about a day's messages of a large hospital."""

PATIENCE: Final = 200
"""Milliseconds for which others may have to wait while one is made or let go."""

TABLES: Final = {"message": "id", "message_body": "message_id", "message_number": "message_id"}
"""By which column of each a message is known."""
_REST: Final = "rest"
_STORAGE: Final = {
    "message": "WITH (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.01,"
    " autovacuum_vacuum_threshold = 2000)",
}
_BOUNDS: Final = text("""
    SELECT c.relname, pg_get_expr(c.relpartbound, c.oid) AS bound FROM pg_inherits AS i
    JOIN pg_class AS c ON c.oid = i.inhrelid WHERE i.inhparent = 'message'::regclass
""")
_RANGE: Final = re.compile(r"FROM \('?(\d+|MINVALUE)'?\) TO \('?(\d+)'?\)")
_LAST_ID: Final = text("SELECT coalesce(pg_sequence_last_value('message_ids'), 0)")


@dataclass(frozen=True, slots=True, order=True)
class Partition:
    """The ids from `low` on and below `high`; `name` is what its tables' names end with."""

    low: int
    high: int
    name: str


def parse_bounds(name: str, bound: str) -> Partition | None:
    """Read a partition of `message`, and PostgreSQL's words for its bounds; None for the rest."""
    found = _RANGE.search(bound)
    if found is None:
        return None
    low = 0 if found[1] == "MINVALUE" else int(found[1])
    return Partition(low, int(found[2]), name.removeprefix("message_"))


def partitions(connection: Connection) -> Sequence[Partition]:
    """Give the partitions, the oldest first; none on SQLite."""
    if connection.dialect.name != "postgresql":
        return ()
    found = (parse_bounds(*row) for row in connection.execute(_BOUNDS))
    return sorted(each for each in found if each is not None)


def last_id(connection: Connection) -> int:
    """Give the id that was given last, whatever became of it. PostgreSQL only."""
    return int(connection.execute(_LAST_ID).scalar_one())


def create_ahead(database: Database, size: int = SIZE) -> int:
    """
    Make partitions until half of one is free beyond the last id; give how many were made.

    Any number of nodes may call it at once. Nobody waits for it longer than PATIENCE: where it
    would have to wait itself for so long it gives up, to be called again.
    """
    if database.dialect != "postgresql":
        return 0
    made = 0
    try:
        while _is_scarce(database, size):
            with database.write() as connection:
                database.serialize(connection, "partitions")
                made += _make_next(database, connection, size)
    except Busy:
        return made
    return made


def detach(database: Database, connection: Connection, partition: Partition) -> None:
    """
    Take a partition out of its tables; nobody else sees it from here on, if it is committed.

    Raises Busy where others would have to wait for longer than PATIENCE. The tables are asked for
    in one order, before any partition: a statement that is planned once for all partitions locks
    each of them, and whoever held one while it waits for a table would wait for that statement.
    """
    database.serialize(connection, "partitions")
    database.set_lock_timeout(connection, PATIENCE)
    for table in TABLES:
        old = f"{table}_{partition.name}"
        connection.execute(text(f"ALTER TABLE {table} DETACH PARTITION {old}"))


def unfinished_ids(connection: Connection, partition: Partition, most: int) -> Sequence[int]:
    """Give messages of a partition that are queued, in hand or parked, by its indexes alone."""
    each = "SELECT id FROM message_{name} WHERE state = '{state}'"
    asked = " UNION ALL ".join(
        each.format(name=partition.name, state=state) for state in ("queued", "claimed", "parked")
    )
    return list(connection.execute(text(f"{asked} LIMIT :most"), {"most": most}).scalars())


def drop(connection: Connection, partition: Partition, staying: Sequence[int]) -> None:
    """Remove a partition that is detached; these of its messages go on in the last one."""
    for table, key in TABLES.items():
        old = f"{table}_{partition.name}"
        if staying:
            moved = f"INSERT INTO {table} SELECT * FROM {old} WHERE {key} = ANY(:ids)"  # noqa: S608  # our own names
            connection.execute(text(moved), {"ids": list(staying)})
        connection.execute(text(f"DROP TABLE {old}"))


def _is_scarce(database: Database, size: int) -> bool:
    with database.read() as connection:
        return _free(connection) < size / 2


def _free(connection: Connection) -> int:
    return max((each.high for each in partitions(connection)), default=0) - last_id(connection)


def _make_next(database: Database, connection: Connection, size: int) -> int:
    """Make one more, unless another node has; it begins above all that came without one."""
    if _free(connection) >= size / 2:
        return 0
    database.set_lock_timeout(connection, PATIENCE)
    rest = ", ".join(f"{table}_{_REST}" for table in TABLES)
    connection.execute(text(f"LOCK TABLE {rest} IN ACCESS EXCLUSIVE MODE"))
    # What was given an id without a partition is in the rest, and stays there.
    low = max(last_id(connection) + 1, *(each.high for each in partitions(connection)))
    for table in TABLES:
        name = f"{table}_from_{low}"
        made = f"CREATE TABLE {name} (LIKE {table} INCLUDING DEFAULTS) {_STORAGE.get(table, '')}"
        joined = f"ATTACH PARTITION {name} FOR VALUES FROM ({low}) TO ({low + size})"
        connection.execute(text(made))
        connection.execute(text(f"ALTER TABLE {table} {joined}"))
    return 1
