"""
Session locks: advisory locks that a process holds across transactions.

They exclude other nodes during work that one transaction cannot contain, such as calls to the
report engine. A lock is only tried, never awaited, so there are no deadlocks. The server releases
the locks when the process dies or is silent for ten seconds. On SQLite one process works, and holds
every lock.
"""

import threading
from collections.abc import Collection, Iterable
from contextlib import suppress
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import Any, Final

from bridge.store.database import Database
from bridge.store.error_translation import driver_errors, translate
from bridge.store.postgresql.connection import FAST_DISCONNECT_DETECTION, lock_key

_PING_SECONDS = 2.0
_TRY_LOCKS = "SELECT k, pg_try_advisory_lock(k) FROM unnest(%s::bigint[]) AS k"
_UNLOCK = "SELECT pg_advisory_unlock(k) FROM unnest(%s::bigint[]) AS k"


@dataclass(frozen=True, slots=True)
class HeldLocks:
    """Names that were locked on a connection."""

    names: frozenset[str] = frozenset()
    driver: Any = None


NOTHING_HELD: Final = HeldLocks()


class SessionLocks:
    """Session locks for all threads; a background thread releases them and keeps the connection."""

    def __init__(self, database: Database) -> None:
        """Connect to `database` when the first lock is taken."""
        self._database = database
        self._mutex = threading.Lock()
        self._driver: Any = None
        self._to_release: SimpleQueue[HeldLocks] = SimpleQueue()
        database.on_dispose(self.close)

    def take(self, names: Collection[str]) -> HeldLocks:
        """
        Lock the names that no other process has; return them. Blocking. Raises StoreError.

        Names that this process holds already are locked once more.
        """
        if self._database.dialect != "postgresql":
            return HeldLocks(frozenset(names))
        keys = {lock_key(name): name for name in names}
        if not keys:
            return NOTHING_HELD
        driver = None
        try:
            driver = self._connected()
            rows = driver.execute(_TRY_LOCKS, (sorted(keys),)).fetchall()
        except driver_errors() as error:
            self._disconnect(driver)
            raise translate(error) from None
        return HeldLocks(frozenset(keys[key] for key, taken in rows if taken), driver)

    def release(self, held: HeldLocks) -> None:
        """Release locks soon. Does not wait and does not fail."""
        if held.driver is not None and held.names:
            self._to_release.put(held)

    def close(self) -> None:
        """Close the connection; the next lock opens another."""
        self._disconnect(self._driver)

    def _connected(self) -> Any:
        with self._mutex:
            if self._driver is None:
                driver = self._database.dedicated_connection()
                driver.autocommit = True
                for setting in FAST_DISCONNECT_DETECTION:
                    driver.execute(setting)
                self._driver = driver
                threading.Thread(
                    target=self._keep_alive, args=(driver,), name="session locks", daemon=True
                ).start()
            return self._driver

    def _disconnect(self, driver: Any) -> None:
        """Close a connection, which releases all its locks."""
        with self._mutex:
            if self._driver is driver:
                self._driver = None
        if driver is not None:
            driver.close()

    def _keep_alive(self, driver: Any) -> None:
        while not driver.closed:
            held = NOTHING_HELD
            with suppress(Empty):
                held = self._to_release.get(timeout=_PING_SECONDS)
            try:
                if not held.names:
                    driver.execute("SELECT 1")
                elif held.driver is driver:  # otherwise the connection and its locks have ended
                    driver.execute(_UNLOCK, (_keys(held.names),))
            except driver_errors():
                self._disconnect(driver)


def _keys(names: Iterable[str]) -> list[int]:
    return sorted(map(lock_key, names))
