"""A writer that must not wait gets the write lock at once, or Busy."""

import asyncio
import sqlite3
import threading
import time
from contextlib import ExitStack
from pathlib import Path

import pytest
from sqlalchemy import text

from bridge.engine.live.database_executor import DatabaseExecutor
from bridge.store.database import Database
from bridge.store.errors import Busy, StatementRefused
from bridge.store.locks import FairLock, WriteLock
from bridge.store.options import LOCK_TIMEOUT, DatabaseOptions
from bridge.store.short_work import ShortWork
from tests.eventually import PATIENCE, eventually

SOON = LOCK_TIMEOUT / 2
"""Seconds: less than the lock time-out, and enough for a busy machine."""


@pytest.fixture
def table(database: Database) -> None:
    with database.write() as connection:
        connection.execute(text("CREATE TABLE kept (id INTEGER PRIMARY KEY)"))


def insert(database: Database, number: int) -> None:
    with database.write() as connection:
        connection.execute(text("INSERT INTO kept VALUES (:id)"), {"id": number})


def rows(database: Database) -> list[int]:
    with database.read() as connection:
        return list(connection.execute(text("SELECT id FROM kept ORDER BY id")).scalars())


def is_refused_at_once(database: Database, number: int) -> bool:
    began = time.monotonic()
    try:
        with database.write_lock.hold_without_waiting():
            insert(database, number)
    except Busy:
        assert time.monotonic() - began < SOON
        return True
    return False


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
@pytest.mark.usefixtures("table")
def test_other_threads_wait(database: Database) -> None:
    lock = database.write_lock.fair_lock
    assert lock is not None
    with database.write_lock.hold_without_waiting():
        thread = threading.Thread(target=insert, args=(database, 3))
        thread.start()
        insert(database, 1)
        eventually(lambda: lock._waiters)
        assert rows(database) == [1]
        with database.write_without_sync() as connection:
            connection.execute(text("INSERT INTO kept VALUES (2)"))
        assert rows(database) == [1, 2]
    thread.join()
    assert rows(database) == [1, 2, 3]


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
@pytest.mark.usefixtures("table")
def test_it_does_not_wait_for_threads(database: Database) -> None:
    """The lock stays with its holder, whose write succeeds."""
    refused: list[bool] = []
    with database.write() as connection:
        thread = threading.Thread(target=lambda: refused.append(is_refused_at_once(database, 2)))
        thread.start()
        thread.join()
        connection.execute(text("INSERT INTO kept VALUES (1)"))
    assert refused == [True]
    assert rows(database) == [1]
    assert not is_refused_at_once(database, 3)


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
@pytest.mark.parametrize("unsynced", [False, True])
@pytest.mark.usefixtures("table")
def test_it_does_not_wait_for_processes(database: Database, unsynced: bool) -> None:
    """Another process blocks the writer. A waiting writer then uses the same connection."""
    assert database.file is not None
    how = database.write_without_sync if unsynced else database.write
    other = sqlite3.connect(database.file, isolation_level=None, check_same_thread=False)
    other.execute("BEGIN IMMEDIATE")
    began = time.monotonic()
    with pytest.raises(Busy), database.write_lock.hold_without_waiting(), how():
        pass
    assert time.monotonic() - began < SOON
    threading.Timer(0.3, lambda: other.execute("COMMIT")).start()
    with how() as connection:
        connection.execute(text("INSERT INTO kept VALUES (1)"))
    assert time.monotonic() - began >= 0.3
    assert rows(database) == [1]
    other.close()


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
@pytest.mark.usefixtures("table")
def test_a_failure_releases_the_lock(database: Database) -> None:
    """A failed write leaves no rows and releases the lock."""
    with (  # noqa: PT012  # one unit
        pytest.raises(StatementRefused),
        database.write_lock.hold_without_waiting(),
        database.write() as connection,
    ):
        connection.execute(text("INSERT INTO kept VALUES (1)"))
        connection.execute(text("INSERT INTO nowhere VALUES (1)"))
    thread = threading.Thread(target=insert, args=(database, 2))
    thread.start()
    thread.join()
    assert rows(database) == [2]


@pytest.mark.postgres
@pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)
@pytest.mark.usefixtures("table")
def test_postgresql_has_no_write_lock(database: Database) -> None:
    """On PostgreSQL the lock has no effect."""
    assert is_refused_at_once(database, 1)
    with pytest.raises(Busy), database.read_on_loop():
        pass


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
@pytest.mark.usefixtures("table")
def test_read_on_loop_does_not_wait_for_a_connection(database: Database) -> None:
    """A read on the loop uses the cached connection, or reports that none is free."""
    database.short_work = ShortWork(database.write_lock)  # with the plug-in in each run
    with pytest.raises(Busy), database.read_on_loop():
        pass
    insert(database, 1)
    with database.read_committed() as connection:
        with pytest.raises(Busy), database.read_on_loop():
            pass
        assert connection.execute(text("SELECT count(*) FROM kept")).scalar() == 1
    with database.read_on_loop() as connection:
        assert connection.execute(text("SELECT count(*) FROM kept")).scalar() == 1


