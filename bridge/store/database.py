"""
Transactions on SQLite or PostgreSQL.

The only file that knows which of the two it talks to, and that decides what durable means: a
`write()` that returned has been flushed to disk. No tables and no queries of anybody.
"""

import hashlib
import secrets
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from weakref import WeakValueDictionary

import sqlalchemy
from sqlalchemy import Connection, Engine, event, text
from sqlalchemy.engine import URL, make_url
from sqlalchemy.engine.interfaces import DBAPIConnection
from sqlmodel import Session

from bridge.store.errors import Busy, UnsupportedStore
from bridge.store.faults import DRIVER_ERRORS, fault, lost_connection
from bridge.store.turnstile import Turnstile
from bridge.store.writer import Writer

LOCK_TIMEOUT = 30.0
"""Seconds a statement may wait for another's lock before it is `Busy`."""


@dataclass(frozen=True, slots=True)
class Pool:
    """Connections that are kept, further ones in a rush, seconds to wait before it is `Busy`."""

    size: int = 10
    overflow: int = 10
    timeout: float = LOCK_TIMEOUT

    @property
    def arguments(self) -> dict[str, Any]:
        """Give what SQLAlchemy calls them."""
        return {
            "pool_size": self.size, "max_overflow": self.overflow, "pool_timeout": self.timeout
        }  # fmt: skip


_POOL = Pool()

_SQLITE_PATIENCE = f"PRAGMA busy_timeout = {int(LOCK_TIMEOUT * 1000)}"
_SQLITE_SETTINGS = (
    _SQLITE_PATIENCE,
    "PRAGMA journal_mode = WAL",
    "PRAGMA synchronous = FULL",  # WAL with NORMAL loses acknowledged messages at a power cut
    "PRAGMA foreign_keys = ON",
    "PRAGMA wal_autocheckpoint = 4000",
    "PRAGMA cache_size = -16384",  # KiB
    "PRAGMA journal_size_limit = 67108864",
)

_POSTGRES_ARGUMENTS: dict[str, Any] = {
    "connect_timeout": 10,
    "keepalives_idle": 30,
    "tcp_user_timeout": int(LOCK_TIMEOUT * 1000),
    "options": f"-c lock_timeout={int(LOCK_TIMEOUT * 1000)}",
}
# A server that was told to commit lazily would make liars of our acknowledgments.
_POSTGRES_DURABLE = """
    SELECT set_config('synchronous_commit', 'on', false)
    WHERE current_setting('synchronous_commit') = 'off'
"""

_turnstiles: WeakValueDictionary[str, Turnstile] = WeakValueDictionary()
_turnstiles_guard = threading.Lock()


class Database:
    """
    One database, given as `sqlite:///path` or `postgresql+psycopg://…`.

    Blocking: call it from a thread, never from the event loop. Whatever the driver raises
    leaves `read`, `write` and `session` as a `bridge.store.errors.StoreError`.
    """

    def __init__(self, url: str, pool: Pool = _POOL) -> None:
        address = make_url(url)
        self.dialect = address.get_backend_name()
        self.mark = secrets.token_hex(8)  # by which our own announcements are known
        self._turnstile: Turnstile | None = None
        match self.dialect:
            case "sqlite":
                self._turnstile = _turnstile(_sqlite_file(address))
                self.engine = _sqlite_engine(address, pool)
            case "postgresql":
                self.engine = _postgres_engine(address, pool)
            case other:
                raise UnsupportedStore(other, "only sqlite and postgresql are supported")
        self._writer = self.engine.execution_options(bridge_begin="BEGIN IMMEDIATE")

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """Yield a connection that sees one state of the database and changes nothing."""
        with self._translated(), self.engine.begin() as connection:
            yield connection

    @contextmanager
    def write(self) -> Iterator[Connection]:
        """
        Yield a connection in a write transaction; commit at the end, roll back on any error.

        On SQLite writers take turns, in the order they came; readers are never held up.
        """
        with self._turn(), self._translated(), self._writer.begin() as connection:
            yield connection

    @contextmanager
    def session(self) -> Iterator[Session]:
        """Yield a SQLModel session in a write transaction; flush and commit at the end."""
        with self.write() as connection, Session(bind=connection) as session:
            yield session
            session.flush()

    @contextmanager
    def savepoint(self, connection: Connection) -> Iterator[None]:
        """Keep or undo a part of a write transaction; errors are translated as in `write`."""
        with self._translated(), connection.begin_nested():
            yield

    def be_patient(self, connection: Connection, milliseconds: int | None) -> None:
        """
        Wait so long for each lock from here to the commit, None: as long as ever.

        Then the statement is `Busy`. SQLite's writers hold all locks from the beginning.
        """
        if self.dialect == "postgresql":
            limit = "DEFAULT" if milliseconds is None else str(milliseconds)
            connection.exec_driver_sql(f"SET LOCAL lock_timeout = {limit}")

    def serialize(self, connection: Connection, name: str) -> None:
        """
        Let whoever serializes on `name` commit one after the other, from here to the commit.

        What they append then becomes visible in the order of its ids. SQLite's writers do so
        in any case.
        """
        if self.dialect == "postgresql":
            connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": lock_key(name)})

    def alone(self, connection: Connection, name: str) -> bool:
        """Tell whether this transaction is the only one on any node that holds `name`."""
        if self.dialect != "postgresql":
            return True
        question = text("SELECT pg_try_advisory_xact_lock(:key)")
        return bool(connection.execute(question, {"key": lock_key(name)}).scalar_one())

    def announce(self, connection: Connection, channel: str) -> None:
        """Tell the listeners of other processes, at the commit, that something changed."""
        if self.dialect == "postgresql":
            statement = text("SELECT pg_notify(:channel, :mark)")
            connection.execute(statement, {"channel": channel, "mark": self.mark})

    @property
    def skip_locked(self) -> str:
        """The clause that locks selected rows and passes over rows that others hold."""
        return "FOR UPDATE SKIP LOCKED" if self.dialect == "postgresql" else ""

    @property
    def lock_rows(self) -> str:
        """The clause that locks selected rows, waiting for whoever holds them."""
        return "FOR UPDATE" if self.dialect == "postgresql" else ""

    @property
    def share_unlocked(self) -> str:
        """The clause that keeps selected rows from being changed, passing over changing ones."""
        return "FOR SHARE SKIP LOCKED" if self.dialect == "postgresql" else ""

    def driver(self, connection: Connection) -> Any:
        """Give the driver's own connection, in the same transaction: for hot paths."""
        return connection.connection.driver_connection

    def writer(self) -> Writer:
        """Keep a connection for transactions so frequent that they go by the driver alone."""
        if self.dialect == "sqlite":
            return Writer(self.engine, self._turnstile, _begin_at_once, LOCK_TIMEOUT)
        return Writer(self.engine, None, _begin_by_itself, LOCK_TIMEOUT, _by_index_alone)

    def apart(self) -> Any:
        """Give a driver's connection that no pool knows; the caller closes it."""
        connection = self.engine.raw_connection()
        driver = connection.driver_connection
        connection.detach()
        return driver

    def dispose(self) -> None:
        """Close all connections that are not in use."""
        self.engine.dispose()

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except DRIVER_ERRORS as error:
            if lost_connection(error):
                self.engine.dispose()  # the others are gone too: open new ones
            raise fault(error) from None  # the driver's words may quote the row

    @contextmanager
    def _turn(self) -> Iterator[None]:
        if self._turnstile is None:
            yield
            return
        if not self._turnstile.acquire(LOCK_TIMEOUT):
            raise Busy("waited for the writer's turn")
        try:
            yield
        finally:
            self._turnstile.release()


