"""One service with real peer programs: each sender sends orders, each receiver gets results."""

import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.acceptance.house import House, free_port
from tests.acceptance.receiver import Receiver
from tests.peers.programs import ReceiverProcess, python, script
from web.build import node

PROGRAMS = Path(__file__).parent / "node"


class Node:
    def __init__(self, folder: Path) -> None:
        shutil.copytree(PROGRAMS, folder)
        npm, environment = node()
        command = [*npm, "ci", "--ignore-scripts", "--loglevel=error"]
        subprocess.run(command, cwd=folder, env=environment, check=True, timeout=120)
        self.folder = folder
        self.program = shutil.which("node", path=environment.get("PATH")) or "node"

    def command(self, name: str, *arguments: str) -> list[str]:
        return [self.program, str(self.folder / f"{name}.js"), *arguments]


@dataclass(frozen=True)
class PeerSetup:
    """The running service, the ports of its listeners, and the receivers of its results."""

    house: House
    node: Node
    web: int
    applied: int
    receivers: dict[str, ReceiverProcess]


@pytest.fixture(scope="session")
def npm_peers(tmp_path_factory: pytest.TempPathFactory) -> Node:
    return Node(tmp_path_factory.mktemp("npm") / "peers")


def commands(peers: Node, onward: int) -> dict[str, Callable[[str], list[str]]]:
    """Return the commands that start the receivers; `onward` is the port target mllp2http."""
    twisted = [sys.executable, "-m", "twisted", f"--log-file={peers.folder / 'twisted.log'}"]
    receiver = ["--receiver", "tests.peers.txhl7_receiver.Results"]
    proxy = [script("mllp2http"), "--host", "127.0.0.1"]
    return {
        "python-hl7": lambda port: python("python_hl7_server", port),
        "hl7apy": lambda port: python("hl7apy_server", port),
        "txHL7": lambda port: [
            *[*twisted, "mllp", "--endpoint", f"tcp:{port}:interface=127.0.0.1", *receiver]
        ],
        "mllp-http": lambda port: [*proxy, "--port", port, f"http://127.0.0.1:{onward}/in"],
        "medplum": lambda port: peers.command("medplum_server", port),
        "node-hl7": lambda port: peers.command("node_hl7_server", port),
    }


@pytest.fixture(scope="session")
def receivers(npm_peers: Node) -> Iterator[dict[str, ReceiverProcess]]:
    target = Receiver()
    with ExitStack() as running:
        running.callback(target.server.server_close)
        running.callback(target.server.shutdown)
        started: dict[str, ReceiverProcess] = {}
        for name, command in commands(npm_peers, target.port).items():
            port = free_port()
            proxied = target if name == "mllp-http" else None
            started[name] = ReceiverProcess(command(str(port)), port, proxied)
            running.callback(started[name].kill)
            started[name].start()
        yield started


@pytest.fixture(scope="session")
def installation(
    tmp_path_factory: pytest.TempPathFactory, npm_peers: Node, receivers: dict[str, ReceiverProcess]
) -> Iterator[PeerSetup]:
    house = House(tmp_path_factory.mktemp("installation") / "home")
    for name, peer in receivers.items():
        house.destination(name, peer.port)
    web = free_port()
    house.listener("web", bind=f"http://127.0.0.1:{web}/hl7")
    applied = house.listener("applied", acknowledge="applied")
    house.make()
    house.start()
    yield PeerSetup(house, npm_peers, web, applied, receivers)
    assert house.stop() == 0
