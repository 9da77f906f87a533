"""
Schedule: runs the periodic jobs of a process on the event loop.

`Job` is the table of all periodic jobs. A part of the service declares what a job runs. The job
runs from the part's start to its stop, and runs do not overlap. Missed runs are combined into one.
A failed run does not end the job. Repeated failures at one place are logged once.

The clock of the event loop is monotonic, so a changed system time delays no job, such as lease
extension or systemd's watchdog.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import Enum
from random import SystemRandom

import structlog

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
_JITTER = 0.1  # share of the period: nodes that started together query at different times
_RANDOM = SystemRandom()


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
    LOG_CHECKPOINTS = ("log checkpoints", 0.5, 5.0, False, False)
    ENGINE_TIDYING = ("engine tidying", 600.0, 2.0, True, False)
    AUDIT_RELAY = ("audit relay", 2.0, 5.0, False, False)
    BACKGROUND_JOBS = ("background jobs", 1.0, 5.0, False, False)
    NUMBER_INDEX = ("index of numbers", 1.0, 2.0, False, True)
    UNKNOWN_CODES = ("unknown codes", 5.0, 2.0, False, False)
    HANDSHAKES = ("handshakes", 2.0, 2.0, False, False)
    FAILOVER = ("failover", 2.0, 2.0, False, False)
    INTERRUPTED_UNDOS = ("interrupted undos of merges", 20.0, 5.0, True, True)
    INBOX_LEASES = ("inbox leases", 20.0, 2.0, False, False)
    OUTBOX_LEASES = ("outbox leases", 10.0, 2.0, False, False)
    FOLDER_SCAN = ("folder scan", _BY_SETTING, 10.0, False, True)
    LISTENER_SWITCHES = ("listener switches", 1.0, 2.0, False, False)
    DESTINATION_SWITCHES = ("destination switches", 1.0, 2.0, False, False)
    LISTENER_ACTIVATIONS = ("listener activations", 1.5, 5.0, False, True)
    DEFINITION_ACTIVATIONS = ("definition activations", 1.5, 5.0, False, True)
    DESTINATION_ACTIVATIONS = ("destination activations", 1.5, 5.0, False, True)
    COMMITMENTS = ("storage commitments", 10.0, 2.0, False, False)
    CIRCUITS = ("circuits", 1.0, 2.0, False, True)
    STATUS_POLL = ("status poll", _BY_SETTING, 0.0, False, False)
    RECONCILING = ("reconciling", 60.0, 0.0, True, False)
    ROUND_REQUESTS = ("requests to reconcile", 2.0, 0.0, False, False)
    DICOM_ACTIVITY = ("activity of DICOM peers", 60.0, 2.0, False, False)
    DICOM_PEERS = ("state of DICOM peers", 2.0, 2.0, False, False)
    PEER_ACTIVATIONS = ("activations of DICOM peers", 1.0, 2.0, False, True)
    STEP_STATUSES = ("statuses of steps", 1.0, 2.0, False, False)
    DICOM_SAMPLES = ("metrics of the DICOM process", 5.0, 0.0, False, True)
    STATISTICS = ("statistics", 15.0, 2.0, False, False)
    QUEUE_STATISTICS = ("statistics of queues", 15.0, 2.0, False, False)
    STATISTICS_SUMS = ("sums of statistics", 60.0, 2.0, False, False)
    ALERTS = ("alerts", _BY_SETTING, 2.0, False, False)
    PARTITIONS = ("partitions", 30.0, 2.0, True, False)
    RETENTION = ("retention", _BY_SETTING, 2.0, True, False)
    OLD_JOBS = ("old background jobs", 3600.0, 2.0, True, False)
    SCHEDULED_STEPS = ("scheduled steps", 2.0, 5.0, False, True)
    DELIVERY_SITES = ("sites of deliveries", 1.0, 2.0, False, False)
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


class Schedule:
    """Makes the periodic jobs of a process. Lives on the event loop."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics

    def periodic(
        self, job: Job, run: Run, *, every: float | None = None, last: AsyncAction = do_nothing
    ) -> ServicePart:
        """
        Return a part that runs a job from its start to its stop.

        `every`: the seconds between runs if a setting defines them. `last` runs at the stop, after
        the current run, even if the part has not started.
        """
        seconds = job.every if every is None else every
        scheduled = _ScheduledJob(job, run, last, seconds, self._metrics)
        return ServicePart(job.label, scheduled.start, scheduled.stop)


class _ScheduledJob:
    def __init__(
        self, job: Job, run: Run, last: AsyncAction, every: float, metrics: Metrics
    ) -> None:
        self._log = structlog.get_logger("schedule")
        self._job = job
        self._run = run
        self._last = last
        self._every = every
        self._metrics = metrics
        self._task: asyncio.Task[None] | None = None
        self._running = False
        self._stopping = False
        self._failed_at = ""

    async def start(self) -> None:
        self._stopping = False
        self._task = asyncio.create_task(self._repeat(), name=self._job.label)

    async def stop(self) -> None:
        """Prevent new runs, end or cancel the current one, and run `last`."""
        self._stopping = True
        if (task := self._task) is not None:
            if self._running and self._job.drain:
                await asyncio.wait([task], timeout=self._job.drain)
            task.cancel()
            await asyncio.wait([task])
        try:
            await self._last()
        except Exception as error:  # noqa: BLE001  # the other parts must stop, too
            self._record_failure(error)

    async def _repeat(self) -> None:
        wait = 0.0 if self._job.at_start else self._until_next()
        while not self._stopping:
            await asyncio.sleep(wait)
            self._running = True
            result = await self._run_once()
            self._running = False
            wait = result if isinstance(result, float) else self._until_next()

    def _until_next(self) -> float:
        """
        Return the seconds until the next multiple of the period, so that missed runs are skipped.

        Jobs then run together, and an idle process wakes up less often.
        """
        now = asyncio.get_running_loop().time()
        return self._every - now % self._every + _RANDOM.uniform(0, self._job.jitter * self._every)

    async def _run_once(self) -> object:
        began, result = time.monotonic(), None
        try:
            result = await self._run()
            self._record_success()
        except asyncio.CancelledError as error:
            if self._stopping:
                raise
            self._record_failure(error)  # something that the run waited for was cancelled
        except Exception as error:  # noqa: BLE001  # the next run may succeed
            self._record_failure(error)
        self._metrics.show_job(self._job.label, time.time(), time.monotonic() - began)
        return result

    def _record_success(self) -> None:
        if self._failed_at:
            self._failed_at = ""
            self._log.info("job recovered", job=self._job.label)

    def _record_failure(self, error: BaseException) -> None:
        """Count every failure; log the first one at each place."""
        self._metrics.job_failures.labels(self._job.label).inc()
        where = describe(error)
        if where == self._failed_at:
            return
        self._failed_at = where
        log = self._log.warning if isinstance(error, StoreError) else self._log.error
        log("job failed", job=self._job.label, error=where)
