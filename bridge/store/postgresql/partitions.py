"""
Partitions of messages, payloads, numbers and entries on PostgreSQL, by ranges of ids.

Creates partitions ahead and drops them. Retention decides which ones to drop. Each range of ids has
one partition in each table. Ids outside of these ranges are in the default partitions.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from sqlalchemy import Connection, text

from bridge.store.database import Database
from bridge.store.errors import Busy

SIZE: Final = 1_000_000
"""Ids of a partition: about a day's messages of a large hospital."""

LOCK_TIMEOUT_MS: Final = 200
"""Milliseconds that others may wait while a partition is created or detached."""

TABLES: Final = {
    "message": "id",
    "message_body": "message_id",
    "message_number": "message_id",
    "message_entry": "message_id",
}
"""The id column of each partitioned table."""
_DEFAULT: Final = "rest"
_STORAGE: Final = {
    "message": "WITH (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.01,"
    " autovacuum_vacuum_threshold = 2000)",
}
_BOUNDS: Final = text("""
    SELECT c.relname, pg_get_expr(c.relpartbound, c.oid) AS bound FROM pg_inherits AS i
    JOIN pg_class AS c ON c.oid = i.inhrelid WHERE i.inhparent = 'message'::regclass
""")
_RANGE: Final = re.compile(r"FROM \('?(\d+|MINVALUE)'?\) TO \('?(\d+)'?\)")
_KNOWN: Final = text(
    "SELECT name FROM unnest(CAST(:names AS text[])) AS name WHERE to_regclass(name) IS NOT NULL"
)
_LAST_ID: Final = text("SELECT coalesce(pg_sequence_last_value('message_ids'), 0)")


@dataclass(frozen=True, slots=True, order=True)
class Partition:
    """Ids from `low` on and below `high`; `name` is the suffix of the table names."""

    low: int
    high: int
    name: str


def parse_bounds(name: str, bound: str) -> Partition | None:
    """Parse the bounds of a partition of `message`; None for the default partition."""
    found = _RANGE.search(bound)
    if found is None:
        return None
    low = 0 if found[1] == "MINVALUE" else int(found[1])
    return Partition(low, int(found[2]), name.removeprefix("message_"))


def partitions(connection: Connection) -> Sequence[Partition]:
    """Return the partitions, oldest first; none on SQLite."""
    if connection.dialect.name != "postgresql":
        return ()
    found = (parse_bounds(*row) for row in connection.execute(_BOUNDS))
    return sorted(partition for partition in found if partition is not None)


def last_id(connection: Connection) -> int:
    """Return the last id that was assigned. PostgreSQL only."""
    return int(connection.execute(_LAST_ID).scalar_one())


def create_ahead(database: Database, size: int = SIZE) -> int:
    """
    Create partitions until the last one has room for half its ids; return how many were created.

    Several nodes may call it at once. It gives up if a lock takes longer than LOCK_TIMEOUT_MS; call
    it again later.
    """
    if database.dialect != "postgresql":
        return 0
    created = 0
    try:
        while _needs_more(database, size):
            with database.write() as connection:
                database.serialize(connection, "partitions")
                created += _create_next(database, connection, size)
    except Busy:
        return created
    return created


def detach(database: Database, connection: Connection, partition: Partition) -> None:
    """
    Detach a partition from its tables.

    Raises Busy if a lock takes longer than LOCK_TIMEOUT_MS. All nodes lock the tables in the same
    order, and each table before its partition. A statement with a generic plan locks a table and
    then all its partitions: it would deadlock with a transaction that locks a partition first.
    """
    database.serialize(connection, "partitions")
    database.set_lock_timeout(connection, LOCK_TIMEOUT_MS)
    for table in TABLES:
        old = f"{table}_{partition.name}"
        connection.execute(text(f"ALTER TABLE {table} DETACH PARTITION {old}"))


def unfinished_ids(connection: Connection, partition: Partition, limit: int) -> Sequence[int]:
    """Return ids of queued, claimed or parked messages of a partition, by its indexes."""
    query = "SELECT id FROM message_{name} WHERE state = '{state}'"
    queries = " UNION ALL ".join(
        query.format(name=partition.name, state=state) for state in ("queued", "claimed", "parked")
    )
    return list(connection.execute(text(f"{queries} LIMIT :most"), {"most": limit}).scalars())


def drop(connection: Connection, partition: Partition, kept_ids: Sequence[int]) -> None:
    """Drop a detached partition; messages in `kept_ids` move to the default partition."""
    for table, key in TABLES.items():
        old = f"{table}_{partition.name}"
        if kept_ids:
            move = f"INSERT INTO {table} SELECT * FROM {old} WHERE {key} = ANY(:ids)"  # noqa: S608  # our own names
            connection.execute(text(move), {"ids": list(kept_ids)})
        connection.execute(text(f"DROP TABLE {old}"))


def _needs_more(database: Database, size: int) -> bool:
    with database.read() as connection:
        return _free_ids(connection) < size / 2


def _free_ids(connection: Connection) -> int:
    return max((partition.high for partition in partitions(connection)), default=0) - last_id(
        connection
    )


def _create_next(database: Database, connection: Connection, size: int) -> int:
    """Create the next partition; return 1, or 0 if another node has created it."""
    if _free_ids(connection) >= size / 2:
        return 0
    database.set_lock_timeout(connection, LOCK_TIMEOUT_MS)
    rest = ", ".join(f"{table}_{_DEFAULT}" for table in TABLES)
    connection.execute(text(f"LOCK TABLE {rest} IN ACCESS EXCLUSIVE MODE"))
    # Assigned ids outside of all ranges are in the default partitions and stay there.
    low = max([last_id(connection) + 1, *(partition.high for partition in partitions(connection))])
    create(connection, low, low + size)
    return 1


def create(connection: Connection, low: int, high: int) -> None:
    """
    Create the partitions of a range of ids. The caller holds the locks.

    A backup of an earlier release is restored into its schema, which may lack a table.
    """
    known = set(connection.execute(_KNOWN, {"names": list(TABLES)}).scalars())
    for table in (name for name in TABLES if name in known):
        name = f"{table}_from_{low}"
        new = f"CREATE TABLE {name} (LIKE {table} INCLUDING DEFAULTS) {_STORAGE.get(table, '')}"
        attach = f"ATTACH PARTITION {name} FOR VALUES FROM ({low}) TO ({high})"
        connection.execute(text(new))
        connection.execute(text(f"ALTER TABLE {table} {attach}"))
