"""A writer on the driver's connection: when it waits for other processes."""

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
    """A writer, with a table."""
    with database.write() as connection:
        connection.exec_driver_sql("CREATE TABLE heap (content)")
    writer = database.writer()
    yield writer
    writer.close()


@pytest.fixture
def other(database: Database) -> Iterator[sqlite3.Connection]:
    """Another process, as far as SQLite and we know."""
    assert database.file is not None
    connection = sqlite3.connect(database.file, isolation_level=None, check_same_thread=False)
    with closing(connection):
        yield connection


def patience(database: Database) -> int:
    """Say how long the connections of the pool wait, in ms."""
    with database.read() as connection:
        return int(connection.exec_driver_sql("PRAGMA busy_timeout").scalar_one())


def test_only_who_asks_for_it_waits(
    database: Database, writer: DriverWriter, other: sqlite3.Connection
) -> None:
    """In whatever order it is asked for."""
    usual = patience(database)
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
        assert patience(database) == usual
    assert other.execute("SELECT count(*) FROM heap").fetchone() == (4,)


def test_who_gets_its_connection_next_waits(database: Database, writer: DriverWriter) -> None:
    """Whether it is let go in peace or for an error."""
    usual = patience(database)
    with database.write_lock.hold_without_waiting(), writer.transaction():
        pass
    with (
        pytest.raises(ZeroDivisionError),
        database.write_lock.hold_without_waiting(),
        writer.transaction(),
    ):
        _ = 1 / 0
    assert patience(database) == usual
    with database.write_lock.hold_without_waiting(), writer.transaction():
        pass
    writer.close()
    assert patience(database) == usual
