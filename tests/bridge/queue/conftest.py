"""A migrated database, and a message log that runs on its own event loop."""

import asyncio
from collections.abc import Coroutine, Iterator, Sequence
from typing import Any, TypeVar

import pytest

from bridge.queue.arrivals import Arrival, Receipt
from bridge.queue.inbox import Inbox
from bridge.queue.log_tables import pull_new
from bridge.queue.message_log import MessageLog
from bridge.store.database import Database

Result = TypeVar("Result")


@pytest.fixture
def store(database: Database) -> Database:
    return database


def accept(message_log: MessageLog, arrival: Arrival) -> asyncio.Future[Receipt]:
    future: asyncio.Future[Receipt] = asyncio.get_running_loop().create_future()

    def settle(receipt: Receipt | BaseException) -> None:
        if future.cancelled():
            return
        if isinstance(receipt, BaseException):
            future.set_exception(receipt)
        else:
            future.set_result(receipt)

    message_log.submit(arrival, settle)
    return future


class Intake:
    """A message log for tests without an event loop."""

    def __init__(self, database: Database, runner: asyncio.Runner) -> None:
        self._runner = runner
        self._database = database
        self.message_log = MessageLog(database)

    def enqueue(self, *arrivals: Arrival) -> list[Receipt]:
        """Accept arrivals at once, each independently. Raise the first error."""

        async def work() -> list[Receipt]:
            return await asyncio.gather(
                *(accept(self.message_log, arrival) for arrival in arrivals)
            )

        return self._run(work())

    def _run(self, work: Coroutine[Any, Any, Result]) -> Result:
        """Run work, and let the queue have what it has stored: tests change stored rows."""
        done = self._runner.run(work)
        pull_new(self._database)
        return done

    def run(self, work: Coroutine[Any, Any, Result]) -> Result:
        return self._runner.run(work)

    def outcomes(self, *arrivals: Arrival) -> list[Receipt | BaseException]:
        """Accept arrivals at once, and return a receipt or an error for each."""

        async def work() -> list[Receipt | BaseException]:
            futures = (accept(self.message_log, arrival) for arrival in arrivals)
            return await asyncio.gather(*futures, return_exceptions=True)

        return self._run(work())

    def enqueue_together(self, *arrivals: Arrival) -> Sequence[Receipt]:
        async def work() -> Sequence[Receipt]:
            return await self.message_log.accept_many(arrivals)

        return self._run(work())


@pytest.fixture
def intake(store: Database) -> Iterator[Intake]:
    """A running message log on `store`."""
    with asyncio.Runner() as runner:
        intake = Intake(store, runner)
        intake.message_log.start(runner.get_loop())
        yield intake
        runner.run(intake.message_log.stop())


@pytest.fixture
def inbox(store: Database) -> Inbox:
    return Inbox(store, "node-1", lease=1000)
