"""One `bridge serve` in its own process: start, wait, stop, kill."""

import signal
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import httpx

from tests.acceptance.forked import Forked, Program
from tests.eventually import PATIENCE, eventually
from tests.trust import TRUSTED


class Serving:
    """A running service; `probe` is the address of its `/readyz`."""

    def __init__(
        self,
        home: Path,
        probe: str,
        arguments: Sequence[str] = (),
        env: Mapping[str, str] | None = None,
        program: Program = Forked,
    ) -> None:
        self.file = home / "serve.log"
        self.probe = probe
        command = ["serve", "--home", str(home), *arguments]
        self.process = program(command, env or {}, self.file, self.file)

    def wait(self) -> None:
        eventually(lambda: self.process.poll() is not None or is_ready(self.probe))
        assert self.process.poll() is None, f"not ready: {self.log()[-3000:]}"

    def processes(self) -> list[int]:
        """Return the ids of the process that was started and of its service process."""
        return [pid for pid in (self.process.pid, self.child()) if pid]

    def child(self) -> int:
        """Return the id of the service process; 0 if there is none now."""
        return next(iter(self.children()), 0)

    def children(self) -> list[int]:
        """Return the ids of the child processes: the service, then the DICOM port."""
        own, found = Path(f"/proc/{self.process.pid}/cmdline").read_bytes(), []
        for threads in Path(f"/proc/{self.process.pid}/task").glob("*/children"):
            for child in threads.read_text("ascii").split():
                with suppress(OSError):
                    command = Path(f"/proc/{child}/cmdline").read_bytes()
                    if command == own or b"\0serve\0" in command:  # forked or executed
                        found.append(int(child))
        return sorted(found)

    def log(self) -> str:
        return self.file.read_text("utf-8", "replace")

    def is_ready(self) -> bool:
        return is_ready(self.probe)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def stop(self) -> int:
        """Send SIGTERM; return the exit status."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        return self.process.wait(timeout=PATIENCE)


def is_ready(address: str) -> bool:
    try:
        answer = httpx.get(f"{address}/readyz", timeout=10, verify=TRUSTED)
    except httpx.HTTPError:
        return False
    return answer.status_code == httpx.codes.OK


def is_running(process: int) -> bool:
    """False also for a zombie, which its new parent has not waited for."""
    try:
        return ") Z " not in Path(f"/proc/{process}/stat").read_text("ascii")
    except OSError:
        return False
