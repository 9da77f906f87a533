"""The ledger with several nodes, at shutdown, with closed connections, and its threads."""

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


def test_sent_acknowledgments_are_recorded(store: Database) -> None:
    """A sent acknowledgment is recorded soon. A retransmit makes it pending again."""
    given = arrival("A")

    def state_of(message_id: int) -> AcknowledgmentState:
        return queries.message(store, message_id).row.acknowledgment

    async def scenario() -> list[AcknowledgmentState]:
        ledger = Ledger(store)
        ledger.start(asyncio.get_running_loop())
        number = (await accept(ledger, given)).message_id
        states = [state_of(number)]
        ledger.acknowledged(number)
        await eventually_async(lambda: state_of(number) is AcknowledgmentState.DELIVERED)
        states.append(state_of(number))
        await accept(ledger, given)
        states.append(state_of(number))
        ledger.acknowledged(number)
        await ledger.stop()
        return [*states, state_of(number)]

    pending, delivered = AcknowledgmentState.PENDING, AcknowledgmentState.DELIVERED
    assert asyncio.run(scenario()) == [pending, delivered, pending, delivered]


def test_copies_on_two_nodes_at_once(store: Database) -> None:
    """A message sent to two nodes at once is stored once, and both replies are equal."""
    orders = [arrival() for _ in range(200)]

    async def scenario() -> list[list[Receipt]]:
        nodes = [Ledger(store), Ledger(store)]
        for node in nodes:
            node.start(asyncio.get_running_loop())
        futures = [[accept(node, each) for each in orders] for node in nodes]
        receipts = [await asyncio.gather(*each) for each in futures]
        for node in nodes:
            await node.stop()
        return receipts

    one, two = asyncio.run(scenario())
    assert count_of(store) == 200
    assert [each.message_id for each in one] == [each.message_id for each in two]
    assert all(a.duplicate != b.duplicate for a, b in zip(one, two, strict=True))


def test_stop_stores_waiting_messages(store: Database) -> None:
    """Messages accepted before stop() are stored. Later ones fail, and are not stored."""

    async def scenario() -> tuple[int, BaseException]:
        ledger = Ledger(store)
        ledger.start(asyncio.get_running_loop())
        futures = [accept(ledger, arrival()) for _ in range(50)]
        await ledger.stop()
        kept = len(await asyncio.gather(*futures))
        (late,) = await asyncio.gather(accept(ledger, arrival()), return_exceptions=True)
        assert isinstance(late, BaseException)
        return kept, late

    kept, late = asyncio.run(scenario())
    assert (kept, count_of(store)) == (50, 50)
    assert isinstance(late, LedgerClosed)


def test_a_disconnected_sender(store: Database) -> None:
    """A cancelled future affects no others, and its message is stored."""

    async def scenario() -> None:
        ledger = Ledger(store)
        ledger.start(asyncio.get_running_loop())
        accept(ledger, arrival()).cancel()
        await accept(ledger, arrival())
        await ledger.stop()

    asyncio.run(scenario())
    assert count_of(store) == 2


def test_callback_of_a_batch(store: Database) -> None:
    """The callback of a batch runs once, after the callbacks of its arrivals."""
    ledger = Ledger(store)
    calls: list[str] = []
    ledger.call_after_batch(lambda: calls.append("batch"))

    async def scenario() -> None:
        ledger.start(asyncio.get_running_loop())
        ledger.submit(arrival("A"), lambda receipt: calls.append(type(receipt).__name__))
        await accept(ledger, arrival("B"))
        await ledger.stop()

    asyncio.run(scenario())
    assert calls[0] == "Receipt"
    assert 1 <= calls.count("batch") <= 2
    assert calls[-1] == "batch"


def test_a_closed_ledger(store: Database) -> None:
    """A closed ledger refuses an arrival at once."""
    ledger = Ledger(store)
    replies: list[Receipt | BaseException] = []

    async def scenario() -> None:
        ledger.start(asyncio.get_running_loop())
        await ledger.stop()
        ledger.submit(arrival("A"), replies.append)

    asyncio.run(scenario())
    assert [type(each) for each in replies] == [LedgerClosed]


class SlowDisk:
    """A timer that advances by the duration of a commit at each call."""

    def __init__(self, takes: float) -> None:
        self._takes = takes
        self.now = 0.0

    def __call__(self) -> float:
        self.now += self._takes
        return self.now


class Commits:
    def __init__(self, database: Database) -> None:
        self.threads: list[str] = []
        event.listen(database.engine, "checkout", self._watch)

    def _watch(self, connection: Any, _record: object, _proxy: object) -> None:
        connection.set_trace_callback(self._note)

    def _note(self, statement: str) -> None:
        if statement.startswith("INSERT INTO message "):
            self.threads.append(threading.current_thread().name)


@pytest.mark.parametrize(
    ("on_loop", "commit_takes", "threads"),
    [
        (True, 0.0001, {"MainThread"}),
        (True, 0.01, {"MainThread", "ledger_0"}),
        (False, 0.0001, {"ledger_0"}),
    ],
    ids=["quick disk", "slow disk", "plain"],
)
def test_committing_thread(
    tmp_path: Path, on_loop: bool, commit_takes: float, threads: set[str]
) -> None:
    """The loop commits while the disk is fast. The order is the same for each thread."""
    database = Database(
        f"sqlite:///{tmp_path / 'bridge.db'}", DatabaseOptions(short_work_on_loop=on_loop)
    )
    upgrade(database)
    if database.short_work is not None:
        database.short_work = ShortWork(database.write_lock, SlowDisk(commit_takes), lambda: 0.0)
    database.dispose()
    commits = Commits(database)

    async def scenario() -> list[int]:
        ledger = Ledger(database)
        ledger.start(asyncio.get_running_loop())
        ids = []
        for _ in range(30):
            receipts = await asyncio.gather(*(accept(ledger, arrival()) for _ in range(4)))
            ids += [receipt.message_id for receipt in receipts]
        await ledger.stop()
        return ids

    ids = asyncio.run(scenario())
    assert ids == sorted(set(ids))
    assert set(commits.threads) == threads
    assert commits.threads.count("MainThread") < 60 or commit_takes < 0.001
    database.dispose()
