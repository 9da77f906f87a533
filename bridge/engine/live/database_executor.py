"""
Runs the engine's database work off the event loop: one bounded thread pool, and group commit.

Use cases that wait at the same time share a transaction (`Batcher`). Each runs in its own
savepoint, so one that fails is rolled back alone. Their audit events and feed changes are appended
once, at the end.

A use case that lost a race (a unique key, a lock) is repeated in a new transaction. After
`ATTEMPTS` attempts it is refused with `changed`.

Every successful write notifies the waiters of this process: readers of the feed, event streams, the
release scheduler. A notification says only that something changed, and the kinds of events if they
are known; the waiter then reads the database. Writers of other processes notify through PostgreSQL.
A waiter also polls, so a missed notification only delays it.
"""

import asyncio
import threading
from collections.abc import Awaitable, Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from sqlalchemy import Connection
from sqlmodel import Session

from bridge.contract.errors import ErrorCode
from bridge.engine.errors import EngineError
from bridge.engine.service.work import (
    ActorRef,
    CommitRecords,
    Work,
    event_kinds,
    nested_work,
    work_within,
)
from bridge.executors import set_outcome
from bridge.store.database import Database
from bridge.store.errors import Busy, Conflict, StoreUnavailable

Item = TypeVar("Item")
Result = TypeVar("Result")

ProcessBatch = Callable[[Sequence[Item]], Awaitable[Sequence[Result | Exception]]]
"""Processes items; returns one result or error for each, in their order."""


class Batcher(Generic[Item, Result]):
    """
    Processes items in batches of at most `max_items`, `concurrency` batches at a time, on one loop.

    The first item starts a batch at once. Items that are submitted while it runs form the next one.
    No item waits for others to arrive.
    """

    def __init__(
        self, process: ProcessBatch[Item, Result], max_items: int, concurrency: int = 1
    ) -> None:
        self._process = process
        self._max_items = max_items
        self._concurrency = concurrency
        self._waiting: list[tuple[Item, asyncio.Future[Result]]] = []
        self._running: set[asyncio.Task[None]] = set()

    async def submit(self, item: Item) -> Result:
        """Submit an item; return its result or raise its error."""
        future: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
        self._waiting.append((item, future))
        self._start()
        return await future

    def _start(self) -> None:
        if self._waiting and len(self._running) < self._concurrency:
            task = asyncio.get_running_loop().create_task(self._run_batch(), name="batch")
            self._running.add(task)
            task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._running.discard(task)
        self._start()

    async def _run_batch(self) -> None:
        """Process the items that wait now."""
        batch = self._waiting[: self._max_items]
        del self._waiting[: self._max_items]
        outcomes: Sequence[Result | Exception]
        try:
            outcomes = await self._process([item for item, _ in batch])
        except asyncio.CancelledError:
            for _, future in batch:  # otherwise the futures would never resolve
                future.cancel()
            raise
        except Exception as error:  # noqa: BLE001  # each item gets the error
            outcomes = [error] * len(batch)
        for (_, future), outcome in zip(batch, outcomes, strict=True):
            set_outcome(future, outcome)


FIRST_LOCK_WAIT_MS, NEXT_LOCK_WAIT_MS = 200, 10
"""
Milliseconds that a shared transaction waits for a lock: at first, and after a wait that timed out.

A use case whose wait timed out runs again alone, with the normal lock timeout.
"""


@dataclass(frozen=True, slots=True)
class PendingUseCase:
    """A use case that waits for its transaction."""

    actor: ActorRef
    now: int
    action: Callable[[Work], Any]


class RetryAlone(Exception):
    """The use case was rolled back because of others: it may succeed in its own transaction."""


