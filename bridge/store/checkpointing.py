"""
Bring SQLite's log back into its file, on a thread of its own, so that no commit does.

SQLite lets the commit that finds the log long write it back, some ten milliseconds during which
its acknowledgments wait. Here that is done beside all others, and only the rest, what was committed
meanwhile, with the writer's turn: then whoever writes next begins the log anew. PostgreSQL has a
process for it.
"""

import threading
from pathlib import Path
from typing import Any, NamedTuple

from bridge.store.database import Database
from bridge.store.errors import Busy
from bridge.store.faults import driver_errors

LONG = 4000
"""Pages of a log that is brought back."""

_TRIES = 8
"""Times that it is written back beside others until nobody has committed meanwhile."""
_LOOKS = 0.1  # seconds: a hundred messages, or some hundred pages
_AGAIN = 0.2  # seconds until the next try, where a reader still needed the log
_HEAD, _FRAME_HEAD = 32, 24  # bytes before the first page of a log, and before each
_SALTS = slice(16, 24)  # of the log's head: new whenever the log begins anew
_FRAME_SALTS = slice(8, 16)


def is_long(log: Path, pages: int) -> bool:
    """
    Tell whether a log has so many pages since it began anew; it never gets shorter.

    Reads the log's head and one frame's, by SQLite's file format (sqlite.org/walformat.html). The
    file beside it, where SQLite has this number itself, must not be opened: closing it would
    let go all locks that this process holds on it.
    """
    try:
        with log.open("rb", buffering=0) as file:
            head = file.read(_HEAD)
            size = int.from_bytes(head[8:12], "big")
            file.seek(_HEAD + (pages - 1) * (_FRAME_HEAD + size))
            frame = file.read(_FRAME_HEAD)
    except OSError:  # nobody has written yet, or the last has closed the database
        return False
    return len(frame) == _FRAME_HEAD and frame[_FRAME_SALTS] == head[_SALTS]


class Checkpoints:
    """Looks at the log between `start` and `stop`; does nothing on PostgreSQL."""

    def __init__(self, database: Database, *, pages: int = LONG) -> None:
        self._database = database
        self._pages = pages
        self._driver: Any = None
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
            if is_long(log, self._pages):
                rest = _LOOKS if self._bring_back(log) else _AGAIN
        self._leave()

    def _log(self) -> Path:
        file = self._database.file
        assert file is not None  # noqa: S101  # `start` has asked
        return file.with_name(f"{file.name}-wal")

    def _bring_back(self, log: Path) -> bool:
        """
        Say whether all of the log is in the file.

        SQLite waits for the disk to have the file only in a round that nobody commits in. That
        should be one beside the others, for it takes as long as all that was written back.
        """
        try:
            driver = self._driver = self._driver or self._connected()
            for _ in range(_TRIES):
                pages = _checkpoint(driver, "PASSIVE").logged
                if not is_long(log, pages + 1):
                    break
            with self._database.turn():
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
