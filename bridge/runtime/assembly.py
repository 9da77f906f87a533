"""
Assembly: creates the parts of a process by its roles.

All parts are created before the first one starts. A mistake in settings, mappings, keys or TLS
files therefore ends the start before any port is open.
"""

import secrets
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

import structlog
from fastapi import FastAPI
from starlette.routing import Mount

from bridge import banner
from bridge.admin.access.access_administration import resolve_grants
from bridge.admin.access.grants import GrantedRoles
from bridge.admin.audit_events import AuditRelay
from bridge.admin.background.work import JobContext
from bridge.admin.checks.descriptors import Descriptors
from bridge.admin.definitions.activation import activate_at_start
from bridge.admin.messages.message_replay import MessageSubjects
from bridge.console.context import ConsoleContext
from bridge.console.http.application import create_application
from bridge.dicom import web as dicom_web
from bridge.dicom.activity import Activity
from bridge.dicom.answers import AnswerCounter
from bridge.dicom.objects import ObjectStore
from bridge.dicom.received_log import ReceivedLog
from bridge.dicom.stow import StoreWeb
from bridge.dicom.web import WorklistWeb, has_peers
from bridge.engine_client.client import EngineClient
from bridge.executors import Threads
from bridge.handshake_counts import SERVICE
from bridge.metrics import Metrics
from bridge.report_engine import engine_application, engine_http, engine_tokens
from bridge.roles import Role
from bridge.runtime.active_peers import ActivePeers
from bridge.runtime.applying import Applying
from bridge.runtime.channel_control import LatestActivation
from bridge.runtime.context import (
    Process,
    channel_statistics,
    checkpoints,
    divide_descriptors,
    handshake_failures,
    start_tracing,
    unknown_code_counts,
)
from bridge.runtime.delivery import Delivery
from bridge.runtime.maintenance import (
    NumberIndex,
    audit_relay,
    background_work,
    housekeeping,
)
from bridge.runtime.membership import Membership
from bridge.runtime.migration import BRIDGE_ROLES
from bridge.runtime.schedule import AsyncAction, Job, Schedule, ServicePart, do_nothing, now_ms
from bridge.runtime.service_process import ChildProcess, ParentChannel, Samples
from bridge.runtime.web_server import Probes, Readiness, web_part
from bridge.store import databases
from bridge.store.database import Database
from bridge.store.errors import StoreError
from bridge.store.postgresql.requirements import server_problems
from bridge.store.records.unmapped_codes import UnmappedCodeCounter
from bridge.workers.host import close_all
from bridge.workers.offload import MEMORY, Offload
from config import Settings

WEB_ROLES = frozenset({Role.ENGINE, Role.CONSOLE})


def assemble(
    settings: Settings,
    roles: frozenset[Role],
    reactor: Any,
    metrics: Metrics,
    schedule: Schedule,
    node: str,
    intake: ParentChannel | None,
    dicom: ChildProcess | None = None,
) -> list[ServicePart]:
    """
    Open and migrate the databases; return the parts in the order of their start.

    `intake` is the channel to the process that receives messages, if this is its service process.
    `dicom` is the child that serves the DICOM port, if this process has one.
    """
    descriptors = divide_descriptors(settings)
    tracer, parts = start_tracing(settings)
    application, own_parts = _engine(settings, schedule, roles)
    parts += own_parts
    database = databases.open_bridge_database(settings) if roles & BRIDGE_ROLES else None
    if database is not None:
        parts += _database_parts("database", database, databases.migrate_bridge, schedule)
        parts.append(audit_relay(schedule, AuditRelay(settings, database)))
        _activate_files(settings, database)
    offload = Offload(memory=max(MEMORY, 8 * settings.intake.frame_memory))
    end_workers = partial(Threads.JOBS.run, close_all)
    parts.append(ServicePart("worker processes", do_nothing, end_workers))
    console, queue_parts = None, list[ServicePart]()
    if database is not None:
        http = engine_http(settings, application)
        note = partial(metrics.handshakes.note, SERVICE, "report service")
        client = EngineClient(http, engine_tokens(settings), on_handshake_failure=note)
        if Role.CONSOLE in roles:
            console, own_jobs = _console(settings, database, client, offload, schedule, node)
            parts += own_jobs
        tally = UnmappedCodeCounter()
        process = Process(
            settings, database, metrics, schedule, reactor, node, offload, tally, tracer
        )
        queue_parts.append(ServicePart("engine client", do_nothing, http.aclose))
        queue_parts += _queue_parts(process, roles, client, intake)
    readiness = Readiness()
    others = None if intake is None else intake.metrics
    if dicom is not None:
        parts.append(dicom.part())
        others = partial(_samples_of, dicom)
    more: list[Mount] = []
    if database is not None and roles & WEB_ROLES:
        peers = ActivePeers(settings, database)
        if settings.dicom.bind is not None or has_peers(peers.settings()):
            more, own_jobs = _dicomweb(peers, database, metrics, schedule, intake)
            parts += own_jobs
    probes = Probes(metrics, readiness, database, now_ms, others)
    router = probes.router(application, console, more)
    parts += _web(settings, roles, router, application, descriptors, metrics)
    if console is not None:  # stopped before the web server, which waits for its streams
        parts.append(ServicePart("console streams", do_nothing, console.state.context.live.stop))
    parts += queue_parts
    ready = ServicePart("readiness", readiness.begin, readiness.end)
    parts.append(ready if intake is None else intake.readiness(ready))
    return parts


async def _samples_of(child: ChildProcess) -> Samples:
    return child.samples


