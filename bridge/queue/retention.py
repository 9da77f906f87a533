"""
Forget what is finished and old.

In transactions so short, with pauses between, that no acknowledgment waits long for housekeeping.
What is queued, in hand or parked is never touched, nor is the newest row: its id must not be given
twice.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, TableClause, delete, func, select

from bridge.queue import parcels
from bridge.queue.ages import id_at, newest_id
from bridge.queue.states import State
from bridge.queue.tables import (
    DELIVERY,
    DELIVERY_BODY,
    MESSAGE,
    MESSAGE_BODY,
    MESSAGE_EDIT,
    MESSAGE_NUMBER,
)
from bridge.store import concerns
from bridge.store.concerns import Subject
from bridge.store.database import Database

BATCH = 500
FEWEST = 20
HOLD = 0.004
"""Seconds that one batch may keep others from writing: about what a commit takes."""
REST = 4
"""So many times as long as a batch took nothing is done."""
_FINISHED = [State.DONE, State.IGNORED, State.REFUSED, State.CANCELLED]


Archive = Callable[[str, Sequence[Mapping[str, Any]]], object]


@dataclass(frozen=True, slots=True)
class Pruned:
    """How many rows went."""

    messages: int
    deliveries: int


def next_batch(size: int, took: float, most: int = BATCH) -> int:
    """Give how many rows to take when so many took so long (s)."""
    fits = int(size * HOLD / max(took, HOLD / BATCH))
    return max(min(FEWEST, most), min(fits, 2 * size, most))


def prune(
    database: Database,
    before: int,
    *,
    batch: int = BATCH,
    pause: Callable[[float], None] = time.sleep,
    clock: Callable[[], float] = time.perf_counter,
    archive: Archive | None = None,
) -> Pruned:
    """
    Delete what came and was settled before `before` (ms), at most `batch` rows in a transaction.

    `pause` is called between batches, with the seconds to leave to others.

    `archive` is given what is about to go, a table's name and its rows with their contents;
    what it raises keeps them.

    With a message goes the memory of its control id: a retransmit of it is then a new message.
    """
    sweep = _Sweep(database, before, batch, pause, clock, archive)
    return Pruned(
        messages=sweep.table(MESSAGE, MESSAGE_BODY, "message_id", "received_at"),
        deliveries=sweep.table(DELIVERY, DELIVERY_BODY, "delivery_id", "created_at"),
    )


@dataclass(frozen=True, slots=True)
class _Sweep:
    database: Database
    before: int
    most: int
    pause: Callable[[float], None]
    clock: Callable[[], float]
    archive: Archive | None

    def table(self, rows: TableClause, bodies: TableClause, key: str, came: str) -> int:
        """Go through a table by id, which is by age; give how many rows went."""
        end = self._end(rows, came)
        gone, after, size = 0, 0, min(FEWEST, self.most)
        while True:
            with self.database.forgetting() as connection:
                begun = self.clock()
                self.database.serialize(connection, "retention")  # nothing is archived twice
                ids = self._old(connection, rows, came, after, end, size)
                if self.archive is not None and ids:
                    self.archive(rows.name, _contents(connection, rows, bodies, key, ids))
                _remove(connection, rows, bodies, key, ids)
            took = self.clock() - begun
            gone += len(ids)
            if len(ids) < size:
                return gone
            after, size = ids[-1], next_batch(size, took, self.most)
            self.pause(took * REST)

    def _end(self, rows: TableClause, came: str) -> int:
        """Give the id before which to stop: what is younger is never looked through."""
        with self.database.read() as connection:
            return min(id_at(connection, rows, came, self.before), newest_id(connection, rows))

    def _old(
        self, connection: Connection, rows: TableClause, came: str, after: int, end: int, size: int
    ) -> list[int]:
        old = (
            select(rows.c.id)
            .where(rows.c.id > after, rows.c.id < end, rows.c[came] < self.before)
            .where(rows.c.state.in_([state.value for state in _FINISHED]))
            .where(func.coalesce(rows.c.settled_at, 0) < self.before)
            .order_by(rows.c.id)
            .limit(size)
        )
        return list(connection.execute(old).scalars())


def _remove(
    connection: Connection, rows: TableClause, bodies: TableClause, key: str, ids: Sequence[int]
) -> None:
    connection.execute(delete(bodies).where(bodies.c[key].in_(ids)))
    connection.execute(delete(rows).where(rows.c.id.in_(ids)))
    if rows is MESSAGE:
        concerns.forget(connection, Subject.MESSAGE, ids)
        for others in (MESSAGE_NUMBER, MESSAGE_EDIT):
            connection.execute(delete(others).where(others.c.message_id.in_(ids)))


def _contents(
    connection: Connection, rows: TableClause, bodies: TableClause, key: str, ids: Sequence[int]
) -> list[Mapping[str, Any]]:
    content = [column for column in bodies.c if column.name != key]
    joined = (
        select(*rows.c, *content)
        .outerjoin_from(rows, bodies, bodies.c[key] == rows.c.id)
        .where(rows.c.id.in_(ids))
        .order_by(rows.c.id)
    )
    found = connection.execute(joined).mappings().all()
    if rows is not MESSAGE:
        return [dict(each) for each in found]
    return [
        {**each, "payload": parcels.content(connection, each["id"], each["payload"])}
        for each in found
    ]


def newer_than_fits(database: Database, most: int, *, step: int = 10_000) -> int:
    """
    Give the time (ms) before which messages would have to go for the newest to fit into `most`.

    0 when all fit. Goes from the newest to the oldest; deliveries are let go by the same time.
    """
    left, below = most, None
    weight = func.length(MESSAGE_BODY.c.payload) + func.length(MESSAGE_BODY.c.ack)
    while True:
        newest = (
            select(MESSAGE.c.id, MESSAGE.c.received_at, weight.label("size"))
            .join_from(MESSAGE, MESSAGE_BODY, MESSAGE_BODY.c.message_id == MESSAGE.c.id)
            .order_by(MESSAGE.c.id.desc())
            .limit(step)
        )
        if below is not None:
            newest = newest.where(MESSAGE.c.id < below)
        with database.read() as connection:
            found = connection.execute(newest).all()
            apart = parcels.sizes(connection, found[-1].id - 1, found[0].id) if found else {}
        for row in found:
            left -= row.size + apart.get(row.id, 0)
            if left < 0:
                return int(row.received_at) + 1
        if len(found) < step:
            return 0
        below = found[-1].id
