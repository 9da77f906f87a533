"""Killed processes, and concurrent processes."""

import asyncio
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import event, text

from bridge.queue.log_tables import file_of_log, pull_new
from bridge.queue.message_log import MessageLog
from bridge.store.database import Database
from bridge.store.errors import StoreUnavailable
from bridge.store.migration import upgrade
from tests.bridge.queue.conftest import Intake, accept
from tests.bridge.queue.samples import arrival
from tests.conftest import server_address, start_server
from tests.programs import RIGHT_TO_MOUNT

ROOT = Path(__file__).parents[3]


def _start(module: str, database: Database, *arguments: str) -> subprocess.Popen[str]:
    url = database.engine.url.render_as_string(hide_password=False)
    command = [sys.executable, "-m", f"tests.bridge.queue.{module}", url, *arguments]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)


def _lines_until_killed(process: subprocess.Popen[str], number: int) -> list[str]:
    assert process.stdout is not None
    first = [process.stdout.readline() for _ in range(number)]
    process.kill()
    rest, _ = process.communicate()
    return [*first, *_whole_lines(rest)]


def _whole_lines(output: str) -> list[str]:
    return output[: output.rfind("\n") + 1].splitlines()


def _stored(store: Database) -> dict[int, str]:
    pull_new(store)
    statement = "SELECT message_id, payload FROM message_body"
    with store.read() as connection:
        rows = connection.execute(text(statement)).all()
    return {
        row.message_id: bytes(row.payload).split(b"|")[3].split(b"\r")[0].decode() for row in rows
    }


@pytest.mark.slow
def test_a_killed_message_log(store: Database) -> None:
    """Each order reported as stored is stored once, with the reported id."""
    reported: dict[int, int] = {}
    for round_number in range(3):
        process = _start("log_process", store, str(round_number * 10**6))
        for line in _lines_until_killed(process, 300 + 77 * round_number):
            number, message_id = map(int, line.split())
            reported[number] = message_id
    assert len(reported) > 900
    stored = _stored(store)
    assert len(set(stored.values())) == len(stored)
    assert all(stored.get(message_id) == f"N{number}" for number, message_id in reported.items())


@pytest.mark.slow
def test_two_nodes_apply_one_inbox(intake: Intake, store: Database) -> None:
    """One of two nodes applies each message, in order for each patient, also after a kill."""
    receipts = intake.enqueue(*(arrival(patient=str(n % 40)) for n in range(1200)))
    doomed = _start("worker_process", store, "node-1")
    before = _lines_until_killed(doomed, 100)
    assert len(before) < len(receipts)
    reborn = _start("worker_process", store, "node-1")
    other = _start("worker_process", store, "node-2")
    after = [*_whole_lines(reborn.communicate()[0]), *_whole_lines(other.communicate()[0])]
    applied = sorted(tuple(map(int, line.split())) for line in [*before, *after])
    ids = [message_id for _, _, message_id in applied]
    assert set(ids) == {receipt.message_id for receipt in receipts}
    assert len(ids) <= len(receipts) + 20 * 4  # claims at the kill: twice at most
    for lane in {lane for _, lane, _ in applied}:
        mine = [message_id for _, item, message_id in applied if item == lane]
        assert mine == sorted(mine)


BIG = "x" * 20_000


def _count(store: Database) -> int:
    pull_new(store)
    with store.read() as connection:
        return int(connection.execute(text("SELECT count(*) FROM message")).scalar_one())


def _intake(database: Database) -> Iterator[Intake]:
    upgrade(database)
    with asyncio.Runner() as runner:
        intake = Intake(database, runner)
        intake.message_log.start(runner.get_loop())
        yield intake
        runner.run(intake.message_log.stop())
    database.dispose()


def _until_full(intake: Intake) -> int:
    """Store large arrivals until one fails, and return how many were stored."""
    for stored in range(1000):
        (outcome,) = intake.outcomes(arrival(content=BIG))
        if isinstance(outcome, BaseException):
            assert isinstance(outcome, StoreUnavailable)
            return stored
    pytest.fail("the disk never got full")


