"""
Transactions directly on the driver, on connections that a process keeps open.

`KeyReader` and `DriverWriter` bypass SQLAlchemy, because its
overhead is the larger part of a small transaction. Each is used by one thread at a time.

`CommitStatements` are sent to PostgreSQL together with the commit in one message. The server
executes a message only when it has received all of it. If the process stops or its network path
breaks, the server has received the whole message or nothing, so no other node waits for the locks
of these statements.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, TypeVar

from sqlalchemy import Connection, Engine
from sqlalchemy.pool import PoolProxiedConnection

from bridge.store.errors import (
    Lost,
    StoreError,
    StoreUnavailable,
    driver_errors,
    is_connection_lost,
    translate,
)
from bridge.store.postgresql import connection as postgres
from bridge.store.statements import BoundStatement, KeyStatement, execute_bound, has_listeners


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
        self, statement: KeyStatement, keys: Sequence[Any], **others: Any
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
        self, statement: KeyStatement, keys: Sequence[Any], others: dict[str, Any]
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


class DriverWriter:
    """
    Runs write transactions on a cursor of the driver.

    `begin` begins a transaction, or raises if nothing may be written now. `prepare` configures a
    connection that belongs to this writer alone and to no pool. Errors as for `Database.write`;
    Lost if a connection that served an earlier transaction has ended.
    """

    def __init__(
        self,
        engine: Engine,
        write_lock: AbstractContextManager[object],
        begin: Callable[[Any], None],
        prepare: Callable[[Any], None] | None = None,
    ) -> None:
        self._engine = engine
        self._write_lock = write_lock
        self._begin = begin
        self._prepare = prepare
        self._connection: PoolProxiedConnection | None = None

    @contextmanager
    def transaction(self) -> Iterator[Any]:
        """Yield a cursor in a write transaction; commit at the end, roll back on any error."""
        with self._write_lock, self._connected() as driver:
            cursor = driver.cursor()
            self._begin(cursor)
            yield cursor
            driver.commit()

    @contextmanager
    def single(self) -> Iterator[Any]:
        """
        Yield a cursor whose single statement is a transaction: no begin, no commit.

        PostgreSQL only. Saves two round trips to the server. Errors as for `transaction`.
        """
        with self._connected() as driver:
            driver.autocommit = True
            cursor = driver.cursor()
            self._begin(cursor)
            yield cursor
            driver.autocommit = False

    def close(self) -> None:
        """Return the connection; the next transaction takes another."""
        connection, self._connection = self._connection, None
        if connection is not None:
            self._give_back(connection)

    @contextmanager
    def _connected(self) -> Iterator[Any]:
        """Yield the driver's connection; roll back and give it back on any error."""
        was_kept = self._connection is not None
        try:
            driver: Any = (self._connection or self._connect()).driver_connection
            try:
                yield driver
            except BaseException:
                self._roll_back(driver)
                raise
        except driver_errors() as error:
            raise _translated(error, was_kept) from None  # the message may quote the row

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
