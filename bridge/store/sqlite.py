"""
SQLite's side: its settings, and how a transaction begins.

No statements but those.
"""

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

from bridge.store.errors import UnsupportedStore
from bridge.store.options import LOCK_TIMEOUT, DatabaseOptions
from bridge.store.statements import execute_sql
from config.private_files import create_empty

_PATIENCE = f"PRAGMA busy_timeout = {int(LOCK_TIMEOUT * 1000)}"
_IMPATIENCE = "PRAGMA busy_timeout = 0"
_UNSYNCED = "PRAGMA synchronous = NORMAL"
_DURABLE = "PRAGMA synchronous = FULL"  # NORMAL loses acknowledged messages at a power cut
_CHECKPOINT = "PRAGMA wal_autocheckpoint = 16000"  # where nobody else does (`checkpointing`)
_EARLY = "PRAGMA wal_autocheckpoint = 1000"
_LOOK_SECONDS = 0.01
_SETTINGS = (
    _DURABLE,
    "PRAGMA foreign_keys = ON",
    _CHECKPOINT,
    "PRAGMA cache_size = -8192",  # KiB, for each of some fourteen connections of a process
    "PRAGMA journal_size_limit = 67108864",
)


def file_of(address: URL) -> Path:
    """Give the file that an address names. Raises UnsupportedStore."""
    if not address.database or address.database == ":memory:":
        raise UnsupportedStore("sqlite", "a file is needed, memory forgets")
    return Path(address.database)


def engine(address: URL, pool: DatabaseOptions) -> Engine:
    """Make an engine whose transactions are durable when they are committed."""
    # isolation_level None: the module must not open transactions of its own, `_begin` does.
    arguments = {"check_same_thread": False, "isolation_level": None, "timeout": LOCK_TIMEOUT}
    beside = replace(pool, overflow=pool.overflow + 2)  # those that are kept (`kept`)
    made = sqlalchemy.create_engine(
        address,
        connect_args=arguments,
        hide_parameters=True,
        pool_use_lifo=True,  # the one that was used last still knows pages and statements
        **beside.engine_arguments,
    )
    file = file_of(address)
    event.listen(made, "do_connect", lambda *_: create_empty(file))  # before SQLite does
    event.listen(made, "connect", _prepare)
    event.listen(made, "begin", _begin)
    return made


def _prepare(connection: DBAPIConnection, record: object) -> None:
    cursor = connection.cursor()
    cursor.execute(_PATIENCE)
    _log_ahead(cursor)
    for setting in _SETTINGS:
        cursor.execute(setting)
    cursor.close()


def _log_ahead(cursor: Any) -> None:
    """
    Let the file be written by its log (WAL), which it remembers.

    SQLite does not wait for others here, whatever its patience: processes that open a new file
    at the same time are told that it is busy, until one of them has changed it.
    """
    deadline = time.monotonic() + LOCK_TIMEOUT
    while True:
        try:
            cursor.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as error:
            busy = error.sqlite_errorcode == sqlite3.SQLITE_BUSY
            if not busy or time.monotonic() >= deadline:
                raise
            time.sleep(_LOOK_SECONDS)
        else:
            return


def _begin(connection: Connection) -> None:
    how = connection.get_execution_options().get("bridge_begin", "BEGIN")
    execute_sql(connection, how, ())


def disable_sync(driver: Any) -> None:
    """Let no commit of a connection wait for the disk."""
    driver.execute(_UNSYNCED)


def without_sync(connection: Connection) -> AbstractContextManager[None]:
    """Let commits of a connection wait for no disk, and give it back as it was."""
    return _set(connection, [_UNSYNCED], [_DURABLE])


def without_waiting(connection: Connection) -> AbstractContextManager[None]:
    """Let a connection wait for no other process, and give it back as it was."""
    return _set(connection, [_IMPATIENCE], [_PATIENCE])


def with_early_checkpoints(connection: Connection) -> AbstractContextManager[None]:
    """
    Let commits of a connection wait for no disk, and give it back as it was.

    It writes back what it logs, and early: who has to answer somebody shall find little to do.
    """
    return _set(connection, [_UNSYNCED, _EARLY], [_DURABLE, _CHECKPOINT])


@contextmanager
def _set(connection: Connection, meanwhile: Sequence[str], back: Sequence[str]) -> Iterator[None]:
    driver: Any = connection.connection.driver_connection
    try:
        for each in meanwhile:
            driver.execute(each)
        yield
    finally:
        try:
            for each in back:
                driver.execute(each)
        except BaseException:
            connection.invalidate()
            raise


class SQLiteTransactionStart:
    """
    Begins as SQLite's writer; another process's turn is waited for only if asked.

    How long a connection waits is said when it changes: SQLite reads such a line anew each time,
    which takes longer than to begin.
    """

    def __init__(self) -> None:
        self._hasty: Any = None  # the connection that waits for nobody

    def __call__(self, cursor: Any, wait: bool) -> None:
        """Begin. Errors are the driver's."""
        driver = cursor.connection
        if wait:
            self.restore(driver)
        elif self._hasty is not driver:
            cursor.execute(_IMPATIENCE)
            self._hasty = driver
        cursor.execute("BEGIN IMMEDIATE")

    def allow(self) -> None:
        """Do nothing: a file has no standby."""

    def restore(self, driver: Any) -> None:
        """Let a connection wait as everybody's do."""
        if self._hasty is driver:
            driver.execute(_PATIENCE)
            self._hasty = None
