"""Pauses and resumes what operators say, on every node within a second, and after every restart.

Also notes when channels were last active, and which are loaded. The database is the truth: a node
that cannot read it leaves everything as it is.
"""

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from types import MappingProxyType
from typing import Protocol

import structlog

from bridge.executors import Threads
from bridge.metrics import Metrics
from bridge.monitoring.channels import Channel, Kind, channels, note_activity, note_loaded, pause
from bridge.redaction import describe
from bridge.runtime.schedule import Job, Schedule
from bridge.store.database import Database
from bridge.store.errors import StoreError

NOTE_EVERY = 10.0  # seconds


class Switch(Protocol):
    """What can be paused."""

    def pause(self) -> None:
        """Take or send nothing until `resume`."""

    def resume(self) -> None:
        """Go on."""


class Switchboard:
    """The switches of one process for one kind of channel."""

    def __init__(
        self,
        database: Database,
        kind: Kind,
        switches: Mapping[str, Switch],
        metrics: Metrics,
        clock: Callable[[], int],
        schedule: Schedule,
        counts: Mapping[str, int] = MappingProxyType({}),
    ) -> None:
        """`switches` by the names of the settings; `counts` grow with what channels do."""
        self._log = structlog.get_logger("operations")
        self._database = database
        self._kind = kind
        self._switches = dict(switches)
        self._metrics = metrics
        self._clock = clock
        self._paused: set[str] = set()
        self._pausing: set[str] = set()
        self._counts = counts
        self._counted: dict[str, int] = {}
        self._noted_at = 0
        self._tasks: set[asyncio.Task[None]] = set()
        job = Job.LISTENER_SWITCHES if kind is Kind.LISTENER else Job.DESTINATION_SWITCHES
        self._looking = schedule.periodic(job, self._look, last=self._note)

    async def start(self) -> None:
        """Set all switches before anything else begins, then keep looking."""
        self._apply(await Threads.LEASES.run(channels, self._database, self._kind))
        await self._looking.start()

    async def stop(self) -> None:
        """Look no more; note what was active, and that nothing is loaded here any more."""
        await self._looking.stop()
        with suppress(StoreError):  # the others' notes, and time, say it too
            names = set(self._switches)
            await Threads.LEASES.run(note_loaded, self._database, self._kind, names, None)

    def connect(self, name: str, switch: Switch, *, paused: bool) -> None:
        """Let a channel stand there from now on, in the place of one of its name, if any."""
        self._switches[name] = switch
        if paused or name in self._pausing:
            self._paused.add(name)
            switch.pause()
        else:
            self._paused.discard(name)

    def disconnect(self, name: str) -> None:
        """Let a channel go; in the database it stays as it is."""
        self._switches.pop(name, None)
        self._paused.discard(name)
        self._metrics.paused.labels(self._kind.value, name).set(0)

    def pause_for(self, name: str, reason: str) -> None:
        """Pause a channel for good reason, as an operator would. On the loop's thread."""
        self._paused.add(name)
        self._pausing.add(name)
        write = Threads.LEASES.run(
            pause, self._database, self._kind, name, self._clock(), f"reply: {reason}"
        )
        task = asyncio.create_task(write)
        self._tasks.add(task)

        def written(done: "asyncio.Task[None]") -> None:
            self._tasks.discard(done)
            self._pausing.discard(name)
            if not done.cancelled() and (error := done.exception()) is not None:
                self._log.error("pause not written down", error=describe(error))

        task.add_done_callback(written)

    async def _look(self) -> None:
        known = await Threads.LEASES.run(channels, self._database, self._kind)
        self._apply(known)
        await self._note_loaded(known)
        if self._clock() - self._noted_at >= NOTE_EVERY * 1000:
            await self._note()

    def _apply(self, known: Mapping[str, Channel]) -> None:
        for name, switch in self._switches.items():
            paused = name in known and known[name].paused
            self._metrics.paused.labels(self._kind.value, name).set(paused)
            if name in self._pausing or paused == (name in self._paused):
                continue
            if paused:
                self._paused.add(name)
                switch.pause()
            else:
                self._paused.discard(name)
                switch.resume()
            label = {self._kind.value: name}
            self._log.info("paused" if paused else "resumed", **label)

    async def _note_loaded(self, known: Mapping[str, Channel]) -> None:
        """Note what is loaded here, where no node has done so lately."""
        now = self._clock()
        stale = {
            name
            for name in self._switches
            if not (loaded := name in known and known[name].loaded_at)
            or abs(now - loaded) >= NOTE_EVERY * 1000
        }
        await Threads.LEASES.run(note_loaded, self._database, self._kind, stale, now)

    async def _note(self) -> None:
        """Write down which channels were active since the last time."""
        self._noted_at = now = self._clock()
        counts = dict(self._counts)
        active = {
            (self._kind, name): now
            for name, count in counts.items()
            if count != self._counted.get(name, 0)
        }
        await Threads.LEASES.run(note_activity, self._database, active)
        self._counted = counts
