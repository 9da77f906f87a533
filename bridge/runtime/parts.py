"""
The parts of a running service, each a start and a stop around what wiring has joined.

Order of start: what others need comes first; listeners come last, when every order that they
acknowledge can be stored and applied.
"""

import asyncio
import time
from collections import Counter
from collections.abc import Mapping
from typing import Any

import structlog
from fastapi import FastAPI

from bridge.engine_client.client import EngineClient
from bridge.executors import Threads
from bridge.intake.process.order_processor import Forwarder
from bridge.intake.process.order_repository import Memory
from bridge.intake.process.outcomes import Waiting
from bridge.intake.receive.listener import Listening
from bridge.intake.receive.offload import FrameOffload, offloaded
from bridge.intake.receive.statistics import Timed
from bridge.intake.receive.unmapped_codes import Tally
from bridge.metrics import Metrics
from bridge.monitoring import start_failures
from bridge.monitoring.channels import Kind, channels
from bridge.monitoring.tracing import Tracer, traced_apply, traced_handler
from bridge.queue import queries
from bridge.queue.inbox import Inbox
from bridge.queue.ledger.ledger import Ledger
from bridge.queue.states import QueueState
from bridge.queue.wakeup import POLL_WITH_NOTIFICATIONS, POLL_WITHOUT_NOTIFICATIONS
from bridge.queue.worker.throttle import ProcessingThrottle
from bridge.queue.worker.worker import Worker
from bridge.request_body import BUDGET
from bridge.runtime.activation_follower import Following, latest_activation
from bridge.runtime.channel_control import Switchboard
from bridge.runtime.http_connections import HttpLimits
from bridge.runtime.listener_registry import (
    FolderPort,
    Gate,
    Gates,
    Known,
    Port,
    Senders,
    SocketPort,
    bare,
)
from bridge.runtime.membership import Membership
from bridge.runtime.schedule import Job, Schedule, Step, now_ms
from bridge.runtime.web_server import WebServer
from bridge.store.database import Database
from bridge.wiring import active_settings
from bridge.wiring.active_definitions import in_force, recaller
from bridge.wiring.listeners import acquaintance, in_front, listenings, policy, validator
from bridge.wiring.ports import Answering, Shared, folder_listener, handler, sequencer, wired
from bridge.workers.offload import Offload
from config import Settings
from config.listeners import Listener
from config.quantities import Address
from config.sections import Http
from mllp.admission import Ceiling
from mllp.contract import Handler
from mllp.memory_budget import FrameBudget


def engine_parts(application: FastAPI, schedule: Schedule) -> list[Step]:
    """Run the internal engine's background work."""
    engine = application.state.engine
    tidying = schedule.periodic(Job.ENGINE_TIDYING, engine.tidy)
    return [Step("engine", engine.start, engine.stop), tidying]


def web_part(application: Any, bind: Address, settings: Http, metrics: Metrics) -> Step:
    """Serve HTTP."""
    limits = HttpLimits(
        settings.max_connections,
        settings.max_connections_per_source,
        settings.head_timeout,
        settings.body_timeout,
        settings.body_rate,
        settings.idle_timeout,
        settings.write_timeout,
        tuple(settings.trusted_proxies),
    )
    BUDGET.size = settings.body_memory
    closed = metrics.http_connections_closed
    web = WebServer(application, bind, limits, lambda reason: closed.labels(reason).inc())
    log = structlog.get_logger("web")

    async def start() -> None:
        await web.start()
        log.info("listening", address=f"{bind.host}:{web.port}")

    return Step("web", start, web.stop)


