"""The DICOM process: the parts of the role `dicom`, alone or as a child of `bridge serve`."""

import asyncio
from functools import partial

import structlog

from bridge.admin.audit_events import AuditRelay
from bridge.admin.checks.descriptors import raise_limit
from bridge.dicom.activity import Activity
from bridge.dicom.objects import ObjectStore
from bridge.dicom.performed import PerformedSteps
from bridge.dicom.received_log import ReceivedLog
from bridge.dicom.server import DicomServer, DimseService
from bridge.dicom.storage import StorageService
from bridge.dicom.worklist import WorklistService
from bridge.executors import Threads
from bridge.metrics import Metrics
from bridge.runtime.context import handshake_failures
from bridge.runtime.maintenance import audit_relay
from bridge.runtime.schedule import Job, Schedule, ServicePart, do_nothing, now_ms
from bridge.runtime.service_process import ParentChannel
from bridge.runtime.web_server import Probes, Readiness, web_part
from bridge.store import databases
from bridge.store.database import Database
from bridge.transports.tls import listener_tls_context
from config import Settings
from mllp.tls import HandshakeFailure


def assemble_dicom(
    settings: Settings,
    metrics: Metrics,
    schedule: Schedule,
    node: str,
    parent: ParentChannel | None,
) -> list[ServicePart]:
    """Open the database; return the parts in the order of their start."""
    raise_limit()
    database = databases.open_bridge_database(settings)
    databases.migrate_bridge(database)
    activity = Activity(database)
    readiness = Readiness()

    async def close_database() -> None:
        database.dispose()

    async def report() -> None:
        await Threads.JOBS.run(activity.report, now_ms())

    parts = [
        ServicePart("database", do_nothing, close_database),
        handshake_failures(metrics, database, node, schedule),
        schedule.periodic(Job.DICOM_ACTIVITY, report, last=report),
    ]
    if parent is None:
        parts.append(audit_relay(schedule, AuditRelay(settings, database)))
        if settings.http.probe_bind is not None:
            router = Probes(metrics, readiness, database, now_ms).router(None)
            parts.append(web_part(router, settings.http.probe_bind, settings.http, metrics))
    else:
        parts.append(_samples(metrics, schedule, parent))
    parts.append(_port(settings, metrics, database, activity))
    ready = ServicePart("readiness", readiness.begin, readiness.end)
    return [*parts, ready if parent is None else parent.readiness(ready)]


def _samples(metrics: Metrics, schedule: Schedule, parent: ParentChannel) -> ServicePart:
    async def send() -> None:
        parent.send_samples(metrics.samples())

    return schedule.periodic(Job.DICOM_SAMPLES, send)


def _port(
    settings: Settings, metrics: Metrics, database: Database, activity: Activity
) -> ServicePart:
    """Return the part that opens the DICOM port. Raises TLSConfigurationError."""
    loop = asyncio.get_running_loop()

    def note_handshake(address: str, failure: HandshakeFailure) -> None:
        note = partial(metrics.handshakes.note, "dicom", "port", address, failure)
        loop.call_soon_threadsafe(note)

    tls, max_object = settings.dicom.tls, settings.dicom.max_object
    received = ReceivedLog(database, metrics)
    services: list[DimseService] = [
        WorklistService(database, metrics, activity.note_request),
        PerformedSteps(received, max_object),
        StorageService(ObjectStore(received, max_object)),
    ]
    server = DicomServer(
        settings.dicom,
        services,
        metrics,
        None if tls is None else listener_tls_context(settings, tls),
        activity.note_refusal,
        note_handshake,
    )
    log = structlog.get_logger("dicom")

    async def start() -> None:
        port = await Threads.JOBS.run(server.start)
        host = settings.dicom.bind.host if settings.dicom.bind is not None else ""
        log.info("listening", address=f"{host}:{port}")

    def stop() -> None:
        server.stop()
        received.close()

    return ServicePart("DICOM port", start, partial(Threads.JOBS.run, stop))
