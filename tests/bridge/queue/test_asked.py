"""Few arrivals are kept on a server by the loop itself, and by the thread where that fails."""

import asyncio
import gc
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from sqlalchemy import Connection, text

from bridge.queue.arrivals import Arrival, Receipt
from bridge.queue.ledger import Ledger
from bridge.store.database import Database
from bridge.store.pool import Pool
from tests.bridge.queue.cutting import Cut, Way
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
        with locked(store) as connection:
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


@pytest.mark.parametrize(("where", "stored"), [(Cut.BEFORE, False), (Cut.AFTER, True)])
def test_a_way_that_is_cut_at_the_commit(store: Database, where: Cut, stored: bool) -> None:
    """What was stored is found, what was not is stored: once, and answered as it is owed."""

    async def story() -> tuple[Receipt, Receipt]:
        way = Way(store.engine.url.render_as_string(hide_password=False), b"\0asked\0")
        async with way.open() as address:
            ledger = await started(Database(address), Clock())
            before = await asyncio.to_thread(count_of, store)
            way.cut = where
            first, second = arrival(), arrival()
            answers = await wait_for(ledger, first), await wait_for(ledger, second)
            assert answers[0].ack == first.ack
            assert way.cuts == 1
            await ledger.stop()
        assert count_of(store) == before + 2
        return answers

    cut, following = asyncio.run(story())
    assert (cut.duplicate, following.duplicate) == (stored, False)
    assert cut.message_id < following.message_id


def test_a_lock_that_is_held_for_long(store: Database) -> None:
    """The loop goes on; the thread waits instead of it soon, and it is stored once."""

    async def story() -> None:
        ledger = await started(store, Clock())
        before = await asyncio.to_thread(count_of, store)
        with locked(store) as connection:
            first, second = ledger.accept(arrival()), ledger.accept(arrival())
            await until_they_wait(connection, 2)
            assert not first.done()
        answers = [await asyncio.wait_for(each, SOON) for each in (first, second)]
        assert answers[0].message_id < answers[1].message_id
        await ledger.stop()
        assert count_of(store) == before + 2

    asyncio.run(story())


def test_the_end_while_a_server_is_asked(store: Database) -> None:
    """What is on its way is answered before; nothing is left open."""

    async def story() -> Receipt:
        ledger = await started(store, Clock())
        with locked(store) as connection:
            last = ledger.accept(arrival())
            end = asyncio.create_task(ledger.stop())
            await until_they_wait(connection, 1)
            assert not end.done()
        await asyncio.wait_for(end, SOON)
        return last.result()

    assert not asyncio.run(story()).duplicate
    gc.collect()  # and pytest hears of what nobody has closed


def test_a_pool_that_is_exhausted(store: Database) -> None:
    """Holds up no arrival."""
    address = store.engine.url.render_as_string(hide_password=False)
    database = Database(address, Pool(size=1, overflow=0, timeout=0.1))

    async def story() -> Receipt:
        with database.read():
            ledger = await started(database, Clock())
            receipt = await wait_for(ledger, arrival())
            await ledger.stop()
            return receipt

    assert not asyncio.run(story()).duplicate
    database.dispose()


async def wait_for(ledger: Ledger, one: Arrival) -> Receipt:
    """Keep one message."""
    return await asyncio.wait_for(ledger.accept(one), SOON)


@contextmanager
def locked(store: Database) -> Iterator[Connection]:
    """Let nobody store a message."""
    with store.write() as connection:
        connection.execute(text("LOCK TABLE message_body IN EXCLUSIVE MODE"))
        yield connection


async def until_they_wait(connection: Connection, number: int) -> None:
    """Return when so many wait for a lock in our database."""
    found = text("""
        SELECT count(*) FROM pg_stat_activity, pg_stat_clear_snapshot()
        WHERE datname = current_database() AND wait_event_type = 'Lock'
    """)
    async with asyncio.timeout(SOON):
        while connection.execute(found).scalar_one() < number:  # noqa: ASYNC110  # it rings no bell
            await asyncio.sleep(0.01)
