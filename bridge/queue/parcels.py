"""
Large messages in pieces, written in transactions of their own, and others in between.

Whoever writes 16 MiB at once keeps others waiting: SQLite has one writer, and a server's log and
our interpreter are everybody's too. The message's row comes after its last piece and has no content
of its own. Blocking.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from io import BytesIO
from typing import Any, NamedTuple

from sqlalchemy import Connection, text

from bridge.queue.admission import short
from bridge.queue.arrivals import Arrival
from bridge.store.database import Database
from bridge.store.writer import Writer

PIECE = 64 * 2**10
"""Bytes that are written at once."""
_TOGETHER = 16  # pieces in a transaction, where others write at the same time
_BREATH = 0.001  # seconds between a mebibyte and the next that is read: others have their turns
LONGEST_REST = 0.02
"""Seconds after a piece: where a piece takes longer, it is because others have their turns."""
ORPHANED = 24 * 3600 * 1000
"""Milliseconds for which pieces may wait for the row of their message."""

_KEEP = """
    INSERT INTO parcel (identity, digest, pieces, size, kept_at) VALUES (?, ?, ?, ?, ?)
    ON CONFLICT (identity, digest) DO UPDATE SET kept_at = excluded.kept_at
"""
_COUNT = "SELECT count(*) FROM parcel_piece WHERE identity = ? AND digest = ?"
_PIECE = """
    INSERT INTO parcel_piece (identity, digest, number, content) VALUES (?, ?, ?, ?)
    ON CONFLICT DO NOTHING
"""
_PARCEL = text("""
    SELECT p.identity, p.digest, p.pieces FROM message AS m
    JOIN parcel AS p ON p.identity = m.identity AND p.digest = m.digest WHERE m.id = :id
""")
_CONTENT = text("""
    SELECT content FROM parcel_piece
    WHERE identity = :identity AND digest = :digest AND number >= :first AND number < :end
    ORDER BY number
""")
_SIZE = text("""
    SELECT m.id, p.size FROM message AS m
    JOIN parcel AS p ON p.identity = m.identity AND p.digest = m.digest
    WHERE m.id > :after AND m.id <= :to
""")
_ORPHANED = """
    parcel.kept_at < :before AND NOT EXISTS (
        SELECT 1 FROM message AS m WHERE m.identity = parcel.identity AND m.digest = parcel.digest
    )
"""
_ORPHANS = text(f"SELECT identity, digest FROM parcel WHERE {_ORPHANED}")  # noqa: S608  # our own text
_THIS = "identity = :identity AND digest = :digest"
_FORGET = text(f"DELETE FROM parcel WHERE {_THIS} AND {_ORPHANED}")  # noqa: S608  # our own text
_FORGET_PIECES = text(f"DELETE FROM parcel_piece WHERE {_THIS}")  # noqa: S608  # our own text


class Way(NamedTuple):
    """How a database takes pieces: how many in a transaction, and the two statements of one."""

    together: int
    keep: str
    counted: str
    piece: str


SQLITE = Way(1, _KEEP, _COUNT, _PIECE)
POSTGRES = Way(_TOGETHER, *(each.replace("?", "%s") for each in (_KEEP, _COUNT, _PIECE)))
WAYS: Mapping[str, Way] = {"sqlite": SQLITE, "postgresql": POSTGRES}
"""By the name of the dialect, as `Database.dialect` has it."""


def put_apart(
    writer: Writer,
    arrival: Arrival,
    way: Way = SQLITE,
    *,
    rest: Callable[[float], object] = time.sleep,
) -> Arrival:
    """
    Keep an arrival's content piece by piece; give what is still to be kept of it.

    The writer need not wait for the disk: the commit of the row, that comes after them, does.

    `rest` is given the seconds that each transaction took, up to a limit: others write meanwhile.
    What is there already, of a retransmit or of an attempt cut short, is not written again.
    """
    key, payload = (arrival.identity, short(arrival.digest)), arrival.payload
    starts = range(0, len(payload), PIECE)
    with writer.transaction() as cursor:
        # From here on, for a day, nobody takes these pieces for forgotten ones.
        cursor.execute(way.keep, (*key, len(starts), len(payload), arrival.received_at))
        cursor.execute(way.counted, key)
        complete = cursor.fetchone()[0] == len(starts)
    numbers = range(0, 0 if complete else len(starts), way.together)
    for first in numbers:
        began = time.perf_counter()
        with writer.transaction() as cursor:
            for number, start in enumerate(starts[first : first + way.together], first):
                cursor.execute(way.piece, (*key, number, payload[start : start + PIECE]))
        rest(min(time.perf_counter() - began, LONGEST_REST))
    return replace(arrival, payload=b"")


def content(connection: Connection, message_id: int, payload: Any) -> bytes:
    """
    Give the whole content of a message of whose row this is the `payload`.

    Takes its time where that is long: for threads.
    """
    if payload:
        return bytes(payload)
    parcel = connection.execute(_PARCEL, {"id": message_id}).mappings().first()
    if parcel is None:
        return b""
    found, pieces = BytesIO(), 0
    for first in range(0, parcel["pieces"], _TOGETHER):  # more at once would hold others up
        if first:
            time.sleep(_BREATH)
        some = {**parcel, "first": first, "end": first + _TOGETHER}
        for piece in connection.execute(_CONTENT, some).scalars():
            found.write(piece)
            pieces += 1
    return found.getvalue() if pieces == parcel["pieces"] else b""  # its own bytes, not copied


def sizes(connection: Connection, after: int, to: int) -> dict[int, int]:
    """Give the bytes that messages of a range of ids, the first not included, have in pieces."""
    found = connection.execute(_SIZE, {"after": after, "to": to})
    return {row.id: row.size for row in found}


def forget_orphans(database: Database, now: int) -> int:
    """Remove pieces whose message is no more, or never came; give of how many messages."""
    before, gone = {"before": now - ORPHANED}, 0
    with database.read() as connection:
        rows = connection.execute(_ORPHANS, before).mappings().all()
    for row in rows:
        with database.forgetting() as connection:
            # Asked once more: its message may have come again since.
            if connection.execute(_FORGET, {**row, **before}).rowcount:
                connection.execute(_FORGET_PIECES, dict(row))
                gone += 1
    return gone
