"""Database work off the event loop: one bounded pool of threads, and group commit.

Each stands behind a savepoint of its own, so that one that fails is undone alone. What they
announce is appended once, at the end. Whoever lost a race is told to try again alone.

Use cases that wait at the same moment share a transaction. A write that lost a race (a unique
key, a lock) is tried again as a whole, and after a few times refused as `Changed`. Every write
that succeeded rings the bell.
"""

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeVar

from sqlalchemy import Connection
from sqlmodel import Session

from bridge.engine.errors import OrderChanged
from bridge.engine.live.batcher import Batcher
from bridge.engine.live.change_notifier import ChangeNotifier
from bridge.engine.service.work import (
    Actor,
    CommitRecords,
    Work,
    event_kinds,
    nested_work,
    work_within,
)
from bridge.store.database import Database
from bridge.store.errors import Busy, Conflict, StoreUnavailable
from bridge.store.short_work import ShortWork

PATIENCE_MS, LITTLE_PATIENCE_MS = 200, 10
"""
How long a shared transaction waits for a lock, at first and after it has waited in vain.

Then the piece that wants the lock goes alone, where it may wait as long as ever.
"""


@dataclass(frozen=True, slots=True)
class PendingUseCase:
    """A use case that waits for its transaction: who does it, when, and what."""

    actor: Actor
    now: int
    deed: Callable[[Work], Any]


class RetryAlone(Exception):  # noqa: N818  # named for what to do
    """The piece was undone because of others: in a transaction of its own it may succeed."""


def run_together(
    database: Database, pieces: Sequence[PendingUseCase]
) -> tuple[list[Any], frozenset[str]]:
    """
    Carry out pieces in one transaction, in their order; return a result or an error for each.

    And which kinds of events they announced.
    Raise StoreUnavailable when nothing was kept, or nobody knows whether it was.
    """
    try:
        return _in_one(database, pieces)
    except StoreUnavailable as error:
        if not isinstance(error, Busy):
            raise
    except Exception:  # noqa: BLE001, S110  # whose fault it was shows when each goes alone
        pass
    return [RetryAlone() for _ in pieces], frozenset()


def _in_one(
    database: Database, pieces: Sequence[PendingUseCase]
) -> tuple[list[Any], frozenset[str]]:
    minutes, outcomes = CommitRecords(), []
    with database.write() as connection:
        database.set_lock_timeout(connection, PATIENCE_MS)
        for piece in pieces:
            outcomes.append(outcome := _attempt(database, connection, minutes, piece))
            if isinstance(outcome, RetryAlone):
                database.set_lock_timeout(connection, LITTLE_PATIENCE_MS)
        database.set_lock_timeout(connection, None)
        minutes.append(connection, database)
    return outcomes, event_kinds(minutes.announced)


def _attempt(
    database: Database, connection: Connection, minutes: CommitRecords, piece: PendingUseCase
) -> Any:
    try:
        with (
            database.savepoint(connection),
            nested_work(connection, piece.actor, piece.now) as work,
        ):
            result = piece.deed(work)
    except (Conflict, Busy):
        return RetryAlone()
    except StoreUnavailable:
        raise
    except Exception as error:  # noqa: BLE001  # it is this piece's answer, not its neighbours'
        return error
    minutes.take(work)
    return result


Result = TypeVar("Result")

ATTEMPTS = 4
MOST_SHARING = 64
"""So many use cases share a transaction at most: more would only make the first ones wait."""

LANES = {"sqlite": 1, "postgresql": 4}
"""So many transactions of use cases at a time: one that waits for a lock holds up its own lane."""


GLANCE_SECONDS = {"sqlite": 0.5, "postgresql": 2.0}
"""How often to look for what another process wrote: on PostgreSQL its writers ring."""


