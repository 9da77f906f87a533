"""
Transactions on SQLite or PostgreSQL.

With `sqlite` and `postgres` beside it the only file that knows which of the two it talks to, and
that decides what durable means: a `write()` that returned has been flushed to disk. No tables and
no queries of anybody.
"""

import secrets
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, text
from sqlalchemy.engine import make_url
from sqlmodel import Session

from bridge.store import sqlite
from bridge.store.connections import CommitStatements, ConnectionCache, KeyReader, Writer
from bridge.store.error_translation import driver_errors, is_connection_lost, translate
from bridge.store.errors import Busy, UnsupportedStore
from bridge.store.locks import FairLock, WriteLock, lock_of_file
from bridge.store.options import LOCK_TIMEOUT, DatabaseOptions
from bridge.store.postgresql import connection as postgres
from bridge.store.postgresql.synchronous_commit import SynchronousCommit
from bridge.store.short_work import ShortWork
from bridge.store.statements import BoundStatement, execute_bound

DEFAULT_OPTIONS = DatabaseOptions()
_before_commit: ContextVar["Callable[[Database, Connection], None] | None"] = ContextVar(
    "before_commit", default=None
)


@contextmanager
def before_commit(action: "Callable[[Database, Connection], None] | None") -> Iterator[None]:
    """Call `action` at the end of each `Database.write()` of this context, within it."""
    token = _before_commit.set(action)
    try:
        yield
    finally:
        _before_commit.reset(token)


