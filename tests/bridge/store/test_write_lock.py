"""A writer that must not wait gets the write lock at once, or Busy."""

import sqlite3
import threading
import time

import pytest
from sqlalchemy import text

from bridge.store.database import Database
from bridge.store.errors import Busy, StatementRefused
from bridge.store.options import LOCK_TIMEOUT
from bridge.store.short_work import ShortWork
from tests.eventually import eventually

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
