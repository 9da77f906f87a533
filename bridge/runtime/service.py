"""
The whole service: its parts started in order, stopped in reverse.

A part that cannot start stops the start, and what had started is stopped again.
"""

import asyncio
import ctypes
import gc
import os
import sys
import time
from collections.abc import Sequence
from contextlib import suppress

import structlog

from bridge.observability.logs import configure
from bridge.observability.twisted_log import observe_twisted
from bridge.roles import Role
from bridge.runtime.assembly import assemble
from bridge.runtime.loop import run as run_loop
from bridge.runtime.migrating import migrate_apart
from bridge.runtime.step import Step
from bridge.runtime.supervisor import Supervisor
from config import Settings
from config.sections import LogFormat

_STOP_WITHIN = 30.0
_TURN = 0.0005  # seconds
_NEW_OBJECTS = 20_000  # before the collector looks at them
_PAGES_FROM = -3  # M_MMAP_THRESHOLD of malloc.h
_LARGE_MEMORY = 2**20  # bytes


class Service:
    """Parts in the order in which they need each other."""

    def __init__(self, parts: Sequence[Step]) -> None:
        self._parts = parts
        self._running: list[Step] = []
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


def spare_the_collector() -> None:
    """
    Let the garbage collector leave alone what start-up made, and look less often.

    Hundreds of thousands of objects live as long as the process; to walk them again and again
    while messages come in costs as much as the messages (measured: half of the intake's time).
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(_NEW_OBJECTS, 20, 50)
    gc.enable()


def take_short_turns() -> None:
    """
    Let the loop have its turn soon while threads compute.

    Each call to the database gives the interpreter away, and to get it back from a thread that
    computes takes up to this long: by default five milliseconds for each statement.
    """
    sys.setswitchinterval(_TURN)


def give_large_memory_back() -> None:
    """
    Let what is larger than a mebibyte have pages of its own (glibc; elsewhere nothing is changed).

    As it grows they are moved and not copied, for which everybody would wait; and the system has
    them back at once. By itself the library does so only until the first large one was let go.
    """
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).mallopt(_PAGES_FROM, _LARGE_MEMORY)


def run(settings: Settings, roles: frozenset[Role]) -> int:
    """Serve until SIGTERM or SIGINT; return the exit status."""
    configure(settings.log.level, as_json=settings.log.format is LogFormat.JSON)
    log = structlog.get_logger("service")
    if not migrate_apart(settings, roles):
        log.info("stopped")
        return 0

    async def main(stop: asyncio.Event) -> int:
        from twisted.internet import reactor  # noqa: PLC0415  # installed by now

        observe_twisted()

        began = time.monotonic()
        service = Service(assemble(settings, roles, reactor))
        await service.start()
        supervisor = Supervisor(os.environ)
        supervisor.begin()
        spare_the_collector()
        take_short_turns()
        give_large_memory_back()
        log.info("ready", seconds=round(time.monotonic() - began, 3))
        await stop.wait()
        supervisor.stopping()
        log.info("stopping")
        await service.stop()
        supervisor.end()
        log.info("stopped")
        return 0

    return run_loop(main)