def run_together(
    database: Database, use_cases: Sequence[PendingUseCase]
) -> tuple[list[Any], frozenset[str]]:
    """
    Execute use cases in one transaction, in their order.

    Return a result or an error for each, and the kinds of events that they announced. Raise
    StoreUnavailable if the transaction was rolled back, or if its outcome is unknown.
    """
    try:
        return _in_one(database, use_cases)
    except StoreUnavailable as error:
        if not isinstance(error, Busy):
            raise
    except Exception:  # noqa: BLE001, S110  # executed alone, each use case gets its own error
        pass
    return [RetryAlone() for _ in use_cases], frozenset()


def _in_one(
    database: Database, use_cases: Sequence[PendingUseCase]
) -> tuple[list[Any], frozenset[str]]:
    records, outcomes = CommitRecords(), []
    with database.write() as connection:
        database.set_lock_timeout(connection, FIRST_LOCK_WAIT_MS)
        for use_case in use_cases:
            outcomes.append(outcome := _attempt(database, connection, records, use_case))
            if isinstance(outcome, RetryAlone):
                database.set_lock_timeout(connection, NEXT_LOCK_WAIT_MS)
        database.set_lock_timeout(connection, None)
        records.append(connection, database)
    return outcomes, event_kinds(records.announced)


def _attempt(
    database: Database, connection: Connection, records: CommitRecords, use_case: PendingUseCase
) -> Any:
    try:
        with (
            database.savepoint(connection),
            nested_work(connection, use_case.actor, use_case.now) as work,
        ):
            result = use_case.action(work)
    except (Conflict, Busy):
        return RetryAlone()
    except StoreUnavailable:
        raise
    except Exception as error:  # noqa: BLE001  # the result of this use case only
        return error
    records.add(work)
    return result


ATTEMPTS = 4
MAX_SHARING = 64
"""Maximum number of use cases in one transaction: with more, the first ones would wait long."""

CONCURRENCY = {"sqlite": 1, "postgresql": 4}
"""Number of concurrent shared transactions: one that waits for a lock does not block the others."""


POLL_SECONDS = {"sqlite": 0.5, "postgresql": 2.0}
"""Seconds between checks for writes of other processes. On PostgreSQL they also notify."""


class ChangeNotifier:
    """Notifies all waiters of this process; thread-safe."""

    def __init__(self) -> None:
        self._waiting: dict[asyncio.Future[None], frozenset[str]] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = 0

    def notify(self, events: frozenset[str] = frozenset()) -> None:
        """
        Wake all waiters except those that exclude all of these events. Without events, wake all.

        Waking the event loop costs the calling thread time, so it is skipped if nobody waits. A
        waiter that registers later reads the change from the database.
        """
        if self._loop is None or self._loop.is_closed():
            return
        if events and all(events <= without for without in tuple(self._waiting.values())):
            return
        if self._thread == threading.get_ident():
            self._wake(events)
        else:
            self._loop.call_soon_threadsafe(self._wake, events)

    def notification(self, without: Collection[str] = ()) -> asyncio.Future[None]:
        """
        Return a future that the next notification resolves, unless all its events are in `without`.

        Call it before reading the database, so that no change is missed in between.
        """
        self._loop, self._thread = asyncio.get_running_loop(), threading.get_ident()
        future: asyncio.Future[None] = self._loop.create_future()
        self._waiting[future] = frozenset(without)
        future.add_done_callback(lambda done: self._waiting.pop(done, None))
        return future

    def _wake(self, events: frozenset[str]) -> None:
        for future, without in tuple(self._waiting.items()):
            if not future.done() and not (events and events <= without):
                future.set_result(None)


async def wait_notified(notification: asyncio.Future[None], seconds: float) -> bool:
    """Wait for a notification, at most so many seconds; return whether it came."""
    try:
        async with asyncio.timeout(max(0.0, seconds)):
            await notification
    except TimeoutError:
        return False
    return True


