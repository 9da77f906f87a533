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

SOON = LOCK_TIMEOUT / 2
"""Seconds: less than a writer waits for the lock, and enough for a busy machine."""


@pytest.fixture
def table(database: Database) -> None:
    """Where writers write."""
    with database.write() as connection:
        connection.execute(text("CREATE TABLE kept (id INTEGER PRIMARY KEY)"))


def insert(database: Database, number: int) -> None:
    """Write a row."""
    with database.write() as connection:
        connection.execute(text("INSERT INTO kept VALUES (:id)"), {"id": number})


def kept(database: Database) -> list[int]:
    """Read the rows."""
    with database.read() as connection:
        return list(connection.execute(text("SELECT id FROM kept ORDER BY id")).scalars())


def is_refused_at_once(database: Database, number: int) -> bool:
    """Whether writing is refused, and how soon."""
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
def test_others_wait_for_what_is_done_at_once(database: Database) -> None:
    """All of it: a thread that comes in between writes afterwards."""
    with database.write_lock.hold_without_waiting():
        thread = threading.Thread(target=insert, args=(database, 3))
        thread.start()
        insert(database, 1)
        time.sleep(0.05)
        assert kept(database) == [1]
        with database.write_without_sync() as connection:
            connection.execute(text("INSERT INTO kept VALUES (2)"))
        assert kept(database) == [1, 2]
    thread.join()
    assert kept(database) == [1, 2, 3]


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
@pytest.mark.usefixtures("table")
def test_it_does_not_wait_for_threads(database: Database) -> None:
    """Who has the turn keeps it; what it writes is written."""
    refused: list[bool] = []
    with database.write() as connection:
        thread = threading.Thread(target=lambda: refused.append(is_refused_at_once(database, 2)))
        thread.start()
        thread.join()
        connection.execute(text("INSERT INTO kept VALUES (1)"))
    assert refused == [True]
    assert kept(database) == [1]
    assert not is_refused_at_once(database, 3)


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
@pytest.mark.parametrize("unsynced", [False, True])
@pytest.mark.usefixtures("table")
def test_it_does_not_wait_for_processes(database: Database, unsynced: bool) -> None:
    """As one that is not ours; whoever may wait does so afterwards, by the same connection."""
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
    assert kept(database) == [1]
    other.close()


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
@pytest.mark.usefixtures("table")
def test_a_failure_releases_the_lock(database: Database) -> None:
    """And nothing of what was written."""
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
    assert kept(database) == [2]


@pytest.mark.postgres
@pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)
@pytest.mark.usefixtures("table")
def test_postgresql_has_no_write_lock(database: Database) -> None:
    """There it is nothing for who may not wait."""
    assert is_refused_at_once(database, 1)
    with pytest.raises(Busy), database.read_on_loop():
        pass


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
@pytest.mark.usefixtures("table")
def test_read_on_loop_does_not_wait_for_a_connection(database: Database) -> None:
    """The one that is kept is lent; where somebody has it, or nobody looked yet, that is told."""
    database.short_work = ShortWork(database.write_lock)  # with the plug-in, whatever the run has
    with pytest.raises(Busy), database.read_on_loop():
        pass
    insert(database, 1)
    with database.read_committed() as connection:
        with pytest.raises(Busy), database.read_on_loop():
            pass
        assert connection.execute(text("SELECT count(*) FROM kept")).scalar() == 1
    with database.read_on_loop() as connection:
        assert connection.execute(text("SELECT count(*) FROM kept")).scalar() == 1