def _sqlite_file(address: URL) -> Path:
    if not address.database or address.database == ":memory:":
        raise UnsupportedStore("sqlite", "a file is needed, memory forgets")
    return Path(address.database)


def _turnstile(file: Path) -> Turnstile:
    """One for each file and process, however many Database objects point to it."""
    with _turnstiles_guard:
        return _turnstiles.setdefault(str(file.resolve()), Turnstile())


def _sqlite_engine(address: URL, pool: Pool) -> Engine:
    # isolation_level None: the module must not open transactions of its own, `_begin` does.
    arguments = {"check_same_thread": False, "isolation_level": None, "timeout": LOCK_TIMEOUT}
    engine = sqlalchemy.create_engine(
        address, connect_args=arguments, hide_parameters=True, **pool.arguments
    )
    event.listen(engine, "connect", _prepare_sqlite)
    event.listen(engine, "begin", _begin_sqlite)
    return engine


def _prepare_sqlite(connection: DBAPIConnection, record: object) -> None:
    cursor = connection.cursor()
    for setting in _SQLITE_SETTINGS:
        cursor.execute(setting)
    cursor.close()


def _begin_sqlite(connection: Connection) -> None:
    how = connection.get_execution_options().get("bridge_begin", "BEGIN")
    connection.exec_driver_sql(how)


def _begin_at_once(cursor: Any, wait: bool) -> None:
    """Begin as SQLite's writer; another process's turn is waited for only if asked."""
    if wait:
        cursor.execute("BEGIN IMMEDIATE")
        return
    cursor.execute("PRAGMA busy_timeout = 0")
    try:
        cursor.execute("BEGIN IMMEDIATE")
    finally:
        cursor.execute(_SQLITE_PATIENCE)


def _begin_by_itself(_cursor: Any, _wait: bool) -> None:
    """Leave it to psycopg, whose first statement begins; rows are locked one by one."""


def _by_index_alone(driver: Any) -> None:
    """
    Let each statement of a hot path go by its index, whatever is known of a table's size.

    Of a new table nothing is, and a plan that reads all of it would be kept until somebody
    counts its rows: a minute, in which each batch costs more than the last.
    """
    for way in ("seqscan", "hashjoin", "mergejoin"):
        driver.execute(f"SET enable_{way} = off")
    driver.commit()


def _postgres_engine(address: URL, pool: Pool) -> Engine:
    # Whatever the server's default: each statement must see what was committed before it.
    engine = sqlalchemy.create_engine(
        address,
        connect_args=_POSTGRES_ARGUMENTS,
        isolation_level="READ COMMITTED",
        hide_parameters=True,
        **pool.arguments,
    )
    event.listen(engine, "connect", _prepare_postgres)
    return engine


def _prepare_postgres(connection: DBAPIConnection, record: object) -> None:
    cursor = connection.cursor()
    cursor.execute(_POSTGRES_DURABLE)
    cursor.close()
    connection.commit()


def lock_key(name: str) -> int:
    """Give the signed 64 bits by which PostgreSQL knows a lock's name."""
    return int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8).digest(), signed=True)
