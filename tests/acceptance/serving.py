"""One `bridge serve` in its own process: start, wait, stop, kill."""

import signal
from collections.abc import Mapping, Sequence
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

    def log(self) -> str:
        return self.file.read_text("utf-8", "replace")

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