def test_first_come_first_served() -> None:
    """The longest waiting thread acquires the lock next."""
    lock = FairLock()
    passed: list[int] = []

    def visitor(number: int) -> None:
        assert lock.acquire(PATIENCE)
        passed.append(number)
        lock.release()

    lock.acquire(PATIENCE)
    threads = []
    for number in range(8):
        threads.append(threading.Thread(target=visitor, args=(number,)))
        threads[-1].start()
        eventually(lambda: len(lock._waiters) == len(threads))
    lock.release()
    for thread in threads:
        thread.join()
    assert passed == list(range(8))


def test_an_urgent_writer_goes_first_but_not_twice() -> None:
    """An urgent writer passes all waiting threads. After it one of them is next."""
    lock = FairLock()
    passed: list[str] = []

    def visitor(name: str) -> None:
        assert lock.acquire(PATIENCE, urgent=name.startswith("urgent"))
        passed.append(name)
        lock.release()

    lock.acquire(PATIENCE)
    threads = []
    for name in ("first", "second", "urgent 1", "urgent 2"):
        threads.append(threading.Thread(target=visitor, args=(name,)))
        threads[-1].start()
        eventually(lambda: len(lock._urgent_waiters) + len(lock._waiters) == len(threads))
    lock.release()
    for thread in threads:
        thread.join()
    assert passed == ["urgent 1", "first", "urgent 2", "second"]


def test_timeout() -> None:
    """A request that times out is removed from the queue."""
    lock = FairLock()
    lock.acquire(PATIENCE)
    acquired: list[bool] = []
    thread = threading.Thread(target=lambda: acquired.append(lock.acquire(0.01)))
    thread.start()
    thread.join()
    assert acquired == [False]
    lock.release()
    assert lock.acquire(0.01)


def test_not_reentrant() -> None:
    """A thread that requests its own lock again gets an error."""
    lock = FairLock()
    lock.acquire(PATIENCE)
    with pytest.raises(RuntimeError):
        lock.acquire(PATIENCE)


@pytest.fixture
def small(tmp_path: Path) -> Database:
    return Database(f"sqlite:///{tmp_path / 'small.db'}", DatabaseOptions(2, 0, 20.0))


async def test_an_inline_read_waits_on_a_thread(small: Database) -> None:
    """While all connections are in use, the loop runs. The read continues when one is free."""
    work = DatabaseExecutor(small, 1)
    with ExitStack() as connections:
        for _ in range(4):  # a file has two connections beyond its pool
            connections.enter_context(small.read())
        reading_result = asyncio.ensure_future(
            work.read_inline(lambda c: c.execute(text("SELECT 1")).scalar())
        )
        for _ in range(10):
            await asyncio.sleep(0)
        assert not reading_result.done()
    assert await reading_result == 1
    work.close()
    small.dispose()


async def test_nonblocking_work_is_refused(small: Database) -> None:
    """Work that must not wait is refused, also a read within it."""
    with ExitStack() as connections:
        for _ in range(2):
            connections.enter_context(small.read())
        with small.write_lock.hold_without_waiting():
            for reading in (small.read, small.read_committed, small.write):
                with pytest.raises(Busy), reading():
                    pass
    with small.write_lock.hold_without_waiting(), small.read() as connection:
        assert connection.execute(text("SELECT 1")).scalar() == 1
    small.dispose()


MAX_BLOCKED = 0.1
"""Share of the loop's time."""


class Disk:
    def __init__(self, takes: float) -> None:
        self.takes = takes
        self.now = 1000.0
        self.blocked = 0.0

    def commit(self) -> None:
        self.now += self.takes
        self.blocked += self.takes


def short_work_on(disk: Disk) -> ShortWork:
    return ShortWork(WriteLock(FairLock(), 1.0), timer=lambda: disk.now, cpu_time=lambda: 0.0)


def commit(short_work: ShortWork, disk: Disk) -> bool:
    """Commit on the loop if allowed, and return whether it did."""
    try:
        short_work.run(disk.commit)
    except Busy:
        return False
    return True


@pytest.mark.parametrize("takes", [0.008, 0.02, 0.3, 2.0])
def test_a_slow_disk_blocks_the_loop_little(takes: float) -> None:
    """Any slow disk blocks the loop for a small share of its time, at any rate of commits."""
    disk = Disk(takes)
    short_work = short_work_on(disk)
    end = disk.now + 600
    while disk.now < end:
        commit(short_work, disk)
        disk.now += 0.01
    assert disk.blocked < 600 * MAX_BLOCKED


def test_a_stalled_disk_blocks_the_loop_once() -> None:
    """One stall blocks the loop once, until stalls are usual."""
    disk = Disk(0.0002)
    short_work = short_work_on(disk)
    assert all(commit(short_work, disk) for _ in range(100))
    disk.takes = 1.0
    assert commit(short_work, disk)
    assert not commit(short_work, disk)


def test_a_slow_disk_is_recognized_by_one_commit() -> None:
    disk = Disk(0.008)
    short_work = short_work_on(disk)
    while commit(short_work, disk):
        pass
    disk.now += 60
    assert commit(short_work, disk)
    assert not commit(short_work, disk)


def test_an_occasional_slow_commit() -> None:
    """A single commit of ten milliseconds does not count as a slow disk."""
    disk = Disk(0.0005)
    short_work = short_work_on(disk)
    for number in range(500):
        disk.takes = 0.01 if number % 50 == 20 else 0.0005
        assert commit(short_work, disk)
