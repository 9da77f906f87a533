"""
Large messages apart from their row, and others in between.

Whoever writes 16 MiB at once keeps others waiting: SQLite has one writer and one log, and a
server's log and our interpreter are everybody's too. SQLite has them as files (`large_files`), a
server in pieces, in transactions of their own. The message's row comes last and has no content of
its own. Blocking.
"""

import time
from dataclasses import replace
from io import BytesIO
from typing import Any

from sqlalchemy import Connection, RowMapping, text

from bridge.queue.admission import short
from bridge.queue.arrivals import Arrival
from bridge.queue.large_files import LONGEST_REST, LargeFiles, Rest, name_of, numbers_of
from bridge.store.database import Database
from bridge.store.sqlite import file_of

PIECE = 64 * 2**10
"""Bytes of a piece in the database."""
_TOGETHER = 16  # pieces in a transaction
_BREATH = 0.001  # seconds between a mebibyte and the next that is read: others have their turns
ORPHANED = 24 * 3600 * 1000
"""Milliseconds for which a content may wait for the row of its message."""

_KEEP_FILE = """
    INSERT INTO parcel (identity, digest, pieces, size, kept_at) VALUES (?, ?, ?, ?, ?)
    ON CONFLICT (identity, digest) DO UPDATE
    SET kept_at = excluded.kept_at, pieces = excluded.pieces
"""
_KEEP_PIECES = _KEEP_FILE.replace("?", "%s")
_COUNT = "SELECT count(*) FROM parcel_piece WHERE identity = %s AND digest = %s"
_PIECE = """
    INSERT INTO parcel_piece (identity, digest, number, content) VALUES (%s, %s, %s, %s)
    ON CONFLICT DO NOTHING
"""
_PARCEL = text("""
    SELECT p.identity, p.digest, p.pieces, p.size FROM message AS m
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
_FILED = text("""
    SELECT DISTINCT p.identity, p.digest, p.size FROM parcel AS p
    JOIN message AS m ON m.identity = p.identity AND m.digest = p.digest WHERE p.pieces = 0
""")
_KNOWN = text(f"SELECT 1 FROM parcel WHERE {_THIS}")  # noqa: S608  # our own text
_FORGET = text(f"DELETE FROM parcel WHERE {_THIS} AND {_ORPHANED}")  # noqa: S608  # our own text
_FORGET_PIECES = text(f"DELETE FROM parcel_piece WHERE {_THIS}")  # noqa: S608  # our own text


class Parcels:
    """Keeps contents before the rows of their messages. `rest` leaves seconds to others."""

    def __init__(self, database: Database, *, rest: Rest = time.sleep) -> None:
        self._files = None if database.file is None else LargeFiles(database.file)
        # It need not wait for the disk: the commit of the message's row comes after it, and does.
        self._writer = database.writer(fleeting=True)
        self._rest = rest

    def close(self) -> None:
        """Let the database's connection go."""
        self._writer.close()

    def put_apart(self, arrival: Arrival) -> Arrival:
        """
        Keep an arrival's content; give what is still to be kept of it.

        What is there already, of a retransmit or of an attempt cut short, is not written again.
        Raises StoreError.
        """
        if self._files is None:
            self._put_pieces(arrival)
        else:
            with self._writer.transaction() as cursor:
                cursor.execute(_KEEP_FILE, _row(arrival, pieces=0))
            self._files.put(name_of(*_key(arrival)), arrival.payload, self._rest)
        return replace(arrival, payload=b"")

    def _put_pieces(self, arrival: Arrival) -> None:
        payload = arrival.payload
        starts = range(0, len(payload), PIECE)
        with self._writer.transaction() as cursor:
            cursor.execute(_KEEP_PIECES, _row(arrival, len(starts)))
            cursor.execute(_COUNT, _key(arrival))
            if cursor.fetchone()[0] == len(starts):
                return
        for first in range(0, len(starts), _TOGETHER):
            began = time.perf_counter()
            with self._writer.transaction() as cursor:
                for number, start in enumerate(starts[first : first + _TOGETHER], first):
                    piece = payload[start : start + PIECE]
                    cursor.execute(_PIECE, (*_key(arrival), number, piece))
            self._rest(min(time.perf_counter() - began, LONGEST_REST))


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
    if parcel["pieces"]:
        return _joined(connection, parcel)
    files = LargeFiles(file_of(connection.engine.url))
    return files.get(name_of(parcel["identity"], parcel["digest"]), parcel["size"])


def _joined(connection: Connection, parcel: RowMapping) -> bytes:
    """Join pieces; SQLite has them of messages that came before it had files."""
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
    """Give the bytes that messages of a range of ids, the first not included, have apart."""
    found = connection.execute(_SIZE, {"after": after, "to": to})
    return {row.id: row.size for row in found}


def contentless(database: Database) -> int:
    """Count the large messages whose file is not there: back-ups may forget that folder."""
    if database.file is None:
        return 0
    files = LargeFiles(database.file)
    with database.read() as connection:
        rows = connection.execute(_FILED).all()
    return sum(not files.has(name_of(row.identity, row.digest), row.size) for row in rows)


def forget_orphans(database: Database, now: int) -> int:
    """Remove contents whose message is no more, or never came; give of how many messages."""
    files = None if database.file is None else LargeFiles(database.file)
    before, gone = now - ORPHANED, 0
    with database.read() as connection:
        rows = connection.execute(_ORPHANS, {"before": before}).mappings().all()
    for row in rows:
        with database.forgetting() as connection:
            # Asked once more: its message may have come again since.
            if connection.execute(_FORGET, {**row, "before": before}).rowcount:
                connection.execute(_FORGET_PIECES, dict(row))
                if files is not None:  # before the commit: who comes next finds it gone, or kept
                    files.forget(name_of(row["identity"], row["digest"]))
                gone += 1
    if files is not None:
        _forget_unknown(database, files, before / 1000)
    return gone


def _forget_unknown(database: Database, files: LargeFiles, before: float) -> None:
    """Remove old files of which a power cut has taken the row."""
    for name in files.older_than(before):
        with database.forgetting() as connection:
            identity, digest = numbers_of(name)
            known = connection.execute(_KNOWN, {"identity": identity, "digest": digest})
            if known.first() is None:
                files.forget(name)


def _key(arrival: Arrival) -> tuple[int, int]:
    return arrival.identity, short(arrival.digest)


def _row(arrival: Arrival, pieces: int) -> tuple[int, ...]:
    """Give what lets nobody take a content for forgotten, for a day."""
    return (*_key(arrival), pieces, len(arrival.payload), arrival.received_at)
