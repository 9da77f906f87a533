"""
Connections to SQLite that are kept: the writer's, as one at a time writes, and one to look by.

To take one from a pool and give it back costs as much as a short statement; and what the
connection knows, pages and statements, is the next one's. A server's writers are many, and have
the pool's.
"""

from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import Connection, Engine
from sqlalchemy.pool import QueuePool

from bridge.store.errors import Busy


class Kept:
    """Lends connections of an engine, outside a transaction, and keeps `most` of them."""

    def __init__(self, engine: Engine, most: int, *, pooled: bool = False) -> None:
        """`pooled`: at once one of the pool's is lent too, as long as few are out."""
        self._engine = engine
        self._most = most
        self._pooled = pooled
        self._idle: deque[Connection] = deque()

    @contextmanager
    def lent(self, *, at_once: bool = False) -> Iterator[Connection]:
        """
        Lend one, to any thread; after an error the pool decides what it is worth.

        `at_once`: one that is kept; Busy where there is none, as a pool may have to be waited for.
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
            if at_once and not (self._pooled and self.has_room()):
                raise Busy("none is kept") from None
            return self._engine.connect()

    def has_room(self) -> bool:
        """Tell whether the pool lends a connection without waiting."""
        pool = self._engine.pool
        return isinstance(pool, QueuePool) and pool.checkedout() < pool.size()