class DatabaseExecutor:
    """The only way from the event loop to the database."""

    def __init__(self, database: Database, threads: int, *, alone: bool = False) -> None:
        """`alone`: nobody but the engine's own callers waits for this loop."""
        self.database = database
        self._alone_here = alone
        self.changed = ChangeNotifier()
        self.patience = GLANCE_SECONDS[database.dialect]
        self._watch = database.reader()
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="engine")
        self._changes = Batcher[PendingUseCase, Any](
            self._share, MOST_SHARING, LANES[database.dialect]
        )

    async def run(self, work: Callable[[], Result]) -> Result:
        """Run blocking work that needs no transaction."""
        return await asyncio.get_running_loop().run_in_executor(self._pool, work)

    async def read(self, work: Callable[[Connection], Result]) -> Result:
        """Run `work` on one state of the database."""

        def reading() -> Result:
            with self.database.read() as connection:
                return work(connection)

        return await self.run(reading)

    async def read_inline(self, work: Callable[[Connection], Result]) -> Result:
        """
        As `read`, of what is a few rows: from a file of this machine in the loop's own turn.

        To hand that over to a thread and back takes longer than to read it. A server is asked
        without a transaction around what is asked. The loop never waits for a connection: where
        none is kept, a thread waits for one.
        """

        def looking() -> Result:
            with self.database.read_committed() as connection:
                return work(connection)

        with suppress(Busy), self.database.read_on_loop() as connection:
            return work(connection)
        return await self.run(looking)

    def mark(self) -> int | None:
        """Give what a commit changes, by whatever process; None where the database rings."""
        return self._watch.data_version()

    async def wait_for_change(
        self, notification: asyncio.Future[None], mark: int | None, seconds: float
    ) -> bool:
        """
        Wait for the bell, at most so long; tell whether it rang.

        Ends before it where another process may have changed something: since `mark` was taken,
        or, where there are no marks, from time to time.
        """
        loop = asyncio.get_running_loop()
        end = loop.time() + seconds
        while True:
            left = max(0.0, end - loop.time())
            await asyncio.wait({notification}, timeout=min(left, self.patience))
            if notification.done():
                return not notification.cancelled()
            if left <= self.patience or mark is None or self.mark() != mark:
                notification.cancel()
                return False

    async def read_session(self, work: Callable[[Session], Result]) -> Result:
        """Run `work` with an ORM session on one state of the database."""

        def reading(connection: Connection) -> Result:
            with Session(bind=connection) as session:
                return work(session)

        return await self.read(reading)

    async def write(self, work: Callable[[Connection], Result]) -> Result:
        """Run `work` in one write transaction; all of it is kept, or nothing."""
        result = await self.run(lambda: self._insist(work))
        self.changed.notify()
        return result

    async def _change_alone(self, piece: PendingUseCase) -> Any:
        return await self.run(lambda: self._rung(self._insist(lambda c: self._alone(c, piece))))

    def _here(self, short_work: ShortWork, piece: PendingUseCase) -> Any:
        """Do it in the loop's own turn. Raises Busy where that would keep somebody waiting."""
        return short_work.run(lambda: self._rung(self._write(lambda c: self._alone(c, piece))))

    def _rung(self, done: tuple[Result, frozenset[str]]) -> Result:
        """Ring for what was committed, where that was done: nobody waits for a thread's return."""
        result, events = done
        self.changed.notify(events)
        return result

    async def change(
        self,
        actor: Actor,
        now: int,
        deed: Callable[[Work], Result],
        *,
        brief: bool = False,
        urgent: bool = False,
    ) -> Result:
        """
        Run a use case, all of it or nothing; what it announces goes into the feed.

        `brief`: it takes a few milliseconds. `urgent`: so it does, and comes so rarely that
        listeners may wait for it too.
        """
        piece = PendingUseCase(actor, now, deed)
        short = urgent or (brief and self._alone_here)
        if short and self.database.short_work is not None and not self._changes.is_busy:
            with suppress(Busy, Conflict):  # a thread tries it again
                done: Result = self._here(self.database.short_work, piece)
                return done
        try:
            result: Result = await self._changes.give(piece)
        except RetryAlone:
            result = await self._change_alone(piece)
        return result

    def close(self) -> None:
        """Let running work finish and take no more."""
        self._pool.shutdown(wait=True)
        self._watch.close()

    async def _share(self, pieces: Sequence[PendingUseCase]) -> list[Any]:
        if len(pieces) == 1:
            return [await self._change_alone(pieces[0])]
        return await self.run(lambda: self._rung(run_together(self.database, pieces)))

    def _alone(self, connection: Connection, piece: PendingUseCase) -> tuple[Any, frozenset[str]]:
        with work_within(connection, self.database, piece.actor, piece.now) as work:
            result = piece.deed(work)
        return result, event_kinds(work.announced)

    def _insist(self, work: Callable[[Connection], Result]) -> Result:
        for _ in range(ATTEMPTS - 1):
            try:
                return self._write(work)
            except (Conflict, Busy):
                continue
        try:
            return self._write(work)
        except (Conflict, Busy):
            raise OrderChanged from None

    def _write(self, work: Callable[[Connection], Result]) -> Result:
        with self.database.write() as connection:
            return work(connection)
