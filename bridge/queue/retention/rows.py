"""
Row retention: delete finished rows in id order, in short transactions.

Transactions are short and followed by pauses, so that no acknowledgment waits long. The caller
decides which rows are deleted, and how.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Connection, TableClause, func, select, text

from bridge.queue import payload_blobs
from bridge.queue.statements import DELIVERY, DELIVERY_BODY, MESSAGE, MESSAGE_BODY
from bridge.queue.states import QueueState
from bridge.store.database import Database
from bridge.store.postgresql.partitions import Partition, last_id, partitions

BATCH = 500
MIN_BATCH = 20
TARGET_SECONDS = 0.004
"""Seconds that one batch may block other writers: about the duration of a commit."""
PAUSE_FACTOR = 4
"""The pause after a batch, as a multiple of its duration."""
_FINISHED = [QueueState.DONE, QueueState.IGNORED, QueueState.REFUSED, QueueState.CANCELLED]

Archive = Callable[[str, Sequence[Mapping[str, Any]]], object]
FindRows = Callable[[Connection, int, int], list[int]]
"""Returns ids in order: those greater than an id, at most the given number."""
DeleteRows = Callable[[Connection, Sequence[int]], object]


@dataclass(frozen=True, slots=True)
class QueueTable:
    """A table and the table of its payloads, their key, and the column of the storage time."""

    rows: TableClause
    bodies: TableClause
    key: str
    stored_at_column: str

    def is_old(self, before: int) -> ColumnElement[bool]:
        """Return the condition for rows that were stored and settled before a time (ms)."""
        rows = self.rows.c
        return (
            (rows[self.stored_at_column] < before)
            & rows.state.in_([state.value for state in _FINISHED])
            & (func.coalesce(rows.settled_at, 0) < before)
        )

    def contents(self, connection: Connection, ids: Sequence[int]) -> list[Mapping[str, Any]]:
        key = self.bodies.c[self.key]
        content = [column for column in self.bodies.c if column.name != self.key]
        joined = (
            select(*self.rows.c, *content)
            .outerjoin_from(self.rows, self.bodies, key == self.rows.c.id)
            .where(self.rows.c.id.in_(ids))
            .order_by(self.rows.c.id)
        )
        found = connection.execute(joined).mappings().all()
        if self.rows is not MESSAGE:
            return [dict(row) for row in found]
        return [
            {**row, "payload": payload_blobs.content(connection, row["id"], row["payload"])}
            for row in found
        ]


MESSAGES = QueueTable(MESSAGE, MESSAGE_BODY, "message_id", "received_at")
DELIVERIES = QueueTable(DELIVERY, DELIVERY_BODY, "delivery_id", "created_at")


def next_batch(
    size: int, seconds: float, max_batch: int = BATCH, target: float = TARGET_SECONDS
) -> int:
    """Return the size of the next batch after one of `size` rows took `seconds`."""
    fits = int(size * target / max(seconds, target / max_batch))
    return max(min(MIN_BATCH, max_batch), min(fits, 2 * size, max_batch))


@dataclass(frozen=True, slots=True)
class BatchDeletion:
    """
    Deletes rows in batches of at most `max_batch`; `pause` gets the seconds to yield to others.

    `archive` receives a table name and the rows that are about to be deleted; if it raises, they
    are kept.
    """

    database: Database
    max_batch: int
    pause: Callable[[float], None]
    clock: Callable[[], float]
    archive: Archive | None

    def run(self, stored: QueueTable, find: FindRows, delete: DeleteRows, *, scale: int = 1) -> int:
        """
        Delete what `find` returns until it returns nothing; return the number.

        `scale` multiplies the batch size for work that blocks no other writer.
        """
        max_batch, target = self.max_batch * scale, TARGET_SECONDS * scale
        deleted, after, size = 0, 0, min(MIN_BATCH * scale, max_batch)
        while True:
            with self.database.delete_without_sync() as connection:
                begun = self.clock()
                self.database.serialize(connection, "retention")  # no row is archived twice
                ids = find(connection, after, size)
                if self.archive is not None and ids:
                    # The disk of the archive may be slow.
                    self.database.disable_idle_timeout(connection)
                    self.archive(stored.rows.name, stored.contents(connection, ids))
                delete(connection, ids)
            seconds = self.clock() - begun
            if not ids:
                return deleted
            deleted += len(ids)
            after, size = ids[-1], next_batch(size, seconds, max_batch, target)
            self.pause(seconds * PAUSE_FACTOR)


# Bisection in one statement, to save round trips. `seen` and `came` belong to the first row in the
# upper half: if it was stored too early, the lower half is excluded.
_BISECTION = """
    WITH RECURSIVE half(low, high, seen, came) AS (
        SELECT CAST(:low AS bigint), CAST(:high AS bigint), {first}
        UNION ALL
        SELECT {low}, {high}, {next} FROM half WHERE low < high
    )
    SELECT low FROM half WHERE low >= high