class TestPageLimit:
    """A log with a page limit, which SQLite reports as a full disk."""

    @pytest.fixture
    def limit(self) -> dict[str, int]:
        return {"pages": 300}

    @pytest.fixture
    def database(self, tmp_path: Path, limit: dict[str, int]) -> Database:
        database = Database(f"sqlite:///{tmp_path / 'small.db'}")
        upgrade(database)

        def limit_pages(connection: Any, record: object, proxy: object) -> None:
            connection.execute(f"PRAGMA max_page_count = {limit['pages']}")

        event.listen(file_of_log(database).engine, "checkout", limit_pages)
        return database

    @pytest.fixture
    def small(self, database: Database) -> Iterator[Intake]:
        yield from _intake(database)

    def test_full_and_recovered(
        self, small: Intake, database: Database, limit: dict[str, int]
    ) -> None:
        """The failed message is not stored. With free space the message log works again."""
        stored = _until_full(small)
        assert stored > 0
        assert _count(database) == stored
        outcomes = small.outcomes(*(arrival(content=BIG) for _ in range(5)))
        assert all(isinstance(outcome, StoreUnavailable) for outcome in outcomes)
        assert _count(database) == stored
        limit["pages"] = 100_000
        small.enqueue(arrival(content=BIG))
        assert _count(database) == stored + 1


@pytest.fixture
def tiny_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of two megabytes, if the test may mount one."""
    RIGHT_TO_MOUNT.require()
    folder = tmp_path / "tiny"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(folder)]
    subprocess.run(mount, check=True, capture_output=True)
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


def test_a_full_file_system(tiny_disk: Path) -> None:
    """The file system has no block for the log. When one is freed, the message log works again."""
    ballast = tiny_disk / "ballast"
    ballast.write_bytes(b"x" * 2**20)
    database = Database(f"sqlite:///{tiny_disk / 'bridge.db'}")
    for intake in _intake(database):
        stored = _until_full(intake)
        (outcome,) = intake.outcomes(arrival(content=BIG))
        assert isinstance(outcome, StoreUnavailable)
        ballast.unlink()
        assert _count(database) == stored
        intake.enqueue(arrival(content=BIG))
        assert _count(database) == stored + 1
        with database.read() as connection:
            assert connection.execute(text("PRAGMA integrity_check")).scalar_one() == "ok"


def test_an_unreachable_database(tmp_path: Path) -> None:
    """Each arrival fails at once without the server. The message log does not fail."""
    database = Database(f"postgresql+psycopg:///x?host={tmp_path}")

    async def scenario() -> list[object]:
        message_log = MessageLog(database)
        message_log.start(asyncio.get_running_loop())
        outcomes = await asyncio.gather(
            accept(message_log, arrival()), accept(message_log, arrival()), return_exceptions=True
        )
        await message_log.stop()
        return list(outcomes)

    assert all(isinstance(item, StoreUnavailable) for item in asyncio.run(scenario()))


@pytest.mark.postgres
@pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)  # SQLite has no sessions
def test_connections_that_are_cut(intake: Intake, store: Database) -> None:
    """The server ends all sessions: no sender is refused, and no message is stored twice."""
    intake.enqueue(arrival())
    cut = text("""
        SELECT pg_terminate_backend(pid) FROM pg_stat_activity
        WHERE datname = current_database() AND pid <> pg_backend_pid()
    """)
    killer = Database(store.engine.url.render_as_string(hide_password=False))
    for before in (1, 3, 5):
        with killer.write() as connection:
            connection.execute(cut)
        first, second = *intake.enqueue(arrival()), *intake.enqueue(arrival())
        assert not first.duplicate
        assert not second.duplicate
        assert _count_again(store) == before + 2
    killer.dispose()


@pytest.mark.postgres
@pytest.mark.slow
def test_a_server_that_restarts() -> None:
    """Nothing is reported as stored while the server is down, and stored messages remain."""
    with tempfile.TemporaryDirectory(prefix="bridge-postgresql-") as folder:
        place = Path(folder) / "data"
        database = Database(server_address(place))
        server = start_server(place)
        for intake in _intake(database):
            stored = [receipt.message_id for receipt in intake.enqueue(arrival(), arrival())]
            server.stop()
            (outcome,) = intake.outcomes(arrival())
            assert isinstance(outcome, StoreUnavailable)
            server.start()
            for _ in range(2):
                stored += [receipt.message_id for receipt in intake.enqueue(arrival())]
            assert _count_again(database) == len(stored)
            with database.read() as connection:
                rows = connection.execute(text("SELECT id FROM message")).scalars()
                assert set(rows) == set(stored)
        server.stop()


def _count_again(store: Database) -> int:
    try:
        return _count(store)
    except StoreUnavailable:
        return _count(store)
