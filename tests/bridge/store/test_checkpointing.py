"""SQLite's log is brought back beside those who write, and begins anew."""

import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from bridge.store.checkpointing import Checkpoints, is_long
from bridge.store.database import Database

PAGES = 20
SOON = 20.0
pytestmark = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)


@pytest.fixture
def log(database: Database) -> Path:
    """The log of the database."""
    assert database.file is not None
    return database.file.with_name(f"{database.file.name}-wal")


@pytest.fixture
def table(database: Database) -> None:
    """Where rows of a page each go."""
    with database.write() as connection:
        connection.exec_driver_sql("CREATE TABLE heap (content)")


@pytest.fixture
def checkpoints(database: Database) -> Iterator[Checkpoints]:
    """What brings the log back, at twenty pages."""
    checkpoints = Checkpoints(database, pages=PAGES)
    checkpoints.start()
    yield checkpoints
    checkpoints.stop()


def write(database: Database, rows: int = 2) -> None:
    """Write some pages to the log."""
    with database.write() as connection:
        for _ in range(rows):
            connection.exec_driver_sql("INSERT INTO heap VALUES (zeroblob(4000))")


def wait_until_short(database: Database, log: Path) -> None:
    """Write a little now and then until the log has begun anew."""
    deadline = time.monotonic() + SOON
    while is_long(log, PAGES):
        assert time.monotonic() < deadline, "the log was not brought back"
        time.sleep(0.02)
        write(database, 1)


@pytest.mark.usefixtures("table")
def test_a_log_is_long_from_that_page_on(database: Database, log: Path) -> None:
    """Until it begins anew; what an earlier round has left behind it does not count."""
    assert not is_long(log.with_name("none"), PAGES)
    assert not is_long(log, PAGES)
    write(database, PAGES)
    assert is_long(log, PAGES)
    assert not is_long(log, 10 * PAGES)
    with database.read() as connection:
        connection.exec_driver_sql("PRAGMA wal_checkpoint(FULL)")
    write(database, 1)
    assert log.stat().st_size > PAGES * 4096
    assert not is_long(log, PAGES)


@pytest.mark.usefixtures("table", "checkpoints")
def test_it_begins_anew_while_others_write(database: Database, log: Path) -> None:
    """Whoever writes next after it begins at its beginning, and the file has all."""
    write(database, PAGES)
    wait_until_short(database, log)
    assert database.file is not None
    alone = database.file.with_name("alone.db")
    alone.write_bytes(database.file.read_bytes())
    with closing(sqlite3.connect(alone)) as connection:
        (rows,) = connection.execute("SELECT count(*) FROM heap").fetchone()
    assert rows >= PAGES


@pytest.mark.usefixtures("table", "checkpoints")
def test_a_reader_is_not_waited_for(database: Database, log: Path) -> None:
    """Who reads what the log had keeps it as it is, and holds up no writer; then it goes on."""
    write(database, 1)
    with closing(database.apart()) as reader:
        reader.execute("BEGIN")
        before = reader.execute("SELECT count(*) FROM heap").fetchone()
        write(database, PAGES)
        for _ in range(5):
            time.sleep(0.1)
            began = time.monotonic()
            write(database, 1)
            assert time.monotonic() - began < SOON / 2
        assert is_long(log, PAGES)
        assert reader.execute("SELECT count(*) FROM heap").fetchone() == before
        reader.execute("COMMIT")
    wait_until_short(database, log)
