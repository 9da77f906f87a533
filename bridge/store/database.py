"""
`Database`: transactions on SQLite or PostgreSQL.

Hides how the two dialects open connections, begin transactions and lock. Guarantees durability:
when `write()` returns, the transaction has been flushed to disk. Contains no tables and no queries.
"""

import secrets
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, event, text
from sqlalchemy.engine import make_url
from sqlalchemy.engine.interfaces import DBAPIConnection
from sqlalchemy.pool import ConnectionPoolEntry
from sqlmodel import Session

from bridge.store import sqlite
from bridge.store.connections import CommitStatements, DriverWriter, KeyReader
from bridge.store.errors import UnsupportedStore, driver_errors, is_connection_lost, translate
from bridge.store.options import DatabaseOptions
from bridge.store.postgresql import connection as postgres
from bridge.store.postgresql.connection import SynchronousCommit
from bridge.store.statements import BoundStatement, execute_bound

DEFAULT_OPTIONS = DatabaseOptions()
_before_commit: ContextVar["Callable[[Database, Connection], None] | None"] = ContextVar(
    "before_commit", default=None
)


@contextmanager
def before_commit(action: "Callable[[Database, Connection], None] | None") -> Iterator[None]:
    """Call `action` before each commit of `Database.write()` in this context."""
    token = _before_commit.set(action)
    try:
        yield
    finally:
        _before_commit.reset(token)


