"""
Partition retention: drop whole partitions of finished messages. PostgreSQL only.

First the identities of old messages are deleted in batches, and the messages are archived; a
message without an identity has been archived, so none is archived twice. Then the tables are
dropped. The few messages of a partition that are unfinished or recent move to the default
partition.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from sqlalchemy import (
    Boolean,
    ColumnElement,
    Connection,
    literal_column,
    not_,
    or_,
    select,
    text,
)

from bridge.queue.retention.rows import MESSAGES, BatchDeletion
from bridge.queue.statements import MESSAGE
from bridge.store.database import Database
from bridge.store.errors import Busy
from bridge.store.postgresql.partitions import (
    Partition,
    detach,
    drop,
    last_id,
    partitions,
    unfinished_ids,
)
from bridge.store.statements import execute_keys, is_postgresql, key_statement

MAX_MOVED: Final = 1000
"""
Maximum number of messages that move to the default partition. If more have to be kept, rows are
deleted one by one.
"""

BATCH_SCALE: Final = 20
"""Deleting identities blocks no arrivals, so batches may be larger."""

MAX_WINDOW: Final = 20_000
"""Rows that one query examines, at most."""

PROBE_ROWS: Final = 100
"""Rows that are examined to find whether an interrupted run has deleted identities there."""

MAX_TRIES: Final = 5
RETRY_SECONDS: Final = 1.0
"""Number of tries to lock a partition that is being read, and seconds between them."""

_DELETE_IDENTITIES = key_statement("""
    DELETE FROM message_identity AS i USING message AS m
    WHERE m.id IN :ids AND i.identity = m.identity AND i.digest = m.digest
        AND i.edition = m.edition AND i.message_id = m.id
""")
_WITH_IDENTITY = key_statement("""
    SELECT m.id FROM message AS m JOIN message_identity AS i
        ON i.identity = m.identity AND i.digest = m.digest
        AND i.edition = m.edition AND i.message_id = m.id
    WHERE m.id IN :ids
