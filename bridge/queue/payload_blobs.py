"""
Payload blobs: payloads of large messages, stored in chunks.

A transaction of 16 MiB would block all other writers. So the payload of a message of `LARGE` bytes
or more is written in chunks, a few per transaction, with pauses for other writers. The message row
is written last and has an empty payload: if a message row exists, all of its chunks exist.

Earlier releases wrote large payloads as files beside the SQLite database. These files are read and
deleted here; no new ones are written. Blocking; raises StoreUnavailable.
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

from bridge.queue.arrivals import Arrival
from bridge.queue.digests import stored_digest
from bridge.queue.log_tables import pull_new
from bridge.store.database import Database
from bridge.store.errors import StoreUnavailable
from bridge.store.sqlite import file_of

_NAME: Final = re.compile(r"[0-9a-f]{16}-[0-9a-f]{16}(\..*\.part)?")
_UINT64: Final = 2**64


def folder_of(database: Path) -> Path:
    """Return the folder of large payloads beside an SQLite file."""
    return database.with_name(f"{database.name}-large")


def name_of(identity: int, digest: int) -> str:
    """Return the file name for an identity and a digest (signed 64-bit numbers)."""
    return f"{identity % _UINT64:016x}-{digest % _UINT64:016x}"


class LargeFiles:
    """Payload files of one database, named by `name_of`."""

    def __init__(self, database: Path) -> None:
        self._folder = folder_of(database)

    def has(self, name: str, size: int) -> bool:
        with _translated_errors():
            try:
                return (self._folder / name).stat().st_size == size
            except FileNotFoundError:
                return False

    def get(self, name: str, size: int) -> bytes:
        """
        Read a payload; empty if the file is missing or has another size.

        Raises StoreUnavailable if the file cannot be read now.
        """
        with _translated_errors():
            try:
                found = (self._folder / name).read_bytes()
            except FileNotFoundError:
                return b""
        return found if len(found) == size else b""

    def keep_only(self, names: set[str]) -> None:
        """Delete all other payload files, partial ones included, and the folder if it is empty."""
        if not self._folder.is_dir():
            return
        with _translated_errors():
            for path in list(self._folder.iterdir()):
                if path.name not in names and _NAME.fullmatch(path.name):
                    path.unlink(missing_ok=True)
        with suppress(OSError):  # the folder still has files
            self._folder.rmdir()


@contextmanager
def _translated_errors() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise StoreUnavailable(errno.errorcode.get(error.errno or 0, "OSError")) from None


CHUNK = 64 * 2**10
"""Bytes of a chunk."""
WRITE_CHUNKS = 4
"""Chunks of one transaction."""
_READ_CHUNKS = 16  # chunks
_READ_PAUSE = 0.001  # seconds between two reads of a mebibyte
_MAX_PAUSE = 0.02  # seconds after a transaction, at most
ORPHAN_AGE_MS = 24 * 3600 * 1000
"""A blob without a message row is deleted after this time (ms)."""

Pause = Callable[[float], object]

# For the driver's cursor: `?` is replaced by the dialect's parameter marker.
_INSERT_BLOB = """
    INSERT INTO payload_blob (identity, digest, chunks, size, stored_at) VALUES (?, ?, ?, ?, ?)
    ON CONFLICT (identity, digest) DO UPDATE SET stored_at = excluded.stored_at
"""
_COUNT_CHUNKS = """
    SELECT chunks, (
        SELECT count(*) FROM payload_chunk AS c
        WHERE c.identity = p.identity AND c.digest = p.digest
    ) FROM payload_blob AS p WHERE identity = ? AND digest = ?
"""
_INSERT_CHUNK = """
    INSERT INTO payload_chunk (identity, digest, number, content) VALUES (?, ?, ?, ?)
    ON CONFLICT DO NOTHING
"""
_SET_CHUNK_COUNT = "UPDATE payload_blob SET chunks = ? WHERE identity = ? AND digest = ?"

_FIND_BLOB = text("""
    SELECT p.identity, p.digest, p.chunks, p.size FROM message AS m
    JOIN payload_blob AS p ON p.identity = m.identity AND p.digest = m.digest WHERE m.id = :id
""")
_READ_CONTENT = text("""
    SELECT content FROM payload_chunk
    WHERE identity = :identity AND digest = :digest AND number >= :first AND number < :end
    ORDER BY number
""")
_READ_SIZES = text("""
    SELECT m.id, p.size FROM message AS m
    JOIN payload_blob AS p ON p.identity = m.identity AND p.digest = m.digest
    WHERE m.id > :after AND m.id <= :to
""")
_IS_ORPHAN = """
    payload_blob.stored_at < :before AND NOT EXISTS (
        SELECT 1 FROM message AS m
        WHERE m.identity = payload_blob.identity AND m.digest = payload_blob.digest
    )
"""
_FIND_ORPHANS = text(f"SELECT identity, digest FROM payload_blob WHERE {_IS_ORPHAN}")  # noqa: S608  # our own text
_BY_KEY = "identity = :identity AND digest = :digest"
_DELETE_ORPHAN = text(f"DELETE FROM payload_blob WHERE {_BY_KEY} AND {_IS_ORPHAN}")  # noqa: S608  # our own text
_DELETE_CHUNKS = text(f"DELETE FROM payload_chunk WHERE {_BY_KEY}")  # noqa: S608  # our own text
_FIND_FILES = text("SELECT identity, digest FROM payload_blob WHERE chunks = 0")
_FIND_MESSAGES_WITH_FILES = text("""
    SELECT DISTINCT p.identity, p.digest, p.size FROM payload_blob AS p
    JOIN message AS m ON m.identity = p.identity AND m.digest = p.digest WHERE p.chunks = 0
