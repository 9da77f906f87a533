"""
Connections that a process keeps open, and transactions directly on the driver.

Borrowing a connection from the pool costs as much as a short statement, and a kept connection has
its page and statement caches warm. `KeyReader` and `DriverWriter` bypass SQLAlchemy, because its
overhead is the larger part of a small transaction. Each is used by one thread at a time.

`CommitStatements` are sent to PostgreSQL together with the commit in one message. The server
executes a message only when it has received all of it. If the process stops or its network path
breaks, the server has received the whole message or nothing, so no other node waits for the locks
of these statements.
"""

import json
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any, Protocol, TypeVar

from sqlalchemy import Connection, Engine
from sqlalchemy.pool import PoolProxiedConnection, QueuePool

from bridge.store.errors import (
    Busy,
    Lost,
    StoreError,
    StoreUnavailable,
    driver_errors,
    is_connection_lost,
    translate,
)
from bridge.store.locks import WriteLock
from bridge.store.postgresql import connection as postgres
from bridge.store.statements import BoundStatement, KeyStatement, execute_bound, has_listeners


class ConnectionCache:
    """Lends connections of an engine outside of transactions, and keeps up to `limit` of them."""

    def __init__(self, engine: Engine, limit: int, *, pooled: bool = False) -> None:
        """With `pooled`, `at_once` may also use the pool while it has a free connection."""
        self._engine = engine
        self._limit = limit
        self._pooled = pooled
        self._idle: deque[Connection] = deque()

    @contextmanager
    def borrow(self, *, at_once: bool = False) -> Iterator[Connection]:
        """
        Lend a connection to any thread. After an error it returns to the pool, which checks it.

        `at_once`: only a connection that is available without waiting; otherwise Busy.
        """
        connection = self._take(at_once=at_once)
        try:
            yield connection
        except BaseException:
            connection.close()
            raise
        if len(self._idle) < self._limit:
            self._idle.append(connection)
        else:
            connection.close()

    def close(self) -> None:
        """Close the idle connections. New ones are made on demand."""
        while self._idle:
            try:
                connection = self._idle.pop()
            except IndexError:  # another thread has just taken it
                return
            connection.close()

    def _take(self, *, at_once: bool) -> Connection:
        try:
            return self._idle.pop()
        except IndexError:
            if at_once and not (self._pooled and self.has_free_connection()):
                raise Busy("no connection is kept") from None
            return self._engine.connect()

    def has_free_connection(self) -> bool:
        """True if the pool lends a connection without waiting."""
        pool = self._engine.pool
        return isinstance(pool, QueuePool) and pool.checkedout() < pool.size()


def close_driver(driver: Any) -> None:
    """
    Close a driver connection that another thread may be using.

    psycopg frees the memory of a connection that it closes, even while another thread executes a
    statement on it: the process would crash.
    """
    with getattr(driver, "lock", nullcontext()):
        driver.close()


T = TypeVar("T")


class KeyReader:
    """
    Queries rows by key on a dedicated connection. `is_local`: the database is a local file.

    A query of a local file takes less time than passing it to a thread.
    """

    def __init__(self, connect: Callable[[], Any], *, is_local: bool) -> None:
        self.is_local = is_local
        self._connect = connect
        self._driver: Any = None
        self._closed = False

    def rows(
        self, statement: KeyStatement, keys: Sequence[str], **others: Any
    ) -> list[tuple[Any, ...]]:
        """Return the rows of a query. Errors as for `Database.read`."""
        return self._with_reconnect(lambda: self._execute(statement, keys, others))

    def ping(self) -> None:
        """Run a query without tables. Errors as for `Database.read`."""
        self._with_reconnect(lambda: self._connected().execute("SELECT 1").fetchall())

    def _with_reconnect(self, query: Callable[[], T]) -> T:
        was_kept = self._driver is not None
        try:
            return query()
        except driver_errors() as error:
            self._disconnect()
            if self._closed or not was_kept or not is_connection_lost(error):
                raise translate(error) from None  # the driver's message may quote the row
        try:  # the server was restarted since the last query
            return query()
        except driver_errors() as error:
            self._disconnect()
            raise translate(error) from None

    def data_version(self) -> int | None:
        """Return a number that changes with each commit of others; None on PostgreSQL."""
        if not self.is_local:
            return None
        try:
            found: int = self._connected().execute("PRAGMA data_version").fetchone()[0]
        except driver_errors() as error:
            self._disconnect()
            raise translate(error) from None
        return found

    def close(self) -> None:
        """Close the connection for good. Later queries raise StoreUnavailable."""
        self._closed = True
        self._disconnect()

    def _disconnect(self) -> None:
        driver, self._driver = self._driver, None
        if driver is not None:
            close_driver(driver)

    def _execute(
        self, statement: KeyStatement, keys: Sequence[str], others: dict[str, Any]
    ) -> list[tuple[Any, ...]]:
        array = json.dumps(list(keys)) if self.is_local else list(keys)
        parameters = {statement.name: array, **others}
        sql = statement.sqlite if self.is_local else statement.postgres
        found: list[tuple[Any, ...]] = self._connected().execute(sql, parameters).fetchall()
        return found

    def _connected(self) -> Any:
        driver = self._driver
        if driver is None and not self._closed:
            driver = self._driver = self._connect()
            if not self.is_local:
                driver.autocommit = True
        if driver is None or self._closed:  # `close` was called while it was connecting
            self._disconnect()
            raise StoreUnavailable("closed")
        return driver


