"""
Start and end the second engine: `bridge.runtime.second_engine`.

It runs while one process is not enough for what is applied. Nothing depends on it: without it, and
when it fails, the service does the same work by itself.
"""

import asyncio
import os
import threading
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing, suppress

import structlog

from bridge.engine_client.http_caller import HttpCaller, http_caller
from bridge.executors import Threads
from bridge.queue.pressure import Pressure
from bridge.queue.work import Claimed, Outcome
from bridge.queue.worker import Apply
from bridge.runtime.second_process import HOST, NEVER_BEGAN, EngineProcess
from bridge.store.database import Database
from config import Settings
from config.sections import SecondProcess

NOT_AGAIN = 60.0
"""Seconds after one that failed in which no other is started."""
_LOOK_EVERY = 1.0  # seconds
_FAREWELL = 15.0  # seconds to finish what is in hand


class SecondEngine:
    """The second engine, whether it runs just now or not. Lives on the event loop."""

    def __init__(
        self, settings: Settings, mark: str, pressure: Pressure, *, always: bool = False
    ) -> None:
        """
        Start none yet.

        `mark`: by which the announcements of the service's own engine are known. With `always` it
        runs whatever the pressure is.
        """
        self._log = structlog.get_logger("second engine")
        self._task = (settings, mark)
        self._pressure = pressure
        self._always = always
        self._process: EngineProcess | None = None
        self._caller: HttpCaller | None = None
        self._leaving: asyncio.Task[None] | None = None
        self._stopping = False
        self._not_before = 0.0

    @property
    def caller(self) -> HttpCaller | None:
        """What carries requests to it; None while there is none."""
        return self._caller

    @property
    def pid(self) -> int | None:
        """The number of the process that runs or begins, if one does."""
        return None if self._process is None else self._process.pid

    def computed(self) -> float | None:
        """Give the seconds that it has computed; None where it does not run."""
        return None if self._caller is None or self._process is None else self._process.computed()

    def hearing(self, apply: Apply) -> Apply:
        """Hear of all that is applied."""

        async def applying(claimed: Sequence[Claimed]) -> AsyncGenerator[Sequence[Outcome]]:
            self.applied(len(claimed))
            async with aclosing(apply(claimed)) as given:
                async for outcomes in given:
                    yield outcomes

        return applying

    def applied(self, count: int) -> None:
        """Note that so many messages are being applied; start it where it would help."""
        self._pressure.applied(count)
        if self._process is None and (self._always or self._pressure.pressed):
            self._begin()

    async def start(self) -> None:
        """Start it now where it always runs."""
        if self._always:
            self._begin()

    def give_up(self) -> None:
        """End it at once, also where it was to end by itself: what it has is tried again."""
        if self._process is not None:
            self._let_go()
            self._process.kill()

    def _begin(self) -> None:
        loop = asyncio.get_running_loop()
        if self._stopping or loop.time() < self._not_before:
            return
        self._log.info(
            "second engine starting", trigger="always" if self._always else "much to apply"
        )
        try:
            process = self._process = EngineProcess(*self._task)
        except OSError:  # no descriptor left, or a machine without IPv4
            self._gone(NEVER_BEGAN)
            return

        def tell(what: Callable[..., None], *given: object) -> None:
            with suppress(RuntimeError):  # the loop has ended
                loop.call_soon_threadsafe(what, *given)

        def watch() -> None:
            if process.begin():
                tell(self._ready, process)
            tell(self._gone, process.wait())

        try:
            threading.Thread(target=watch, name="second engine", daemon=True).start()
        except RuntimeError:  # no thread left
            self._gone(process.wait())

    def _ready(self, process: EngineProcess) -> None:
        if self._stopping:
            return
        self._log.info("second engine ready")
        self._caller = http_caller(f"http://{HOST}:{process.port}")
        asyncio.get_running_loop().call_later(_LOOK_EVERY, self._look)

    def _look(self) -> None:
        if self._caller is None or self._process is None:
            return
        if self._pressure.eased and not self._always:
            self._log.info("second engine stopping", trigger="little to apply")
            self._let_go()
            self._process.end()
        else:
            asyncio.get_running_loop().call_later(_LOOK_EVERY, self._look)

    def _let_go(self) -> None:
        """Ask nothing of it any more; who waits for an answer still gets it."""
        caller, self._caller = self._caller, None
        if caller is not None:
            self._leaving = asyncio.create_task(caller.leave(), name="leave second engine")

    def _gone(self, status: int) -> None:
        self._let_go()
        self._process = None
        if status and not self._stopping:
            self._log.warning("second engine ended: the service goes on without it", status=status)
            self._not_before = asyncio.get_running_loop().time() + NOT_AGAIN

    async def aclose(self) -> None:
        """End it, once it has answered, and start no other."""
        self._stopping = True
        self._let_go()
        if (process := self._process) is not None:
            await Threads.MAINTENANCE.run(process.finish, _FAREWELL)
        if self._leaving is not None:
            await self._leaving


def is_spare_processor() -> bool:
    """Tell whether this process may compute on more than one processor."""
    if not hasattr(os, "sched_getaffinity"):
        return (os.cpu_count() or 1) > 1
    return len(os.sched_getaffinity(0)) > 1


def second_engine(settings: Settings, database: Database) -> SecondEngine:
    """Give the one beside the engine that is on this database."""
    pressure = Pressure(time.monotonic, time.process_time)
    always = settings.engine.second_process is SecondProcess.ALWAYS
    return SecondEngine(settings, database.mark, pressure, always=always)
