"""Peers in their own processes: senders that get messages, receivers that print theirs."""

import json
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

from tests.acceptance.forked import ROOT
from tests.acceptance.receiver import Receiver
from tests.eventually import PATIENCE, eventually


def python(module: str, *arguments: str) -> list[str]:
    return [sys.executable, "-m", f"tests.peers.{module}", *arguments]


def script(name: str) -> str:
    return str(Path(sys.executable).parent / name)


def exchange(command: Sequence[str], messages: Sequence[bytes]) -> list[str]:
    """Let a sender send messages; return the replies that it parsed, with CR between segments."""
    done = subprocess.run(
        command, cwd=ROOT, input=json.dumps([message.decode() for message in messages]),
        capture_output=True, text=True, timeout=PATIENCE, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    return [json.loads(line) for line in done.stdout.splitlines()]


class ReceiverProcess:
    """A receiver in a process; it prints each message that it parsed, as text in JSON."""

    def __init__(self, command: Sequence[str], port: int, target: Receiver | None = None) -> None:
        """A proxy prints no messages; `target` is the receiver to which it forwards."""
        self.command, self.port, self.target = command, port, target
        self.process: subprocess.Popen[str] | None = None
        self._messages: list[str] = []

    def start(self) -> None:
        self.process = subprocess.Popen(
            self.command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        threading.Thread(target=self._listen, args=(self.process,), daemon=True).start()
        process = self.process
        eventually(lambda: _listens(self.port) or process.poll() is not None)
        assert process.poll() is None, f"{self.command} ended"

    def messages(self) -> list[str]:
        """Return all messages that it has parsed, in order."""
        if self.target is None:
            return list(self._messages)
        return [body.decode() for _, body in list(self.target.received)]

    def kill(self) -> None:
        """Kill it with SIGKILL; its output is kept."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()

    def _listen(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        with process.stdout as output:
            for line in output:
                self._messages.append(json.loads(line))


def _listens(port: int) -> bool:
    """True if a process listens, without opening a connection."""
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{table}").read_text("ascii").splitlines()[1:]:
            _, local, _, state = line.split()[:4]
            if state == "0A" and int(local.rsplit(":", 1)[1], 16) == port:
                return True
    return False
