"""
The sessions of a simulated PostgreSQL server that hold heartbeat locks.

The server ends a session without a statement for ten seconds, and at once when its process ends.
"""

import asyncio
import sqlite3

from bridge.store.postgresql.dedicated_connections import lock_name
from tests.simulation.storage import Storage, lock_columns, unreachable
from tests.simulation.world import World

IDLE_SECONDS = 10.0
"""As `idle_session_timeout` in `bridge.store.postgresql.connection`."""


class LockServer:
    def __init__(self, world: World, storage: Storage) -> None:
        self._world, self._storage = world, storage
        self._last_statement: dict[str, float] = {}
        """When the session of a lock sent its last statement."""
        self._owners: dict[str, str] = {}
        self._sessions = 0
        self._open: set[str] = set()
        self._seen_at = float("-inf")
        self._is_new = False
        world.peers.create_task(self._end_idle_sessions())

    def connect(self) -> str:
        self._sessions += 1
        name = f"session {self._sessions}"
        self._open.add(name)
        if self._is_new:
            self._is_new, self._seen_at = False, self._world.now
        return name

    @property
    def age(self) -> float:
        """The seconds since a node first saw the timeline of the server."""
        return self._world.now - self._seen_at

    def try_lock(self, name: str, session: str) -> bool:
        """Take a lock or keep it; return False if another session has it."""
        if session not in self._open:
            raise unreachable()
        owner = self._owners.setdefault(name, session)
        if owner != session:
            return False
        if name not in self._last_statement:
            sql = "INSERT INTO pg_locks (classid, objid) VALUES (?, ?)"
            self._storage.observer.execute(sql, lock_columns(lock_name(name)))
        self._last_statement[name] = self._world.now
        return True

    def is_held(self, name: str) -> bool:
        return name in self._owners

    def end(self, name: str) -> None:
        if name in self._owners:
            self._open.discard(self._owners.pop(name))
            del self._last_statement[name]
            sql = "DELETE FROM pg_locks WHERE classid = ? AND objid = ?"
            self._storage.observer.execute(sql, lock_columns(lock_name(name)))

    def restart(self) -> None:
        for name in list(self._owners):
            self.end(name)
        self._open.clear()

    def lose(self, earlier: sqlite3.Connection) -> None:
        self.restart()
        self._is_new = True
        earlier.execute("DELETE FROM pg_locks")
        earlier.commit()

    async def _end_idle_sessions(self) -> None:
        while True:
            await asyncio.sleep(0.5)
            for name, last in list(self._last_statement.items()):
                if self._world.now - last > IDLE_SECONDS:
                    self._world.note(f"server: ended the session of {name}")
                    self.end(name)
