"""Checkpoints run beside writers and restart the log, with SQLite's own interface."""

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from bridge.store.checkpoints import WalCheckpointer
from bridge.store.database import Database
from tests.eventually import eventually

PAGES = 20
pytestmark = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)


@pytest.fixture
def table(database: Database) -> None:
    with database.write() as connection:
        connection.exec_driver_sql("CREATE TABLE heap (content)")


@pytest.fixture
def checkpoints(database: Database) -> Iterator[WalCheckpointer]:
    checkpoints, ended = WalCheckpointer(database, pages=PAGES), threading.Event()

    def look_on() -> None:
        while not ended.wait(0.02):
            checkpoints.run()

    looking = threading.Thread(target=look_on)
    looking.start()
    yield checkpoints
    ended.set()
    looking.join()
    checkpoints.close()


def write(database: Database, rows: int = 2) -> None:
    with database.write() as connection:
        for _ in range(rows):
            connection.exec_driver_sql("INSERT INTO heap VALUES (zeroblob(4000))")


def rows_of(file: Path) -> int:
    """Count the rows of a database that no other process has open."""
    with closing(sqlite3.connect(file)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        (rows,) = connection.execute("SELECT count(*) FROM heap").fetchone()
    return int(rows)


def file_has(database: Database, rows: int) -> bool:
    assert database.file is not None
    alone = database.file.with_name("alone.db")
    alone.write_bytes(database.file.read_bytes())
    try:
        return rows_of(alone) >= rows
    except (AssertionError, sqlite3.DatabaseError):  # read during the copy
        return False


def length_of(database: Database) -> int:
    """Return the size of the log file, which a restarted log does not exceed."""
    assert database.file is not None
    return database.file.with_name(f"{database.file.name}-wal").stat().st_size


@pytest.mark.usefixtures("table")
def test_the_log_restarts_while_others_write(
    database: Database, checkpoints: WalCheckpointer
) -> None:
    """The log of many writes stays short, and the file has the rows."""
    write(database, PAGES)
    eventually(lambda: file_has(database, PAGES))
    checkpoints.run()  # after the run in progress, which may not restart the log
    size = length_of(database)
    write(database, PAGES // 2)
    assert length_of(database) <= size


@pytest.mark.usefixtures("table", "checkpoints")
def test_the_log_is_written_by_sqlite_alone(database: Database) -> None:
    """The log file has only the frames of commits: the bridge reserves no space in it."""
    write(database, 3)
    eventually(lambda: file_has(database, 3))
    assert length_of(database) < PAGES * 4096


@pytest.mark.usefixtures("table", "checkpoints")
def test_checkpoints_do_not_wait_for_readers(database: Database) -> None:
    """A reader keeps the log and blocks no writer. The log is copied afterwards."""
    write(database, 1)
    with closing(database.dedicated_connection()) as reader:
        reader.execute("BEGIN")
        before = reader.execute("SELECT count(*) FROM heap").fetchone()
        write(database, PAGES)
        for _ in range(5):
            write(database, 1)
        assert reader.execute("SELECT count(*) FROM heap").fetchone() == before
        reader.execute("COMMIT")
    eventually(lambda: file_has(database, PAGES + 6))