def _queue_parts(
    process: Process, roles: frozenset[Role], client: EngineClient, intake: ParentChannel | None
) -> list[ServicePart]:
    """Return the worker, delivery and the jobs of the database."""
    owners = (f"{process.node}-intake", f"{process.node}-delivery")
    may_lead = Role.DELIVERY in roles
    membership = Membership(process.database, owners, process.schedule, jobs=may_lead)
    handshakes = handshake_failures(
        process.metrics, process.database, process.node, process.schedule
    )
    counts = [unknown_code_counts(process), handshakes]
    parts = [membership.part(), *counts, channel_statistics(process)]
    if intake is not None:
        applying = Applying(process, client, membership)
        intake.connect(applying.more, applying.completions)
        parts += applying.parts()
    if Role.DELIVERY in roles:
        parts += Delivery(process, client, membership).parts()
    return [*parts, *housekeeping(process, membership)]


def _console(
    settings: Settings,
    database: Database,
    client: EngineClient,
    offload: Offload,
    schedule: Schedule,
    node: str,
) -> tuple[FastAPI, list[ServicePart]]:
    """Return the console, and the jobs that index messages and work at background jobs for it."""
    resolve_grants(settings, database)
    subjects_of = MessageSubjects(settings, database, offload)
    index = NumberIndex(database, subjects_of, offload)
    indexing = schedule.periodic(Job.NUMBER_INDEX, index.step)
    context = ConsoleContext(settings, database, client, subjects_of, now_ms)
    owner = f"{node}-{secrets.token_hex(8)}"  # of this process, not of the one before a restart
    jobs = JobContext(settings, database, subjects_of, now_ms, owner)
    return create_application(context), [indexing, background_work(schedule, jobs)]


def _web(
    settings: Settings,
    roles: frozenset[Role],
    router: Any,
    application: FastAPI | None,
    descriptors: Descriptors,
    metrics: Metrics,
) -> list[ServicePart]:
    """Return the web server, if this process has one, and the part that ends long polls."""
    parts = []
    banner.install(settings.http.banner)
    bind = settings.http.bind if roles & WEB_ROLES else settings.http.probe_bind
    if bind is not None:
        shares = {
            "max_connections": descriptors.http,
            "max_connections_per_source": descriptors.http_per_source,
        }
        http = settings.http.model_copy(update=shares)
        parts.append(web_part(router, bind, http, metrics))
    if application is not None:
        parts.append(ServicePart("long polls", do_nothing, _end_long_polls(application)))
    return parts


def _dicomweb(
    peers: ActivePeers,
    database: Database,
    metrics: Metrics,
    schedule: Schedule,
    intake: ParentChannel | None,
) -> tuple[list[Mount], list[ServicePart]]:
    """Return the routes of DICOMweb for peers with a token, and the report of their use."""
    settings = peers.settings()
    activity, limit = Activity(database), settings.dicom.max_object
    web = WorklistWeb(settings, database, metrics, activity.note_request, activity.note_refusal)
    received = ReceivedLog(database, None if intake is None else intake.report_stored)
    answers = AnswerCounter(metrics, activity.note_request, activity.note_refusal)
    store = StoreWeb(ObjectStore(received, limit), answers, web, limit)

    async def report() -> None:
        await Threads.JOBS.run(activity.report, now_ms())

    async def store_state() -> None:
        await Threads.JOBS.run(activity.store, now_ms())

    jobs = [
        schedule.periodic(Job.DICOM_ACTIVITY, report, last=report),
        schedule.periodic(Job.DICOM_PEERS, store_state, last=store_state),
        peers.follow(LatestActivation(database), schedule, web.tokens.use_peers),
    ]
    log = ServicePart("DICOMweb log", do_nothing, partial(Threads.JOBS.run, received.close))
    return [Mount(dicom_web.PATH, web.router(*store.routes()))], [*jobs, log]


def _engine(
    settings: Settings, schedule: Schedule, roles: frozenset[Role]
) -> tuple[FastAPI | None, list[ServicePart]]:
    """
    Open and migrate the internal engine's database if this process runs the engine.

    Returns the engine's application and its parts.
    """
    if Role.ENGINE not in roles or not settings.engine.is_internal:
        return None, []
    database = databases.open_engine_database(settings)
    opened = _database_parts("engine database", database, databases.migrate_engine, schedule)
    application = engine_application(settings, database, now_ms, GrantedRoles(settings))
    engine = application.state.engine
    tidying = schedule.periodic(Job.ENGINE_TIDYING, engine.tidy)
    return application, [*opened, ServicePart("engine", engine.start, engine.stop), tidying]


def _activate_files(settings: Settings, database: Database) -> None:
    """Activate the files of the data directory that have no active version yet."""
    for name in activate_at_start(settings, database, now_ms()):
        structlog.get_logger("mappings").error(
            "definition not activated: its files have mistakes", mapping=name
        )


def _end_long_polls(application: FastAPI) -> AsyncAction:
    """Answer readers of the change feed at the stop, so that the web server can close."""
    engine = application.state.engine

    async def stop() -> None:
        engine.stopping = True
        engine.work.changed.notify()

    return stop


def _warn(database: Database) -> None:
    """Log the warnings of `bridge check` about the database server."""
    log = structlog.get_logger("service")
    with suppress(StoreError):
        for problem in server_problems(database):
            log.warning("database", reason=problem.text)


def _database_parts(
    name: str, database: Database, migrate: Callable[[Database], object], schedule: Schedule
) -> list[ServicePart]:
    """Migrate a database that `migrate_in_child_process` skipped; return its parts. Blocking."""

    async def start() -> None:
        await Threads.JOBS.run(_warn, database)

    async def stop() -> None:
        database.dispose()

    migrate(database)
    job = Job.CHECKPOINTS if name == "database" else Job.ENGINE_CHECKPOINTS
    opened = ServicePart(name, start, stop)
    return [opened] if database.file is None else [opened, checkpoints(job, database, schedule)]
