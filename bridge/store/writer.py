"""
One connection of the driver itself, kept for the transactions that come most often.

Where a transaction is small, what an ORM does around it is the larger part of its cost. Here
are begin, commit, roll back and the errors' translation, and nothing else. `Database.writer`
makes one; used by one thread at a time.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol

from sqlalchemy import Engine
from sqlalchemy.pool import PoolProxiedConnection

from bridge.store.errors import Lost, StoreError
from bridge.store.faults import driver_errors, fault, lost_connection
from bridge.store.turns import Turns


class Beginning(Protocol):
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
        turns: Turns,
        begin: Beginning,
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

        Within `Turns.at_once` it waits for no other process: it raises Busy.
        """
        with self._turns.turn(urgent=self._urgent):
            kept = self._connection is not None
            try:
                connection = self._connection or self._connect()
                driver: Any = connection.driver_connection
                cursor = driver.cursor()
                try:
                    self._begin(cursor, not self._turns.is_hasty)
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
    return Lost("lost") if kept and lost_connection(error) else fault(error)
