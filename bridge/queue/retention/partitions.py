"""Partition retention: drop whole partitions of finished messages.

First what is remembered apart from them is forgotten, a batch at a time; a message that nobody
remembers has been archived, so nothing is archived twice. Then the tables go, and the few messages
among them that are not finished, or not old, go on in the last partition. PostgreSQL only.
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

MOST: Final = 1000
"""Messages that may go on elsewhere. Where there are more, the others go row by row."""

COARSE: Final = 20
"""Whoever stores a message does not wait for an old one to be forgotten: batches may be larger."""

WIDEST: Final = 20_000
"""Rows looked at in one go."""

PROBE: Final = 100
"""Rows looked at to tell whether an earlier sweep has been there."""

TRIES: Final = 5
WAIT: Final = 1.0
"""So often, and every so many seconds, a partition is asked for that somebody reads."""

_FORGET = key_statement("""
    DELETE FROM message_identity AS i USING message AS m
    WHERE m.id IN :ids AND i.identity = m.identity AND i.digest = m.digest
        AND i.edition = m.edition AND i.message_id = m.id
""")
_KNOWN = key_statement("""
    SELECT m.id FROM message AS m JOIN message_identity AS i
        ON i.identity = m.identity AND i.digest = m.digest
        AND i.edition = m.edition AND i.message_id = m.id
    WHERE m.id IN :ids
""")
_REMEMBERED = literal_column(
    """
    EXISTS (
        SELECT FROM message_identity AS i
        WHERE i.identity = message.identity AND i.digest = message.digest
            AND i.edition = message.edition AND i.message_id = message.id
    )
    """,
    Boolean(),
)
_BESIDE = (
    text("""
        DELETE FROM concern
        WHERE kind = 'message' AND row_id >= :low AND row_id < :high AND row_id <> ALL(:staying)
    """),
    text("""
        DELETE FROM message_edit
        WHERE message_id >= :low AND message_id < :high AND message_id <> ALL(:staying)
    """),
)


@dataclass(frozen=True, slots=True)
class DroppedPartitions:
    """How many messages are gone, and the partitions that still have to go the next time."""

    messages: int
    waiting: Sequence[Partition]


def drop_partitions(sweep: BatchDeletion, before: int, end: int) -> DroppedPartitions:
    """
    Let go of all partitions below the id `end`.

    What came or was settled at `before` (ms) or later stays, and so does what is not finished.
    """
    with sweep.database.read() as connection:
        found = [each for each in partitions(connection) if each.high <= end]
    gone, waiting = 0, []
    for each in found:
        with sweep.database.read() as connection:
            staying = _ids(connection, each, not_(MESSAGES.is_old(before)), MOST + 1)
        if len(staying) > MOST:
            continue
        gone += _forget_all(sweep, before, each)
        if not _is_gone(sweep, before, each):
            waiting.append(each)
    return DroppedPartitions(gone, waiting)


def row_retention_end(database: Database, end: int, patience: int) -> int:
    """
    Give the id before which to go row by row, when that would be `end`.

    The partition in which it lies waits to go as a whole, if it is full and all of it came
    within `timeout` (ms).
    """
    with database.read() as connection:
        for each in partitions(connection):
            if each.low < end < each.high <= last_id(connection):
                return each.low if _span(connection, each) < patience else end
    return end


def delete_identities(connection: Connection, ids: Sequence[int]) -> None:
    """Forget by what messages were known; nothing where that is no table of its own."""
    if ids and is_postgresql(connection):
        execute_keys(connection, _FORGET, ids)


def _forget_all(sweep: BatchDeletion, before: int, partition: Partition) -> int:
    """Forget by what its old messages are known, and archive them; give how many that were."""
    old = MESSAGES.is_old(before)
    with sweep.database.read() as connection:
        begun = _known_from(connection, partition, old)

    def some(connection: Connection, after: int, size: int) -> list[int]:
        known: list[int] = []
        after, window = max(after, begun), size  # wider where others are in between
        while not known and (ids := _ids(connection, partition, old, window, after)):
            known = sorted(execute_keys(connection, _KNOWN, ids).scalars())[:size]
            after, window = ids[-1], min(2 * window, WIDEST)
        return known

    return sweep.run(MESSAGES, some, delete_identities, coarse=COARSE)


def _known_from(connection: Connection, partition: Partition, old: ColumnElement[bool]) -> int:
    """
    Give an id up to which an earlier sweep has been; the partition's beginning where none was.

    Found by bisection: it went from id to id. What it came too early for is behind it, too: that
    stays when the partition goes, and goes by itself.
    """
    low, high = partition.low - 1, partition.high
    while high - low > WIDEST:
        middle = (low + high) // 2
        ids = _ids(connection, partition, old, PROBE, middle)
        if ids and not execute_keys(connection, _KNOWN, ids).first():
            low = middle
        else:
            high = middle
    return low


def _is_gone(sweep: BatchDeletion, before: int, partition: Partition) -> bool:
    for _ in range(TRIES):
        try:
            _let_go(sweep.database, partition, or_(not_(MESSAGES.is_old(before)), _REMEMBERED))
        except Busy:
            sweep.pause(WAIT)
        else:
            return True
    return False


def _let_go(database: Database, partition: Partition, stays: ColumnElement[bool]) -> None:
    """
    Let the tables go, unless too much has to stay after all.

    What stays is looked for before anybody is kept waiting. What was begun again meanwhile is found
    when nobody can begin any more.
    """
    with database.read() as connection:
        lasting = _ids(connection, partition, stays, MOST + 1)
    if len(lasting) > MOST:
        return
    with database.write() as connection:
        database.serialize(connection, "retention")
        if partition not in partitions(connection):
            return  # another node's retention was quicker
        detach(database, connection, partition)
        staying = sorted({*lasting, *unfinished_ids(connection, partition, MOST + 1)})
        if len(staying) > MOST:
            raise Busy("begun again")  # nothing was done: it is looked at once more
        for statement in _BESIDE:
            span = {"low": partition.low, "high": partition.high, "staying": staying}
            connection.execute(statement, span)
        drop(connection, partition, staying)


def _ids(
    connection: Connection,
    partition: Partition,
    which: ColumnElement[bool],
    most: int,
    after: int = 0,
) -> list[int]:
    key = MESSAGE.c.id
    found = select(key).where(key > after, key >= partition.low, key < partition.high, which)
    return list(connection.execute(found.order_by(key).limit(most)).scalars())


def _span(connection: Connection, partition: Partition) -> int:
    """Give the ms between when the first and the last of a partition came."""
    key, came = MESSAGE.c.id, MESSAGE.c.received_at
    within = select(came).where(key >= partition.low, key < partition.high).limit(1)
    first = connection.execute(within.order_by(key)).scalar() or 0
    return (connection.execute(within.order_by(key.desc())).scalar() or 0) - first
