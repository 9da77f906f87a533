"""SQLite: connection settings, the lock of writers, and how transactions begin."""

import os
import sqlite3
import threading
import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import Any

import sqlalchemy
from sqlalchemy import Connection, Engine, event
from sqlalchemy.engine import URL
from sqlalchemy.engine.interfaces import DBAPIConnection

from bridge.store.errors import NOT_UTF8, Busy, UnsupportedStore
from bridge.store.options import LOCK_TIMEOUT, DatabaseOptions
from bridge.store.statements import execute_sql
from config.private_files import create_empty

_WAIT_FOR_LOCKS = f"PRAGMA busy_timeout = {int(LOCK_TIMEOUT * 1000)}"
_NO_SYNC = "PRAGMA synchronous = NORMAL"
_FULL_SYNC = "PRAGMA synchronous = FULL"  # NORMAL loses acknowledged messages in a power cut
_CHECKPOINT = "PRAGMA wal_autocheckpoint = 16000"  # a fallback for `bridge.store.checkpoints`
_EARLY_CHECKPOINT = "PRAGMA wal_autocheckpoint = 1000"
_RETRY_SECONDS = 0.01
_SETTINGS = (
    _FULL_SYNC,
    "PRAGMA foreign_keys = ON",
    _CHECKPOINT,
    "PRAGMA cache_size = -8192",  # KiB, for each of about fourteen connections of a process
    "PRAGMA journal_size_limit = 67108864",
)


def file_of(address: URL) -> Path:
    """Return the file of a URL. Raises UnsupportedStore."""
    if not address.database or address.database == ":memory:":
        raise UnsupportedStore(
            "sqlite", "a file is required, an in-memory database is lost when the process ends"
        )
    return Path(address.database)


def message_log_of(file: Path) -> Path:
    """Return the file of the message log beside the bridge's database."""
    return file.with_name(f"{file.stem}-messages{file.suffix}")


def engine(address: URL, options: DatabaseOptions) -> Engine:
    """Create an engine whose commits are durable."""
    # isolation_level None: `_begin` opens transactions, not the sqlite3 module.
    arguments = {"check_same_thread": False, "isolation_level": None, "timeout": LOCK_TIMEOUT}
    created = sqlalchemy.create_engine(
        address,
        connect_args=arguments,
        hide_parameters=True,
        pool_use_lifo=True,  # the connection that was used last has warm caches
        **options.engine_arguments,
    )
    file = file_of(address)
    # Creates the file with our file mode, before SQLite does.
    event.listen(created, "do_connect", lambda *_: create_empty(file))
    event.listen(created, "connect", _prepare)
    event.listen(created, "begin", _begin)
    return created


def _prepare(connection: DBAPIConnection, record: object) -> None:
    cursor = connection.cursor()
    cursor.execute(_WAIT_FOR_LOCKS)
    try:
        _enable_wal(cursor)  # the first statement that reads the schema
    except UnicodeDecodeError:  # SQLite quotes a damaged schema in its message
        raise sqlite3.DatabaseError(NOT_UTF8) from None
    for setting in _SETTINGS:
        cursor.execute(setting)
    cursor.close()


def _enable_wal(cursor: Any) -> None:
    """
    Enable the write-ahead log (WAL); the file keeps this setting.

    SQLite ignores the busy time-out here: processes that open a new file at the same time get
    SQLITE_BUSY until one of them has changed it.
    """
    deadline = time.monotonic() + LOCK_TIMEOUT
    while True:
        try:
            cursor.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as error:
            busy = error.sqlite_errorcode == sqlite3.SQLITE_BUSY
            if not busy or time.monotonic() >= deadline:
                raise
            time.sleep(_RETRY_SECONDS)
        else:
            return


def damage(connection: Connection) -> str:
    """
    Return the first problem of a SQLite file, without line breaks; empty if it is intact.

    Checks the structure of all pages, and each index against its table. Takes seconds per gigabyte.
    """
    found = execute_sql(connection, "PRAGMA integrity_check(1)", ()).scalar()
    return "" if found == "ok" else " ".join(str(found).split())


def sync_log(file: Path) -> None:
    """
    Wait until all commits to a file are on the disk, also those that did not wait for it.

    Commits that are not in the write-ahead log any more are in the file: a checkpoint syncs it
    before the log is reused. The file itself is not opened: closing it would end SQLite's locks.
    """
    with suppress(FileNotFoundError):
        descriptor = os.open(f"{file}-wal", os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _begin(connection: Connection) -> None:
    begin = connection.get_execution_options().get("bridge_begin", "BEGIN")
    execute_sql(connection, begin, ())


def without_sync(connection: Connection) -> AbstractContextManager[None]:
    """Switch off the disk syncs of a connection's commits in a block."""
    return _with_settings(connection, [_NO_SYNC], [_FULL_SYNC])


def with_early_checkpoints(connection: Connection) -> AbstractContextManager[None]:
    """
    Switch off the disk syncs of a connection's commits in a block, and checkpoint early.

    Early checkpoints keep the log short for urgent writers.
    """
    return _with_settings(connection, [_NO_SYNC, _EARLY_CHECKPOINT], [_FULL_SYNC, _CHECKPOINT])


@contextmanager
def _with_settings(
    connection: Connection, settings: Sequence[str], reset: Sequence[str]
) -> Iterator[None]:
    driver: Any = connection.connection.driver_connection
    try:
        for setting in settings:
            driver.execute(setting)
        yield
    finally:
        try:
            for pragma in reset:
                driver.execute(pragma)
        except BaseException:
            connection.invalidate()
            raise


def begin_write(cursor: Any) -> None:
    """Begin a write transaction."""
    cursor.execute("BEGIN IMMEDIATE")


class WriteLock:
    """
    The lock of the writers in this process, first come, first served.

    SQLite has one writer at a time. `threading.Lock` is not fair: a writer that commits in a loop
    would starve all others. Raises Busy after LOCK_TIMEOUT, and RuntimeError if its own thread has
    the lock already.
    """

    def __init__(self, timeout: float = LOCK_TIMEOUT) -> None:
        self.timeout = timeout
        self._mutex = threading.Lock()
        self._owner: int | None = None
        self._waiters: deque[tuple[int, threading.Lock]] = deque()

    def __enter__(self) -> None:
        thread = threading.get_ident()
        with self._mutex:
            if self._owner is None:
                self._owner = thread
                return
            if self._owner == thread:
                raise RuntimeError("this thread is already writing: pass its connection on")
            gate = threading.Lock()
            gate.acquire()
            self._waiters.append((thread, gate))
        if not gate.acquire(timeout=self.timeout) and self._stop_waiting(thread, gate):
            raise Busy("waited for the write lock")

    def __exit__(self, *_: object) -> None:
        """Pass the lock to the thread that has waited longest."""
        with self._mutex:
            if not self._waiters:
                self._owner = None
                return
            self._owner, gate = self._waiters.popleft()
            gate.release()

    def _stop_waiting(self, thread: int, gate: threading.Lock) -> bool:
        """Stop waiting unless the lock was passed on at this moment."""
        with self._mutex:
            if (thread, gate) not in self._waiters:
                return False
            self._waiters.remove((thread, gate))
            return True
