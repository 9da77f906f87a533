"""Row retention: delete finished rows in id order, one short transaction at a time.

So short, with pauses between, that no acknowledgment waits long for housekeeping. Which rows, and
what is forgotten of them, is the caller's.
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
FEWEST = 20
HOLD = 0.004
"""Seconds that one batch may keep others from writing: about what a commit takes."""
REST = 4
"""So many times as long as a batch took nothing is done."""
_FINISHED = [QueueState.DONE, QueueState.IGNORED, QueueState.REFUSED, QueueState.CANCELLED]

Archive = Callable[[str, Sequence[Mapping[str, Any]]], object]
FindRows = Callable[[Connection, int, int], list[int]]
"""Finds rows after an id, at most so many, by id."""
DeleteRows = Callable[[Connection, Sequence[int]], object]


@dataclass(frozen=True, slots=True)
class QueueTable:
    """Rows and their contents: the contents' key, and the column of when the rows came."""

    rows: TableClause
    bodies: TableClause
    key: str
    came: str

    def is_old(self, before: int) -> ColumnElement[bool]:
        """Make the condition of what came and was settled before a time (ms)."""
        rows = self.rows.c
        return (
            (rows[self.came] < before)
            & rows.state.in_([state.value for state in _FINISHED])
            & (func.coalesce(rows.settled_at, 0) < before)
        )

    def contents(self, connection: Connection, ids: Sequence[int]) -> list[Mapping[str, Any]]:
        """Give rows with their contents."""
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
            return [dict(each) for each in found]
        return [
            {**each, "payload": payload_blobs.content(connection, each["id"], each["payload"])}
            for each in found
        ]


MESSAGES = QueueTable(MESSAGE, MESSAGE_BODY, "message_id", "received_at")
DELIVERIES = QueueTable(DELIVERY, DELIVERY_BODY, "delivery_id", "created_at")


def next_batch(size: int, took: float, most: int = BATCH, hold: float = HOLD) -> int:
    """Give how many rows to take when so many took so long (s)."""
    fits = int(size * hold / max(took, hold / most))
    return max(min(FEWEST, most), min(fits, 2 * size, most))


@dataclass(frozen=True, slots=True)
class BatchDeletion:
    """
    At most `most` rows in a transaction; `pause` is given the seconds to leave to others.

    `archive` is given what is about to go, a table's name and its rows with their contents; what
    it raises keeps them.
    """

    database: Database
    most: int
    pause: Callable[[float], None]
    clock: Callable[[], float]
    archive: Archive | None

    def run(
        self, stored: QueueTable, some: FindRows, forget: DeleteRows, *, coarse: int = 1
    ) -> int:
        """
        Forget what `some` finds, until there is nothing; give how many.

        So many times `coarse` are the batches of what keeps nobody else from writing.
        """
        most, hold = self.most * coarse, HOLD * coarse
        gone, after, size = 0, 0, min(FEWEST * coarse, most)
        while True:
            with self.database.delete_without_sync() as connection:
                begun = self.clock()
                self.database.serialize(connection, "retention")  # nothing is archived twice
                ids = some(connection, after, size)
                if self.archive is not None and ids:
                    self.database.disable_idle_timeout(connection)  # the archive's disk may be slow
                    self.archive(stored.rows.name, stored.contents(connection, ids))
                forget(connection, ids)
            took = self.clock() - begun
            if not ids:
                return gone
            gone += len(ids)
            after, size = ids[-1], next_batch(size, took, most, hold)
            self.pause(took * REST)


# One statement, not one for each step: a page asks for several times. `mark_seen` and `came` are of
# the first row in the upper half of what is left: where it came too early, the lower half is out.
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
# Of partitions only the one that is meant is looked into, for it is known before.
_WITHIN = "t.id >= CAST(:low AS bigint) AND t.id < CAST(:high AS bigint) AND"
_FIRST = "SELECT {low} AS low, (SELECT {came} FROM {table} ORDER BY id LIMIT 1) AS came"


def _probe(rows: TableClause, came: str, within: str, low: str, high: str) -> str:
    names = {"table": rows.name, "within": within, "middle": f"({low} + {high}) / 2"}
    return ", ".join(_PROBE.format(column=column, **names) for column in ("id", came))


def newest_id(connection: Connection, rows: TableClause) -> int:
    """Give the greatest id, 0 where there is none."""
    return connection.execute(select(func.max(rows.c.id))).scalar() or 0


def id_at(connection: Connection, rows: TableClause, came: str, moment: int, low: int = 1) -> int:
    """
    Give an id from which on all came at a time (ms) or later, and before which all came earlier.

    `low`: an id that is known to be no greater. Looks at as many rows as an id has bits.
    """
    parted = partitions(connection) if rows is MESSAGE else ()
    newest = last_id(connection) if parted else newest_id(connection, rows)
    high = max(newest + 1, low)
    if parted:
        low, high = _narrowed(connection, parted, came, moment, (low, high))
    within = _WITHIN if parted else ""
    statement = _BISECTION.format(
        first=_probe(rows, came, within, "CAST(:low AS bigint)", "CAST(:high AS bigint)"),
        next=_probe(rows, came, within, _LOW, _HIGH),
        low=_LOW,
        high=_HIGH,
    )
    values = {"low": low, "high": high, "moment": moment}
    return int(connection.execute(text(statement), values).scalar_one())


def _narrowed(
    connection: Connection,
    parted: Sequence[Partition],
    came: str,
    moment: int,
    ids: tuple[int, int],
) -> tuple[int, int]:
    """Narrow a range of ids down to the partition in which the first came at a time or later."""
    asked = " UNION ALL ".join(
        _FIRST.format(low=each.low, came=came, table=f"message_{each.name}") for each in parted
    )
    found = connection.execute(text(asked)).all()
    firsts = sorted((row.low, row.came) for row in found if row.came is not None)
    early = [first for first, at in firsts if at < moment]
    late = [first for first, _ in firsts if not early or first > early[-1]]
    low, high = ids
    return max([low, *early[-1:]]), max(low, min([high, *late[:1]]))
