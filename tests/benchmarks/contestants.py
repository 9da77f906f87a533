"""
What is compared, each started afresh for its turn and killed after it.

So nobody's backlog is worked off in somebody else's time: the floor, python-hl7, our intake
alone (as an installation of several processes runs it), and the whole service.
"""

import itertools
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

import psycopg

from tests.acceptance.forked import ROOT, started
from tests.acceptance.house import House, free_port

STARTS_WITHIN = 20.0
_numbers = itertools.count()


@dataclass(frozen=True)
class Contestant:
    """A listener; `start` runs it on the port it gives. `slow` ones get fewer messages."""

    name: str
    start: Callable[[], AbstractContextManager[int]]
    slow: bool = False


def contestants(folder: Path, postgres: str) -> list[Contestant]:
    """Name all of them; `postgres` is the address of a server without a database's name."""
    return [
        Contestant("durable floor", lambda: _module("floor", str(_fresh(folder) / "floor.db"))),
        Contestant("python-hl7", lambda: _module("python_hl7"), slow=True),
        Contestant("intake, SQLite", lambda: _ours(_fresh(folder), "", "--role", "intake")),
        Contestant(
            "intake, PostgreSQL",
            lambda: _ours(_fresh(folder), _database(postgres), "--role", "intake"),
        ),
        Contestant("whole service, SQLite", lambda: _ours(_fresh(folder), "")),
    ]


def _fresh(folder: Path) -> Path:
    made = folder / str(next(_numbers))
    made.mkdir()
    return made


def _database(server: str) -> str:
    """Make an empty database; give its address as our settings have it."""
    name = f"bench{next(_numbers)}"
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}".encode())
    return server.replace("postgresql://", "postgresql+psycopg://").replace(
        "/postgres?", f"/{name}?"
    )


@contextmanager
def _module(name: str, *arguments: str) -> Iterator[int]:
    port = free_port()
    command = [sys.executable, "-m", f"tests.benchmarks.{name}", str(port), *arguments]
    with _running(command, port):
        yield port


@contextmanager
def _ours(folder: Path, database: str, *roles: str) -> Iterator[int]:
    house = House(folder / "home", database=database, program=started)
    house.make()
    command = [sys.executable, "-m", "bridge", "serve", "--home", str(house.home), *roles]
    with _running(command, house.mllp_port):
        yield house.mllp_port


@contextmanager
def _running(command: list[str], port: int) -> Iterator[None]:
    process = subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        _wait(port)
        yield
    finally:
        process.kill()
        process.wait()


def _wait(port: int) -> None:
    deadline = time.monotonic() + STARTS_WITHIN
    while time.monotonic() < deadline:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            time.sleep(0.05)
        else:
            return
    raise AssertionError("a contestant did not start")