class Database:
    """One database, given as `sqlite:///path` or `postgresql+psycopg://…`."""

    def __init__(self, url: str, options: DatabaseOptions | None = None) -> None:
        options = options or DEFAULT_OPTIONS
        address = make_url(url)
        self.dialect = address.get_backend_name()
        self.notification_id = secrets.token_hex(8)  # marks notifications of this process
        self.file: Path | None = None  # the SQLite file
        match self.dialect:
            case "sqlite":
                self.file = sqlite.file_of(address)
                self.engine = sqlite.engine(address, options)
            case "postgresql":
                self.engine = postgres.engine(address, options)
            case other:
                raise UnsupportedStore(other, "only sqlite and postgresql are supported")
        required = options.require_synchronous and self.dialect == "postgresql"
        self.synchronous_commit = SynchronousCommit(self.dedicated_connection, required=required)
        self.write_lock: AbstractContextManager[object] = (
            sqlite.WriteLock() if self.file else nullcontext()
        )
        """Held by each writer of an SQLite file in this process."""
        self._options = options
        self._beside: dict[Path, Database] = {}
        self._beside_lock = threading.Lock()
        self._on_dispose: list[Callable[[], None]] = []
        # Of open write transactions.
        self._commit_statements: dict[Connection, CommitStatements] = {}
        self._writer = self.engine.execution_options(bridge_begin="BEGIN IMMEDIATE")

    def beside(self, file: Path, prepare: "Callable[[Database, Database], None]") -> "Database":
        """
        Return the database in another SQLite file; disposed with this one.

        `prepare` is called with both when it is opened.
        """
        with self._beside_lock:
            if (found := self._beside.get(file)) is None:
                url = self.engine.url.set(database=str(file))
                found = Database(url.render_as_string(hide_password=False), self._options)
                prepare(found, self)
                self._beside[file] = found
            return found

    @property
    def has_heartbeats(self) -> bool:
        """Whether nodes hold heartbeat locks (`bridge.store.postgresql.dedicated_connections`)."""
        return self.dialect == "postgresql"

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """
        Yield a connection in a transaction that only reads.

        On SQLite all statements see one snapshot. On PostgreSQL (READ COMMITTED) each statement
        sees what was committed before it.
        """
        with self._translated(), self.engine.begin() as connection:
            yield connection

    @contextmanager
    def read_committed(self) -> Iterator[Connection]:
        """
        Yield a connection as `read` does, with less overhead.

        On PostgreSQL the statements run in autocommit mode, which saves the round trips of a
        transaction.
        """
        if self.dialect != "postgresql":
            with self.read() as connection:
                yield connection
            return
        with (
            self._translated(),
            self.engine.connect() as connection,
            postgres.autocommit(connection),
            connection.begin(),
        ):
            yield connection

    @contextmanager
    def write(self) -> Iterator[Connection]:
        """
        Yield a connection in a write transaction; commit at the end, roll back on any error.

        On SQLite writers wait for each other (`sqlite.WriteLock`); readers never wait.
        """
        self.synchronous_commit.require()
        with (
            self.write_lock,
            self._translated(),
            self._writer.connect() as connection,
            connection.begin(),
        ):
            self._commit_statements[connection] = commit_statements = CommitStatements()
            try:
                yield connection
                if action := _before_commit.get():
                    action(self, connection)
                commit_statements.send(connection, self.notification_id)
            except driver_errors() as error:
                if is_connection_lost(error):
                    connection.invalidate()  # otherwise the rollback fails and hides this error
                raise
            finally:
                del self._commit_statements[connection]

    @contextmanager
    def write_without_sync(self) -> Iterator[Connection]:
        """
        Yield a connection as `write` does, for changes that a power cut may undo.

        On SQLite the commit does not wait for the disk: it survives the end of this process, but
        not a power cut. On PostgreSQL this is `write`.
        """
        if self.dialect != "sqlite":
            with self.write() as connection:
                yield connection
            return
        with (
            self.write_lock,
            self._translated(),
            self._writer.connect() as connection,
            sqlite.without_sync(connection),
            connection.begin(),
        ):
            yield connection

    @contextmanager
    def delete_without_sync(self) -> Iterator[Connection]:
        """
        Yield a connection in a write transaction that only deletes old rows.

        The commit does not wait for the disk. If a power cut undoes it, the rows are deleted again.
        Other commits stay durable.
        """
        self.synchronous_commit.require()
        with self.write_lock, self._translated(), self._writer.connect() as connection:
            if self.dialect == "sqlite":
                with sqlite.with_early_checkpoints(connection), connection.begin():
                    yield connection
                return
            with connection.begin():
                connection.exec_driver_sql(postgres.ASYNCHRONOUS_COMMIT)
                yield connection

    @contextmanager
    def session(self) -> Iterator[Session]:
        """Yield a SQLModel session in a write transaction; flush and commit at the end."""
        with self.write() as connection, Session(bind=connection) as session:
            yield session
            session.flush()

    @contextmanager
    def savepoint(self, connection: Connection) -> Iterator[None]:
        """Keep or undo a part of a write transaction. Errors as for `write`."""
        with self._translated(), connection.begin_nested():
            yield

    def set_lock_timeout(self, connection: Connection, milliseconds: int | None) -> None:
        """
        Set the lock timeout until the commit; None restores the default.

        A statement that waits longer raises `Busy`. On SQLite a writer holds all locks from the
        beginning.
        """
        if self.dialect == "postgresql":
            limit = "DEFAULT" if milliseconds is None else str(milliseconds)
            connection.exec_driver_sql(f"SET LOCAL lock_timeout = {limit}")

    def disable_idle_timeout(self, connection: Connection) -> None:
        """Disable the time limit for pauses between the statements of this transaction."""
        if self.dialect == "postgresql":
            connection.exec_driver_sql(postgres.DISABLE_IDLE_TIMEOUT)

    def serialize(self, connection: Connection, name: str) -> None:
        """
        Exclude other transactions that serialize on `name`, from now until the commit.

        So the rows that these transactions append become visible in the order of their ids. On
        SQLite writers are always serialized.
        """
        if self.dialect == "postgresql":
            keys = [postgres.lock_key(name)]
            execute_bound(connection, BoundStatement(postgres.LOCK_ALL, {"keys": keys}))

    def serialize_statements(self, names: Iterable[str]) -> list[BoundStatement]:
        """
        Return statements that serialize on several names, to run before others; none on SQLite.

        All transactions lock these names in the order of their keys, so they do not deadlock. The
        names must not include those of `append_at_commit`, which have another order. After the
        statements the server ends a transaction that pauses between two statements for two seconds
        (`postgresql.connection.BRIEF_SECONDS`).
        """
        keys = sorted({postgres.lock_key(name) for name in names})
        if not keys or self.dialect != "postgresql":
            return []
        return [BoundStatement(postgres.LOCK_ALL_BRIEFLY, {"keys": keys})]

    def append_at_commit(
        self,
        connection: Connection,
        name: str,
        statements: Sequence[BoundStatement],
        channel: str = "",
    ) -> None:
        """
        Append rows immediately before the commit, serialized on `name`.

        As with `serialize`, they become visible in the order of their ids. PostgreSQL receives the
        lock, the statements and the commit in one message: no other transaction waits for this
        process. `channel` is notified.
        """
        if self.dialect != "postgresql":
            for statement in statements:
                execute_bound(connection, statement)
            return
        self._commit_statements[connection].add(name, statements, channel)

    def try_lock(self, connection: Connection, name: str) -> bool:
        """Try to lock `name` until the commit, without waiting; return whether this succeeded."""
        if self.dialect != "postgresql":
            return True
        statement = text("SELECT pg_try_advisory_xact_lock(:key)")
        return bool(connection.execute(statement, {"key": postgres.lock_key(name)}).scalar_one())

    def notify(self, connection: Connection, channel: str) -> None:
        """Notify the listeners of other processes at the commit."""
        if self.dialect == "postgresql":
            statement = text("SELECT pg_notify(:channel, :mark)")
            connection.execute(statement, {"channel": channel, "mark": self.notification_id})

    @property
    def skip_locked(self) -> str:
        """The clause that locks selected rows and skips rows that are locked."""
        return "FOR UPDATE SKIP LOCKED" if self.dialect == "postgresql" else ""

    @property
    def lock_rows(self) -> str:
        """The clause that locks selected rows and waits for rows that are locked."""
        return "FOR UPDATE" if self.dialect == "postgresql" else ""

    def driver_connection(self, connection: Connection) -> Any:
        """Return the driver's connection of the same transaction, for hot paths."""
        return connection.connection.driver_connection

    def writer(self) -> DriverWriter:
        """Return a writer that keeps a connection, for frequent transactions without SQLAlchemy."""
        if self.dialect == "sqlite":
            return DriverWriter(self.engine, self.write_lock, sqlite.begin_write)
        require = self.synchronous_commit.require
        return DriverWriter(
            self.engine,
            self.write_lock,
            lambda _: require(),  # psycopg begins with the first statement
            postgres.force_index_scans,
        )

    def reader(self) -> KeyReader:
        """Return a reader with a dedicated connection, for frequent queries by key."""
        reader = KeyReader(self.dedicated_connection, is_local=self.dialect == "sqlite")
        self.on_dispose(reader.close)
        return reader

    def on_dispose(self, close: Callable[[], None]) -> None:
        """Call `close` in `dispose`, for a connection outside of the pool."""
        self._on_dispose.append(close)

    def dedicated_connection(self) -> Any:
        """Return a driver connection outside of the pool; the caller closes it."""
        # From a separate pool, because it may outlive the others.
        connection = self.engine.pool.recreate().connect()
        driver = connection.driver_connection
        connection.detach()
        return driver

    def dispose(self) -> None:
        """Close all connections; those in use, and later ones, are closed when they return."""
        for close in self._on_dispose:
            close()
        with self._beside_lock:
            for other in self._beside.values():
                other.dispose()
        self.synchronous_commit.close()
        # Also for the pool that replaces this one: a thread may still need a connection.
        event.listen(self.engine.pool, "checkin", _close_returned)
        self.engine.dispose()

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except driver_errors() as error:
            if is_connection_lost(error):
                self.engine.dispose()  # the other connections are lost too
            raise translate(error) from None  # the driver's message may quote the row


def _close_returned(_: DBAPIConnection | None, entry: ConnectionPoolEntry) -> None:
    """Close a connection that returns to a pool of a disposed database."""
    entry.close()
