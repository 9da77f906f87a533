"""
`python -m tests.soak`: the service under load with periodic faults (`make soak`).

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
from tests.benchmarks.installation import resident
from tests.conftest import start_server
from tests.eventually import eventually
from tests.programs import HAPROXY, exit_without
from tests.soak import trace, verdict
from tests.soak.faults import World, mount, unmount
from tests.soak.traffic import OrderSender, Reader

CONNECTIONS = 10
PER_MESSAGE = 10 * 1024  # bytes of the database's disk, with what its log needs
LEAST_DISK = 768  # MiB
OPEN_DELIVERIES = "SELECT count(*) FROM delivery WHERE state IN ('queued', 'claimed')"

show = Console(highlight=False, markup=False, soft_wrap=True).print


def main() -> int:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that all `finally` blocks run
    options = arguments()
    exit_without(*() if options.sqlite else (HAPROXY,))
    folder = Path(tempfile.mkdtemp(prefix="bridge-soak-"))
    folder.chmod(0o755)  # as root the server runs as another user
    disk = folder / "disk"
    size = LEAST_DISK + int(options.minutes * 60 * options.rate * PER_MESSAGE / 2**20)
    own_disk = mount(disk, size)
    world = build(folder, disk, options)
    try:
        with sink(world.answer) as ris:
            wrong = run(world, ris, options, own_disk=own_disk)
    finally:
        world.cluster.close()
        if world.server is not None:
            world.server.cleanup()
        unmount(disk)
    for error in wrong[:20]:
        show("WRONG:", error)
    show(f"failed: {folder}" if wrong else "nothing lost, doubled or reordered")
    if not wrong:
        shutil.rmtree(folder, ignore_errors=True)
    return 1 if wrong else 0


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.soak")
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--rate", type=float, default=200, help="messages a second")
    parser.add_argument("--every", type=float, default=60, help="seconds between faults")
    parser.add_argument("--sqlite", action="store_true", help="one node on SQLite")
    parser.add_argument("--short", action="store_true", help="four minutes, 100/s, a fault in 35 s")
    options = parser.parse_args()
    if options.short:
        options.minutes, options.rate, options.every = 4.0, 100.0, 35.0
    return options


def build(folder: Path, disk: Path, options: argparse.Namespace) -> World:
    clock, lasts = folder / "clock", min(10.0, options.every / 4)
    if options.sqlite:
        single = Cluster(disk, "", 1, program=started)
        single.url = f"sqlite:///{single.nodes[0].home / 'bridge.db'}"
        return World(single, None, disk, clock, lasts)
    server = start_server(disk / "postgresql")
    url = server.get_uri().replace("postgresql://", "postgresql+psycopg://")
    cluster = Cluster(folder, url, 2, program=started)
    cluster.name_sessions()
    return World(cluster, server, disk, clock, lasts)


def run(world: World, ris: Sink, options: argparse.Namespace, *, own_disk: bool) -> list[str]:
    """Send under faults; return all problems."""
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
        OrderSender(port, number + 1, options.rate / CONNECTIONS) for number in range(CONNECTIONS)
    ]
    reader = Reader(cluster.nodes, every=2.0)
    threads: list[OrderSender | Reader] = [*senders, reader]
    for thread in threads:
        thread.start()
    samples = disturb(world, options, own_disk=own_disk)
    for thread in threads:
        thread.ending.set()
        thread.join(120)
    cluster.nodes[0].settle(300)
    ris.wait(len(reader.signed) + len(reader.amended), 60)
    eventually(lambda: cluster.query(OPEN_DELIVERIES) == [(0,)], 300)
    sent = sum(sender.sent for sender in senders)
    show(f"{sent} orders sent, {len(reader.signed)} reports signed, {len(ris.received)} results")
    return [
        *verdict.history(cluster, senders, ris, reader), *verdict.counts(cluster, senders),
        *verdict.texts(ris), *verdict.paths(cluster, world), *verdict.memory(samples),
    ]  # fmt: skip


def disturb(world: World, options: argparse.Namespace, *, own_disk: bool) -> list[int]:
    """Inject faults for the requested time; return memory samples of the node that survives."""
    faults = [item for item in world.faults if own_disk or item != world.fill_the_disk]
    if not own_disk:
        show("no right to mount a disk: it is never full")
    samples = []
    ends, turn, due = (
        time.monotonic() + options.minutes * 60,
        0,
        time.monotonic() + options.every / 2,
    )
    while time.monotonic() < ends:
        time.sleep(1)
        samples.append(memory_of(world.cluster.nodes[0]))
        if time.monotonic() >= due:
            fault = faults[turn % len(faults)]
            show(f"{time.strftime('%H:%M:%S')} {fault.__name__.replace('_', ' ')}")
            fault()
            turn, due = turn + 1, due + options.every
    return samples


def memory_of(node: House) -> int:
    """Return the resident memory of a running node's processes in bytes."""
    if node.service is None or node.service.process.poll() is not None:
        raise AssertionError("the node that was not killed has ended")
    return int(resident(node.service.process.pid) * 2**20)


if __name__ == "__main__":
    sys.exit(main())
