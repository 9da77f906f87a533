"""
Retention of the queue: which finished messages and deliveries are deleted, and when.

Queued, claimed and parked rows are never deleted. Neither is the newest row, because ids must not
be reused.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sqlalchemy import Connection, delete, func, not_, select

from bridge.queue import attempts, commitments, payload_blobs
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
from bridge.queue.statements import (
    MESSAGE,
    MESSAGE_BODY,
    MESSAGE_EDIT,
    MESSAGE_ENTRY,
    MESSAGE_NUMBER,
)
from bridge.store.database import Database
from bridge.store.postgresql.partitions import Partition
from bridge.store.records import exceptions, waiting_messages
from bridge.store.records.exceptions import ExceptionSubject
from bridge.store.tables import DELIVERY_EDITS


@dataclass(frozen=True, slots=True)
class PruneResult:
    """The number of deleted rows."""

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
    Delete rows that were stored and settled before `before` (ms), at most `batch` per transaction.

    `pause` is called between batches with the seconds to yield to others. `archive` receives a
    table name and the rows that are about to be deleted; if it raises, they are kept.

    The control id of a deleted message is forgotten: a retransmit of it is a new message.

    A full partition whose messages were all stored within `patience` (ms) is kept until all are
    old.
    """
    deletion = BatchDeletion(database, batch, pause, clock, archive)
    end = _end_id(database, MESSAGES, before)
    dropped = partitions.drop_partitions(deletion, before, end)
    end = partitions.row_retention_end(database, end, patience)
    rows = _row_by_row(deletion, MESSAGES, before, end, dropped.waiting)
    end = _end_id(database, DELIVERIES, before)
    return PruneResult(dropped.messages + rows, _row_by_row(deletion, DELIVERIES, before, end))


def _end_id(database: Database, queue_table: QueueTable, before: int) -> int:
    """Return the id at which to stop: the first recent row, or the newest one, which is kept."""
    with database.read() as connection:
        key = queue_table.rows.c.id
        recent = key >= id_at(connection, queue_table.rows, queue_table.stored_at_column, before)
        first = connection.execute(select(key).where(recent).order_by(key).limit(1)).scalar()
        return newest_id(connection, queue_table.rows) if first is None else first


def _row_by_row(
    deletion: BatchDeletion,
    queue_table: QueueTable,
    before: int,
    end: int,
    except_partitions: Sequence[Partition] = (),
) -> int:
    rows, bodies = queue_table.rows, queue_table.bodies
    outside = [
        not_(rows.c.id.between(partition.low, partition.high - 1))
        for partition in except_partitions
    ]

    def find(connection: Connection, after: int, size: int) -> list[int]:
        old = select(rows.c.id).where(
            rows.c.id > after, rows.c.id < end, queue_table.is_old(before), *outside
        )
        return list(connection.execute(old.order_by(rows.c.id).limit(size)).scalars())

    def delete_rows(connection: Connection, ids: Sequence[int]) -> None:
        if rows is MESSAGE:
            partitions.delete_identities(connection, ids)
            _delete_related(connection, ids)
        else:
            attempts.forget(connection, ids)
            commitments.forget(connection, ids)
            exceptions.forget(connection, ExceptionSubject.DELIVERY, ids)
            edits = DELIVERY_EDITS.c.delivery_id.in_(ids)
            connection.execute(delete(DELIVERY_EDITS).where(edits))
        connection.execute(delete(bodies).where(bodies.c[queue_table.key].in_(ids)))
        connection.execute(delete(rows).where(rows.c.id.in_(ids)))

    return deletion.run(queue_table, find, delete_rows)


def _delete_related(connection: Connection, ids: Sequence[int]) -> None:
    exceptions.forget(connection, ExceptionSubject.MESSAGE, ids)
    waiting_messages.forget(connection, ids)
    for table in (MESSAGE_NUMBER, MESSAGE_ENTRY, MESSAGE_EDIT):
        connection.execute(delete(table).where(table.c.message_id.in_(ids)))


def find_size_cutoff(database: Database, limit: int, *, step: int = 10_000) -> int:
    """
    Return the time (ms) before which messages must be deleted for the rest to fit into `limit`
    bytes.

    0 if all fit. Reads from the newest message to the oldest. Deliveries are deleted by the same
    time.
    """
    remaining, below = limit, None
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
            blob_sizes = (
                payload_blobs.sizes(connection, found[-1].id - 1, found[0].id) if found else {}
            )
        for row in found:
            remaining -= row.size + blob_sizes.get(row.id, 0)
            if remaining < 0:
                return int(row.received_at) + 1
        if len(found) < step:
            return 0
        below = found[-1].id
