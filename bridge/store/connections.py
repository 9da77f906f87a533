"""Connections of the database driver that a process keeps open, and how a transaction ends on
PostgreSQL.

To take one from a pool and give it back costs as much as a short statement; and what the
connection knows, pages and statements, is the next one's. A server's writers are many, and have
the pool's.

Each answer is one statement's, and a transaction of its own. `Database.reader` makes one; used by
one thread at a time.

Where a transaction is small, what an ORM does around it is the larger part of its cost. Here
are begin, commit, roll back and the errors' translation, and nothing else. `Database.writer`
makes one; used by one thread at a time.

The server starts to execute a message when it has received all of it, and needs no client until
its end. A process that is stopped, or whose network path breaks, has sent the whole message or
nothing: no lock that these statements take waits for that process.
"""

import json
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol, TypeVar

from sqlalchemy import Connection, Engine
from sqlalchemy.pool import PoolProxiedConnection, QueuePool

from bridge.store.error_translation import driver_errors, is_connection_lost, translate
from bridge.store.errors import Busy, Lost, StoreError, StoreUnavailable
from bridge.store.locks import WriteLock
from bridge.store.postgresql import connection as postgres
from bridge.store.statements import BoundStatement, KeyStatement, execute_bound, has_listeners


class ConnectionCache:
    """Lends connections of an engine, outside a transaction, and keeps `most` of them."""

    def __init__(self, engine: Engine, most: int, *, pooled: bool = False) -> None:
        """`pooled`: at once one of the pool's is lent too, as long as few are out."""
        self._engine = engine
        self._most = most
        self._pooled = pooled
        self._idle: deque[Connection] = deque()

    @contextmanager
    def borrow(self, *, at_once: bool = False) -> Iterator[Connection]:
        """
        Lend one, to any thread; after an error the pool decides what it is worth.

        `hold_without_waiting`: one that is kept; Busy where there is none, as a pool may have to
        be waited for.
        """
        connection = self._taken(at_once=at_once)
        try:
            yield connection
        except BaseException:
            connection.close()
            raise
        if len(self._idle) < self._most:
            self._idle.append(connection)
        else:
            connection.close()

    def close(self) -> None:
        """Give those back that nobody has; they are made again when they are needed."""
        while self._idle:
            try:
                connection = self._idle.pop()
            except IndexError:  # somebody has just taken it
                return
            connection.close()

    def _taken(self, *, at_once: bool) -> Connection:
        try:
            return self._idle.pop()
        except IndexError:
            if at_once and not (self._pooled and self.has_free_connection()):
                raise Busy("none is kept") from None
            return self._engine.connect()

    def has_free_connection(self) -> bool:
        """Tell whether the pool lends a connection without waiting."""
        pool = self._engine.pool
        return isinstance(pool, QueuePool) and pool.checkedout() < pool.size()


T = TypeVar("T")


class KeyReader:
    """
    Asks about the rows of some keys. `is_local`: the database is a file of this machine.

    An answer from such a file takes less than to hand the question to a thread and back.
    """

    def __init__(self, connect: Callable[[], Any], *, is_local: bool) -> None:
        self.is_local = is_local
        self._connect = connect
        self._driver: Any = None
        self._ended = False

    def rows(self, of: KeyStatement, keys: Sequence[str], **others: Any) -> list[tuple[Any, ...]]:
        """Give the rows of an answer. Errors are as for `Database.read`."""
        return self._answered(lambda: self._ask(of, keys, others))

    def ping(self) -> None:
        """Let the database answer a query without tables. Errors are as for `Database.read`."""
        self._answered(lambda: self._opened().execute("SELECT 1").fetchall())

    def _answered(self, ask: Callable[[], T]) -> T:
        kept = self._driver is not None
        try:
            return ask()
        except driver_errors() as error:
            self._drop()
            if self._ended or not kept or not is_connection_lost(error):
                raise translate(error) from None  # the driver's words may quote the row
        try:  # the server was started anew since the last question
            return ask()
        except driver_errors() as error:
            self._drop()
            raise translate(error) from None

    def data_version(self) -> int | None:
        """Give what each commit of anybody else changes; None where the database does not say."""
        if not self.is_local:
            return None
        try:
            found: int = self._opened().execute("PRAGMA data_version").fetchone()[0]
        except driver_errors() as error:
            self._drop()
            raise translate(error) from None
        return found

    def close(self) -> None:
        """End the connection for good: who asks meanwhile, or later, finds it unavailable."""
        self._ended = True
        self._drop()

    def _drop(self) -> None:
        driver, self._driver = self._driver, None
        if driver is not None:
            driver.close()

    def _ask(
        self, of: KeyStatement, keys: Sequence[str], others: dict[str, Any]
    ) -> list[tuple[Any, ...]]:
        asked = {of.name: json.dumps(list(keys)) if self.is_local else list(keys), **others}
        statement = of.sqlite if self.is_local else of.postgres
        found: list[tuple[Any, ...]] = self._opened().execute(statement, asked).fetchall()
        return found

    def _opened(self) -> Any:
        driver = self._driver
        if driver is None and not self._ended:
            driver = self._driver = self._connect()
            if not self.is_local:
                driver.autocommit = True
        if driver is None or self._ended:  # maybe while it was made
            self._drop()
            raise StoreUnavailable("closed")
        return driver


