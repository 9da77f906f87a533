"""
The processes of the service: each starts its parts in order, notifies systemd, and stops the parts
in reverse.

If a part cannot start, the parts before it are stopped. Notifications are datagrams to the socket
`NOTIFY_SOCKET` (sd_notify(3)). `WATCHDOG_USEC` determines the period of the watchdog.
"""

import asyncio
import faulthandler
import os
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial

import structlog

from bridge import __version__
from bridge.commit import running_commit
from bridge.executors import close_all
from bridge.logs import configure, observe_twisted
from bridge.metrics import Metrics
from bridge.roles import Role
from bridge.runtime.loop import run as run_loop
from bridge.runtime.loop import tune_process
from bridge.runtime.migration import migrate_in_child_process
from bridge.runtime.node_slot import NodeSlot, take_slot
from bridge.runtime.schedule import Job, Schedule, ServicePart
from bridge.runtime.service_process import (
    CHANNEL,
    DICOM,
    ChildProcess,
    ChildProcessEnded,
    ParentChannel,
    Samples,
    ServiceProcess,
)
from config import Settings, SettingsError
from config.sections import LogFormat
from config.toml_text import Mistake

READY, STOPPING, ALIVE = b"READY=1", b"STOPPING=1", b"WATCHDOG=1"


def _is_alive() -> bool:
    return True


class SystemdNotifier:
    """Notifies systemd of start and stop, and that the service is alive, if systemd requests it."""

    def __init__(
        self,
        environment: Mapping[str, str],
        schedule: Schedule,
        is_alive: Callable[[], bool] = _is_alive,
    ) -> None:
        """No watchdog notification is sent while `is_alive` returns False."""
        self._is_alive = is_alive
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
        if self._is_alive():
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
    if value := os.environ.pop(CHANNEL, ""):
        parent = ParentChannel(value)
        serve = _serve_dicom if parent.name == DICOM else _serve_behind_intake
        return run_loop(partial(serve, settings, roles, parent))
    has_dicom = _has_dicom(settings, roles)
    metrics = Metrics()
    slot = take_slot(settings.home)
    if roles == {Role.DICOM}:
        if not _migrate(settings, roles):
            return 0
        return run_loop(partial(_serve_dicom_alone, settings, roles, metrics, slot))
    children: list[ChildProcess] = []
    try:
        service = None
        if Role.INTAKE in roles:
            service = ServiceProcess(slot, partial(_samples, metrics, children))
            children.append(service)
        dicom = ChildProcess(DICOM, slot.name) if has_dicom else None
        children += [] if dicom is None else [dicom]
        if not _migrate(settings, roles):
            return 0
        if service is None:
            main = partial(_serve_without_intake, settings, roles, metrics, slot, dicom)
        else:
            main = partial(_receive, settings, roles, metrics, service, dicom)
        return run_loop(main)
    except ChildProcessEnded as error:
        return error.status
    finally:
        for child in children:
            child.kill()


def _has_dicom(settings: Settings, roles: frozenset[Role]) -> bool:
    """True if the DICOM port belongs to these processes. Raises SettingsError."""
    is_set = settings.dicom.bind is not None
    if Role.DICOM in roles and roles != frozenset(Role) and not is_set:
        raise SettingsError([Mistake("dicom.bind", "is needed for --role dicom")])
    return is_set and Role.DICOM in roles


def _samples(metrics: Metrics, children: Sequence[ChildProcess]) -> Samples:
    return [*metrics.samples(), *(sample for child in children for sample in child.samples)]


def _migrate(settings: Settings, roles: frozenset[Role]) -> bool:
    migrated = migrate_in_child_process(settings, roles)
    if not migrated:
        structlog.get_logger("service").info("stopped")
    return migrated


async def _receive(
    settings: Settings,
    roles: frozenset[Role],
    metrics: Metrics,
    service: ServiceProcess,
    dicom: ChildProcess | None,
    stop: asyncio.Event,
) -> int:
    """Receive messages; the child processes do everything else."""
    from twisted.internet import reactor  # noqa: PLC0415  # installed by now

    from bridge.runtime.intake_process import assemble_intake  # noqa: PLC0415  # as above

    began, schedule = time.monotonic(), Schedule(metrics)
    children = [service] if dicom is None else [service, dicom]
    for child in children:
        await child.open()
    parts = assemble_intake(settings, reactor, metrics, schedule, service, dicom)
    notifier = SystemdNotifier(os.environ, schedule, partial(_are_alive, children))
    return await _run_parts(settings, roles, parts, notifier, began, stop)


