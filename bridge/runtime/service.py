"""
The service process: starts its parts in order, notifies systemd, and stops the parts in reverse.

If a part cannot start, the parts before it are stopped. Notifications are datagrams to the socket
`NOTIFY_SOCKET` (sd_notify(3)). `WATCHDOG_USEC` determines the period of the watchdog.
"""

import asyncio
import faulthandler
import os
import socket
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress

import structlog

from bridge import __version__
from bridge.commit import running_commit
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
    """Notifies systemd of start and stop, and that the service is alive, if systemd requests it."""

    def __init__(self, environment: Mapping[str, str], schedule: Schedule) -> None:
        name = environment.get("NOTIFY_SOCKET", "")
        self._address = "\0" + name[1:] if name.startswith("@") else name
        limit = environment.get("WATCHDOG_USEC", "")
        # Half of the limit, as sd_watchdog_enabled(3) recommends.
        self._every = int(limit) / 2_000_000 if limit.isdigit() else 0.0
        self._watchdog: ServicePart | None = None
        if self._address and self._every:
            self._watchdog = schedule.periodic(Job.WATCHDOG, self._beat, every=self._every)

    async def begin(self) -> None:
        """Notify that the service is ready, and start the watchdog notifications."""
        self._send(READY)
        if self._watchdog is not None:
            await self._watchdog.start()

    def stopping(self) -> None:
        """Notify that the service stops; the watchdog notifications continue until `end`."""
        self._send(STOPPING)

    async def end(self) -> None:
        """Stop the watchdog notifications."""
        if self._watchdog is not None:
            await self._watchdog.stop()

    async def _beat(self) -> None:
        self._send(ALIVE)

    def _send(self, message: bytes) -> None:
        if not self._address:
            return
        with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as to:
            to.setblocking(False)
            to.sendto(message, self._address)


_PAGES = {Role.CONSOLE: "/console", Role.ENGINE: "/reporting/"}
_STOP_SECONDS = 30.0


class BridgeService:
    """The parts of a process, in the order of their dependencies."""

    def __init__(self, parts: Sequence[ServicePart]) -> None:
        self._parts = parts
        self._running: list[ServicePart] = []
        self._log = structlog.get_logger("service")

    async def start(self) -> None:
        try:
            for part in self._parts:
                await part.start()
                self._running.append(part)
        except BaseException:
            await self.stop()
            raise

    async def stop(self) -> None:
        """Stop the parts in reverse order, also if one of them fails to stop."""
        while self._running:
            part = self._running.pop()
            try:
                async with asyncio.timeout(_STOP_SECONDS):
                    await part.stop()
            except Exception as error:  # noqa: BLE001  # the other parts must stop, too
                self._log.error("did not stop cleanly", job=part.name, exc_info=error)


def run(settings: Settings, roles: frozenset[Role]) -> int:
    """Serve until SIGTERM or SIGINT; return the exit status."""
    configure(settings.log.level, as_json=settings.log.format is LogFormat.JSON)
    faulthandler.enable()  # a crash in a C library leaves no other trace
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
        await service.start()
        notifier = SystemdNotifier(os.environ, schedule)
        await notifier.begin()
        tune_process()
        log.info(
            "ready",
            version=__version__,
            build=running_commit() or "unknown",
            seconds=round(time.monotonic() - began, 3),
        )
        for role in sorted(roles & _PAGES.keys()):
            address = f"{settings.http.public_url.rstrip('/')}{_PAGES[role]}"
            log.info("pages", role=role.value, address=address)
        await stop.wait()
        notifier.stopping()
        log.info("stopping")
        await service.stop()
        close_all()
        await notifier.end()
        log.info("stopped")
        return 0

    return run_loop(main)
