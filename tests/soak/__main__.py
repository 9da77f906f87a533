"""
`python -m tests.soak`: the service under load, with a fault every so often (`make soak`).

Two nodes on PostgreSQL behind HAProxy; with `--sqlite` one node. By default an hour at 200
messages/s with a fault a minute; `--short` is the form for CI. Exits with 1 if anything was lost,
doubled or reordered, if the queues took a step that the models do not have, or if memory grew.
"""

import argparse
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path

from rich.console import Console

from tests.acceptance.cluster import Cluster
from tests.acceptance.forked import started
from tests.acceptance.house import House
from tests.acceptance.wire import Sink, sink
from tests.conftest import start_server
from tests.eventually import eventually
from tests.soak import trace, verdict
from tests.soak.faults import World, mount, unmount
from tests.soak.traffic import OrderSender, Reader

CONNECTIONS = 10
PER_MESSAGE = 10 * 1024  # bytes of the database's disk, with what its log needs
LEAST_DISK = 768  # MiB
OPEN_DELIVERIES = "SELECT count(*) FROM delivery WHERE state IN ('queued', 'claimed')"

tell = Console(highlight=False, markup=False, soft_wrap=True).print


def main() -> int:
    """Run; give the exit status."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # and leave nothing behind
    asked = arguments()
    folder = Path(tempfile.mkdtemp(prefix="bridge-soak-"))
    folder.chmod(0o755)  # as root the server is another user
    disk = folder / "disk"
    size = LEAST_DISK + int(asked.minutes * 60 * asked.rate * PER_MESSAGE / 2**20)
    own_disk = mount(disk, size)
    world = build(folder, disk, asked)
    try:
        with sink(world.answer) as ris:
            wrong = run(world, ris, asked, own_disk=own_disk)
    finally:
        world.cluster.close()
        if world.server is not None:
            world.server.cleanup()
        unmount(disk)
    for each in wrong[:20]:
        tell("WRONG:", each)
    tell(f"failed: {folder}" if wrong else "nothing lost, doubled or reordered")
    if not wrong:
        shutil.rmtree(folder, ignore_errors=True)
    return 1 if wrong else 0


def arguments() -> argparse.Namespace:
    """What was asked for."""
    parser = argparse.ArgumentParser(prog="python -m tests.soak")
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--rate", type=float, default=200, help="messages a second")
    parser.add_argument("--every", type=float, default=60, help="seconds between faults")
    parser.add_argument("--sqlite", action="store_true", help="one node on SQLite")
    parser.add_argument("--short", action="store_true", help="four minutes, 100/s, a fault in 35 s")
    asked = parser.parse_args()
    if asked.short:
        asked.minutes, asked.rate, asked.every = 4.0, 100.0, 35.0
    return asked


def build(folder: Path, disk: Path, asked: argparse.Namespace) -> World:
    """A database and nodes that are not started yet."""
    clock, lasts = folder / "clock", min(10.0, asked.every / 4)
    if asked.sqlite:
        single = Cluster(disk, "", 1, program=started)
        single.url = f"sqlite:///{single.nodes[0].home / 'bridge.db'}"
        return World(single, None, disk, clock, lasts)
    server = start_server(disk / "postgresql")
    url = server.get_uri().replace("postgresql://", "postgresql+psycopg://")
    cluster = Cluster(folder, url, 2, program=started)
    cluster.name_sessions()
    return World(cluster, server, disk, clock, lasts)


def run(world: World, ris: Sink, asked: argparse.Namespace, *, own_disk: bool) -> list[str]:
    """Send, break, mend; give all that is wrong."""
    cluster = world.cluster
    world.clock.write_text("0", "ascii")
    cluster.nodes[0].destination("ris", ris.port)
    cluster.make()
    cluster.nodes[0].bridge("migrate")
    trace.install(cluster.url)
    for node in cluster.nodes[:-1]:
        node.start()
    world.start_victim()
    port = cluster.nodes[0].mllp_port
    if len(cluster.nodes) > 1:
        cluster.balance()
        port = cluster.port
    senders = [
        OrderSender(port, number + 1, asked.rate / CONNECTIONS) for number in range(CONNECTIONS)
    ]
    reader = Reader(cluster.nodes, every=2.0)
    threads: list[OrderSender | Reader] = [*senders, reader]
    for thread in threads:
        thread.start()
    samples = disturb(world, asked, own_disk=own_disk)
    for thread in threads:
        thread.ending.set()
        thread.join(120)
    cluster.nodes[0].settle(300)
    ris.wait(len(reader.signed) + len(reader.amended), 60)
    eventually(lambda: cluster.query(OPEN_DELIVERIES) == [(0,)], 300)
    sent = sum(each.sent for each in senders)
    tell(f"{sent} orders sent, {len(reader.signed)} reports signed, {len(ris.received)} results")
    return [
        *verdict.history(cluster, senders, ris, reader), *verdict.counts(cluster, senders),
        *verdict.texts(ris), *verdict.paths(cluster, world), *verdict.memory(samples),
    ]  # fmt: skip


def disturb(world: World, asked: argparse.Namespace, *, own_disk: bool) -> list[int]:
    """Let faults happen for as long as asked; give the memory of the node that lives on."""
    faults = [each for each in world.faults if own_disk or each != world.fill_the_disk]
    if not own_disk:
        tell("no right to mount a disk: it is never full")
    samples = []
    ends, turn, due = time.monotonic() + asked.minutes * 60, 0, time.monotonic() + asked.every / 2
    while time.monotonic() < ends:
        time.sleep(1)
        samples.append(resident(world.cluster.nodes[0]))
        if time.monotonic() >= due:
            fault = faults[turn % len(faults)]
            tell(f"{time.strftime('%H:%M:%S')} {fault.__name__.replace('_', ' ')}")
            fault()
            turn, due = turn + 1, due + asked.every
    return samples


def resident(node: House) -> int:
    """Bytes of memory of a running node."""
    if node.service is None or node.service.process.poll() is not None:
        raise AssertionError("the node that nobody killed has ended")
    status = Path(f"/proc/{node.service.process.pid}/status").read_text("ascii")
    line = next(each for each in status.splitlines() if each.startswith("VmRSS"))
    return int(line.split()[1]) * 1024


if __name__ == "__main__":
    sys.exit(main())
