"""SQLite: connection settings, and how transactions begin."""

import sqlite3
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import sqlalchemy
from sqlalchemy import Connection, Engine, event
from sqlalchemy.engine import URL
from sqlalchemy.engine.interfaces import DBAPIConnection

from bridge.store.errors import NOT_UTF8, UnsupportedStore
from bridge.store.options import LOCK_TIMEOUT, DatabaseOptions
from bridge.store.statements import execute_sql
from config.private_files import create_empty

_WAIT_FOR_LOCKS = f"PRAGMA busy_timeout = {int(LOCK_TIMEOUT * 1000)}"
_NO_WAIT = "PRAGMA busy_timeout = 0"
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


def engine(address: URL, options: DatabaseOptions) -> Engine:
    """Create an engine whose commits are durable."""
    # isolation_level None: `_begin` opens transactions, not the sqlite3 module.
    arguments = {"check_same_thread": False, "isolation_level": None, "timeout": LOCK_TIMEOUT}
    options = replace(options, overflow=options.overflow + 2)  # two for `ConnectionCache`
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


def _begin(connection: Connection) -> None:
    begin = connection.get_execution_options().get("bridge_begin", "BEGIN")
    execute_sql(connection, begin, ())


def disable_sync(driver: Any) -> None:
    """Switch off the disk syncs of a connection's commits."""
    driver.execute(_NO_SYNC)


def without_sync(connection: Connection) -> AbstractContextManager[None]:
    """Switch off the disk syncs of a connection's commits in a block."""
    return _with_settings(connection, [_NO_SYNC], [_FULL_SYNC])


def without_waiting(connection: Connection) -> AbstractContextManager[None]:
    """Make a connection fail at once on locks of other processes, in a block."""
    return _with_settings(connection, [_NO_WAIT], [_WAIT_FOR_LOCKS])


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
            for each in reset:
                driver.execute(each)
        except BaseException:
            connection.invalidate()
            raise


class SQLiteTransactionStart:
    """
    Begins write transactions; waits for other processes only if asked.

    The time-out is changed only when needed: executing the PRAGMA takes longer than BEGIN.
    """

    def __init__(self) -> None:
        self._nonblocking: Any = None  # the connection that does not wait

    def __call__(self, cursor: Any, wait: bool) -> None:
        """Begin. Raises errors of the driver."""
        driver = cursor.connection
        if wait:
            self.restore(driver)
        elif self._nonblocking is not driver:
            cursor.execute(_NO_WAIT)
            self._nonblocking = driver
        cursor.execute("BEGIN IMMEDIATE")

    def allow(self) -> None:
        """Do nothing: a file has no standby."""

    def restore(self, driver: Any) -> None:
        """Restore the time-out of a connection."""
        if self._nonblocking is driver:
            driver.execute(_WAIT_FOR_LOCKS)
            self._nonblocking = None
