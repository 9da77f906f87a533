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
from bridge.store.connections import Ending, Kept, Reader, Writer
from bridge.store.errors import Busy, UnsupportedStore
from bridge.store.faults import driver_errors, fault, lost_connection
from bridge.store.locks import Turns, Turnstile, turnstile_of
from bridge.store.on_loop.short_work import ShortWork
from bridge.store.pool import LOCK_TIMEOUT, Pool
from bridge.store.postgresql import connection as postgres
from bridge.store.postgresql.synchrony import Synchrony
from bridge.store.statements import Words, carry

DEFAULT_POOL = Pool()
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

    def __init__(self, url: str, pool: Pool | None = None) -> None:
        pool = pool or DEFAULT_POOL
        address = make_url(url)
        self.dialect = address.get_backend_name()
        self.mark = secrets.token_hex(8)  # by which our own announcements are known
        self.file: Path | None = None  # SQLite's
        turnstile: Turnstile | None = None
        match self.dialect:
            case "sqlite":
                self.file = sqlite.file_of(address)
                turnstile = turnstile_of(self.file)
                self.engine = sqlite.engine(address, pool)
            case "postgresql":
                self.engine = postgres.engine(address, pool)
            case other:
                raise UnsupportedStore(other, "only sqlite and postgresql are supported")
        required = pool.require_synchronous and self.dialect == "postgresql"
        self.synchrony = Synchrony(self.apart, required=required)
        self.turns = Turns(turnstile, LOCK_TIMEOUT)
        self.commit_delay = pool.commit_delay
        self.short_work: ShortWork | None = None
        if turnstile is not None and pool.short_work_on_loop:
            self.short_work = ShortWork(self.turns)
        self._closers: list[Callable[[], None]] = []
        self._endings: dict[Connection, Ending] = {}  # of the write transactions that are open
        self._writer = self.engine.execution_options(bridge_begin="BEGIN IMMEDIATE")
        most = 1 if self.file else 0
        self._kept = Kept(self._writer, most, pooled=True)
        self._looking = Kept(self.engine, most)

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """Yield a connection that sees one state of the database and changes nothing."""
        self._refuse_to_wait()
        with self._translated(), self.engine.begin() as connection:
            yield connection

    @contextmanager
    def look(self) -> Iterator[Connection]:
        """
        As `read`, where each statement may see what has been committed until then.

        PostgreSQL's statements do in any case: here they need no way to begin and none to end.
        """
        self._refuse_to_wait()
        if self.dialect != "postgresql":
            with self._translated(), self._looking.lent() as connection, connection.begin():
                yield connection
            return
        with (
            self._translated(),
            self.engine.connect() as connection,
            postgres.each_alone(connection),
            connection.begin(),
        ):
            yield connection

    @contextmanager
    def glimpse(self) -> Iterator[Connection]:
        """As `look`, on the event loop: Busy without `short_work` or a free connection."""
        if self.short_work is None:
            raise Busy("a thread asks")
        with self._translated(), self._looking.lent(at_once=True) as connection, connection.begin():
            yield connection

    @contextmanager
    def write(self) -> Iterator[Connection]:
        """
        Yield a connection in a write transaction; commit at the end, roll back on any error.

        On SQLite writers take turns, in the order they came; readers are never held up.
        """
        self.synchrony.require()
        with (
            self.turns.turn(),
            self._translated(),
            self._kept.lent(at_once=self.turns.is_hasty) as connection,
            self._hastily(connection),
            connection.begin(),
        ):
            self._endings[connection] = ending = Ending()
            try:
                yield connection
                if action := _before_commit.get():
                    action(self, connection)
                ending.send(connection, self.mark)
            except driver_errors() as error:
                if lost_connection(error):
                    connection.invalidate()  # else the rollback fails, and hides this error
                raise
            finally:
                del self._endings[connection]

    def _hastily(self, connection: Connection) -> AbstractContextManager[None]:
        return sqlite.hastily(connection) if self.turns.is_hasty else nullcontext()

    @contextmanager
    def fleeting(self) -> Iterator[Connection]:
        """
        As `write`, for what does no harm where it is forgotten together with this process.

        Where a power cut ends both, the commit waits for no disk; a server falls without us.
        """
        if self.dialect != "sqlite":
            with self.write() as connection:
                yield connection
            return
        with (
            self.turns.turn(),
            self._translated(),
            self._kept.lent(at_once=self.turns.is_hasty) as connection,
            sqlite.unsynced(connection),
            self._hastily(connection),
            connection.begin(),
        ):
            yield connection

    @contextmanager
    def forgetting(self) -> Iterator[Connection]:
        """
        Yield a connection in a write transaction that only removes what is to be forgotten.

        Its commit waits for no disk, nor do others for it: what a power cut brings back is removed
        again. What others commit afterwards is as durable as ever.
        """
        self.synchrony.require()
        with self.turns.turn(), self._translated(), self._writer.connect() as connection:
            if self.dialect == "sqlite":
                with sqlite.lazily(connection), connection.begin():
                    yield connection
                return
            with connection.begin():
                connection.exec_driver_sql(postgres.LAZILY)
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

    def be_unhurried(self, connection: Connection) -> None:
        """Let this transaction pause between its statements for as long as its work takes."""
        if self.dialect == "postgresql":
            connection.exec_driver_sql(postgres.UNHURRIED)

    def serialize(self, connection: Connection, name: str) -> None:
        """
        Let whoever serializes on `name` commit one after the other, from here to the commit.

        What they append then becomes visible in the order of its ids. SQLite's writers do so
        in any case.
        """
        self.serialize_all(connection, [name])

    def serialize_all(self, connection: Connection, names: Iterable[str]) -> None:
        """As `serialize` on many names, in one order for everybody: nobody waits in a ring."""
        keys = sorted({postgres.lock_key(name) for name in names})
        if keys and self.dialect == "postgresql":
            carry(connection, Words(postgres.IN_TURN, {"keys": keys}))

    def serialized(self, names: Iterable[str]) -> list[Words]:
        """
        Give what `serialize_all` says, to be run before others: nothing on SQLite.

        The server then ends the transaction if it pauses (`postgres.BRIEF_SECONDS`).
        """
        keys = sorted({postgres.lock_key(name) for name in names})
        if not keys or self.dialect != "postgresql":
            return []
        return [Words(postgres.IN_TURN_BRIEFLY, {"keys": keys})]

    def at_commit(
        self, connection: Connection, name: str, words: Sequence[Words], channel: str = ""
    ) -> None:
        """
        Append rows as the last thing before the commit, serialized on `name`.

        As with `serialize`, they become visible in the order of their ids. PostgreSQL is sent the
        lock, the statements and the commit in one message (`bridge.store.committing`): no other
        transaction waits for this process. SQLite's writers are serialized already. `channel`: as
        `announce`.
        """
        if self.dialect != "postgresql":
            for each in words:
                carry(connection, each)
            return
        self._endings[connection].add(name, words, channel)

    def alone(self, connection: Connection, name: str) -> bool:
        """Tell whether this transaction is the only one on any node that holds `name`."""
        if self.dialect != "postgresql":
            return True
        question = text("SELECT pg_try_advisory_xact_lock(:key)")
        return bool(connection.execute(question, {"key": postgres.lock_key(name)}).scalar_one())

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

    def driver(self, connection: Connection) -> Any:
        """Give the driver's own connection, in the same transaction: for hot paths."""
        return connection.connection.driver_connection

    def writer(self, *, fleeting: bool = False, urgent: bool = False) -> Writer:
        """
        Keep a connection for transactions so frequent that they go by the driver alone.

        What is `fleeting` is as in the method of that name; `urgent` as in `Turnstile`.
        """
        if self.dialect == "sqlite":
            prepare = sqlite.be_unsynced if fleeting else None
            return Writer(self.engine, self.turns, sqlite.Beginning(), prepare, urgent=urgent)
        begin = postgres.Beginning(self.synchrony)
        return Writer(self.engine, self.turns, begin, postgres.by_index_alone)

    def reader(self) -> Reader:
        """Keep a connection for a question that is asked all the time; `dispose` ends it too."""
        reader = Reader(self.apart, at_hand=self.dialect == "sqlite")
        self.at_dispose(reader.close)
        return reader

    def at_dispose(self, close: Callable[[], None]) -> None:
        """Have a connection that no pool knows closed with the others."""
        self._closers.append(close)

    def apart(self) -> Any:
        """Give a driver's connection that no pool knows; the caller closes it."""
        connection = self.engine.pool.recreate().connect()  # of its own: it may outlive the others
        driver = connection.driver_connection
        connection.detach()
        return driver

    def dispose(self) -> None:
        """Close all connections that are not in use."""
        for close in self._closers:
            close()
        self.synchrony.close()
        self._dispose()

    def _dispose(self) -> None:
        self._kept.close()
        self._looking.close()
        self.engine.dispose()

    def _refuse_to_wait(self) -> None:
        """Raise Busy within `Turns.at_once` where the pool has no connection."""
        if self.turns.is_hasty and not self._kept.has_room():
            raise Busy("no connection is free")

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except driver_errors() as error:
            if lost_connection(error):
                self._dispose()  # the others are gone too: open new ones
            raise fault(error) from None  # the driver's words may quote the row
