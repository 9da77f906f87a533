"""Checkpoints of SQLite's write-ahead log, beside the writers.

Otherwise the commit that finds the log long copies it back into the database, some ten milliseconds
during which its acknowledgments wait. Only SQLite's own interface is used: `PRAGMA data_version`
says whether somebody wrote, and `PRAGMA wal_checkpoint` how long the log is. It copies
beside all others, and takes the writer's turn only for the rest, so that the next writer begins
the log anew. PostgreSQL has a process for this.
"""

from threading import Lock
from typing import Any, NamedTuple

from bridge.store.database import Database
from bridge.store.error_translation import driver_errors
from bridge.store.errors import Busy

LONG = 4000
"""Pages of a log that is to begin anew."""

_TRIES = 8
"""Times that the log is copied beside others until nobody has committed meanwhile."""


class WalCheckpointer:
    """Copies the log at each look, which is due every half second. Blocking."""

    def __init__(self, database: Database, *, pages: int = LONG) -> None:
        self._database = database
        self._pages = pages
        self._driver: Any = None
        self._version = -1
        self._looking = Lock()  # a run that was cancelled goes on in its thread
        self._closed = False

    def run(self) -> None:
        """Copy what is due; what cannot be copied now is copied at the next look."""
        with self._looking:
            if self._closed:
                return
            try:
                self._look()
            except Busy:  # another writer has had its turn for very long
                self._version = -1
            except driver_errors():  # such as a full disk: commits report it, this tries again
                self._leave()

    def close(self) -> None:
        """Close the connection, once a look in progress has ended."""
        with self._looking:
            self._closed = True
            self._leave()

    def _look(self) -> None:
        """Copy what was written since the last look, and begin the log anew where it is long."""
        driver = self._driver = self._driver or self._connected()
        (version,) = driver.execute("PRAGMA data_version").fetchone()
        if version == self._version:
            return
        first = _checkpoint(driver, "PASSIVE")
        if first.logged < self._pages or self._begin_anew(driver, first.logged):
            self._version = version

    def _begin_anew(self, driver: Any, logged: int) -> bool:
        """
        Copy all of the log, so that the next writer begins it anew; False where a reader needs it.

        SQLite waits for the disk to have the database's file only where it could copy everything.
        That should happen beside others, for it takes as long as all that was copied.
        """
        for _ in range(_TRIES):
            before, logged = logged, _checkpoint(driver, "PASSIVE").logged
            if logged == before:
                break
        with (
            self._database.write_lock.hold()
        ):  # while somebody always writes, it would never be whole
            return _checkpoint(driver, "FULL").whole

    def _connected(self) -> Any:
        driver = self._database.dedicated_connection()
        driver.execute("PRAGMA busy_timeout = 0")  # readers and writers go first
        return driver

    def _leave(self) -> None:
        driver, self._driver = self._driver, None
        self._version = -1
        if driver is not None:
            driver.close()


class _Round(NamedTuple):
    """Whether others were in the way, the pages of the log, and those copied to the database."""

    busy: int
    logged: int
    done: int

    @property
    def whole(self) -> bool:
        return not self.busy and self.logged == self.done


def _checkpoint(driver: Any, how: str) -> _Round:
    return _Round(*driver.execute(f"PRAGMA wal_checkpoint({how})").fetchone())