class DatabaseExecutor:
    """The only access of the event loop to the database."""

    def __init__(self, database: Database, threads: int) -> None:
        self.database = database
        self.changed = ChangeNotifier()
        self.poll_seconds = POLL_SECONDS[database.dialect]
        self._watch = database.reader()
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="engine")
        self._changes = Batcher[PendingUseCase, Any](
            self._change_batch, MAX_SHARING, CONCURRENCY[database.dialect]
        )

    async def run(self, work: Callable[[], Result]) -> Result:
        """Run blocking work in the thread pool. It begins its own transaction if it needs one."""
        return await asyncio.get_running_loop().run_in_executor(self._pool, work)

    async def read(self, work: Callable[[Connection], Result]) -> Result:
        """Run `work` on one snapshot of the database."""

        def reading() -> Result:
            with self.database.read() as connection:
                return work(connection)

        return await self.run(reading)

    def change_mark(self) -> int | None:
        """Return a number that each commit of any process changes; None on PostgreSQL."""
        return self._watch.data_version()

    async def wait_for_change(
        self, notification: asyncio.Future[None], data_version: int | None, seconds: float
    ) -> bool:
        """
        Wait for a notification, at most so many seconds; True if it came.

        The wait ends early if another process may have written: when the version of the database
        differs from `data_version`, or, if that is None, every `poll_seconds`.
        """
        loop = asyncio.get_running_loop()
        end = loop.time() + seconds
        while True:
            left = max(0.0, end - loop.time())
            await asyncio.wait({notification}, timeout=min(left, self.poll_seconds))
            if notification.done():
                return not notification.cancelled()
            if (
                left <= self.poll_seconds
                or data_version is None
                or self.change_mark() != data_version
            ):
                notification.cancel()
                return False

    async def read_session(self, work: Callable[[Session], Result]) -> Result:
        """Run `work` with an ORM session on one snapshot of the database."""

        def reading(connection: Connection) -> Result:
            with Session(bind=connection) as session:
                return work(session)

        return await self.read(reading)

    async def write(self, work: Callable[[Connection], Result]) -> Result:
        """Run `work` in one write transaction."""
        result = await self.run(lambda: self._retry(work))
        self.changed.notify()
        return result

    async def _change_alone(self, use_case: PendingUseCase) -> Any:
        return await self.run(
            lambda: self._notified(self._retry(lambda c: self._execute(c, use_case)))
        )

    def _notified(self, done: tuple[Result, frozenset[str]]) -> Result:
        """Notify the waiters of a commit, still in the thread that committed."""
        result, events = done
        self.changed.notify(events)
        return result

    async def change(self, actor: ActorRef, now: int, action: Callable[[Work], Result]) -> Result:
        """Run a use case in one transaction; its changes go into the feed."""
        use_case = PendingUseCase(actor, now, action)
        try:
            result: Result = await self._changes.submit(use_case)
        except RetryAlone:
            result = await self._change_alone(use_case)
        return result

    def close(self) -> None:
        """Wait for running work and accept no more."""
        self._pool.shutdown(wait=True)
        self._watch.close()

    async def _change_batch(self, use_cases: Sequence[PendingUseCase]) -> list[Any]:
        if len(use_cases) == 1:
            return [await self._change_alone(use_cases[0])]
        return await self.run(lambda: self._notified(run_together(self.database, use_cases)))

    def _execute(
        self, connection: Connection, use_case: PendingUseCase
    ) -> tuple[Any, frozenset[str]]:
        with work_within(connection, self.database, use_case.actor, use_case.now) as work:
            result = use_case.action(work)
        return result, event_kinds(work.announced)

    def _retry(self, work: Callable[[Connection], Result]) -> Result:
        for _ in range(ATTEMPTS - 1):
            try:
                return self._write(work)
            except (Conflict, Busy):
                continue
        try:
            return self._write(work)
        except (Conflict, Busy):
            raise EngineError(ErrorCode.CHANGED) from None

    def _write(self, work: Callable[[Connection], Result]) -> Result:
        with self.database.write() as connection:
            return work(connection)
