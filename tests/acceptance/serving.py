"""One `bridge serve` in a process of its own: started, waited for, stopped, killed."""

import signal
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import httpx

from tests.acceptance.forked import Forked, Program

READY_WITHIN = 60.0


class Serving:
    """A running service; `probe` is where it says whether it is ready."""

    def __init__(
        self,
        home: Path,
        probe: str,
        arguments: Sequence[str] = (),
        env: Mapping[str, str] | None = None,
        program: Program = Forked,
    ) -> None:
        """Start it."""
        self.file = home / "serve.log"
        self.probe = probe
        command = ["serve", "--home", str(home), *arguments]
        self.process = program(command, env or {}, self.file, self.file)

    def wait(self) -> None:
        """Wait until it is ready."""
        deadline = time.monotonic() + READY_WITHIN
        while time.monotonic() < deadline and self.process.poll() is None:
            try:
                if httpx.get(f"{self.probe}/readyz", timeout=2).status_code == 200:
                    return
            except httpx.HTTPError:
                pass
            time.sleep(0.05)
        raise AssertionError(f"not ready: {self.log()[-3000:]}")

    def log(self) -> str:
        """All that the services of this home printed."""
        return self.file.read_text("utf-8", "replace")

    def kill(self) -> None:
        """Kill -9."""
        self.process.kill()
        self.process.wait()

    def stop(self) -> int:
        """SIGTERM; return the exit status."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        return self.process.wait(timeout=45)
