"""Locks of PostgreSQL that this process holds across transactions, on a connection of their own.

They keep other nodes away while a process does what no transaction can span, such as calls to
the report service. They are only tried, so nobody waits in a ring. The server releases them when
the process dies, or says nothing for ten seconds. On SQLite one process works, and holds
everything.
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
_TAKE = "SELECT k, pg_try_advisory_lock(k) FROM unnest(%s::bigint[]) AS k"
_RELEASE = "SELECT pg_advisory_unlock(k) FROM unnest(%s::bigint[]) AS k"


@dataclass(frozen=True, slots=True)
class HeldLocks:
    """Names that were locked, each once, on one connection."""

    names: frozenset[str] = frozenset()
    driver: Any = None


NOTHING_HELD: Final = HeldLocks()


class SessionLocks:
    """From any thread; a thread of its own releases, and keeps the connection in use."""

    def __init__(self, database: Database) -> None:
        """Take the database; the connection is opened for the first lock."""
        self._database = database
        self._mutex = threading.Lock()
        self._driver: Any = None
        self._released: SimpleQueue[HeldLocks] = SimpleQueue()
        database.on_dispose(self.close)

    def take(self, names: Collection[str]) -> HeldLocks:
        """
        Lock those of the names that no other process has. Blocking. Raises StoreError.

        What this process has already it takes once more.
        """
        if self._database.dialect != "postgresql":
            return HeldLocks(frozenset(names))
        keys = {lock_key(name): name for name in names}
        if not keys:
            return NOTHING_HELD
        driver = None
        try:
            driver = self._opened()
            rows = driver.execute(_TAKE, (sorted(keys),)).fetchall()
        except driver_errors() as error:
            self._drop(driver)
            raise translate(error) from None
        return HeldLocks(frozenset(keys[key] for key, taken in rows if taken), driver)

    def release(self, held: HeldLocks) -> None:
        """Release what was taken, soon; does not wait and does not fail."""
        if held.driver is not None and held.names:
            self._released.put(held)

    def close(self) -> None:
        """Close the connection; the next lock opens another."""
        self._drop(self._driver)

    def _opened(self) -> Any:
        with self._mutex:
            if self._driver is None:
                driver = self._database.dedicated_connection()
                driver.autocommit = True
                for setting in FAST_DISCONNECT_DETECTION:
                    driver.execute(setting)
                self._driver = driver
                threading.Thread(
                    target=self._keep, args=(driver,), name="session locks", daemon=True
                ).start()
            return self._driver

    def _drop(self, driver: Any) -> None:
        """Close a connection, and with it lose all its locks."""
        with self._mutex:
            if self._driver is driver:
                self._driver = None
        if driver is not None:
            driver.close()

    def _keep(self, driver: Any) -> None:
        while not driver.closed:
            held = NOTHING_HELD
            with suppress(Empty):
                held = self._released.get(timeout=_PING_SECONDS)
            try:
                if not held.names:
                    driver.execute("SELECT 1")
                elif held.driver is driver:  # else it ended, and its locks with it
                    driver.execute(_RELEASE, (_keys(held.names),))
            except driver_errors():
                self._drop(driver)


def _keys(names: Iterable[str]) -> list[int]:
    return sorted(map(lock_key, names))