class TransactionStart(Protocol):
    """Begins the transactions of a writer on one dialect."""

    def __call__(self, cursor: Any, wait: bool) -> None:
        """Begin; wait for another process that is writing only if `wait`."""

    def allow(self) -> None:
        """Raise if nothing may be written now."""

    def restore(self, driver: Any) -> None:
        """Reset a connection before it returns to the pool."""


class DriverWriter:
    """
    Runs write transactions on a cursor of the driver.

    `prepare` configures a connection that belongs to this writer alone and to no pool. Errors as
    for `Database.write`; Lost if a connection that served an earlier transaction has ended.
    """

    def __init__(
        self,
        engine: Engine,
        write_lock: WriteLock,
        begin: TransactionStart,
        prepare: Callable[[Any], None] | None = None,
        *,
        urgent: bool = False,
    ) -> None:
        self._engine = engine
        self._write_lock = write_lock
        self._begin = begin
        self._prepare = prepare
        self._urgent = urgent
        self._connection: PoolProxiedConnection | None = None

    @contextmanager
    def transaction(self) -> Iterator[Any]:
        """
        Yield a cursor in a write transaction; commit at the end, roll back on any error.

        Raises Busy instead of waiting for another process within `WriteLock.hold_without_waiting`.
        """
        with self._write_lock.hold(urgent=self._urgent):
            was_kept = self._connection is not None
            try:
                connection = self._connection or self._connect()
                driver: Any = connection.driver_connection
                cursor = driver.cursor()
                try:
                    self._begin(cursor, not self._write_lock.is_nonblocking)
                    yield cursor
                    driver.commit()
                except BaseException:
                    self._roll_back(driver)
                    raise
            except driver_errors() as error:
                raise _translated(error, was_kept) from None  # the message may quote the row

    @contextmanager
    def single(self) -> Iterator[Any]:
        """
        Yield a cursor whose single statement is a transaction: no begin, no commit.

        PostgreSQL only. Saves two round trips to the server. Errors as for `transaction`.
        """
        was_kept = self._connection is not None
        try:
            driver: Any = (self._connection or self._connect()).driver_connection
            try:
                driver.autocommit = True
                cursor = driver.cursor()
                self._begin.allow()
                yield cursor
                driver.autocommit = False
            except BaseException:
                self._roll_back(driver)
                raise
        except driver_errors() as error:
            raise _translated(error, was_kept) from None  # the message may quote the row

    def close(self) -> None:
        """Return the connection; the next transaction takes another."""
        connection, self._connection = self._connection, None
        if connection is not None:
            self._give_back(connection)

    def _connect(self) -> PoolProxiedConnection:
        pool = self._engine.pool if self._prepare is None else self._engine.pool.recreate()
        self._connection = connection = pool.connect()
        if self._prepare is not None:
            self._prepare(connection.driver_connection)
        return connection

    def _roll_back(self, driver: Any) -> None:
        connection, self._connection = self._connection, None
        try:
            driver.rollback()
        except driver_errors():
            if connection is not None:
                connection.invalidate()
        else:
            if connection is not None:
                self._give_back(connection)

    def _give_back(self, connection: PoolProxiedConnection) -> None:
        if self._prepare is None:
            self._begin.restore(connection.driver_connection)
            connection.close()
        else:
            connection.invalidate()  # its settings must not reach other users


def _translated(error: Exception, was_kept: bool) -> StoreError:
    return Lost("lost") if was_kept and is_connection_lost(error) else translate(error)


class CommitStatements:
    """Statements that a transaction appends at its commit, under locks that all nodes use."""

    def __init__(self) -> None:
        self._lock_names: set[str] = set()
        self._channels: set[str] = set()
        self._statements: list[BoundStatement] = []

    def add(self, name: str, statements: Sequence[BoundStatement], channel: str) -> None:
        """Add statements to run under the lock `name`; `channel` is notified afterwards."""
        self._lock_names.add(name)
        self._statements += statements
        if channel:
            self._channels.add(channel)

    def send(self, connection: Connection, mark: str) -> None:
        """
        Run the statements and commit. Does nothing if there are none.

        Raises driver errors, and then nothing is committed. If the engine has statement listeners,
        each statement is executed separately, and the caller commits.
        """
        if not self._statements:
            return
        # Nodes of all releases lock in the order of the names: another order could deadlock with
        # nodes of an earlier release.
        keys = [postgres.lock_key(name) for name in sorted(self._lock_names)]
        notifications = [{"channel": channel, "mark": mark} for channel in self._channels]
        statements = [BoundStatement(postgres.LOCK_ALL, {"keys": keys}), *self._statements]
        statements += [
            BoundStatement(postgres.NOTIFY, notification) for notification in notifications
        ]
        if has_listeners(connection):
            for statement in statements:
                execute_bound(connection, statement)
            return
        _commit(connection.connection.driver_connection, statements)


def _commit(driver: Any, statements: Sequence[BoundStatement]) -> None:
    from psycopg import ClientCursor  # noqa: PLC0415  # not installed with SQLite

    cursor = ClientCursor(driver)
    encoding = driver.info.encoding
    texts = [
        cursor.mogrify(statement.statement.encode(encoding), statement.values)
        for statement in statements
    ]
    # Without parameters psycopg sends a simple query, which may contain several statements.
    cursor.execute(";\n".join([*texts, "COMMIT"]).encode(encoding))
    cursor.close()