class TransactionStart(Protocol):
    """How transactions begin on a database; for one writer."""

    def __call__(self, cursor: Any, wait: bool) -> None:
        """Begin; where another process has the turn, wait for it only if asked."""

    def allow(self) -> None:
        """Raise where nothing may be written just now."""

    def restore(self, driver: Any) -> None:
        """Make a connection again what others expect, who get it next."""


class Writer:
    """
    Write transactions on a cursor of the driver's.

    `prepare` gets a connection ready that is this writer's alone, and no pool's: the next one
    after a cut is none of those that were cut with it. Errors are as for `Database.write`, and
    Lost where a connection ended that an earlier transaction had left.
    """

    def __init__(
        self,
        engine: Engine,
        turns: WriteLock,
        begin: TransactionStart,
        prepare: Callable[[Any], None] | None = None,
        *,
        urgent: bool = False,
    ) -> None:
        self._engine = engine
        self._turns = turns
        self._begin = begin
        self._prepare = prepare
        self._urgent = urgent
        self._connection: PoolProxiedConnection | None = None

    @contextmanager
    def transaction(self) -> Iterator[Any]:
        """
        Yield a cursor in a write transaction; commit at the end, roll back on any error.

        Within `Turns.hold_without_waiting` it waits for no other process: it raises Busy.
        """
        with self._turns.hold(urgent=self._urgent):
            kept = self._connection is not None
            try:
                connection = self._connection or self._connect()
                driver: Any = connection.driver_connection
                cursor = driver.cursor()
                try:
                    self._begin(cursor, not self._turns.is_nonblocking)
                    yield cursor
                    driver.commit()
                except BaseException:
                    self._undo(driver)
                    raise
            except driver_errors() as error:
                raise _fault(error, kept) from None  # the driver's words may quote the row

    @contextmanager
    def single(self) -> Iterator[Any]:
        """
        Yield a cursor whose one statement is a transaction of its own: no begin, no commit.

        For a server that is asked once where it was asked three times. Errors as above.
        """
        kept = self._connection is not None
        try:
            driver: Any = (self._connection or self._connect()).driver_connection
            try:
                driver.autocommit = True
                cursor = driver.cursor()
                self._begin.allow()
                yield cursor
                driver.autocommit = False
            except BaseException:
                self._undo(driver)
                raise
        except driver_errors() as error:
            raise _fault(error, kept) from None  # as above

    def close(self) -> None:
        """Give the connection back; the next transaction takes another."""
        connection, self._connection = self._connection, None
        if connection is not None:
            self._give_back(connection)

    def _connect(self) -> PoolProxiedConnection:
        pool = self._engine.pool if self._prepare is None else self._engine.pool.recreate()
        self._connection = connection = pool.connect()
        if self._prepare is not None:
            self._prepare(connection.driver_connection)
        return connection

    def _undo(self, driver: Any) -> None:
        """Leave nothing open. After an error the pool decides what the connection is worth."""
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
            connection.invalidate()  # nobody else may get it as it has been made


def _fault(error: Exception, kept: bool) -> StoreError:
    return Lost("lost") if kept and is_connection_lost(error) else translate(error)


class CommitStatements:
    """What a transaction appends under locks that every node needs; nothing on SQLite."""

    def __init__(self) -> None:
        self._names: set[str] = set()
        self._channels: set[str] = set()
        self._words: list[BoundStatement] = []

    def add(self, name: str, words: Sequence[BoundStatement], channel: str) -> None:
        """Add statements, to be run under the lock of a name; `channel` is then notified."""
        self._names.add(name)
        self._words += words
        if channel:
            self._channels.add(channel)

    def send(self, connection: Connection, mark: str) -> None:
        """
        Run the statements and commit, where there are any.

        Errors are the driver's; then nothing is committed. A listener of the engine's statements
        hears of each one; then the commit is left to the caller.
        """
        if not self._words:
            return
        # The names' order is the same on all nodes, of all releases: nobody waits in a ring.
        keys = [postgres.lock_key(name) for name in sorted(self._names)]
        notices = [{"channel": each, "mark": mark} for each in self._channels]
        words = [BoundStatement(postgres.LOCK_ALL, {"keys": keys}), *self._words]
        words += [BoundStatement(postgres.NOTIFY, each) for each in notices]
        if has_listeners(connection):
            for each in words:
                execute_bound(connection, each)
            return
        _commit(connection.connection.driver_connection, words)


def _commit(driver: Any, words: Sequence[BoundStatement]) -> None:
    from psycopg import ClientCursor  # noqa: PLC0415  # an installation on SQLite does without

    cursor = ClientCursor(driver)
    encoding = driver.info.encoding
    texts = [cursor.mogrify(each.statement.encode(encoding), each.values) for each in words]
    # Without parameters psycopg sends a simple query, which may have many statements.
    cursor.execute(";\n".join([*texts, "COMMIT"]).encode(encoding))
    cursor.close()
