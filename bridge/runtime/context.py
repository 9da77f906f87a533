"""What the parts of a process share, and the parts that both processes have."""

import os
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import structlog

from bridge.admin.checks.descriptors import Descriptors, allocate_descriptors, raise_limit
from bridge.executors import Threads
from bridge.metrics import Metrics
from bridge.monitoring.channels import store_handshakes
from bridge.monitoring.statistics import StatisticsRecorder
from bridge.monitoring.tracing import Tracer, open_tracer
from bridge.runtime.channel_control import LatestActivation
from bridge.runtime.schedule import Job, Schedule, ServicePart, do_nothing, now_ms
from bridge.store.checkpoints import WalCheckpointer
from bridge.store.database import Database
from bridge.store.errors import StoreError
from bridge.store.records import unmapped_codes
from bridge.store.records.unmapped_codes import UnmappedCodeCounter
from bridge.workers.offload import Offload
from config import Settings


@dataclass(frozen=True, slots=True)
class Process:
    """
    A process that receives, applies or delivers messages of one database.

    `node` begins the names under which it claims work. `offload` parses large messages.
    """

    settings: Settings
    database: Database
    metrics: Metrics
    schedule: Schedule
    reactor: Any
    node: str
    offload: Offload
    tally: UnmappedCodeCounter
    tracer: Tracer | None
    latest_activation: LatestActivation = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "latest_activation", LatestActivation(self.database))


def divide_descriptors(settings: Settings) -> Descriptors:
    """Raise the limit of file descriptors and divide it. Raises TooFewDescriptors."""
    found, log = allocate_descriptors(settings, raise_limit()), structlog.get_logger("service")
    if found.suffice:
        log.info("file descriptors", limit=found.limit, count=found.needed)
    else:
        log.warning("file descriptors", limit=found.limit, reason=found.shortage)
    return found


def start_tracing(settings: Settings) -> tuple[Tracer | None, list[ServicePart]]:
    """Create the tracer, if tracing is on; it stops last. Raises TracingUnavailable."""
    chosen = settings.tracing
    if not chosen.endpoint:
        return None, []
    tracer, end = open_tracer(chosen.endpoint, chosen.share)
    return tracer, [ServicePart("traces", do_nothing, partial(Threads.JOBS.run, end))]


def checkpoints(job: Job, database: Database, schedule: Schedule) -> ServicePart:
    """Return the part that checkpoints an SQLite database; PostgreSQL does it by itself."""
    wal = WalCheckpointer(database)
    run = partial(Threads.LEASES.run, wal.run)
    return schedule.periodic(job, run, last=partial(Threads.LEASES.run, wal.close))


def unknown_code_counts(process: Process) -> ServicePart:
    async def store() -> None:
        if found := process.tally.take():
            await Threads.JOBS.run(unmapped_codes.add, process.database, found, now_ms())

    return process.schedule.periodic(Job.UNKNOWN_CODES, store, last=store)


def handshake_failures(
    metrics: Metrics, database: Database, node: str, schedule: Schedule
) -> ServicePart:
    """Store failed TLS handshakes."""
    counts = metrics.handshakes

    async def store() -> None:
        if found := counts.take():
            try:
                await Threads.JOBS.run(store_handshakes, database, node, found)
            except StoreError:
                counts.put_back(found)
                raise

    return schedule.periodic(Job.HANDSHAKES, store, last=store)


def channel_statistics(process: Process) -> ServicePart:
    """Store what this process has counted for each listener and destination."""
    source = f"{process.node} {os.getpid()} {now_ms()}"
    recorder = StatisticsRecorder(process.metrics, process.database, source)

    async def store() -> None:
        await Threads.LEASES.run(recorder.store, now_ms())

    return process.schedule.periodic(Job.STATISTICS, store, last=store)
