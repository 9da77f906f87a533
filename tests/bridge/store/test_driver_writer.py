"""Writers on the driver's connection wait for other processes only if asked."""

import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import closing

import pytest

from bridge.store.connections import DriverWriter
from bridge.store.database import Database
from bridge.store.errors import Busy
from bridge.store.options import LOCK_TIMEOUT

pytestmark = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
A_WHILE = 0.3


@pytest.fixture
def writer(database: Database) -> Iterator[DriverWriter]:
    with database.write() as connection:
        connection.exec_driver_sql("CREATE TABLE heap (content)")
    writer = database.writer()
    yield writer
    writer.close()


@pytest.fixture
def other(database: Database) -> Iterator[sqlite3.Connection]:
    """A connection that acts as another process."""
    assert database.file is not None
    connection = sqlite3.connect(database.file, isolation_level=None, check_same_thread=False)
    with closing(connection):
        yield connection


def lock_timeout(database: Database) -> int:
    """Return the lock time-out of the pool's connections in ms."""
    with database.read() as connection:
        return int(connection.exec_driver_sql("PRAGMA busy_timeout").scalar_one())


def test_only_a_waiting_writer_waits(
    database: Database, writer: DriverWriter, other: sqlite3.Connection
) -> None:
    """Writers with and without waiting can follow in any order."""
    usual = lock_timeout(database)
    for _ in range(2):
        with database.write_lock.hold_without_waiting(), writer.transaction() as cursor:
            cursor.execute("INSERT INTO heap VALUES (1)")
        other.execute("BEGIN IMMEDIATE")
        began = time.monotonic()
        with pytest.raises(Busy), database.write_lock.hold_without_waiting(), writer.transaction():
            pass
        assert time.monotonic() - began < LOCK_TIMEOUT / 2
        threading.Timer(A_WHILE, other.execute, ["ROLLBACK"]).start()
        with writer.transaction() as cursor:
            cursor.execute("INSERT INTO heap VALUES (2)")
        assert time.monotonic() - began >= A_WHILE
        assert lock_timeout(database) == usual
    assert other.execute("SELECT count(*) FROM heap").fetchone() == (4,)


def test_the_next_user_of_the_connection_waits(database: Database, writer: DriverWriter) -> None:
    """The next user of the connection waits again, also after an error."""
    usual = lock_timeout(database)
    with database.write_lock.hold_without_waiting(), writer.transaction():
        pass
    with (
        pytest.raises(ZeroDivisionError),
        database.write_lock.hold_without_waiting(),
        writer.transaction(),
    ):
        _ = 1 / 0
    assert lock_timeout(database) == usual
    with database.write_lock.hold_without_waiting(), writer.transaction():
        pass
    writer.close()
    assert lock_timeout(database) == usual
