"""The whole service: its parts started in order, stopped in reverse.

A part that cannot start stops the start, and what had started is stopped again.

As systemd hears it (sd_notify(3)): datagrams to the socket that `NOTIFY_SOCKET` names, as often as
`WATCHDOG_USEC` asks for. Where nobody asks, nobody is told.
"""

import asyncio
import os
import socket
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress

import structlog

from bridge.executors import close_all
from bridge.logs import configure, observe_twisted
from bridge.metrics import Metrics
from bridge.roles import Role
from bridge.runtime.assembly import assemble
from bridge.runtime.loop import run as run_loop
from bridge.runtime.loop import tune_process
from bridge.runtime.migration import migrate_in_child_process
from bridge.runtime.schedule import Job, Schedule, ServicePart
from config import Settings
from config.sections import LogFormat

READY, STOPPING, ALIVE = b"READY=1", b"STOPPING=1", b"WATCHDOG=1"


class SystemdNotifier:
    """Who is told, by the environment that we were started in."""

    def __init__(self, environment: Mapping[str, str], schedule: Schedule) -> None:
        name = environment.get("NOTIFY_SOCKET", "")
        self._address = "\0" + name[1:] if name.startswith("@") else name
        limit = environment.get("WATCHDOG_USEC", "")
        self._every = int(limit) / 2_000_000 if limit.isdigit() else 0.0
        self._watchdog: ServicePart | None = None
        if self._address and self._every:
            self._watchdog = schedule.periodic(Job.WATCHDOG, self._beat, every=self._every)

    async def begin(self) -> None:
        """Tell that all has started, and from now on that the loop turns."""
        self._tell(READY)
        if self._watchdog is not None:
            await self._watchdog.start()

    def stopping(self) -> None:
        """Tell that we are about to end; that the loop turns is told until `end`."""
        self._tell(STOPPING)

    async def end(self) -> None:
        """Tell no more."""
        if self._watchdog is not None:
            await self._watchdog.stop()

    async def _beat(self) -> None:
        self._tell(ALIVE)

    def _tell(self, word: bytes) -> None:
        if not self._address:
            return
        with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as to:
            to.setblocking(False)
            to.sendto(word, self._address)


_PAGES = {Role.CONSOLE: "/console", Role.ENGINE: "/reporting/"}
_STOP_WITHIN = 30.0


class BridgeService:
    """Parts in the order in which they need each other."""

    def __init__(self, parts: Sequence[ServicePart]) -> None:
        self._parts = parts
        self._running: list[ServicePart] = []
        self._log = structlog.get_logger("service")

    async def start(self) -> None:
        """Start all parts; the last ones are those that the outside world sees."""
        try:
            for part in self._parts:
                await part.start()
                self._running.append(part)
        except BaseException:
            await self.stop()
            raise

    async def stop(self) -> None:
        """Stop in reverse; a part that fails to stop does not keep the others running."""
        while self._running:
            part = self._running.pop()
            try:
                async with asyncio.timeout(_STOP_WITHIN):
                    await part.stop()
            except Exception as error:  # noqa: BLE001  # the others must stop all the same
                self._log.error("did not stop cleanly", job=part.name, exc_info=error)


def run(settings: Settings, roles: frozenset[Role]) -> int:
    """Serve until SIGTERM or SIGINT; return the exit status."""
    configure(settings.log.level, as_json=settings.log.format is LogFormat.JSON)
    log = structlog.get_logger("service")
    if not migrate_in_child_process(settings, roles):
        log.info("stopped")
        return 0

    async def main(stop: asyncio.Event) -> int:
        from twisted.internet import reactor  # noqa: PLC0415  # installed by now

        observe_twisted()

        began = time.monotonic()
        metrics = Metrics()
        schedule = Schedule(metrics)
        service = BridgeService(assemble(settings, roles, reactor, metrics, schedule))
        await schedule.start()
        await service.start()
        supervisor = SystemdNotifier(os.environ, schedule)
        await supervisor.begin()
        tune_process()
        log.info("ready", seconds=round(time.monotonic() - began, 3))
        for role, path in _PAGES.items():
            if role in roles:
                log.info(
                    "pages",
                    role=role.value,
                    address=f"{settings.http.public_url.rstrip('/')}{path}",
                )
        await stop.wait()
        supervisor.stopping()
        log.info("stopping")
        await service.stop()
        close_all()
        await supervisor.end()
        await schedule.stop()
        log.info("stopped")
        return 0

    return run_loop(main)
