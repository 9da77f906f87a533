"""
Presence and leadership of processes: advisory locks on a dedicated connection.

PostgreSQL only: the server releases the locks when the process dies. On SQLite there are no other
nodes.
"""

import threading
from contextlib import closing
from typing import Any

from sqlalchemy import Connection, text

from bridge.store.database import Database
from bridge.store.error_translation import driver_errors
from bridge.store.errors import NameTaken
from bridge.store.postgresql.connection import FAST_DISCONNECT_DETECTION, lock_key

POLL_SECONDS = 2.0
"""Longest time until a free leadership is taken, or its loss is noticed."""

START_TIMEOUT_SECONDS = 20.0
"""How long a start waits for its name: a host that died is detected within ten seconds."""

_TRY_LOCK = "SELECT pg_try_advisory_lock(%s)"
_HELD_LOCKS = text("""
    SELECT (classid::bigint << 32) | objid::bigint FROM pg_locks
    WHERE locktype = 'advisory' AND objsubid = 1 AND granted
        AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
""")


class Presence:
    """
    Holds a lock for each name of this process, on a thread; with `jobs` also competes for
    leadership.

    A lost connection loses both until they are acquired again.
    """

    def __init__(self, database: Database, names: tuple[str, ...], jobs: str = "") -> None:
        """`jobs` names the leadership; empty if this process does not compete for it."""
        self._database = database
        self._names = [lock_key(lock_name(each)) for each in names]
        self._leader_key = lock_key(f"jobs {jobs}") if jobs else None
        self._is_leader = threading.Event()
        self._is_present = threading.Event()
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="presence", daemon=True)

    @property
    def is_leader(self) -> bool:
        """Whether this process runs the periodic jobs."""
        return self._database.dialect != "postgresql" or self._is_leader.is_set()

    def start(self) -> None:
        """Acquire the names. Blocking. Raises NameTaken if another process has one."""
        if self._database.dialect != "postgresql":
            return
        self._thread.start()
        if not self._is_present.wait(START_TIMEOUT_SECONDS):
            self.stop()
            raise NameTaken

    def stop(self) -> None:
        """Release the names. Blocking."""
        self._stopped.set()
        if self._thread.ident is not None:
            self._thread.join()

    def _run(self) -> None:
        while not self._stopped.is_set():
            try:
                with closing(self._database.dedicated_connection()) as driver:
                    self._hold_locks(driver)
            except driver_errors():
                self._stopped.wait(POLL_SECONDS)
            finally:
                self._is_leader.clear()

    def _hold_locks(self, driver: Any) -> None:
        driver.autocommit = True
        for setting in FAST_DISCONNECT_DETECTION:
            driver.execute(setting)
        missing = list(self._names)
        while not self._stopped.is_set():
            missing = [key for key in missing if not _try_lock(driver, key)]
            if self._leader_key is None or self._is_leader.is_set():
                driver.execute("SELECT 1")  # raises if the connection is lost
            elif not missing and _try_lock(driver, self._leader_key):
                self._is_leader.set()
            if not missing:
                self._is_present.set()  # last: a single node leads as soon as it is present
            self._stopped.wait(POLL_SECONDS)


def lock_name(owner: str) -> str:
    """Return the name of the heartbeat lock of a claim owner."""
    return f"present {owner}"


def without_heartbeat(connection: Connection, owners: set[str]) -> set[str]:
    """Return the owners whose heartbeat lock no process holds."""
    held = set(connection.execute(_HELD_LOCKS).scalars())
    return {owner for owner in owners if lock_key(lock_name(owner)) not in held}


def _try_lock(driver: Any, key: int) -> bool:
    return bool(driver.execute(_TRY_LOCK, (key,)).fetchone()[0])
