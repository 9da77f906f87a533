"""Retention of the queue: which finished messages and deliveries are deleted, and when.

What is queued, in hand or parked is never touched, nor is the newest row: its id must not be given
twice.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sqlalchemy import Connection, delete, func, not_, select

from bridge.queue import payload_blobs
from bridge.queue.retention import partitions
from bridge.queue.retention.rows import (
    BATCH,
    DELIVERIES,
    MESSAGES,
    Archive,
    BatchDeletion,
    QueueTable,
    id_at,
    newest_id,
)
from bridge.queue.statements import MESSAGE, MESSAGE_BODY, MESSAGE_EDIT, MESSAGE_NUMBER
from bridge.store.database import Database
from bridge.store.postgresql.partitions import Partition
from bridge.store.records import exceptions
from bridge.store.records.exceptions import ExceptionSubject


@dataclass(frozen=True, slots=True)
class PruneResult:
    """How many rows went."""

    messages: int
    deliveries: int


def prune(
    database: Database,
    before: int,
    *,
    batch: int = BATCH,
    pause: Callable[[float], None] = time.sleep,
    clock: Callable[[], float] = time.perf_counter,
    archive: Archive | None = None,
    patience: int = 0,
) -> PruneResult:
    """
    Delete what came and was settled before `before` (ms), at most `batch` rows in a transaction.

    `pause` is called between batches, with the seconds to leave to others.

    `archive` is given what is about to go, a table's name and its rows with their contents;
    what it raises keeps them.

    With a message goes the memory of its control id: a retransmit of it is then a new message.

    A full partition of messages that all came within `timeout` (ms) waits until all are old.
    """
    sweep = BatchDeletion(database, batch, pause, clock, archive)
    end = _end(database, MESSAGES, before)
    shed = partitions.drop_partitions(sweep, before, end)
    end = partitions.row_retention_end(database, end, patience)
    rows = _row_by_row(sweep, MESSAGES, before, end, shed.waiting)
    end = _end(database, DELIVERIES, before)
    return PruneResult(shed.messages + rows, _row_by_row(sweep, DELIVERIES, before, end))


def _end(database: Database, stored: QueueTable, before: int) -> int:
    """
    Give the id before which to stop: what is younger is never looked through.

    That of the first young row, or of the newest, which stays: its id must not be given again.
    """
    with database.read() as connection:
        key = stored.rows.c.id
        young = key >= id_at(connection, stored.rows, stored.came, before)
        first = connection.execute(select(key).where(young).order_by(key).limit(1)).scalar()
        return newest_id(connection, stored.rows) if first is None else first


def _row_by_row(
    sweep: BatchDeletion, stored: QueueTable, before: int, end: int, but: Sequence[Partition] = ()
) -> int:
    rows, bodies = stored.rows, stored.bodies
    others = [not_(rows.c.id.between(each.low, each.high - 1)) for each in but]

    def some(connection: Connection, after: int, size: int) -> list[int]:
        old = select(rows.c.id).where(
            rows.c.id > after, rows.c.id < end, stored.is_old(before), *others
        )
        return list(connection.execute(old.order_by(rows.c.id).limit(size)).scalars())

    def forget(connection: Connection, ids: Sequence[int]) -> None:
        if rows is MESSAGE:
            partitions.delete_identities(connection, ids)
            _forget_beside(connection, ids)
        connection.execute(delete(bodies).where(bodies.c[stored.key].in_(ids)))
        connection.execute(delete(rows).where(rows.c.id.in_(ids)))

    return sweep.run(stored, some, forget)


def _forget_beside(connection: Connection, ids: Sequence[int]) -> None:
    exceptions.forget(connection, ExceptionSubject.MESSAGE, ids)
    for others in (MESSAGE_NUMBER, MESSAGE_EDIT):
        connection.execute(delete(others).where(others.c.message_id.in_(ids)))


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
            apart = payload_blobs.sizes(connection, found[-1].id - 1, found[0].id) if found else {}
        for row in found:
            left -= row.size + apart.get(row.id, 0)
            if left < 0:
                return int(row.received_at) + 1
        if len(found) < step:
            return 0
        below = found[-1].id