""")


class PayloadBlobs:
    """Writes payloads before the rows of their messages. `pause` yields to other writers."""

    def __init__(self, database: Database, *, pause: Pause = time.sleep) -> None:
        self._files = None if database.file is None else LargeFiles(database.file)
        self._mark = "?" if database.dialect == "sqlite" else "%s"
        self._writer = database.writer()
        self._pause = pause

    def close(self) -> None:
        """Close the database connection."""
        self._writer.close()

    def store(self, arrival: Arrival) -> Arrival:
        """
        Write the payload of an arrival; return the arrival without it, for its row.

        Chunks that exist, from a retransmit or an interrupted attempt, are not written again.
        Raises StoreError.
        """
        key, payload = (arrival.identity, stored_digest(arrival.digest)), arrival.payload
        starts = range(0, len(payload), CHUNK)
        with self._writer.transaction() as cursor:
            row = (*key, len(starts), len(payload), arrival.received_at)
            self._execute(cursor, _INSERT_BLOB, *row)  # protects it from `delete_orphans` for a day
            self._execute(cursor, _COUNT_CHUNKS, *key)
            chunks, written = cursor.fetchone()
        if written < len(starts) and not (chunks == 0 and self._has_file(key, len(payload))):
            for first in range(0, len(starts), WRITE_CHUNKS):
                self._write(key, payload, first)
            if chunks == 0:  # its file is missing
                with self._writer.transaction() as cursor:
                    self._execute(cursor, _SET_CHUNK_COUNT, len(starts), *key)
        return replace(arrival, payload=b"")

    def _write(self, key: tuple[int, int], payload: bytes, first: int) -> None:
        began = time.perf_counter()
        with self._writer.transaction() as cursor:
            for number in range(first, first + WRITE_CHUNKS):
                if chunk := payload[number * CHUNK : (number + 1) * CHUNK]:
                    self._execute(cursor, _INSERT_CHUNK, *key, number, chunk)
        self._pause(min(time.perf_counter() - began, _MAX_PAUSE))

    def _has_file(self, key: tuple[int, int], size: int) -> bool:
        return self._files is not None and self._files.has(name_of(*key), size)

    def _execute(self, cursor: Any, statement: str, *values: object) -> None:
        cursor.execute(statement.replace("?", self._mark), values)


def content(connection: Connection, message_id: int, payload: Any) -> bytes:
    """
    Return the whole payload of a message; `payload` is the one of its row.

    Slow for long payloads: call from a thread.
    """
    if payload:
        return bytes(payload)
    blob = connection.execute(_FIND_BLOB, {"id": message_id}).mappings().first()
    if blob is None:
        return b""
    if blob["chunks"]:
        return _joined(connection, blob)
    files = LargeFiles(file_of(connection.engine.url))
    return files.get(name_of(blob["identity"], blob["digest"]), blob["size"])


def _joined(connection: Connection, blob: RowMapping) -> bytes:
    found, chunks = BytesIO(), 0
    # In small reads, so that other work is not delayed.
    for first in range(0, blob["chunks"], _READ_CHUNKS):
        if first:
            time.sleep(_READ_PAUSE)
        some = {**blob, "first": first, "end": first + _READ_CHUNKS}
        for chunk in connection.execute(_READ_CONTENT, some).scalars():
            found.write(chunk)
            chunks += 1
    return found.getvalue() if chunks == blob["chunks"] else b""  # without a copy


def sizes(connection: Connection, after: int, to: int) -> dict[int, int]:
    """Return the blob sizes of messages with ids above `after` and up to `to`."""
    found = connection.execute(_READ_SIZES, {"after": after, "to": to})
    return {row.id: row.size for row in found}


def count_lost(database: Database) -> int:
    """Count large messages whose file is missing, such as after an incomplete restore."""
    if database.file is None:
        return 0
    files = LargeFiles(database.file)
    with database.read() as connection:
        rows = connection.execute(_FIND_MESSAGES_WITH_FILES).all()
    return sum(not files.has(name_of(row.identity, row.digest), row.size) for row in rows)


def delete_orphans(database: Database, now: int) -> int:
    """Delete payloads whose message was deleted or never stored; return their number."""
    pull_new(database)  # the message of a payload may be in the log
    before, deleted = now - ORPHAN_AGE_MS, 0
    with database.read() as connection:
        rows = connection.execute(_FIND_ORPHANS, {"before": before}).mappings().all()
    for row in rows:
        with database.delete_without_sync() as connection:
            # The statement checks again, because the message may have been stored since.
            if connection.execute(_DELETE_ORPHAN, {**row, "before": before}).rowcount:
                connection.execute(_DELETE_CHUNKS, dict(row))
                deleted += 1
    if database.file is not None:
        with database.read() as connection:
            named = {name_of(row.identity, row.digest) for row in connection.execute(_FIND_FILES)}
        LargeFiles(database.file).keep_only(named)
    return deleted
