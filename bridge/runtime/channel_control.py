"""
Channel control: pauses and resumes listeners and destinations as stored in the database.

A pause takes effect on every node within a second, and stays after a restart. The module also
stores when channels were last active and which are loaded. While a node cannot read the database,
its channels stay as they are. `ActivationFollower` applies mappings and connections that were
activated on any node.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from types import MappingProxyType
from typing import Generic, Protocol, TypeVar

import structlog

from bridge.errors import BridgeError
from bridge.executors import Threads
from bridge.metrics import Metrics
from bridge.monitoring.channels import (
    Channel,
    pause,
    read_channels,
    store_activity,
    store_loaded,
)
from bridge.redaction import describe
from bridge.runtime.schedule import Job, Schedule, ServicePart
from bridge.store.database import Database
from bridge.store.errors import StoreError
from bridge.store.records import mapping_versions
from config.sections import ChannelKind
from mappings.language.diagnostics import MappingError

STORE_SECONDS = 10.0
"""Seconds between the times when a node stores that channels were active or are loaded."""


class PausableChannel(Protocol):
    """A listener, destination or server factory that can be paused."""

    def pause(self) -> None:
        """Accept or send nothing until `resume`."""

    def resume(self) -> None:
        """Continue."""


class ChannelControl:
    """Pauses and resumes the channels of one kind in this process."""

    def __init__(
        self,
        database: Database,
        kind: ChannelKind,
        pausable: Mapping[str, PausableChannel],
        metrics: Metrics,
        clock: Callable[[], int],
        schedule: Schedule,
        counts: Mapping[str, int] = MappingProxyType({}),
    ) -> None:
        """`pausable` and `counts` are by channel name; a count that grows means activity."""
        self._log = structlog.get_logger("operations")
        self._database = database
        self._kind = kind
        self._channels = dict(pausable)
        self._metrics = metrics
        self._clock = clock
        self._paused: set[str] = set()
        self._pausing: dict[str, str] = {}  # reasons of `pause_by_policy` that are not stored yet
        self._counts = counts
        self._stored_counts: dict[str, int] = {}
        self._stored_at = 0
        self._tasks: set[asyncio.Task[None]] = set()
        job = Job.LISTENER_SWITCHES if kind is ChannelKind.LISTENER else Job.DESTINATION_SWITCHES
        self._check_job = schedule.periodic(job, self._check, last=self._store_activity)

    async def start(self) -> None:
        """Apply stored pauses before the channels start, then read the database periodically."""
        self._apply(await Threads.LEASES.run(read_channels, self._database, self._kind))
        await self._check_job.start()

    async def stop(self) -> None:
        """Stop reading; store the last activity, and that the channels are not loaded any more."""
        await self._check_job.stop()
        with suppress(StoreError):  # the entries expire
            names = set(self._channels)
            await Threads.LEASES.run(store_loaded, self._database, self._kind, names, None)

    def connect(self, name: str, channel: PausableChannel, *, paused: bool) -> None:
        """Control a channel from now on; it replaces one with the same name."""
        self._channels[name] = channel
        if paused or name in self._pausing:
            self._paused.add(name)
            channel.pause()
        else:
            self._paused.discard(name)

    def disconnect(self, name: str) -> None:
        """Stop controlling a channel; its state in the database does not change."""
        self._channels.pop(name, None)
        self._paused.discard(name)
        self._metrics.paused.labels(self._kind.value, name).set(0)

    def pause_by_policy(self, name: str, reason: str) -> None:
        """
        Store that the reply policy paused a channel, as an operator would pause it.

        A pause that cannot be stored is stored by a later check. Until then this node keeps it. On
        the event loop's thread.
        """
        self._paused.add(name)
        self._pausing[name] = reason
        task = asyncio.create_task(self._store_pauses())
        self._tasks.add(task)

        def log_failure(done: "asyncio.Task[None]") -> None:
            self._tasks.discard(done)
            if not done.cancelled() and (error := done.exception()) is not None:
                self._log.error("pause not stored, trying again", error=describe(error))

        task.add_done_callback(log_failure)

    async def _store_pauses(self) -> None:
        for name, reason in [*self._pausing.items()]:
            now, by = self._clock(), f"reply: {reason}"
            await Threads.LEASES.run(pause, self._database, self._kind, name, now, by)
            self._pausing.pop(name, None)

    async def _check(self) -> None:
        if not self._tasks:
            await self._store_pauses()
        stored = await Threads.LEASES.run(read_channels, self._database, self._kind)
        self._apply(stored)
        await self._store_loaded(stored)
        if self._clock() - self._stored_at >= STORE_SECONDS * 1000:
            await self._store_activity()

    def _apply(self, stored: Mapping[str, Channel]) -> None:
        for name, channel in self._channels.items():
            paused = name in stored and stored[name].paused
            self._metrics.paused.labels(self._kind.value, name).set(paused)
            if name in self._pausing or paused == (name in self._paused):
                continue
            if paused:
                self._paused.add(name)
                channel.pause()
            else:
                self._paused.discard(name)
                channel.resume()
            label = {self._kind.value: name}
            self._log.info("paused" if paused else "resumed", **label)

    async def _store_loaded(self, stored: Mapping[str, Channel]) -> None:
        """Store which channels are loaded, unless a node did so recently."""
        now = self._clock()
        stale = {
            name
            for name in self._channels
            if not (loaded := name in stored and stored[name].loaded_at)
            or abs(now - loaded) >= STORE_SECONDS * 1000
        }
        await Threads.LEASES.run(store_loaded, self._database, self._kind, stale, now)

    async def _store_activity(self) -> None:
        """Store which channels were active since the last call."""
        self._stored_at = now = self._clock()
        counts = dict(self._counts)
        active = {
            (self._kind, name): now
            for name, count in counts.items()
            if count != self._stored_counts.get(name, 0)
        }
        await Threads.LEASES.run(store_activity, self._database, active)
        self._stored_counts = counts


RETRY_SECONDS = 5.0
"""Seconds until a channel that did not start is started again."""

Compiled = TypeVar("Compiled")


class LatestActivation:
    """The number of the last activation; parts of a process that ask together share one read."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._reading: asyncio.Task[int] | None = None

    async def read(self) -> int:
        """Return the number. On the event loop's thread."""
        if self._reading is None or self._reading.done():
            reading = Threads.JOBS.run(latest_activation, self._database)
            self._reading = asyncio.create_task(reading, name="latest activation")
        return await asyncio.shield(self._reading)


