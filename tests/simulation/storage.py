"""
The database of a simulated world: one SQLite file that is reset for each schedule.

The driver injects the faults: a connection whose link is down fails, and a commit can succeed
although its caller gets an error. The code of `bridge.store` is the product's.
"""

import atexit
import shutil
import sqlite3
import tempfile
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, event
from typing_extensions import override

from bridge.store.database import Database
from bridge.store.options import DatabaseOptions
from bridge.store.postgresql.connection import lock_key
from tests.databases import fresh_file

NODES = 3

LOCKS = """
    CREATE TABLE pg_locks (
        locktype TEXT DEFAULT 'advisory', objsubid INTEGER DEFAULT 1, granted INTEGER DEFAULT 1,
        database INTEGER DEFAULT 1, classid INTEGER, objid INTEGER, session TEXT
    );
    CREATE TABLE pg_database (oid INTEGER, datname TEXT);
    INSERT INTO pg_database VALUES (1, 'bridge');
"""
"""The catalogue tables from which nodes read whose heartbeat locks are held."""

_MEMORY = Path("/dev/shm")


class Link:
    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        self.is_up: Callable[[], bool] = lambda: True
        self.lose_answer = False
        """Whether the answer of the next commit of a change is lost."""
        self.on_lost: Callable[[], None] = lambda: None

    def require(self) -> None:
        """Raise the driver's error if the database cannot be reached."""
        if not self.is_up():
            raise unreachable()


def unreachable() -> sqlite3.OperationalError:
    error = sqlite3.OperationalError("disk I/O error")
    error.sqlite_errorcode = sqlite3.SQLITE_IOERR
    error.sqlite_errorname = "SQLITE_IOERR"
    return error


class LinkedConnection(sqlite3.Connection):
    """A connection that fails when its link is down."""

    link: Link
    changes_before = 0

    @override
    def cursor(self, *args: Any, **named: Any) -> Any:
        self.link.require()
        return super().cursor(*args, **named)

    @override
    def commit(self) -> None:
        self.link.require()
        changed = self.total_changes != self.changes_before
        super().commit()
        self.changes_before = self.total_changes
        if changed and self.link.lose_answer:
            self.link.lose_answer = False
            self.link.on_lost()
            raise unreachable()


class ClusterDatabase(Database):
    """A database whose server holds heartbeat locks, as PostgreSQL does, in a table."""

    @property
    @override
    def has_heartbeats(self) -> bool:
        return True

    @override
    def try_lock(self, connection: Connection, name: str) -> bool:
        held = "SELECT 1 FROM pg_locks WHERE classid = ? AND objid = ?"
        return connection.exec_driver_sql(held, lock_columns(name)).first() is None


def lock_columns(name: str) -> tuple[int, int]:
    """Return `classid` and `objid` of a lock."""
    key = lock_key(name)
    return (key >> 32) & 0xFFFFFFFF, key & 0xFFFFFFFF


class Storage:
    def __init__(self, folder: Path) -> None:
        url = fresh_file(folder / "model.db")
        self.observer = sqlite3.connect(folder / "model.db", isolation_level=None)
        self.observer.execute("PRAGMA journal_mode = WAL")
        self.observer.execute("PRAGMA synchronous = OFF")
        self.observer.executescript(LOCKS)
        self._clock: Callable[[], int] = lambda: 0
        options = DatabaseOptions(
            size=2,
            lease_clock=True,
            boot_clock=self._boot_clock,
        )
        self.links = [Link() for _ in range(NODES)]
        self.databases = [_linked(Database(url, options), link) for link in self.links]
        clustered = replace(options, lease_clock=False)
        self.clustered = [_linked(ClusterDatabase(url, clustered), link) for link in self.links]
        self._empty = self.copy()

    def _boot_clock(self) -> int:
        return self._clock()

    def begin(self, clock: Callable[[], int]) -> None:
        """Begin a schedule: no rows, no faults; `clock` is the boot clock in ms."""
        self._clock = clock
        for link in self.links:
            link.reset()
        self.restore(self._empty)

    def copy(self) -> sqlite3.Connection:
        made = sqlite3.connect(":memory:")
        self.observer.backup(made)
        return made

    def restore(self, copy: sqlite3.Connection) -> None:
        copy.backup(self.observer)

    def rows(self, sql: str, *values: object) -> list[tuple[Any, ...]]:
        """Query without faults and without delay."""
        return self.observer.execute(sql, values).fetchall()


def _linked(database: Database, link: Link) -> Database:
    assert database.file is not None
    file = database.file

    def connect(_dialect: Any, _record: Any, _args: Any, named: dict[str, Any]) -> Any:
        link.require()
        made = sqlite3.connect(file, factory=LinkedConnection, **named)
        made.link = link
        made.create_function("current_database", 0, lambda: "bridge", deterministic=True)
        return made

    event.listen(database.engine, "do_connect", connect, insert=True)
    return database


@cache
def storage() -> Storage:
    folder = Path(tempfile.mkdtemp(prefix="bridge-simulation-", dir=_base()))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Storage(folder)


def _base() -> Path | None:
    return _MEMORY if _MEMORY.is_dir() else None