def _are_alive(children: Sequence[ChildProcess]) -> bool:
    answers = [child.is_alive() for child in children]  # each of them is asked
    return all(answers)


async def _serve_without_intake(
    settings: Settings,
    roles: frozenset[Role],
    metrics: Metrics,
    slot: NodeSlot,
    dicom: ChildProcess | None,
    stop: asyncio.Event,
) -> int:
    from twisted.internet import reactor  # noqa: PLC0415  # installed by now

    from bridge.runtime.assembly import assemble  # noqa: PLC0415  # the intake does not load it

    began, schedule = time.monotonic(), Schedule(metrics)
    children = [] if dicom is None else [dicom]
    for child in children:
        await child.open()
    parts = assemble(settings, roles, reactor, metrics, schedule, slot.name, None, dicom)
    notifier = SystemdNotifier(os.environ, schedule, partial(_are_alive, children))
    return await _run_parts(settings, roles, parts, notifier, began, stop)


async def _serve_dicom_alone(
    settings: Settings,
    roles: frozenset[Role],
    metrics: Metrics,
    slot: NodeSlot,
    stop: asyncio.Event,
) -> int:
    from bridge.runtime.dicom_process import assemble_dicom  # noqa: PLC0415  # only this loads it

    began, schedule = time.monotonic(), Schedule(metrics)
    parts = assemble_dicom(settings, metrics, schedule, slot.name, None)
    notifier = SystemdNotifier(os.environ, schedule)
    return await _run_parts(settings, roles, parts, notifier, began, stop)


async def _serve_dicom(
    settings: Settings, _roles: frozenset[Role], parent: ParentChannel, stop: asyncio.Event
) -> int:
    """Run the DICOM process until its parent stops it."""
    from bridge.runtime.dicom_process import assemble_dicom  # noqa: PLC0415  # only this loads it

    observe_twisted()
    metrics = Metrics()
    node = await parent.open(stop)
    parts = assemble_dicom(settings, metrics, Schedule(metrics), node, parent)
    return await _run_child(parts, parent, stop)


async def _run_parts(
    settings: Settings,
    roles: frozenset[Role],
    parts: Sequence[ServicePart],
    notifier: SystemdNotifier,
    began: float,
    stop: asyncio.Event,
) -> int:
    observe_twisted()
    log = structlog.get_logger("service")
    running = BridgeService(parts)
    await running.start()
    await notifier.begin()
    tune_process()
    seconds = round(time.monotonic() - began, 3)
    log.info("ready", version=__version__, build=running_commit() or "unknown", seconds=seconds)
    for role in sorted(roles & _PAGES.keys()):
        address = f"{settings.http.public_url.rstrip('/')}{_PAGES[role]}"
        log.info("pages", role=role.value, address=address)
    await stop.wait()
    notifier.stopping()
    log.info("stopping")
    await running.stop()
    close_all()
    await notifier.end()
    log.info("stopped")
    return 0


async def _serve_behind_intake(
    settings: Settings, roles: frozenset[Role], intake: ParentChannel, stop: asyncio.Event
) -> int:
    """Run the service process until the intake stops it."""
    from twisted.internet import reactor  # noqa: PLC0415  # installed by now

    from bridge.runtime.assembly import assemble  # noqa: PLC0415  # the intake does not load it

    observe_twisted()
    metrics = Metrics()
    node = await intake.open(stop)
    parts = assemble(settings, roles, reactor, metrics, Schedule(metrics), node, intake)
    return await _run_child(parts, intake, stop)


async def _run_child(
    parts: Sequence[ServicePart], parent: ParentChannel, stop: asyncio.Event
) -> int:
    await parent.begin()
    running = BridgeService(parts)
    await running.start()
    tune_process()
    await stop.wait()
    await running.stop()
    close_all()
    return 0
