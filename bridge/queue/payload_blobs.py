"""Payload blobs: contents of large messages in chunks; contents that earlier releases wrote as
files.

They are read and removed here, and no new one is written. Blocking; raises StoreUnavailable.

To write 16 MiB in one transaction keeps every other writer waiting. So a message of `LARGE` bytes
and more is written in chunks, a few in each transaction, with pauses in which others write. The
row of the message comes last and has no content of its own: a message that has a row has all of
its chunks. Blocking.
"""

import errno
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from typing import Any, Final

from sqlalchemy import Connection, RowMapping, text

from bridge.queue.ledger.arrivals import Arrival
from bridge.queue.ledger.deduplication import stored_digest
from bridge.store.database import Database
from bridge.store.errors import StoreUnavailable
from bridge.store.sqlite import file_of

_NAME: Final = re.compile(r"[0-9a-f]{16}-[0-9a-f]{16}(\..*\.part)?")
_WORD: Final = 2**64


def folder_of(database: Path) -> Path:
    """Name the folder that belongs to SQLite's file."""
    return database.with_name(f"{database.name}-large")


def name_of(identity: int, digest: int) -> str:
    """Name the content of the message with these numbers of 64 bits, signed."""
    return f"{identity % _WORD:016x}-{digest % _WORD:016x}"


class LargeFiles:
    """The files of one database, each under a name by `name_of`."""

    def __init__(self, database: Path) -> None:
        self._folder = folder_of(database)

    def has(self, name: str, size: int) -> bool:
        """Tell whether a content of this size is there."""
        with _explained():
            try:
                return (self._folder / name).stat().st_size == size
            except FileNotFoundError:
                return False

    def get(self, name: str, size: int) -> bytes:
        """
        Give a content; empty where it does not exist, or has another size: then it is lost.

        Raises StoreUnavailable where that is unknown, because the file cannot be read now.
        """
        with _explained():
            try:
                found = (self._folder / name).read_bytes()
            except FileNotFoundError:
                return b""
        return found if len(found) == size else b""

    def keep_only(self, names: set[str]) -> None:
        """Remove all other files that we wrote, half-written ones too, and an empty folder."""
        if not self._folder.is_dir():
            return
        with _explained():
            for each in list(self._folder.iterdir()):
                if each.name not in names and _NAME.fullmatch(each.name):
                    each.unlink(missing_ok=True)
        with suppress(OSError):  # it still has files
            self._folder.rmdir()


@contextmanager
def _explained() -> Iterator[None]:
    """Raise what the system refuses as the storage failure that it is."""
    try:
        yield
    except OSError as error:
        raise StoreUnavailable(errno.errorcode.get(error.errno or 0, "OSError")) from None


CHUNK = 64 * 2**10
"""Bytes of a chunk."""
WRITTEN_TOGETHER = 4
"""Chunks in one transaction: each is on disk before the next begins."""
_READ_TOGETHER = 16  # chunks
_BREATH = 0.001  # seconds between a mebibyte and the next that is read: others have their turns
_LONGEST_REST = 0.02  # seconds after a transaction
ORPHANED = 24 * 3600 * 1000
"""Milliseconds for which a content may wait for the row of its message."""

Rest = Callable[[float], object]

# For the driver itself: `?` becomes the mark of the dialect.
_KEEP = """
    INSERT INTO parcel (identity, digest, pieces, size, kept_at) VALUES (?, ?, ?, ?, ?)
    ON CONFLICT (identity, digest) DO UPDATE SET kept_at = excluded.kept_at
"""
_STATE = """
    SELECT pieces, (
        SELECT count(*) FROM parcel_piece AS c
        WHERE c.identity = p.identity AND c.digest = p.digest
    ) FROM parcel AS p WHERE identity = ? AND digest = ?
"""
_CHUNK = """
    INSERT INTO parcel_piece (identity, digest, number, content) VALUES (?, ?, ?, ?)
    ON CONFLICT DO NOTHING
"""
_COMPLETE = "UPDATE parcel SET pieces = ? WHERE identity = ? AND digest = ?"

