"""
Bring SQLite's log back into its file, on a thread of its own, so that no commit does.

SQLite lets the commit that finds the log long write it back, some ten milliseconds during which
its acknowledgments wait. Here that is done beside all others, and only the rest, what was committed
meanwhile, with the writer's turn: then whoever writes next begins the log anew. And the log is made
as long as it gets before commits come to its end. PostgreSQL has processes for both.
"""

import threading
from typing import Any, NamedTuple

from bridge.store.database import Database
from bridge.store.errors import Busy, StoreError
from bridge.store.faults import driver_errors
from bridge.store.log_file import LogFile

LONG = 4000
"""Pages of a log that is brought back."""

_TRIES = 8
"""Times that it is written back beside others until nobody has committed meanwhile."""
_LOOKS = 0.1  # seconds: a hundred messages, or some hundred pages
_AGAIN = 0.2  # seconds until the next try, where a reader still needed the log
_BEGUN = 40  # a fortieth of a long log is written when room is made: who is idle needs none
_ROOM = 1.5  # of a long log: it grows while it is brought back
_BREATH = 0.002  # seconds for others between a part of it and the next


class Checkpoints:
    """Looks at the log between `start` and `stop`; does nothing on PostgreSQL."""

    def __init__(self, database: Database, *, pages: int = LONG) -> None:
        self._database = database
        self._pages = pages
        self._driver: Any = None
        self._roomy = False
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="checkpoints", daemon=True)

    def start(self) -> None:
        """Begin to look."""
        if self._database.file is not None:
            self._thread.start()

    def stop(self) -> None:
        """End, and wait until it has ended. Blocking."""
        self._ended.set()
        if self._thread.ident is not None:
            self._thread.join()

    def _run(self) -> None:
        log, rest = self._log(), _LOOKS
        while not self._ended.wait(rest):
            rest = _LOOKS
            if not self._roomy and log.is_long(max(1, self._pages // _BEGUN)):
                self._roomy = self._make_room(log)
            if log.is_long(self._pages):
                rest = _LOOKS if self._bring_back(log) else _AGAIN
        self._leave()

    def _log(self) -> LogFile:
        file = self._database.file
        assert file is not None  # noqa: S101  # `start` has asked
        return LogFile(file.with_name(f"{file.name}-wal"))

    def _make_room(self, log: LogFile) -> bool:
        """
        Say whether the log has room, or is to do without.

        A commit that makes the file longer waits half as long again: for where its end is.
        """
        writer = self._database.writer()
        try:
            while not self._ended.wait(_BREATH):
                with writer.transaction():  # so that nobody else writes to the log
                    if log.make_room(int(self._pages * _ROOM)):
                        return True
        except OSError:  # a full disk, say: whoever commits finds out
            return True
        except StoreError:  # later
            pass
        finally:
            writer.close()
        return False

    def _bring_back(self, log: LogFile) -> bool:
        """
        Say whether all of the log is in the file.

        SQLite waits for the disk to have the file only in a round that nobody commits in. That
        should be one beside the others, for it takes as long as all that was written back.
        """
        try:
            driver = self._driver = self._driver or self._connected()
            for _ in range(_TRIES):
                pages = _checkpoint(driver, "PASSIVE").logged
                if not log.is_long(pages + 1):
                    break
            with self._database.turns.turn():
                return _checkpoint(driver, "FULL").whole
        except Busy:  # someone has had the turn for very long
            return False
        except driver_errors():  # a full disk, say: whoever commits is told, and this tries again
            self._leave()
            return False

    def _connected(self) -> Any:
        driver = self._database.apart()
        driver.execute("PRAGMA busy_timeout = 0")  # who reads or writes goes first
        return driver

    def _leave(self) -> None:
        driver, self._driver = self._driver, None
        if driver is not None:
            driver.close()


class _Round(NamedTuple):
    """Whether others were in the way, the pages of the log, and those that are in the file."""

    busy: int
    logged: int
    done: int

    @property
    def whole(self) -> bool:
        return not self.busy and self.logged == self.done


def _checkpoint(driver: Any, how: str) -> _Round:
    """Write back what can be."""
    return _Round(*driver.execute(f"PRAGMA wal_checkpoint({how})").fetchone())
