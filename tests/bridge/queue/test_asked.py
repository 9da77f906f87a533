"""Few arrivals are kept on a server by the loop itself, and by the thread where that fails."""

import asyncio
import threading
import time

import pytest
from sqlalchemy import text

from bridge.queue.arrivals import Receipt
from bridge.queue.ledger import Ledger
from bridge.store.database import Database
from tests.bridge.queue.people import arrival, count_of

pytestmark = [
    pytest.mark.postgres,
    pytest.mark.parametrize("database_url", ["postgresql"], indirect=True),
]
SOON = 20.0
LOOP = "MainThread"


class Clock:
    """Remembers which threads time what they keep."""

    def __init__(self) -> None:
        self.threads: set[str] = set()

    def __call__(self) -> float:
        self.threads.add(threading.current_thread().name)
        return time.perf_counter()


async def started(store: Database, clock: Clock) -> Ledger:
    """Give a ledger whose loop has begun to ask; one message after the other was kept."""
    ledger = Ledger(store, timer=clock)
    ledger.start(asyncio.get_running_loop())
    async with asyncio.timeout(SOON):
        while LOOP not in clock.threads:
            await ledger.accept(arrival())
            await asyncio.sleep(0.01)
    clock.threads.clear()
    return ledger


def test_what_is_new_needs_no_thread(store: Database) -> None:
    """What is not is found out as ever, and what comes together is kept in its order."""
    clock = Clock()

    async def story() -> list[Receipt]:
        ledger = await started(store, clock)
        first = await ledger.accept(arrival("A"))
        assert clock.threads == {LOOP}
        again = await ledger.accept(arrival("A"))
        other = await ledger.accept(arrival("A", content="other"))
        twins = await asyncio.gather(*(ledger.accept(arrival("B")) for _ in range(2)))
        both = [arrival("C"), arrival("C", content="other")]
        _, reused = await asyncio.gather(*map(ledger.accept, both))
        assert reused.reused
        many = await asyncio.gather(*(ledger.accept(arrival()) for _ in range(20)))
        last = [ledger.accept(arrival()) for _ in range(3)]
        await ledger.stop()
        return [first, again, other, *twins, *many, *[each.result() for each in last]]

    first, again, other, one, two, *others = asyncio.run(story())
    assert (again.message_id, again.duplicate) == (first.message_id, True)
    assert (other.duplicate, other.reused) == (False, True)
    assert one.message_id == two.message_id
    ids = [each.message_id for each in (first, other, one, *others)]
    assert ids == sorted(set(ids))


def test_a_connection_that_is_cut_while_it_stores(store: Database) -> None:
    """The thread stores what was asked for, and then what came after it."""

    async def story() -> list[Receipt]:
        ledger = await started(store, Clock())
        before = count_of(store)
        with store.write() as connection:
            connection.execute(text("LOCK TABLE message_body IN EXCLUSIVE MODE"))
            first = ledger.accept(arrival())
            await asyncio.sleep(0.1)
            second = ledger.accept(arrival())
            await asyncio.sleep(0.1)
            cut = text("""
                SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
                WHERE datname = current_database() AND wait_event_type = 'Lock'
            """)
            assert connection.execute(cut).scalar_one() == 1
            await asyncio.sleep(0.1)
            assert not first.done()
        answers = [await asyncio.wait_for(each, SOON) for each in (first, second)]
        await ledger.stop()
        assert count_of(store) == before + 2
        return answers

    first, second = asyncio.run(story())
    assert not first.duplicate
    assert first.message_id < second.message_id