_BLOB = text("""
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
_FORGET = text(f"DELETE FROM parcel WHERE {_THIS} AND {_ORPHANED}")  # noqa: S608  # our own text
_FORGET_CHUNKS = text(f"DELETE FROM parcel_piece WHERE {_THIS}")  # noqa: S608  # our own text
_FILED = text("SELECT identity, digest FROM parcel WHERE pieces = 0")
_FILED_MESSAGES = text("""
    SELECT DISTINCT p.identity, p.digest, p.size FROM parcel AS p
    JOIN message AS m ON m.identity = p.identity AND m.digest = p.digest WHERE p.pieces = 0
""")


class PayloadBlobs:
    """Writes contents before the rows of their messages. `seconds_until_next` leaves seconds to
    others.
    """

    def __init__(self, database: Database, *, rest: Rest = time.sleep) -> None:
        self._files = None if database.file is None else LargeFiles(database.file)
        self._mark = "?" if database.dialect == "sqlite" else "%s"
        self._writer = database.writer()
        self._rest = rest

    def close(self) -> None:
        """Let the database's connection go."""
        self._writer.close()

    def store(self, arrival: Arrival) -> Arrival:
        """
        Write an arrival's content; give the arrival without it, for its row.

        What is there already, of a retransmit or of an attempt cut short, is not written again.
        Raises StoreError.
        """
        key, payload = (arrival.identity, stored_digest(arrival.digest)), arrival.payload
        starts = range(0, len(payload), CHUNK)
        with self._writer.transaction() as cursor:
            row = (*key, len(starts), len(payload), arrival.received_at)
            self._do(cursor, _KEEP, *row)  # nobody takes it for forgotten, for a day
            self._do(cursor, _STATE, *key)
            chunks, written = cursor.fetchone()
        if written < len(starts) and not (chunks == 0 and self._is_filed(key, len(payload))):
            for first in range(0, len(starts), WRITTEN_TOGETHER):
                self._write(key, payload, first)
            if chunks == 0:  # its file is lost
                with self._writer.transaction() as cursor:
                    self._do(cursor, _COMPLETE, len(starts), *key)
        return replace(arrival, payload=b"")

    def _write(self, key: tuple[int, int], payload: bytes, first: int) -> None:
        began = time.perf_counter()
        with self._writer.transaction() as cursor:
            for number in range(first, first + WRITTEN_TOGETHER):
                if chunk := payload[number * CHUNK : (number + 1) * CHUNK]:
                    self._do(cursor, _CHUNK, *key, number, chunk)
        self._rest(min(time.perf_counter() - began, _LONGEST_REST))

    def _is_filed(self, key: tuple[int, int], size: int) -> bool:
        return self._files is not None and self._files.has(name_of(*key), size)

    def _do(self, cursor: Any, statement: str, *given: object) -> None:
        cursor.execute(statement.replace("?", self._mark), given)


def content(connection: Connection, message_id: int, payload: Any) -> bytes:
    """
    Give the whole content of a message; `payload` is the one of its row.

    Takes its time where the content is long: for threads.
    """
    if payload:
        return bytes(payload)
    blob = connection.execute(_BLOB, {"id": message_id}).mappings().first()
    if blob is None:
        return b""
    if blob["pieces"]:
        return _joined(connection, blob)
    files = LargeFiles(file_of(connection.engine.url))
    return files.get(name_of(blob["identity"], blob["digest"]), blob["size"])


def _joined(connection: Connection, blob: RowMapping) -> bytes:
    found, chunks = BytesIO(), 0
    for first in range(0, blob["pieces"], _READ_TOGETHER):  # more at once would hold others up
        if first:
            time.sleep(_BREATH)
        some = {**blob, "first": first, "end": first + _READ_TOGETHER}
        for chunk in connection.execute(_CONTENT, some).scalars():
            found.write(chunk)
            chunks += 1
    return found.getvalue() if chunks == blob["pieces"] else b""  # its own bytes, not copied


def sizes(connection: Connection, after: int, to: int) -> dict[int, int]:
    """Give the bytes of the blobs of messages in a range of ids, the first not included."""
    found = connection.execute(_SIZE, {"after": after, "to": to})
    return {row.id: row.size for row in found}


def count_lost(database: Database) -> int:
    """Count the large messages whose file is missing: back-ups may forget that folder."""
    if database.file is None:
        return 0
    files = LargeFiles(database.file)
    with database.read() as connection:
        rows = connection.execute(_FILED_MESSAGES).all()
    return sum(not files.has(name_of(row.identity, row.digest), row.size) for row in rows)


def delete_orphans(database: Database, now: int) -> int:
    """Remove the contents of messages that are gone or never came; give their number."""
    before, gone = now - ORPHANED, 0
    with database.read() as connection:
        rows = connection.execute(_ORPHANS, {"before": before}).mappings().all()
    for row in rows:
        with database.delete_without_sync() as connection:
            # The condition is checked again: its message may have come meanwhile.
            if connection.execute(_FORGET, {**row, "before": before}).rowcount:
                connection.execute(_FORGET_CHUNKS, dict(row))
                gone += 1
    if database.file is not None:
        with database.read() as connection:
            filed = {name_of(row.identity, row.digest) for row in connection.execute(_FILED)}
        LargeFiles(database.file).keep_only(filed)
    return gone
