"""SQLite's writers share one cached connection."""

import time
from contextlib import ExitStack

import pytest
from sqlalchemy import text

from bridge.store.database import Database
from bridge.store.errors import Busy, StatementRefused
from bridge.store.options import DatabaseOptions

ONE = DatabaseOptions(size=1, overflow=0, timeout=0.2)


@pytest.fixture
def table(database: Database) -> None:
    with database.write() as connection:
        connection.execute(text("CREATE TABLE kept (id INTEGER PRIMARY KEY)"))


def used(database: Database) -> object:
    with database.write() as connection:
        return database.driver_connection(connection)


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
@pytest.mark.usefixtures("table")
def test_the_next_writer_has_the_same_connection(database: Database) -> None:
    """The next writer gets the same connection beside readers, until an error or a close."""
    first = used(database)
    with database.read(), database.read():
        assert used(database) is first
    database.dispose()
    assert used(database) is not first


@pytest.mark.usefixtures("table")
def test_a_failed_transaction_leaves_no_changes(database: Database) -> None:
    with pytest.raises(StatementRefused), database.write() as connection:  # noqa: PT012  # one unit
        connection.execute(text("INSERT INTO kept VALUES (1)"))
        connection.execute(text("INSERT INTO nowhere VALUES (1)"))
    with database.write() as connection:
        connection.execute(text("INSERT INTO kept VALUES (2)"))
    with database.read() as connection:
        assert connection.execute(text("SELECT id FROM kept")).scalars().all() == [2]


def test_readers_have_connections_of_their_own(database_url: str) -> None:
    database = Database(database_url, ONE)
    try:
        for _ in range(2):
            with database.write() as connection:
                connection.execute(text("SELECT 1"))
            with database.read_committed() as connection:
                assert connection.execute(text("SELECT 2")).scalar() == 2
            with database.read() as connection:
                assert connection.execute(text("SELECT 3")).scalar() == 3
    finally:
        database.dispose()


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
@pytest.mark.parametrize("how", ["write", "write_without_sync"])
def test_nonblocking_writers_do_not_wait_for_a_connection(database_url: str, how: str) -> None:
    database = Database(database_url, DatabaseOptions(size=1, overflow=0, timeout=60))
    try:
        with ExitStack() as readers:
            for _ in range(3):
                readers.enter_context(database.read())
            began = time.monotonic()
            with (
                pytest.raises(Busy),
                database.write_lock.hold_without_waiting(),
                getattr(database, how)(),
            ):
                pass
            assert time.monotonic() - began < 30
        used(database)
        with ExitStack() as readers:
            for _ in range(2):
                readers.enter_context(database.read())
            with database.write_lock.hold_without_waiting(), getattr(database, how)() as connection:
                assert connection.execute(text("SELECT 1")).scalar() == 1
    finally:
        database.dispose()
