"""SQLite's log is brought back beside those who write, and begins anew."""

import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from bridge.store.checkpointing import Checkpoints
from bridge.store.database import Database
from bridge.store.log_file import LogFile

PAGES = 20
SOON = 20.0
pytestmark = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)


@pytest.fixture
def log(database: Database) -> LogFile:
    """The log of the database."""
    assert database.file is not None
    return LogFile(database.file.with_name(f"{database.file.name}-wal"))


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


def rows_of(file: Path) -> int:
    """Count the rows of a database that nobody else has open."""
    with closing(sqlite3.connect(file)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        (rows,) = connection.execute("SELECT count(*) FROM heap").fetchone()
    return int(rows)


def wait_until_short(database: Database, log: LogFile) -> None:
    """Write a little now and then until the log has begun anew."""
    deadline = time.monotonic() + SOON
    while log.is_long(PAGES):
        assert time.monotonic() < deadline, "the log was not brought back"
        time.sleep(0.02)
        write(database, 1)


@pytest.mark.usefixtures("table")
def test_a_log_is_long_from_that_page_on(database: Database, log: LogFile) -> None:
    """Until it begins anew; what an earlier round has left behind it does not count."""
    assert not LogFile(log.path.with_name("none")).is_long(PAGES)
    assert not log.is_long(PAGES)
    write(database, PAGES)
    assert log.is_long(PAGES)
    assert not log.is_long(10 * PAGES)
    with database.read() as connection:
        connection.exec_driver_sql("PRAGMA wal_checkpoint(FULL)")
    write(database, 1)
    assert log.path.stat().st_size > PAGES * 4096
    assert not log.is_long(PAGES)


@pytest.mark.usefixtures("table", "checkpoints")
def test_it_begins_anew_while_others_write(database: Database, log: LogFile) -> None:
    """Whoever writes next after it begins at its beginning, and the file has all."""
    write(database, PAGES)
    wait_until_short(database, log)
    assert database.file is not None
    alone = database.file.with_name("alone.db")
    alone.write_bytes(database.file.read_bytes())
    assert rows_of(alone) >= PAGES


@pytest.mark.usefixtures("table")
def test_a_log_that_is_begun_gets_room(
    database: Database, log: LogFile, checkpoints: Checkpoints
) -> None:
    """What was committed before and after is what a power cut leaves; the file stays as long."""
    assert log.path.stat().st_size < PAGES * 4096
    write(database, 3)
    deadline = time.monotonic() + SOON
    while (size := log.path.stat().st_size) < 1.5 * PAGES * 4096:
        assert time.monotonic() < deadline, "no room was made"
        time.sleep(0.02)
    write(database, 4)
    assert log.path.stat().st_size == size
    assert not log.is_long(PAGES)
    assert database.file is not None
    left = database.file.with_name("left.db")
    left.write_bytes(database.file.read_bytes())
    left.with_name("left.db-wal").write_bytes(log.path.read_bytes())
    assert rows_of(left) == 7


def test_a_small_disk_is_left_to_commits(database: Database, log: LogFile, table: None) -> None:
    """Where room would take what others need, nothing is written."""
    with database.write() as connection:
        connection.exec_driver_sql("INSERT INTO heap VALUES (1)")
    before = log.path.stat().st_size
    assert log.make_room(2**40)
    assert log.path.stat().st_size == before


@pytest.mark.usefixtures("table", "checkpoints")
def test_a_reader_is_not_waited_for(database: Database, log: LogFile) -> None:
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
        assert log.is_long(PAGES)
        assert reader.execute("SELECT count(*) FROM heap").fetchone() == before
        reader.execute("COMMIT")
    wait_until_short(database, log)