class Database:
    """
    One database, given as `sqlite:///path` or `postgresql+psycopg://…`.

    Blocking: call it from a thread, and on the event loop only within `short_work`.
    Whatever the driver raises leaves `read`, `write` and `session` as a
    `bridge.store.errors.StoreError`.
    """

    def __init__(self, url: str, pool: DatabaseOptions | None = None) -> None:
        pool = pool or DEFAULT_OPTIONS
        address = make_url(url)
        self.dialect = address.get_backend_name()
        self.notification_id = secrets.token_hex(8)  # by which our own announcements are known
        self.file: Path | None = None  # SQLite's
        turnstile: FairLock | None = None
        match self.dialect:
            case "sqlite":
                self.file = sqlite.file_of(address)
                turnstile = lock_of_file(self.file)
                self.engine = sqlite.engine(address, pool)
            case "postgresql":
                self.engine = postgres.engine(address, pool)
            case other:
                raise UnsupportedStore(other, "only sqlite and postgresql are supported")
        required = pool.require_synchronous and self.dialect == "postgresql"
        self.synchronous_commit = SynchronousCommit(self.dedicated_connection, required=required)
        self.write_lock = WriteLock(turnstile, LOCK_TIMEOUT)
        self.commit_delay = pool.commit_delay
        self.short_work: ShortWork | None = None
        if turnstile is not None and pool.short_work_on_loop:
            self.short_work = ShortWork(self.write_lock)
        self._closers: list[Callable[[], None]] = []
        self._endings: dict[
            Connection, CommitStatements
        ] = {}  # of the write transactions that are open
        self._writer = self.engine.execution_options(bridge_begin="BEGIN IMMEDIATE")
        most = 1 if self.file else 0
        self._kept = ConnectionCache(self._writer, most, pooled=True)
        self._looking = ConnectionCache(self.engine, most)

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """Yield a connection that sees one state of the database and changes nothing."""
        self._refuse_to_wait()
        with self._translated(), self.engine.begin() as connection:
            yield connection

    @contextmanager
    def read_committed(self) -> Iterator[Connection]:
        """
        As `read`, where each statement may see what has been committed until then.

        PostgreSQL's statements do in any case: here they need no way to begin and none to end.
        """
        self._refuse_to_wait()
        if self.dialect != "postgresql":
            with self._translated(), self._looking.borrow() as connection, connection.begin():
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
    def read_on_loop(self) -> Iterator[Connection]:
        """As `requeue_claims_of_failed_nodes`, on the event loop: Busy without `short_work` or a
        free connection.
        """
        if self.short_work is None:
            raise Busy("a thread asks")
        with (
            self._translated(),
            self._looking.borrow(at_once=True) as connection,
            connection.begin(),
        ):
            yield connection

    @contextmanager
    def write(self) -> Iterator[Connection]:
        """
        Yield a connection in a write transaction; commit at the end, roll back on any error.

        On SQLite writers take turns, in the order they came; readers are never held up.
        """
        self.synchronous_commit.require()
        with (
            self.write_lock.hold(),
            self._translated(),
            self._kept.borrow(at_once=self.write_lock.is_nonblocking) as connection,
            self._hastily(connection),
            connection.begin(),
        ):
            self._endings[connection] = ending = CommitStatements()
            try:
                yield connection
                if action := _before_commit.get():
                    action(self, connection)
                ending.send(connection, self.notification_id)
            except driver_errors() as error:
                if is_connection_lost(error):
                    connection.invalidate()  # else the rollback fails, and hides this error
                raise
            finally:
                del self._endings[connection]

    def _hastily(self, connection: Connection) -> AbstractContextManager[None]:
        return (
            sqlite.without_waiting(connection) if self.write_lock.is_nonblocking else nullcontext()
        )

    @contextmanager
    def write_without_sync(self) -> Iterator[Connection]:
        """
        As `write`, for what does no harm where it is forgotten together with this process.

        Where a power cut ends both, the commit waits for no disk; a server falls without us.
        """
        if self.dialect != "sqlite":
            with self.write() as connection:
                yield connection
            return
        with (
            self.write_lock.hold(),
            self._translated(),
            self._kept.borrow(at_once=self.write_lock.is_nonblocking) as connection,
            sqlite.without_sync(connection),
            self._hastily(connection),
            connection.begin(),
        ):
            yield connection

    @contextmanager
    def delete_without_sync(self) -> Iterator[Connection]:
        """
        Yield a connection in a write transaction that only removes what is to be forgotten.

        Its commit waits for no disk, nor do others for it: what a power cut brings back is removed
        again. What others commit afterwards is as durable as ever.
        """
        self.synchronous_commit.require()
        with self.write_lock.hold(), self._translated(), self._writer.connect() as connection:
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
        """Keep or undo a part of a write transaction; errors are translated as in `write`."""
        with self._translated(), connection.begin_nested():
            yield

    def set_lock_timeout(self, connection: Connection, milliseconds: int | None) -> None:
        """
        Wait so long for each lock from here to the commit, None: as long as ever.

        Then the statement is `Busy`. SQLite's writers hold all locks from the beginning.
        """
        if self.dialect == "postgresql":
            limit = "DEFAULT" if milliseconds is None else str(milliseconds)
            connection.exec_driver_sql(f"SET LOCAL lock_timeout = {limit}")

    def disable_idle_timeout(self, connection: Connection) -> None:
        """Let this transaction pause between its statements for as long as its work takes."""
        if self.dialect == "postgresql":
            connection.exec_driver_sql(postgres.DISABLE_IDLE_TIMEOUT)

    def serialize(self, connection: Connection, name: str) -> None:
        """
        Let whoever serializes on `name` commit one after the other, from here to the commit.

        What they append then becomes visible in the order of its ids. SQLite's writers do so
        in any case.
        """
        self.serialize_on_all(connection, [name])

    def serialize_on_all(self, connection: Connection, names: Iterable[str]) -> None:
        """As `serialize` on many names, in one order for everybody: nobody waits in a ring."""
        keys = sorted({postgres.lock_key(name) for name in names})
        if keys and self.dialect == "postgresql":
            execute_bound(connection, BoundStatement(postgres.LOCK_ALL, {"keys": keys}))

    def serialize_statements(self, names: Iterable[str]) -> list[BoundStatement]:
        """
        Give what `serialize_on_all` says, to be run before others: nothing on SQLite.

        The server then ends the transaction if it pauses (`postgres.BRIEF_SECONDS`).
        """
        keys = sorted({postgres.lock_key(name) for name in names})
        if not keys or self.dialect != "postgresql":
            return []
        return [BoundStatement(postgres.LOCK_ALL_BRIEFLY, {"keys": keys})]

    def append_at_commit(
        self, connection: Connection, name: str, words: Sequence[BoundStatement], channel: str = ""
    ) -> None:
        """
        Append rows as the last thing before the commit, serialized on `name`.

        As with `serialize`, they become visible in the order of their ids. PostgreSQL is sent the
        lock, the statements and the commit in one message (`bridge.store.committing`): no other
        transaction waits for this process. SQLite's writers are serialized already. `channel`: as
        `call_after_batch`.
        """
        if self.dialect != "postgresql":
            for each in words:
                execute_bound(connection, each)
            return
        self._endings[connection].add(name, words, channel)

    def try_lock(self, connection: Connection, name: str) -> bool:
        """Tell whether this transaction is the only one on any node that holds `name`."""
        if self.dialect != "postgresql":
            return True
        question = text("SELECT pg_try_advisory_xact_lock(:key)")
        return bool(connection.execute(question, {"key": postgres.lock_key(name)}).scalar_one())

    def notify(self, connection: Connection, channel: str) -> None:
        """Tell the listeners of other processes, at the commit, that something changed."""
        if self.dialect == "postgresql":
            statement = text("SELECT pg_notify(:channel, :mark)")
            connection.execute(statement, {"channel": channel, "mark": self.notification_id})

    @property
    def skip_locked(self) -> str:
        """The clause that locks selected rows and passes over rows that others hold."""
        return "FOR UPDATE SKIP LOCKED" if self.dialect == "postgresql" else ""

    @property
    def lock_rows(self) -> str:
        """The clause that locks selected rows, waiting for whoever holds them."""
        return "FOR UPDATE" if self.dialect == "postgresql" else ""

    def driver_connection(self, connection: Connection) -> Any:
        """Give the driver's own connection, in the same transaction: for hot paths."""
        return connection.connection.driver_connection

    def writer(self, *, unsynced: bool = False, urgent: bool = False) -> Writer:
        """
        Keep a connection for transactions so frequent that they go by the driver alone.

        What is `unsynced` is as in the method of that name; `urgent` as in `FairLock`.
        """
        if self.dialect == "sqlite":
            prepare = sqlite.disable_sync if unsynced else None
            return Writer(
                self.engine,
                self.write_lock,
                sqlite.SQLiteTransactionStart(),
                prepare,
                urgent=urgent,
            )
        begin = postgres.PostgreSQLTransactionStart(self.synchronous_commit)
        return Writer(self.engine, self.write_lock, begin, postgres.force_index_scans)

    def reader(self) -> KeyReader:
        """Keep a connection for a question that is asked all the time; `dispose` ends it too."""
        reader = KeyReader(self.dedicated_connection, is_local=self.dialect == "sqlite")
        self.on_dispose(reader.close)
        return reader

    def on_dispose(self, close: Callable[[], None]) -> None:
        """Have a connection that no pool knows closed with the others."""
        self._closers.append(close)

    def dedicated_connection(self) -> Any:
        """Give a driver's connection that no pool knows; the caller closes it."""
        connection = self.engine.pool.recreate().connect()  # of its own: it may outlive the others
        driver = connection.driver_connection
        connection.detach()
        return driver

    def dispose(self) -> None:
        """Close all connections that are not in use."""
        for close in self._closers:
            close()
        self.synchronous_commit.close()
        self._dispose()

    def _dispose(self) -> None:
        self._kept.close()
        self._looking.close()
        self.engine.dispose()

    def _refuse_to_wait(self) -> None:
        """Raise Busy within `Turns.hold_without_waiting` where the pool has no connection."""
        if self.write_lock.is_nonblocking and not self._kept.has_free_connection():
            raise Busy("no connection is free")

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except driver_errors() as error:
            if is_connection_lost(error):
                self._dispose()  # the others are gone too: open new ones
            raise translate(error) from None  # the driver's words may quote the row
