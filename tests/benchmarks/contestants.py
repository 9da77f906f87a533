"""
The listeners that are compared, each started for its turn and killed after it.

So no backlog of one is processed in the time of another. They are the floors, the peers, the intake
alone (as an installation of several processes runs it), and the whole service.
"""

import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from tests.acceptance.cluster import Cluster
from tests.acceptance.forked import ROOT, started
from tests.acceptance.house import House, free_port
from tests.benchmarks.installation import Postgres
from tests.benchmarks.peers import Peers

STARTS_WITHIN = 20.0
_LISTENS = "0A"  # of /proc/net/tcp


@dataclass(frozen=True)
class Contestant:
    """
    A listener; `start` runs it and yields its port. `slow` ones get fewer messages.

    `pipelines`: it answers several messages in flight on one connection.
    """

    name: str
    start: Callable[[], AbstractContextManager[int]]
    slow: bool = False
    pipelines: bool = True


def contestants(folder: Path, postgres: Postgres, peers: Peers) -> list[Contestant]:
    def fresh() -> Path:
        return Path(tempfile.mkdtemp(dir=folder))

    ours = [
        intake(folder, None),
        intake(folder, postgres),
        Contestant(
            "two intakes on one port, PostgreSQL", lambda: _two(fresh(), postgres.database())
        ),
        Contestant("whole service, SQLite", lambda: _ours(fresh(), "")),
        Contestant("whole service, PostgreSQL", lambda: _ours(fresh(), postgres.database())),
    ]
    others = [
        Contestant(
            peer.name,
            partial(_running, peer.command),
            peer.slow,
            peer.pipelines,
        )
        for peer in peers.installed
    ]
    return [
        Contestant("durable floor", lambda: _floor(str(fresh() / "floor.db"))),
        Contestant("durable floor, PostgreSQL", lambda: _floor(plain(postgres.database()))),
        *others,
        *ours,
    ]


def intake(folder: Path, postgres: Postgres | None) -> Contestant:
    """The intake alone, on SQLite without `postgres`."""

    def start() -> AbstractContextManager[int]:
        home = Path(tempfile.mkdtemp(dir=folder))
        return _ours(home, postgres.database() if postgres else "", "--role", "intake")

    return Contestant(f"intake, {'PostgreSQL' if postgres else 'SQLite'}", start)


def plain(address: str) -> str:
    return address.replace("postgresql+psycopg://", "postgresql://")


def _floor(where: str) -> AbstractContextManager[int]:
    def command(port: int) -> list[str]:
        return [sys.executable, "-m", "tests.benchmarks.floor", str(port), where]

    return _running(command)


@contextmanager
def _ours(folder: Path, database: str, *roles: str) -> Iterator[int]:
    house = House(folder / "home", database=database, program=started)
    house.make()
    command = [sys.executable, "-m", "bridge", "serve", "--home", str(house.home), *roles]
    with _running(lambda _: command, house.mllp_port) as port:
        yield port


@contextmanager
def _two(folder: Path, database: str) -> Iterator[int]:
    cluster = Cluster(folder, database, program=started)
    one, two = cluster.nodes
    two.mllp_port = port = one.mllp_port
    for node in cluster.nodes:
        node.listener_extra = "share_port = true"
    cluster.make()
    with ExitStack() as stack:
        for node in cluster.nodes:
            command = [sys.executable, "-m", "bridge", "serve", "--home", str(node.home)]
            running = _running(lambda _, own=command: [*own, "--role", "intake"], port)  # type: ignore[misc]  # bound at once
            stack.enter_context(running)
        while _listening_on(port) < len(cluster.nodes):
            time.sleep(0.05)
        yield port


def _listening_on(port: int) -> int:
    rows = (row.split() for row in Path("/proc/net/tcp").read_text("ascii").splitlines()[1:])
    return sum(row[1].endswith(f":{port:04X}") and row[3] == _LISTENS for row in rows)


@contextmanager
def _running(command: Callable[[int], list[str]], port: int = 0) -> Iterator[int]:
    port = port or free_port()
    process = subprocess.Popen(
        command(port), cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
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
