"""
Checkpoints of SQLite's write-ahead log, in the background.

Without this module, a commit that finds a long log would copy it into the database, and its
acknowledgments would wait for some ten milliseconds. `PRAGMA data_version` changes with each
commit, and `PRAGMA wal_checkpoint` returns the length of the log. Most of the copying does not
block writers. The write lock is held only for the rest, so that the next writer restarts the log.
PostgreSQL has a checkpointer process.
"""

from threading import Lock
from typing import Any, NamedTuple

from bridge.store.database import Database
from bridge.store.errors import Busy, driver_errors

RESTART_PAGES = 4000
"""Pages of the log from which on it is restarted."""

_MAX_TRIES = 8
"""Passive checkpoints before the write lock is taken."""


class WalCheckpointer:
    """Runs a checkpoint on each call of `run`, every half second. Blocking."""

    def __init__(self, database: Database, *, pages: int = RESTART_PAGES) -> None:
        self._database = database
        self._pages = pages
        self._driver: Any = None
        self._version = -1
        self._mutex = Lock()  # a cancelled run continues in its thread
        self._closed = False

    def run(self) -> None:
        """Checkpoint the commits since the last run; a failure is retried at the next call."""
        with self._mutex:
            if self._closed:
                return
            try:
                self._checkpoint_if_needed()
            except Busy:  # another writer has held the lock for long
                self._version = -1
            except driver_errors():  # such as a full disk: commits report the error
                self._disconnect()

    def close(self) -> None:
        with self._mutex:
            self._closed = True
            self._disconnect()

    def _checkpoint_if_needed(self) -> None:
        """Copy the commits since the last run; restart the log if it is long."""
        driver = self._driver = self._driver or self._connect()
        (version,) = driver.execute("PRAGMA data_version").fetchone()
        if version == self._version:
            return
        first = _checkpoint(driver, "PASSIVE")
        if first.logged < self._pages or self._restart_log(driver, first.logged):
            self._version = version

    def _restart_log(self, driver: Any, logged: int) -> bool:
        """
        Copy the whole log, so that the next writer restarts it; False if a reader needs it.

        SQLite syncs the database file only after a complete copy, which takes as long as all that
        was copied. Passive checkpoints do most of it without blocking writers.
        """
        for _ in range(_MAX_TRIES):
            before, logged = logged, _checkpoint(driver, "PASSIVE").logged
            if logged == before:
                break
        with self._database.write_lock:  # constant writes would prevent completion
            return _checkpoint(driver, "FULL").is_complete

    def _connect(self) -> Any:
        driver = self._database.dedicated_connection()
        driver.execute("PRAGMA busy_timeout = 0")  # never wait for readers and writers
        return driver

    def _disconnect(self) -> None:
        driver, self._driver = self._driver, None
        self._version = -1
        if driver is not None:
            driver.close()


class _CheckpointResult(NamedTuple):
    """The result of a checkpoint: whether others blocked it, pages in the log, and pages copied."""

    busy: int
    logged: int
    copied: int

    @property
    def is_complete(self) -> bool:
        return not self.busy and self.logged == self.copied


def _checkpoint(driver: Any, mode: str) -> _CheckpointResult:
    return _CheckpointResult(*driver.execute(f"PRAGMA wal_checkpoint({mode})").fetchone())
