"""
Schedule: runs the periodic jobs of a process with APScheduler on the event loop.

`Job` is the table of all periodic jobs. A part of the service declares what a job runs. The job
runs from the part's start to its stop, and runs do not overlap. Missed runs are combined into one.
A failed run does not end the job. Repeated failures at one place are logged once.

The scheduler uses the monotonic clock, so that a changed system time does not delay jobs such as
lease extension and systemd's watchdog.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime, timedelta, tzinfo
from enum import Enum
from random import SystemRandom
from typing import Any

import structlog
from apscheduler.schedulers.asyncio import AsyncIOScheduler
from apscheduler.triggers.base import BaseTrigger
from typing_extensions import override

from bridge.metrics import Metrics
from bridge.redaction import describe
from bridge.store.errors import StoreError

AsyncAction = Callable[[], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class ServicePart:
    """A part of the service with a start and a stop; `name` is used in logs."""

    name: str
    start: AsyncAction
    stop: AsyncAction


def now_ms() -> int:
    """Milliseconds since the epoch."""
    return time.time_ns() // 1_000_000


async def do_nothing() -> None:
    """Do nothing: for a part that only starts or only stops."""


Run = Callable[[], Awaitable[object]]
"""Runs a job once. It may return, as a float, the seconds until its next run."""

_BY_SETTING = 60.0  # seconds; the part that declares the job replaces it by a setting
_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001  # the time zone below is added to it
_JITTER = 0.1  # share of the period: nodes that started together query at different times
_RANDOM = SystemRandom()
_COMMON_PERIOD = timedelta(seconds=0.5)


class Job(Enum):
    """
    A periodic job: its name in logs and metrics, and the seconds between its runs.

    `drain`: seconds that a stop waits for the current run before it cancels it. Work on a thread
    runs to its end. With `jitter` a run may be later by a tenth of the period. With `at_start` the
    first run is at the start and not after a period.
    """

    # name, every, drain, jitter, at_start
    WATCHDOG = ("watchdog", 1.0, 0.0, False, True)  # period of WATCHDOG_USEC
    CHECKPOINTS = ("checkpoints", 0.5, 5.0, False, False)
    ENGINE_CHECKPOINTS = ("engine checkpoints", 0.5, 5.0, False, False)
    ENGINE_TIDYING = ("engine tidying", 600.0, 2.0, True, False)
    AUDIT_RELAY = ("audit relay", 1.0, 5.0, False, False)
    NUMBER_INDEX = ("index of numbers", 1.0, 2.0, False, True)
    UNKNOWN_CODES = ("unknown codes", 5.0, 2.0, False, False)
    HANDSHAKES = ("handshakes", 2.0, 2.0, False, False)
    FAILOVER = ("failover", 2.0, 2.0, False, False)
    INBOX_LEASES = ("inbox leases", 20.0, 2.0, False, False)
    OUTBOX_LEASES = ("outbox leases", 10.0, 2.0, False, False)
    FOLDER_SCAN = ("folder scan", _BY_SETTING, 10.0, False, True)
    LISTENER_SWITCHES = ("listener switches", 1.0, 2.0, False, False)
    DESTINATION_SWITCHES = ("destination switches", 1.0, 2.0, False, False)
    LISTENER_ACTIVATIONS = ("listener activations", 1.5, 5.0, False, True)
    DESTINATION_ACTIVATIONS = ("destination activations", 1.5, 5.0, False, True)
    CIRCUITS = ("circuits", 1.0, 2.0, False, True)
    STATUS_POLL = ("status poll", _BY_SETTING, 0.0, False, False)
    RECONCILING = ("reconciling", 60.0, 0.0, True, False)
    ROUND_REQUESTS = ("requests to reconcile", 2.0, 0.0, False, False)
    ALERTS = ("alerts", _BY_SETTING, 2.0, False, False)
    PARTITIONS = ("partitions", 30.0, 2.0, True, False)
    RETENTION = ("retention", _BY_SETTING, 2.0, True, False)
    OWN_FILES = ("own files", _BY_SETTING, 2.0, False, True)

    def __init__(
        self,
        label: str,
        every: float,
        drain: float,
        jitter: bool,  # a row of the table
        at_start: bool,  # as above
    ) -> None:
        self.label = label
        self.every = every
        self.drain = drain
        self.jitter = _JITTER if jitter else 0.0
        self.at_start = at_start


class _Monotonic(tzinfo):
    """A time zone with monotonic time, because APScheduler reads its clock by a time zone."""

    @override
    def fromutc(self, _: datetime, /) -> datetime:
        return (_EPOCH + timedelta(seconds=time.monotonic())).replace(tzinfo=self)

    @override
    def utcoffset(self, _: datetime | None, /) -> timedelta:
        return timedelta(0)

    @override
    def dst(self, _: datetime | None, /) -> timedelta:
        return timedelta(0)

    @override
    def tzname(self, _: datetime | None, /) -> str:
        return "monotonic"


_CLOCK = _Monotonic()
_START = _EPOCH.replace(tzinfo=_CLOCK)


class _PeriodicTrigger(BaseTrigger):  # type: ignore[misc]  # APScheduler is untyped
    """
    Fires a period after the last time; times in the past are skipped.

    Jobs fire at common times, every half second, so that an idle process wakes up less often.
    """

    def __init__(self, job: Job, every: float) -> None:
        self._job = job
        self._every = every

    @override
    def get_next_fire_time(self, previous_fire_time: datetime | None, now: datetime) -> datetime:
        late = _RANDOM.uniform(0.0, self._job.jitter * self._every) if self._job.jitter else 0.0
        if previous_fire_time is None and self._job.at_start:
            return now
        following = (previous_fire_time or now) + timedelta(seconds=self._every + late)
        if following <= now:
            following = now + timedelta(seconds=self._every + late)
        return (
            following if self._every < _COMMON_PERIOD.total_seconds() else _rounded(following, now)
        )


def _rounded(moment: datetime, now: datetime) -> datetime:
    """Round a time down to a common time, or up if that is not later than now."""
    common = moment - (moment - _START) % _COMMON_PERIOD
    return common if common > now else common + _COMMON_PERIOD


class Schedule:
    """All periodic jobs of a process. Lives on the event loop."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        # `_ScheduledJob` prevents overlapping runs. APScheduler's own limit would log every period
        # of a slow run and skip a run that is due at the moment in which the one before it ends.
        self._scheduler: Any = AsyncIOScheduler(
            timezone=_CLOCK,
            job_defaults={"max_instances": 2, "coalesce": True, "misfire_grace_time": None},
        )

    def part(self) -> ServicePart:
        """Return the part; it starts before and stops after all parts with jobs."""
        return ServicePart("schedule", self.start, self.stop)

    async def start(self) -> None:
        """Start running jobs."""
        self._scheduler.start()

    async def stop(self) -> None:
        """Stop; the parts have stopped their jobs before."""
        if self._scheduler.running:
            self._scheduler.shutdown(wait=False)
            await asyncio.sleep(0)  # the scheduler ends in the next iteration of the loop

    def periodic(
        self, job: Job, run: Run, *, every: float | None = None, last: AsyncAction = do_nothing
    ) -> ServicePart:
        """
        Return a part that runs a job from its start to its stop.

        `every`: the seconds between runs if a setting defines them. `last` runs at the stop, after
        the current run, even if the part has not started.
        """
        seconds = job.every if every is None else every
        return _ScheduledJob(job, run, last, seconds, self._scheduler, self._metrics).part()


