"""
Be seen by other processes for as long as we live, and be the one among them that does the jobs.

Both are advisory locks of PostgreSQL on a connection of their own: the server lets them go the
moment a process dies, whatever it was doing. On SQLite there is nobody else to be seen by.
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
"""How long it takes at most until a free leadership is taken, or one that was lost is noticed."""

START_TIMEOUT_SECONDS = 20.0
"""How long a start waits for a name to become free: a host that died is noticed within ten."""

_TAKE = "SELECT pg_try_advisory_lock(%s)"
_HELD = text("""
    SELECT (classid::bigint << 32) | objid::bigint FROM pg_locks
    WHERE locktype = 'advisory' AND objsubid = 1 AND granted
        AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
""")


class Presence:
    """
    Holds a lock for each of our names, on a thread; with `jobs` also tries to lead.

    A lost connection loses both, until they are taken again.
    """

    def __init__(self, database: Database, names: tuple[str, ...], jobs: str = "") -> None:
        """`jobs` names the leadership; empty: this process does not stand for it."""
        self._database = database
        self._names = [lock_key(lock_name(each)) for each in names]
        self._jobs = lock_key(f"jobs {jobs}") if jobs else None
        self._leads = threading.Event()
        self._present = threading.Event()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="presence", daemon=True)

    @property
    def is_leader(self) -> bool:
        """Whether the jobs are ours to do, as of a second ago."""
        return self._database.dialect != "postgresql" or self._leads.is_set()

    def start(self) -> None:
        """Return once we are seen. Blocking. Raises NameTaken where another has our name."""
        if self._database.dialect != "postgresql":
            return
        self._thread.start()
        if not self._present.wait(START_TIMEOUT_SECONDS):
            self.stop()
            raise NameTaken

    def stop(self) -> None:
        """Be seen no more. Blocking."""
        self._ended.set()
        if self._thread.ident is not None:
            self._thread.join()

    def _run(self) -> None:
        while not self._ended.is_set():
            try:
                with closing(self._database.dedicated_connection()) as driver:
                    self._stay(driver)
            except driver_errors():
                self._ended.wait(POLL_SECONDS)
            finally:
                self._leads.clear()

    def _stay(self, driver: Any) -> None:
        driver.autocommit = True
        for setting in FAST_DISCONNECT_DETECTION:
            driver.execute(setting)
        missing = list(self._names)
        while not self._ended.is_set():
            missing = [key for key in missing if not _taken(driver, key)]
            if self._jobs is None or self._leads.is_set():
                driver.execute("SELECT 1")  # raises where the connection, and all with it, is lost
            elif not missing and _taken(driver, self._jobs):
                self._leads.set()
            if not missing:
                self._present.set()  # last: whoever starts alone leads as soon as it is seen
            self._ended.wait(POLL_SECONDS)


def lock_name(owner: str) -> str:
    """Name the lock by which an owner of claims is seen."""
    return f"present {owner}"


def without_heartbeat(connection: Connection, owners: set[str]) -> set[str]:
    """Give those of the owners that nobody on any node answers for."""
    held = set(connection.execute(_HELD).scalars())
    return {owner for owner in owners if lock_key(lock_name(owner)) not in held}


def _taken(driver: Any, key: int) -> bool:
    return bool(driver.execute(_TAKE, (key,)).fetchone()[0])
