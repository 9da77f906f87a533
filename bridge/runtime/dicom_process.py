"""The DICOM process: the parts of the role `dicom`, alone or as a child of `bridge serve`."""

import asyncio
import threading
from collections.abc import Callable
from functools import partial

import structlog

from bridge.admin.checks.descriptors import raise_limit
from bridge.dicom.activity import Activity, Refusals
from bridge.dicom.answers import AnswerCounter
from bridge.dicom.commitment import CommitmentService
from bridge.dicom.objects import ObjectStore
from bridge.dicom.performed import PerformedSteps
from bridge.dicom.received_log import ReceivedLog
from bridge.dicom.server import DicomServer, note_failed_thread
from bridge.dicom.storage import StorageService
from bridge.dicom.worklist import WorklistService
from bridge.errors import BridgeError
from bridge.executors import Threads
from bridge.handshake_counts import (
    DICOM,
    DICOM_PORT,
    DICOM_REFUSAL,
    HandshakeCount,
    HandshakeKey,
)
from bridge.metrics import Metrics
from bridge.monitoring.channels import store_handshakes, store_start_failures
from bridge.queue.commitments import Commitments
from bridge.runtime.active_peers import ActivePeers
from bridge.runtime.channel_control import LatestActivation
from bridge.runtime.context import handshake_failures
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
    threading.excepthook = note_failed_thread
    database = databases.open_bridge_database(settings)
    databases.migrate_bridge(database)
    peers = ActivePeers(settings, database)
    activity = Activity(database, partial(_store_refusals, database, node))
    readiness = Readiness()

    async def close_database() -> None:
        database.dispose()

    async def report() -> None:
        await Threads.JOBS.run(activity.report, now_ms())

    async def store() -> None:
        await Threads.JOBS.run(activity.store, now_ms())

    parts = [
        ServicePart("database", do_nothing, close_database),
        handshake_failures(metrics, database, node, schedule),
        schedule.periodic(Job.DICOM_ACTIVITY, report, last=report),
        schedule.periodic(Job.DICOM_PEERS, store, last=store),
    ]
    if parent is None:
        if settings.http.probe_bind is not None:
            router = Probes(metrics, readiness, database, now_ms).router(None)
            parts.append(web_part(router, settings.http.probe_bind, settings.http, metrics))
    else:
        parts.append(_samples(metrics, schedule, parent))
    on_stored = None if parent is None else parent.report_stored
    server, port = _port(peers.settings(), metrics, database, activity, node, on_stored)
    parts.append(port)
    parts.append(peers.follow(LatestActivation(database), schedule, server.use_peers))
    ready = ServicePart("readiness", readiness.begin, readiness.end)
    return [*parts, ready if parent is None else parent.readiness(ready)]


def _store_refusals(database: Database, node: str, refusals: Refusals) -> None:
    """Store refused connections for the alert; blocking."""
    now = now_ms()
    found = {
        HandshakeKey(DICOM_REFUSAL, peer, source, reason): HandshakeCount(
            HandshakeFailure(reason), count, now, now
        )
        for (reason, source, peer), count in refusals.items()
    }
    store_handshakes(database, node, found)


class PortNotOpened(BridgeError):
    """The DICOM port cannot be opened."""

    def __init__(self, address: str, reason: str) -> None:
        super().__init__(f"dicom.bind: {address} cannot be opened: {reason}")


def _samples(metrics: Metrics, schedule: Schedule, parent: ParentChannel) -> ServicePart:
    async def send() -> None:
        parent.send_samples(metrics.samples())

    return schedule.periodic(Job.DICOM_SAMPLES, send)


def _port(
    settings: Settings,
    metrics: Metrics,
    database: Database,
    activity: Activity,
    node: str,
    on_stored: Callable[[], object] | None,
) -> tuple[DicomServer, ServicePart]:
    """Return the server, and the part that opens the DICOM port. Raises TLSConfigurationError."""
    loop = asyncio.get_running_loop()

    def note_handshake(address: str, failure: HandshakeFailure) -> None:
        note = partial(metrics.handshakes.note, DICOM, DICOM_PORT, address, failure)
        loop.call_soon_threadsafe(note)

    tls, limit = settings.dicom.tls, settings.dicom.max_object
    received = ReceivedLog(database, on_stored)
    answers = AnswerCounter(metrics, activity.note_request, activity.note_refusal)
    server = DicomServer(
        settings.dicom,
        [
            WorklistService(database, metrics, activity.note_request),
            PerformedSteps(received, limit, answers),
            StorageService(ObjectStore(received, limit), answers),
            CommitmentService(Commitments(database, now_ms), metrics),
        ],
        metrics,
        None if tls is None else listener_tls_context(settings, tls),
        activity.note_refusal,
        note_handshake,
        activity.note_association,
    )
    log = structlog.get_logger("dicom")

    def open_port() -> int:
        failure = ""
        try:
            return server.start()
        except OSError as error:
            failure = error.strerror or "refused"
            raise PortNotOpened(str(settings.dicom.bind), failure) from None
        finally:
            reasons = {DICOM_PORT: failure} if failure else {}
            store_start_failures(database, DICOM, node, reasons, now_ms())

    async def start() -> None:
        port = await Threads.JOBS.run(open_port)
        host = settings.dicom.bind.host if settings.dicom.bind is not None else ""
        log.info("listening", address=f"{host}:{port}")

    def stop() -> None:
        server.stop()
        received.close()

    return server, ServicePart("DICOM port", start, partial(Threads.JOBS.run, stop))
