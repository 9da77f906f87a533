"""An engine with its own event loop executes brief changes on the loop."""

import asyncio
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import pytest

from bridge.contract.errors import ErrorCode
from bridge.engine.errors import EngineError
from bridge.engine.live.database_executor import DatabaseExecutor
from bridge.engine.service import change_feed as feed
from bridge.engine.service.launch.registration import OrderInput
from bridge.engine.service.work import ActorRef, Work
from bridge.store.database import Database
from bridge.store.errors import Conflict
from tests.bridge.engine.registrations import register
from tests.bridge.engine.service.harness import SITE, START, ServiceHarness

LOOP, THREAD = "loop", "thread"


@dataclass
class Engine:
    harness: ServiceHarness
    work: DatabaseExecutor
    expected: str

    def do(
        self, *accessions: str, fail: Exception | None = None, urgent: bool = False
    ) -> list[str]:
        """Register orders one by one, failing first with `fail`; return where each was tried."""
        tried: list[str] = []
        loop = threading.get_ident()

        def use(work: Work, accession: str) -> None:
            tried.append(LOOP if threading.get_ident() == loop else THREAD)
            register(work, SITE, OrderInput("M1", accession))
            if fail is not None and len(tried) == 1:
                raise fail

        async def run_all() -> None:
            for each in accessions:
                action = partial(use, accession=each)
                await self.work.change(ActorRef(), START, action, brief=not urgent, urgent=urgent)

        asyncio.run(run_all())
        return tried

    def feed(self) -> list[str]:
        with self.harness.database.read() as connection:
            page = feed.read_changes(connection, [SITE], 0, 1000)
        return [change["orders"][0]["Accession"] for change in page.changes]


@pytest.fixture(params=[True, False], ids=["without listener", "with listener"])
def engine(database: Database, request: pytest.FixtureRequest) -> Iterator[Engine]:
    """An engine with its own loop, and one that shares the loop with a listener."""
    harness = ServiceHarness(database)
    executor = DatabaseExecutor(database, 4, may_block_loop=request.param)
    here = LOOP if request.param and database.short_work is not None else THREAD
    yield Engine(harness, executor, here)
    executor.close()


def test_brief_changes_run_on_the_loop_of_an_engine_without_listener(engine: Engine) -> None:
    """With the plug-in of SQLite; without it, or with a listener, they run in a thread."""
    assert engine.do("A", "B") == [engine.expected] * 2
    assert engine.feed() == ["A", "B"]


def test_urgent_changes_run_on_the_loop(engine: Engine) -> None:
    """With the plug-in of SQLite, also with a listener."""
    has_short_work = engine.harness.database.short_work is not None
    assert engine.do("A", urgent=True) == [LOOP if has_short_work else THREAD]


def test_a_conflict_is_repeated_in_a_thread(engine: Engine) -> None:
    """The first attempt is rolled back."""
    tried = engine.do("A", fail=Conflict("key"))
    assert tried == [engine.expected, THREAD]
    assert engine.feed() == ["A"]


def test_a_refusal_is_not_repeated(engine: Engine) -> None:
    """Nothing is kept."""
    with pytest.raises(EngineError):
        engine.do("A", fail=EngineError(ErrorCode.REPORT_NOT_FOUND))
    assert engine.feed() == []


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
def test_the_loop_does_not_wait_for_another_writer(engine: Engine) -> None:
    """While another thread writes, a thread waits instead of the loop."""
    writing, finish = threading.Event(), threading.Event()

    def write() -> None:
        with engine.harness.database.write():
            writing.set()
            finish.wait()

    other = threading.Thread(target=write)
    other.start()
    writing.wait()
    threading.Timer(1, finish.set).start()
    assert engine.do("A") == [THREAD]
    other.join()
    assert engine.do("B") == [engine.expected]
