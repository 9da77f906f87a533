"""A second engine in a process of its own: started, asked, given up, ended; on both databases."""

import asyncio
import errno
import os
import signal
import sys
import threading
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import NoReturn

import httpx
import pytest
from sqlalchemy import text
from typer.testing import CliRunner

from bridge.cli import application
from bridge.engine_client import http_caller
from bridge.engine_client.client import EngineClient
from bridge.engine_client.errors import EngineFailure
from bridge.engine_client.models import Launch
from bridge.engine_client.transport import Request
from bridge.queue.pressure import LONG, MANY, Pressure
from bridge.runtime import second_process
from bridge.runtime.seconding import SecondEngine
from bridge.runtime.step import now_ms
from bridge.store.database import Database
from bridge.wiring.engine import engine_application, engine_beside, engine_http, engine_tokens
from config import Settings, load

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(120)]

WITHIN = 60.0
_ORDERS = text("SELECT accession FROM engine_report_order ORDER BY pk")


@pytest.fixture
def anyio_backend() -> str:
    """Name the only event loop we use."""
    return "asyncio"


class Ward:
    """An engine, what starts a second one, a client of both, and a day that is moved by hand."""

    def __init__(self, settings: Settings, database: Database) -> None:
        self.now = self.spent = 0.0
        self.settings, self.database = settings, database
        self.engine = engine_application(settings, database, now_ms)
        self.pressure = Pressure(lambda: self.now, lambda: self.spent)
        self.second = SecondEngine(settings, database.mark, self.pressure)
        own = engine_http(settings, self.engine)
        self.caller = engine_beside(own, self.second, self.engine)
        self.client = EngineClient(self.caller, engine_tokens(settings))

    def works_hard(self) -> None:
        """Let much be applied for two seconds, by a process that has no time left."""
        for _ in range(4):
            self.now += 0.5
            self.spent += 0.5
            self.second.applied(round(MANY))

    async def until(self, so: Callable[[], bool]) -> None:
        """Wait until something is so."""
        async with asyncio.timeout(WITHIN):
            while not so():  # noqa: ASYNC110  # of another process
                await asyncio.sleep(0.02)

    async def begun(self) -> int:
        """Wait until a second engine is ready; give its number."""
        self.works_hard()
        await self.until(lambda: self.second.caller is not None)
        assert self.second.pid is not None
        return self.second.pid

    async def launch(self, accession: str) -> None:
        """Register an order, by a batch of one."""
        tags = {"SiteID": "SITE1", "PatientMRN": "M1", "Accession": accession}
        launch = Launch(tags, lazy=True, register_order=True)
        (launched,) = await self.client.launch_batch([launch])
        assert not isinstance(launched, EngineFailure), launched

    def orders(self) -> list[str]:
        """Read which orders stand."""
        with self.database.read() as connection:
            return list(connection.execute(_ORDERS).scalars())


def gone(pid: int) -> bool:
    """Tell whether a process has ended, and nobody still has to be told."""
    return not Path(f"/proc/{pid}").exists()


def refused(*_: object) -> NoReturn:
    """Have nothing left, as the system and the interpreter say it."""
    raise RanOutError(errno.EMFILE, "nothing left")


class RanOutError(OSError, RuntimeError):
    """Descriptors are OSError's, threads RuntimeError's."""


@pytest.fixture
async def ward(database_url: str, tmp_path: Path) -> AsyncIterator[Ward]:
    """One whose second engine ends with the test."""
    home = tmp_path / "home"
    for arguments in (["init", str(home)], ["site", "add", "SITE1", "--home", str(home)]):
        if arguments[0] == "site":
            file = home / "bridge.toml"
            where = f'[database]\nurl = "{database_url}"\nengine_url = "{database_url}"\n'
            file.write_text(where + file.read_text("utf-8").split("[database]")[0], "utf-8")
        assert CliRunner().invoke(application, arguments).exit_code == 0
    database = Database(database_url)
    made = Ward(load(home), database)
    await made.engine.state.engine.start()
    yield made
    await made.caller.aclose()
    assert made.second.caller is None
    assert made.second.pid is None or gone(made.second.pid)
    await made.engine.state.engine.stop()
    database.dispose()


async def test_it_begins_under_pressure_and_does_the_same(ward: Ward) -> None:
    """Another process launches; what it did stands here at once, and who waits is rung for."""
    await ward.launch("A1")
    assert ward.second.pid is None
    pid = await ward.begun()
    bell = ward.engine.state.engine.work.changed.bell()
    await ward.launch("A2")
    assert ward.orders() == ["A1", "A2"]
    async with asyncio.timeout(1):
        await bell
    assert ward.second.computed()
    await ward.second.aclose()
    assert gone(pid)
    await ward.launch("A3")
    assert ward.orders() == ["A1", "A2", "A3"]


