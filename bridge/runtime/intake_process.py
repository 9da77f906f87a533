"""Assembly of the process that receives messages. It loads neither engine, console nor delivery."""

from functools import partial
from typing import Any

from bridge.executors import Threads
from bridge.metrics import Metrics
from bridge.queue.message_log import MessageLog
from bridge.runtime.context import (
    Process,
    channel_statistics,
    checkpoints,
    divide_descriptors,
    handshake_failures,
    start_tracing,
    unknown_code_counts,
)
from bridge.runtime.receiving import Receiving
from bridge.runtime.schedule import Job, Schedule, ServicePart, do_nothing
from bridge.runtime.service_process import ChildProcess, ServiceProcess
from bridge.store import databases
from bridge.store.records.unmapped_codes import UnmappedCodeCounter
from bridge.workers.host import close_all
from bridge.workers.offload import MEMORY, Offload
from config import Settings
from mllp.limits import SharedConnectionLimit


def assemble_intake(
    settings: Settings,
    reactor: Any,
    metrics: Metrics,
    schedule: Schedule,
    service: ServiceProcess,
    dicom: ChildProcess | None = None,
) -> list[ServicePart]:
    """Open the database; return the parts in the order of their start."""
    descriptors = divide_descriptors(settings)
    tracer, parts = start_tracing(settings)
    database = databases.open_bridge_database(settings)
    databases.migrate_bridge(database)
    offload = Offload(memory=max(MEMORY, 8 * settings.intake.frame_memory))
    process = Process(
        settings,
        database,
        metrics,
        schedule,
        reactor,
        service.node,
        offload,
        UnmappedCodeCounter(),
        tracer,
    )
    log = MessageLog(database, service.more)
    for child in [service] if dicom is None else [service, dicom]:
        child.on_stored = partial(service.more, [])
    limit = SharedConnectionLimit(descriptors.listeners)

    if log.database is not None:
        parts.append(checkpoints(Job.LOG_CHECKPOINTS, log.database, schedule))

    async def close_database() -> None:
        database.dispose()

    return [
        *parts,
        ServicePart("database", do_nothing, close_database),
        ServicePart("worker processes", do_nothing, partial(Threads.JOBS.run, close_all)),
        ServicePart("service process", service.start, service.stop),
        unknown_code_counts(process),
        handshake_failures(metrics, database, service.node, schedule),
        channel_statistics(process),
        *Receiving(process, log, service, limit).parts(),
        *([] if dicom is None else [dicom.part()]),
        ServicePart("readiness", service.listen, service.close),
    ]
