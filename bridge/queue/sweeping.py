"""
Go through rows from id to id and forget some, a short transaction at a time.

So short, with pauses between, that no acknowledgment waits long for housekeeping. Which rows, and
what is forgotten of them, is the caller's.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Connection, TableClause, func, select

from bridge.queue import payload_blobs
from bridge.queue.states import State
from bridge.queue.tables import DELIVERY, DELIVERY_BODY, MESSAGE, MESSAGE_BODY
from bridge.store.database import Database

BATCH = 500
FEWEST = 20
HOLD = 0.004
"""Seconds that one batch may keep others from writing: about what a commit takes."""
REST = 4
"""So many times as long as a batch took nothing is done."""
_FINISHED = [State.DONE, State.IGNORED, State.REFUSED, State.CANCELLED]

Archive = Callable[[str, Sequence[Mapping[str, Any]]], object]
Some = Callable[[Connection, int, int], list[int]]
"""Finds rows after an id, at most so many, by id."""
Forget = Callable[[Connection, Sequence[int]], object]


@dataclass(frozen=True, slots=True)
class Stored:
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


MESSAGES = Stored(MESSAGE, MESSAGE_BODY, "message_id", "received_at")
DELIVERIES = Stored(DELIVERY, DELIVERY_BODY, "delivery_id", "created_at")


def next_batch(size: int, took: float, most: int = BATCH, hold: float = HOLD) -> int:
    """Give how many rows to take when so many took so long (s)."""
    fits = int(size * hold / max(took, hold / most))
    return max(min(FEWEST, most), min(fits, 2 * size, most))


@dataclass(frozen=True, slots=True)
class Sweep:
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

    def go(self, stored: Stored, some: Some, forget: Forget, *, coarse: int = 1) -> int:
        """
        Forget what `some` finds, until there is nothing; give how many.

        So many times `coarse` are the batches of what keeps nobody else from writing.
        """
        most, hold = self.most * coarse, HOLD * coarse
        gone, after, size = 0, 0, min(FEWEST * coarse, most)
        while True:
            with self.database.forgetting() as connection:
                begun = self.clock()
                self.database.serialize(connection, "retention")  # nothing is archived twice
                ids = some(connection, after, size)
                if self.archive is not None and ids:
                    self.database.be_unhurried(connection)  # the archive's disk may be slow
                    self.archive(stored.rows.name, stored.contents(connection, ids))
                forget(connection, ids)
            took = self.clock() - begun
            if not ids:
                return gone
            gone += len(ids)
            after, size = ids[-1], next_batch(size, took, most, hold)
            self.pause(took * REST)
