"""
The service of the demonstration: a temporary data directory, and the real program in subprocesses.

The settings have two senders with different charsets and one receiver. All steps use the `bridge`
command, as an operator does. At the end the service is stopped and the folder removed.
"""

import asyncio
import os
import shutil
import signal
import socket
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from string import Template
from types import TracebackType
from typing import IO, Final, Self

import httpx

import bridge
from bridge.demo.narration import CommandFailed, NotReady, TooLate, until

HOST: Final = "127.0.0.1"
_READY_SECONDS: Final = 300.0  # a small or busy machine compiles everything at the first start
_STOP_SECONDS: Final = 20.0


def free_ports(count: int) -> list[int]:
    with ExitStack() as stack:
        probes = [stack.enter_context(socket.socket()) for _ in range(count)]
        for probe in probes:
            probe.bind((HOST, 0))
        return [int(probe.getsockname()[1]) for probe in probes]


class DemoService:
    """The folder and the processes; `ended` gets the exit status of the service."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="report-bridge-demo-"))
        self.home = self.folder / "home"
        self.ended: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._service: asyncio.subprocess.Process | None = None
        self._watch: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            await self.stop()
        finally:
            shutil.rmtree(self.folder, ignore_errors=True)

    async def bridge(self, *arguments: str) -> str:
        """Run a `bridge` command; return its output. Raises CommandFailed."""
        process = await self._start(
            arguments, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
        )
        try:
            output, _ = await process.communicate()
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        text = output.decode("utf-8", "replace")
        if process.returncode:
            raise CommandFailed(" ".join(arguments[:2]), process.returncode, text)
        return text

    async def serve(self, address: str) -> None:
        """Start the service and wait until `address` reports that it is ready."""
        with self.log.open("ab") as log:
            self._service = await self._start(
                ("serve", "--home", str(self.home)), stdout=log, stderr=asyncio.subprocess.STDOUT
            )
        self._watch = asyncio.create_task(self._watch_exit(self._service))
        async with httpx.AsyncClient(trust_env=False, timeout=5) as http:

            async def ready() -> bool:
                with suppress(httpx.HTTPError):
                    return (await http.get(f"{address}/readyz")).is_success
                return False

            try:
                await until("ready", ready, bool, within=_READY_SECONDS)
            except TooLate:
                raise NotReady(_READY_SECONDS) from None

    async def stop(self) -> int:
        """Stop the service with SIGTERM, if necessary with SIGKILL; return its exit status."""
        if self._service is None:
            return 0
        with suppress(ProcessLookupError):
            self._service.send_signal(signal.SIGTERM)
        with suppress(TimeoutError):
            return await asyncio.wait_for(asyncio.shield(self.ended), _STOP_SECONDS)
        with suppress(ProcessLookupError):
            self._service.kill()
        return await self.ended

    def last_lines(self, count: int = 20) -> list[str]:
        """Return the last lines of the service's log."""
        if not self.log.exists():
            return []
        return self.log.read_text("utf-8", "replace").splitlines()[-count:]

    @property
    def log(self) -> Path:
        return self.folder / "serve.log"

    async def _start(
        self, arguments: Sequence[str], *, stdout: int | IO[bytes], stderr: int
    ) -> asyncio.subprocess.Process:
        # Settings of the user must not override those of the demonstration.
        environment = {k: v for k, v in os.environ.items() if not k.startswith("BRIDGE_")}
        return await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "bridge", *arguments),
            cwd=Path(bridge.__file__).parents[1],
            env=environment | {"PYTHONUTF8": "1"},
            stdin=asyncio.subprocess.DEVNULL,
            stdout=stdout,
            stderr=stderr,
        )

    async def _watch_exit(self, process: asyncio.subprocess.Process) -> None:
        status = await process.wait()
        if not self.ended.done():
            self.ended.set_result(status)


SITE: Final = "SITE1"
SIGN_DELAY: Final = 3
"""Seconds in which a signature can be recalled."""
USER, USER_NAME = "ada@example.org", "Ada Reader"
OPERATOR, OPERATOR_NAME = "mara@example.org", "Mara Keeper"
"""The system administrator of the console."""

_SETTINGS: Final = Template("""\
# The home of the demonstration.
[http]
bind = "$host:$web"
public_url = "http://$host:$web"

[sign_in]
second_factor = "optional"  # required in production

[[listener]]
name = "ris-a"
bind = "$host:$ris_a"
site = "$site"
time_zone = "Europe/Zurich"

[[listener]]
name = "his-b"
bind = "$host:$his_b"
site = "$site"
time_zone = "Europe/Zurich"
charset = "iso8859-1"

[[destination]]
name = "ris-results"
address = "$host:$results"
events = ["preliminary", "final", "addendum"]
time_zone = "Europe/Zurich"
retry_first = "200ms"
retry_max = "2s"
""")


@dataclass(frozen=True, slots=True)
class Ports:
    """The ports of the demonstration, on the loopback address."""

    web: int
    ris_a: int
    his_b: int
    results: int

    @property
    def address(self) -> str:
        return f"http://{HOST}:{self.web}"


def settings(ports: Ports) -> str:
    """Return the text of bridge.toml."""
    return _SETTINGS.substitute(
        host=HOST,
        site=SITE,
        web=ports.web,
        ris_a=ports.ris_a,
        his_b=ports.his_b,
        results=ports.results,
    )
