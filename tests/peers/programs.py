"""Peers in processes of their own: senders that are given messages, receivers that tell theirs."""

import json
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path

from tests.acceptance.forked import ROOT
from tests.acceptance.receiver import Receiver

STARTS_WITHIN = 60.0


def python(module: str, *arguments: str) -> list[str]:
    """The command that runs one of the Python programs beside this file."""
    return [sys.executable, "-m", f"tests.peers.{module}", *arguments]


def script(name: str) -> str:
    """The path of a command that a Python package brought."""
    return str(Path(sys.executable).parent / name)


def converse(command: Sequence[str], messages: Sequence[bytes]) -> list[str]:
    """Have a sender send messages; the replies as it understood them, separators as CR."""
    done = subprocess.run(
        command, cwd=ROOT, input=json.dumps([each.decode() for each in messages]),
        capture_output=True, text=True, timeout=90, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    return [json.loads(line) for line in done.stdout.splitlines()]


class Listening:
    """A receiver in a process; it tells each message that it understood, as text in JSON."""

    def __init__(self, command: Sequence[str], port: int, behind: Receiver | None = None) -> None:
        """`behind` hears instead of it: a proxy tells nothing."""
        self.command, self.port, self.behind = command, port, behind
        self.process: subprocess.Popen[str] | None = None
        self._told: list[str] = []

    def start(self) -> None:
        """Start it, or start it again; returns when it listens."""
        self.process = subprocess.Popen(
            self.command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        threading.Thread(target=self._listen, args=(self.process,), daemon=True).start()
        deadline = time.monotonic() + STARTS_WITHIN
        while not _listens(self.port):
            assert self.process.poll() is None, f"{self.command} ended"
            assert time.monotonic() < deadline, f"{self.command} does not listen"
            time.sleep(0.05)

    def heard(self) -> list[str]:
        """All messages it understood so far, in order."""
        if self.behind is None:
            return list(self._told)
        return [body.decode() for _, body in list(self.behind.received)]

    def kill(self) -> None:
        """Kill -9; what it had told is kept."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()

    def _listen(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        with process.stdout as told:
            for line in told:
                self._told.append(json.loads(line))


def _listens(port: int) -> bool:
    """Whether somebody listens, asked of the system: a connection would count as a sender."""
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{table}").read_text("ascii").splitlines()[1:]:
            _, local, _, state = line.split()[:4]
            if state == "0A" and int(local.rsplit(":", 1)[1], 16) == port:
                return True
    return False