class _ScheduledJob:
    """The job of one part: adds it to the scheduler, records its runs, and removes it."""

    def __init__(
        self, job: Job, run: Run, last: AsyncAction, every: float, scheduler: Any, metrics: Metrics
    ) -> None:
        self._log = structlog.get_logger("schedule")
        self._job = job
        self._run = run
        self._last = last
        self._every = every
        self._scheduler = scheduler
        self._metrics = metrics
        self._entry: Any = None
        self._task: asyncio.Task[None] | None = None
        self._failed_at = ""

    def part(self) -> ServicePart:
        return ServicePart(self._job.label, self._start, self._stop)

    async def _start(self) -> None:
        trigger = _PeriodicTrigger(self._job, self._every)
        self._entry = self._scheduler.add_job(self._run_once, trigger, name=self._job.label)

    async def _stop(self) -> None:
        """Prevent new runs, end or cancel the current one, and run `last`."""
        entry, self._entry = self._entry, None
        if entry is not None:
            entry.remove()
        if (task := self._task) is not None:
            if self._job.drain:
                await asyncio.wait([task], timeout=self._job.drain)
            task.cancel()
            await asyncio.wait([task])
        try:
            await self._last()
        except Exception as error:  # noqa: BLE001  # the other parts must stop, too
            self._record_failure(error)

    async def _run_once(self) -> None:
        if (
            self._task is not None or self._entry is None
        ):  # the last run is in progress, or the job was stopped
            return
        self._task = asyncio.current_task()
        began = time.monotonic()
        wait: object = None
        try:
            wait = await self._run()
            self._record_success()
        except asyncio.CancelledError:
            if self._entry is not None:
                raise
        except Exception as error:  # noqa: BLE001  # the next run may succeed
            self._record_failure(error)
        finally:
            self._task = None
        self._metrics.show_job(self._job.label, time.time(), time.monotonic() - began)
        if isinstance(wait, float) and wait != self._every and self._entry is not None:
            self._entry.modify(next_run_time=datetime.now(_CLOCK) + timedelta(seconds=wait))

    def _record_success(self) -> None:
        if self._failed_at:
            self._failed_at = ""
            self._log.info("job recovered", job=self._job.label)

    def _record_failure(self, error: Exception) -> None:
        """Count every failure; log the first one at each place."""
        self._metrics.job_failures.labels(self._job.label).inc()
        where = describe(error)
        if where == self._failed_at:
            return
        self._failed_at = where
        log = self._log.warning if isinstance(error, StoreError) else self._log.error
        log("job failed", job=self._job.label, error=where)