class Intake:
    """Ledger, worker and listeners of one process."""

    def __init__(
        self,
        settings: Settings,
        database: Database,
        client: EngineClient,
        metrics: Metrics,
        owner: str,
        reactor: Any,
        membership: Membership,
        ceiling: Ceiling,
        *,
        schedule: Schedule,
        tally: Tally,
        offload: Offload,
        tracer: Tracer | None = None,
    ) -> None:
        """
        Join them; large messages are read by `offload`, `ceiling` bounds all listeners together.

        `tracer`, where traces are asked for, hears of frames and of what is applied.
        """
        self._settings, self._schedule = settings, schedule
        self._tracer, self._metrics = tracer, metrics
        self._reactor = reactor
        self._database, self._owner = database, owner
        self._find_version = recaller(database)
        self._offload = offload
        self._tally = tally
        self._first = self._compiled()
        self._ledger = Ledger(database)
        self._seen: Counter[str] = Counter()
        self._shared = Shared(FrameBudget(settings.intake.frame_memory), ceiling)
        self._threads = Threads.LARGE_FRAMES.executor
        self._asking = Threads.MERGED_PATIENTS.executor
        self._waiting = Waiting(self._state_of)
        known = self._known(self._first)
        memory = Memory(database, now_ms)
        self._forwarder = Forwarder(client, memory, known, self._waiting, metrics)
        self._worker = self._applying(
            Inbox(database, owner, remember=memory.write, told=self._ledger.notes)
        )
        membership.wakes(self._worker.notify_of_old_messages)
        self._ledger.call_after_batch(self._worker.notify)

    def _applying(self, inbox: Inbox) -> Worker:
        return Worker(
            inbox,
            traced_apply(self._forwarder.apply, self._tracer),
            clock=now_ms,
            throttle=ProcessingThrottle(
                lambda: self._ledger.arrived, time.monotonic, time.process_time
            ),
            poll=POLL_WITH_NOTIFICATIONS
            if self._database.dialect == "postgresql"
            else POLL_WITHOUT_NOTIFICATIONS,
        )

    def parts(self) -> list[Step]:
        """Give the parts in the order of their start."""
        must = [bare(each) for each in self._settings.listener]
        gates = Gates(self._gate)
        gates.begin(self._first, must)
        self._board = self._switchboard(gates)
        worker = self._worker

        async def begin_ledger() -> None:
            self._ledger.start(asyncio.get_running_loop())

        async def adopt(found: Senders) -> None:
            self._forwarder.adopt(self._known(found))
            await gates.adopt(found, self._board)
            await self._tell(gates)

        async def begin() -> None:
            await gates.open(must)
            await self._tell(gates)

        return [
            Step("ledger", begin_ledger, self._ledger.stop),
            self._schedule.periodic(Job.INBOX_LEASES, worker.keep_leases, every=worker.lease / 3),
            Step("worker", worker.start, worker.stop),
            Step("switches", self._board.start, self._board.stop),
            Step("listeners", begin, gates.close),
            Following(
                self._database,
                self._first.activation,
                self._compiled,
                adopt,
                lambda: gates.troubles,
            ).part(self._schedule, Job.LISTENER_ACTIVATIONS),
        ]

    def _switchboard(self, gates: Gates) -> Switchboard:
        return Switchboard(
            self._database,
            Kind.LISTENER,
            gates.ports,
            self._metrics,
            now_ms,
            self._schedule,
            self._seen,
        )

    async def _tell(self, gates: Gates) -> None:
        """Write down what could not begin here."""
        found, now = dict(gates.troubles), now_ms()
        await Threads.INTAKE.run(
            start_failures.note, self._database, Kind.LISTENER, self._owner, found, now
        )

    def _compiled(self) -> Senders:
        """Compile what is in force. Blocking."""
        activation = latest_activation(self._database)
        settings = active_settings.current(self._settings, self._database)
        find = in_force(settings, self._database)
        known = channels(self._database, Kind.LISTENER)
        made = listenings(settings, find, self._find_version, self._tally.note)
        return Senders(
            activation,
            {name: offloaded(each, self._offload) for name, each in made.items()},
            {each.name: bare(each) for each in settings.listener if each.enabled},
            {name for name, each in known.items() if each.paused},
        )

    def _known(self, found: Senders) -> Known:
        """Give what is known now; what another node knows sooner is looked for when asked for."""
        seen = found.activation

        def again() -> Mapping[str, Listening]:
            nonlocal seen
            if latest_activation(self._database) == seen:
                return {}
            newer = self._compiled()
            seen = newer.activation
            return newer.listenings

        return Known(found.listenings, again)

    def _gate(self, listener: Listener, plain: Listening) -> Gate:
        check = validator(self._settings, listener, self._metrics)
        known = acquaintance(plain, self._database)
        listening = policy(plain, check, known)
        counted = sequencer(listener, self._ledger, self._database)
        answering = handler(listening, self._ledger, self._waiting, self._metrics, counted)
        asks = None if known is None else known.asks
        hooks = Threads.HOOKS.executor
        offload = FrameOffload(
            answering, self._threads, asks=asks, asking=self._asking, hooks=hooks
        )
        taken: Handler = offload if counted is None else counted.in_front(offload.hand_over)
        timed: Handler = Timed(in_front(check, taken), self._metrics, listener.name)
        if self._tracer is not None:
            timed = traced_handler(timed, self._tracer, listener.name)
        handle = Answering(timed, answering.unframed, self._seen)
        return Gate(self._port(listener, handle), answering, check, known)

    def _port(self, listener: Listener, handle: Answering) -> Port:
        folder = folder_listener(self._settings, listener, handle, self._metrics)
        if folder is not None:
            return FolderPort(folder, self._schedule, every=listener.scan_every)
        made = wired(self._settings, listener, handle, self._metrics, self._reactor, self._shared)
        address = str(listener.bind)
        return SocketPort(listener.name, address, made.factory, made.endpoint, made.drain)

    async def _state_of(self, message_id: int) -> QueueState:
        detail = await Threads.INTAKE.run(queries.message, self._database, message_id)
        return detail.row.state