async def test_it_does_nothing_else(ward: Ward) -> None:
    """Pages, sessions and everything that keeps something in memory are the service's own."""
    await ward.begun()
    assert ward.second.caller is not None
    for path in ("/api/report/launch/clinical", "/reporting/login", "/healthz"):
        answer = await ward.second.caller.ask(Request("GET", path, {}))
        assert answer.status == 404


async def test_killed(ward: Ward) -> None:
    """The call it had says so, the next one is carried out here; no other begins at once."""
    pid = await ward.begun()
    os.kill(pid, signal.SIGSTOP)
    asked = asyncio.create_task(ward.launch("A1"))
    await asyncio.sleep(0.1)
    os.kill(pid, signal.SIGKILL)
    with pytest.raises(EngineFailure):
        await asked
    await ward.launch("A2")
    assert ward.orders() == ["A2"]
    await ward.until(lambda: gone(pid) and ward.second.pid is None)
    ward.works_hard()
    assert ward.second.pid is None


async def test_it_ends_when_it_is_not_needed(ward: Ward) -> None:
    """And begins again when it is: nothing had failed."""
    pid = await ward.begun()
    ward.now += LONG + 1
    await ward.until(lambda: gone(pid) and ward.second.pid is None)
    await ward.launch("A1")
    assert await ward.begun() != pid
    await ward.launch("A2")
    assert ward.orders() == ["A1", "A2"]


async def test_killed_where_it_was_to_end(ward: Ward, monkeypatch: pytest.MonkeyPatch) -> None:
    """Held up with something in hand, which is tried again: it must not be done there as well."""
    monkeypatch.setattr(http_caller, "TIMEOUT", httpx.Timeout(2.0))
    pid = await ward.begun()
    os.kill(pid, signal.SIGSTOP)
    asked = asyncio.create_task(ward.launch("A1"))
    await asyncio.sleep(0.1)
    ward.now += LONG + 1
    await ward.until(lambda: ward.second.caller is None)
    with pytest.raises(EngineFailure):
        await asked
    await ward.until(lambda: gone(pid))


@pytest.mark.parametrize(
    "what", ["another release", "no program", "no descriptor", "no pipe", "no thread"]
)
async def test_it_does_not_come_about(
    ward: Ward, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    """Where the files were replaced under a running service, or nothing can be started."""
    match what:
        case "another release":
            monkeypatch.setattr(second_process, "__version__", "0.0.1")
        case "no program":
            monkeypatch.setattr(sys, "executable", "/nowhere/python")
        case "no descriptor":
            monkeypatch.setattr(second_process, "HOST", "192.0.2.1")  # nor an address, RFC 5737
        case "no pipe":
            monkeypatch.setattr(os, "pipe", refused)
        case _:
            monkeypatch.setattr(threading.Thread, "start", refused)
    ward.works_hard()
    if what == "no thread":
        monkeypatch.undo()  # the others are asked for by a thread
    assert ward.second.caller is None
    await ward.until(lambda: ward.second.pid is None)
    await ward.launch("A1")
    assert ward.orders() == ["A1"]


async def test_it_may_always_run(
    ward: Ward, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """
    Where the settings say so: from the start on, however little there is to do.

    What lies where the service was started is no program of ours.
    """
    (tmp_path / "uvicorn.py").write_text("raise SystemExit(1)", "utf-8")
    monkeypatch.chdir(tmp_path)
    second = SecondEngine(ward.settings, ward.database.mark, ward.pressure, always=True)
    await second.start()
    await ward.until(lambda: second.caller is not None)
    pid = second.pid
    ward.now += LONG + 1
    await asyncio.sleep(1.5)
    assert second.pid == pid
    await second.aclose()
    assert pid is not None
    assert gone(pid)


async def test_the_service_stops_before_it_is_ready(ward: Ward) -> None:
    """It ends too, at once, even where it is held up."""
    ward.works_hard()
    await ward.until(lambda: ward.second.pid is not None)
    assert ward.second.pid is not None
    os.kill(ward.second.pid, signal.SIGSTOP)
    async with asyncio.timeout(10):
        await ward.second.aclose()
    assert ward.second.caller is None
    ward.works_hard()
    assert ward.second.caller is None