class ActivationFollower(Generic[Compiled]):
    """Looks for new activations; compiles on a thread, applies on the event loop."""

    def __init__(
        self,
        latest: LatestActivation,
        known: int,
        compile_all: Callable[[], Compiled],
        use: Callable[[Compiled], Awaitable[None]],
        has_failures: Callable[[], object],
    ) -> None:
        """
        `compile_all` compiles the active versions; `known` is the last activation applied so far.

        While `has_failures` returns a true value, the versions are applied again periodically.
        """
        self._log = structlog.get_logger("mappings")
        self._latest = latest
        self._compile = compile_all
        self._use = use
        self._known = known
        self._has_failures = has_failures
        self._again_at = 0.0

    def part(self, schedule: Schedule, job: Job) -> ServicePart:
        """Return the periodic job that looks for activations."""
        return schedule.periodic(job, self._check)

    async def _check(self) -> None:
        latest = await self._latest.read()
        now = asyncio.get_running_loop().time()
        again = bool(self._has_failures()) and now >= self._again_at
        if latest == self._known and not again:
            return
        try:
            found = await Threads.JOBS.run(self._compile)
        except StoreError:
            raise
        except (BridgeError, MappingError) as error:
            self._log.error("activation not applied", error=describe(error))
        else:
            await self._use(found)
            self._again_at = now + RETRY_SECONDS
            if latest != self._known:
                self._log.info("activation applied", version=latest)
        self._known = latest  # also if it does not compile: only another activation corrects it


def latest_activation(database: Database) -> int:
    """Return the number of the last activation; a compilation after this call includes it."""
    with database.read_committed() as connection:
        return mapping_versions.latest_activation_id(connection)