""")
_HAS_IDENTITY = literal_column(
    """
    EXISTS (
        SELECT FROM message_identity AS i
        WHERE i.identity = message.identity AND i.digest = message.digest
            AND i.edition = message.edition AND i.message_id = message.id
    )
    """,
    Boolean(),
)
_DELETE_RELATED = (
    text("""
        DELETE FROM exception
        WHERE kind = 'message' AND row_id >= :low AND row_id < :high AND row_id <> ALL(:kept)
    """),
    text("""
        DELETE FROM message_edit
        WHERE message_id >= :low AND message_id < :high AND message_id <> ALL(:kept)
    """),
)


@dataclass(frozen=True, slots=True)
class DroppedPartitions:
    """The number of deleted messages, and the partitions to retry next time."""

    messages: int
    waiting: Sequence[Partition]


def drop_partitions(deletion: BatchDeletion, before: int, end: int) -> DroppedPartitions:
    """
    Drop all partitions below the id `end`.

    Messages that were stored or settled at `before` (ms) or later are kept, and unfinished ones.
    """
    with deletion.database.read() as connection:
        found = [partition for partition in partitions(connection) if partition.high <= end]
    deleted, waiting = 0, []
    for partition in found:
        with deletion.database.read() as connection:
            kept = _ids(connection, partition, not_(MESSAGES.is_old(before)), MAX_MOVED + 1)
        if len(kept) > MAX_MOVED:
            continue
        deleted += _archive_partition(deletion, before, partition)
        if not _try_drop(deletion, before, partition):
            waiting.append(partition)
    return DroppedPartitions(deleted, waiting)


def row_retention_end(database: Database, end: int, patience: int) -> int:
    """
    Return the id at which row retention stops, given that it would be `end`.

    A full partition around `end` whose messages were all stored within `patience` (ms) is left to
    partition retention.
    """
    with database.read() as connection:
        for partition in partitions(connection):
            if partition.low < end < partition.high <= last_id(connection):
                return partition.low if _time_span(connection, partition) < patience else end
    return end


def delete_identities(connection: Connection, ids: Sequence[int]) -> None:
    """Delete the identities of messages. On SQLite they have no separate table."""
    if ids and is_postgresql(connection):
        execute_keys(connection, _DELETE_IDENTITIES, ids)


def _archive_partition(deletion: BatchDeletion, before: int, partition: Partition) -> int:
    """Delete the identities of old messages and archive the messages; return their number."""
    old = MESSAGES.is_old(before)
    with deletion.database.read() as connection:
        start = _first_with_identity(connection, partition, old)

    def find(connection: Connection, after: int, size: int) -> list[int]:
        known: list[int] = []
        after, window = max(after, start), size  # larger if many rows have no identity
        while not known and (ids := _ids(connection, partition, old, window, after)):
            known = sorted(execute_keys(connection, _WITH_IDENTITY, ids).scalars())[:size]
            after, window = ids[-1], min(2 * window, MAX_WINDOW)
        return known

    return deletion.run(MESSAGES, find, delete_identities, scale=BATCH_SCALE)


def _first_with_identity(
    connection: Connection, partition: Partition, old: ColumnElement[bool]
) -> int:
    """
    Return an id up to which an interrupted run has deleted the identities.

    Without such a run it is the last id before the partition. Found by bisection, because a run
    proceeds in id order. Messages that were too recent for that run move to the default partition
    and are deleted later.
    """
    low, high = partition.low - 1, partition.high
    while high - low > MAX_WINDOW:
        middle = (low + high) // 2
        ids = _ids(connection, partition, old, PROBE_ROWS, middle)
        if ids and not execute_keys(connection, _WITH_IDENTITY, ids).first():
            low = middle
        else:
            high = middle
    return low


def _try_drop(deletion: BatchDeletion, before: int, partition: Partition) -> bool:
    for _ in range(MAX_TRIES):
        try:
            _drop(deletion.database, partition, or_(not_(MESSAGES.is_old(before)), _HAS_IDENTITY))
        except Busy:
            deletion.pause(RETRY_SECONDS)
        else:
            return True
    return False


def _drop(database: Database, partition: Partition, is_kept: ColumnElement[bool]) -> None:
    """
    Drop the tables of a partition unless too many messages have to be kept.

    The messages to keep are searched before any lock is taken. Messages that were reopened since
    then are searched when no other transaction can reopen one.
    """
    with database.read() as connection:
        kept_before = _ids(connection, partition, is_kept, MAX_MOVED + 1)
    if len(kept_before) > MAX_MOVED:
        return
    with database.write() as connection:
        database.serialize(connection, "retention")
        if partition not in partitions(connection):
            return  # another node has dropped it
        detach(database, connection, partition)
        kept = sorted({*kept_before, *unfinished_ids(connection, partition, MAX_MOVED + 1)})
        if len(kept) > MAX_MOVED:
            raise Busy("too many messages were reopened")  # nothing was changed: retry
        for statement in _DELETE_RELATED:
            span = {"low": partition.low, "high": partition.high, "kept": kept}
            connection.execute(statement, span)
        drop(connection, partition, kept)


def _ids(
    connection: Connection,
    partition: Partition,
    which: ColumnElement[bool],
    count: int,
    after: int = 0,
) -> list[int]:
    key = MESSAGE.c.id
    found = select(key).where(key > after, key >= partition.low, key < partition.high, which)
    return list(connection.execute(found.order_by(key).limit(count)).scalars())


def _time_span(connection: Connection, partition: Partition) -> int:
    """Return the ms between the first and the last message of a partition."""
    key, received_at = MESSAGE.c.id, MESSAGE.c.received_at
    within = select(received_at).where(key >= partition.low, key < partition.high).limit(1)
    first = connection.execute(within.order_by(key)).scalar() or 0
    return (connection.execute(within.order_by(key.desc())).scalar() or 0) - first
