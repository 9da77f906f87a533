"""The ledger under load: several nodes, shutdown, closed connections, and who commits."""

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import event

from bridge.queue import queries
from bridge.queue.errors import LedgerClosed
from bridge.queue.ledger.arrivals import Receipt
from bridge.queue.ledger.ledger import Ledger
from bridge.queue.states import AcknowledgmentState
from bridge.store.database import Database
from bridge.store.migration import upgrade
from bridge.store.options import DatabaseOptions
from bridge.store.short_work import ShortWork
from tests.bridge.queue.conftest import accept
from tests.bridge.queue.samples import arrival, count_of
from tests.eventually import eventually_async


def test_acknowledgments_are_noted(store: Database) -> None:
    """What was written out is noted soon after; a retransmit makes it owed again."""
    given = arrival("A")

    def noted(message_id: int) -> AcknowledgmentState:
        return queries.message(store, message_id).row.acknowledgment

    async def story() -> list[AcknowledgmentState]:
        ledger = Ledger(store)
        ledger.start(asyncio.get_running_loop())
        number = (await accept(ledger, given)).message_id
        seen = [noted(number)]
        ledger.acknowledged(number)
        await eventually_async(lambda: noted(number) is AcknowledgmentState.DELIVERED)
        seen.append(noted(number))
        await accept(ledger, given)
        seen.append(noted(number))
        ledger.acknowledged(number)
        await ledger.stop()
        return [*seen, noted(number)]

    owed, told = AcknowledgmentState.PENDING, AcknowledgmentState.DELIVERED
    assert asyncio.run(story()) == [owed, told, owed, told]


def test_copies_on_two_nodes_at_once(store: Database) -> None:
    """A sender that tries both nodes at the same time is answered alike and stored once."""
    orders = [arrival() for _ in range(200)]

    async def story() -> list[list[Receipt]]:
        nodes = [Ledger(store), Ledger(store)]
        for node in nodes:
            node.start(asyncio.get_running_loop())
        futures = [[accept(node, each) for each in orders] for node in nodes]
        receipts = [await asyncio.gather(*each) for each in futures]
        for node in nodes:
            await node.stop()
        return receipts

    one, two = asyncio.run(story())
    assert count_of(store) == 200
    assert [each.message_id for each in one] == [each.message_id for each in two]
    assert all(a.duplicate != b.duplicate for a, b in zip(one, two, strict=True))


def test_stop_writes_what_waits(store: Database) -> None:
    """What was accepted before stop() is kept; what comes after fails, and is not kept."""

    async def story() -> tuple[int, BaseException]:
        ledger = Ledger(store)
        ledger.start(asyncio.get_running_loop())
        futures = [accept(ledger, arrival()) for _ in range(50)]
        await ledger.stop()
        kept = len(await asyncio.gather(*futures))
        (late,) = await asyncio.gather(accept(ledger, arrival()), return_exceptions=True)
        assert isinstance(late, BaseException)
        return kept, late

    kept, late = asyncio.run(story())
    assert (kept, count_of(store)) == (50, 50)
    assert isinstance(late, LedgerClosed)


def test_a_sender_that_left(store: Database) -> None:
    """A future nobody waits for any more disturbs nobody; the message is kept."""

    async def story() -> None:
        ledger = Ledger(store)
        ledger.start(asyncio.get_running_loop())
        accept(ledger, arrival()).cancel()
        await accept(ledger, arrival())
        await ledger.stop()

    asyncio.run(story())
    assert count_of(store) == 2


def test_a_batch_is_announced_once_it_is_answered(store: Database) -> None:
    """Whoever asked hears of a commit after those who wait for it, and not for each of them."""
    ledger = Ledger(store)
    told: list[str] = []
    ledger.call_after_batch(lambda: told.append("batch"))

    async def scenario() -> None:
        ledger.start(asyncio.get_running_loop())
        ledger.submit(arrival("A"), lambda answer: told.append(type(answer).__name__))
        await accept(ledger, arrival("B"))
        await ledger.stop()

    asyncio.run(scenario())
    assert told[0] == "Receipt"
    assert 1 <= told.count("batch") <= 2
    assert told[-1] == "batch"


def test_what_is_submitted_after_the_end_is_refused_at_once(store: Database) -> None:
    """A closed ledger keeps nobody waiting."""
    ledger = Ledger(store)
    told: list[Receipt | BaseException] = []

    async def scenario() -> None:
        ledger.start(asyncio.get_running_loop())
        await ledger.stop()
        ledger.submit(arrival("A"), told.append)

    asyncio.run(scenario())
    assert [type(each) for each in told] == [LedgerClosed]


class SlowDisk:
    """A timer by which each look takes as long as a commit on this disk; notes who looks."""

    def __init__(self, takes: float) -> None:
        self._takes = takes
        self.now = 0.0

    def __call__(self) -> float:
        self.now += self._takes
        return self.now


class Commits:
    """Notes the threads that commit to a database."""

    def __init__(self, database: Database) -> None:
        self.threads: list[str] = []
        event.listen(database.engine, "checkout", self._watch)

    def _watch(self, connection: Any, _record: object, _proxy: object) -> None:
        connection.set_trace_callback(self._note)

    def _note(self, statement: str) -> None:
        if statement.startswith("INSERT INTO message "):
            self.threads.append(threading.current_thread().name)


@pytest.mark.parametrize(
    ("on_loop", "commit_takes", "who"),
    [
        (True, 0.0001, {"MainThread"}),
        (True, 0.01, {"MainThread", "ledger_0"}),
        (False, 0.0001, {"ledger_0"}),
    ],
    ids=["quick disk", "slow disk", "plain"],
)
def test_who_commits(tmp_path: Path, on_loop: bool, commit_takes: float, who: set[str]) -> None:
    """The loop commits while the disk is quick; order holds whoever commits."""
    database = Database(
        f"sqlite:///{tmp_path / 'bridge.db'}", DatabaseOptions(short_work_on_loop=on_loop)
    )
    upgrade(database)
    if database.short_work is not None:
        database.short_work = ShortWork(database.write_lock, SlowDisk(commit_takes), lambda: 0.0)
    database.dispose()
    commits = Commits(database)

    async def story() -> list[int]:
        ledger = Ledger(database)
        ledger.start(asyncio.get_running_loop())
        ids = []
        for _ in range(30):
            receipts = await asyncio.gather(*(accept(ledger, arrival()) for _ in range(4)))
            ids += [receipt.message_id for receipt in receipts]
        await ledger.stop()
        return ids

    ids = asyncio.run(story())
    assert ids == sorted(set(ids))
    assert set(commits.threads) == who
    assert commits.threads.count("MainThread") < 60 or commit_takes < 0.001
    database.dispose()