"""
_EARLY = "seen < high AND came < :moment"
_LOW = f"CASE WHEN {_EARLY} THEN seen + 1 ELSE low END"
_HIGH = f"CASE WHEN {_EARLY} THEN high ELSE (low + high) / 2 END"
_PROBE = """
    (SELECT t.{column} FROM {table} AS t WHERE {within} t.id >= {middle} ORDER BY t.id LIMIT 1)
"""
# Restricts the search to one partition.
_WITHIN = "t.id >= CAST(:low AS bigint) AND t.id < CAST(:high AS bigint) AND"
_FIRST = "SELECT {low} AS low, (SELECT {came} FROM {table} ORDER BY id LIMIT 1) AS came"


def _probe(rows: TableClause, stored_at_column: str, within: str, low: str, high: str) -> str:
    names = {"table": rows.name, "within": within, "middle": f"({low} + {high}) / 2"}
    return ", ".join(_PROBE.format(column=column, **names) for column in ("id", stored_at_column))


def newest_id(connection: Connection, rows: TableClause) -> int:
    """Return the greatest id, 0 for an empty table."""
    return connection.execute(select(func.max(rows.c.id))).scalar() or 0


def id_at(
    connection: Connection, rows: TableClause, stored_at_column: str, moment: int, low: int = 1
) -> int:
    """
    Return an id from which on all rows were stored at a time (ms) or later.

    All rows before it were stored earlier. `low` is a known lower bound. Reads as many rows as an
    id has bits.
    """
    parts = partitions(connection) if rows is MESSAGE else ()
    newest = last_id(connection) if parts else newest_id(connection, rows)
    high = max(newest + 1, low)
    if parts:
        low, high = _narrowed(connection, parts, stored_at_column, moment, (low, high))
    within = _WITHIN if parts else ""
    statement = _BISECTION.format(
        first=_probe(
            rows, stored_at_column, within, "CAST(:low AS bigint)", "CAST(:high AS bigint)"
        ),
        next=_probe(rows, stored_at_column, within, _LOW, _HIGH),
        low=_LOW,
        high=_HIGH,
    )
    values = {"low": low, "high": high, "moment": moment}
    return int(connection.execute(text(statement), values).scalar_one())


def _narrowed(
    connection: Connection,
    parts: Sequence[Partition],
    stored_at_column: str,
    moment: int,
    ids: tuple[int, int],
) -> tuple[int, int]:
    """Narrow a range of ids to the partition that contains the first row of a time or later."""
    query = " UNION ALL ".join(
        _FIRST.format(low=part.low, came=stored_at_column, table=f"message_{part.name}")
        for part in parts
    )
    found = connection.execute(text(query)).all()
    firsts = sorted((row.low, row.came) for row in found if row.came is not None)
    early = [first for first, at in firsts if at < moment]
    late = [first for first, _ in firsts if not early or first > early[-1]]
    low, high = ids
    return max([low, *early[-1:]]), max(low, min([high, *late[:1]]))
