"""
The intake parts of a process: ledger, worker, listeners.

The listeners start last, when every message that they acknowledge can be stored and applied.
"""

import asyncio
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from bridge import active_settings
from bridge.active_settings import active_sources, version_finder
from bridge.engine_client.client import EngineClient
from bridge.executors import Threads
from bridge.intake.process.order_processor import OrderProcessor
from bridge.intake.process.order_repository import OrderRepository
from bridge.intake.receive.completion import CompletionWaiter
from bridge.intake.receive.handler import FrameOffload
from bridge.intake.receive.listener_policy import ListenerPolicy, make_listeners
from bridge.intake.receive.patient_check import merged_patient_check
from bridge.intake.receive.statistics import timed
from bridge.intake.validation.structure import make_validator
from bridge.intake.validation.validator import ValidatingHandler
from bridge.metrics import Metrics
from bridge.monitoring.channels import read_channels, store_start_failures
from bridge.monitoring.tracing import Tracer, traced_apply, traced_handler
from bridge.queue import queries
from bridge.queue.inbox import Inbox
from bridge.queue.ledger.ledger import Ledger
from bridge.queue.states import QueueState
from bridge.queue.wakeup import POLL_WITH_NOTIFICATIONS, POLL_WITHOUT_NOTIFICATIONS
from bridge.queue.worker.throttle import ProcessingThrottle
from bridge.queue.worker.worker import Worker
from bridge.runtime.channel_control import ActivationFollower, ChannelControl, latest_activation
from bridge.runtime.listener_registry import (
    ActiveListeners,
    FolderPort,
    ListenerDefinitions,
    ListenerRegistry,
    Port,
    RunningListener,
    SocketPort,
    without_mappings,
)
from bridge.runtime.membership import Membership
from bridge.runtime.ports import (
    FrameHandlers,
    SharedLimits,
    folder_listener,
    make_handler,
    make_port,
    sequencer,
)
from bridge.runtime.schedule import Job, Schedule, ServicePart, now_ms
from bridge.store.database import Database
from bridge.store.records.unmapped_codes import UnmappedCodeCounter
from bridge.transports.connection_paths import require_permitted
from bridge.workers.offload import Offload
from config import Settings
from config.listeners import ListenerSettings
from config.sections import ChannelKind
from mllp.contract import Handler
from mllp.limits import FrameBudget, SharedConnectionLimit


class IntakeParts:
    """Creates and connects the intake parts of a process."""

    def __init__(
        self,
        settings: Settings,
        database: Database,
        client: EngineClient,
        metrics: Metrics,
        owner: str,
        reactor: Any,
        membership: Membership,
        shared_limit: SharedConnectionLimit,
        *,
        schedule: Schedule,
        tally: UnmappedCodeCounter,
        offload: Offload,
        tracer: Tracer | None = None,
    ) -> None:
        """
        Use `offload` to parse large messages; `shared_limit` limits all listeners together.

        `owner` claims messages, `tally` counts unmapped codes, `tracer` exports spans.
        """
        self._settings, self._schedule = settings, schedule
        self._tracer, self._metrics = tracer, metrics
        self._reactor = reactor
        self._database, self._owner = database, owner
        self._find_version = version_finder(database)
        self._offload = offload
        self._tally = tally
        self._first = self._compile()
        self._ledger = Ledger(database)
        self._frame_counts: Counter[str] = Counter()
        self._shared = SharedLimits(FrameBudget(settings.intake.frame_memory), shared_limit)
        self._completions = CompletionWaiter(self._state_of)
        definitions = self._definitions(self._first)
        repository = OrderRepository(database, now_ms)
        self._order_processor = OrderProcessor(
            client, repository, definitions, self._completions, metrics
        )
        self._worker = self._make_worker(self._make_inbox(owner, repository, membership))
        membership.call_on_wakeup(self._worker.notify_of_old_messages)
        self._ledger.call_after_batch(self._worker.notify)

    def _make_inbox(self, owner: str, repository: OrderRepository, membership: Membership) -> Inbox:
        return Inbox(
            self._database,
            owner,
            write_records=repository.write,
            acknowledgments=self._ledger.notes,
            session=membership.session,
        )

    def _make_worker(self, inbox: Inbox) -> Worker:
        return Worker(
            inbox,
            traced_apply(self._order_processor.apply, self._tracer),
            clock=now_ms,
            throttle=ProcessingThrottle(
                lambda: self._ledger.arrived, time.monotonic, time.process_time
            ),
            poll=POLL_WITH_NOTIFICATIONS
            if self._database.dialect == "postgresql"
            else POLL_WITHOUT_NOTIFICATIONS,
        )

    def parts(self) -> list[ServicePart]:
        """Return the parts in the order of their start."""
        required = [without_mappings(each) for each in self._settings.listener]
        listeners = ListenerRegistry(self._create_listener)
        listeners.create_all(self._first, required)
        self._control = self._channel_control(listeners)
        worker = self._worker

        async def begin_ledger() -> None:
            self._ledger.start(asyncio.get_running_loop())

        async def use(found: ActiveListeners) -> None:
            self._order_processor.use(self._definitions(found))
            await listeners.use(found, self._control)
            await self._store_failures(listeners)

        async def begin() -> None:
            await listeners.open(required)
            await self._store_failures(listeners)

        return [
            ServicePart("ledger", begin_ledger, self._ledger.stop),
            self._schedule.periodic(Job.INBOX_LEASES, worker.keep_leases, every=worker.lease / 3),
            ServicePart("worker", worker.start, worker.stop),
            ServicePart("channel control", self._control.start, self._control.stop),
            ServicePart("listeners", begin, listeners.close),
            ActivationFollower(
                self._database,
                self._first.activation,
                self._compile,
                use,
                lambda: listeners.failures,
            ).part(self._schedule, Job.LISTENER_ACTIVATIONS),
        ]

    def _channel_control(self, listeners: ListenerRegistry) -> ChannelControl:
        return ChannelControl(
            self._database,
            ChannelKind.LISTENER,
            listeners.ports,
            self._metrics,
            now_ms,
            self._schedule,
            self._frame_counts,
        )

    async def _store_failures(self, listeners: ListenerRegistry) -> None:
        """Store which listeners could not start on this node."""
        found, now = dict(listeners.failures), now_ms()
        await Threads.INTAKE.run(
            store_start_failures, self._database, ChannelKind.LISTENER, self._owner, found, now
        )

    def _compile(self) -> ActiveListeners:
        """Compile the active versions. Blocking."""
        activation = latest_activation(self._database)
        settings = active_settings.current(self._settings, self._database)
        find = active_sources(settings, self._database)
        known = read_channels(self._database, ChannelKind.LISTENER)
        created = make_listeners(settings, find, self._find_version, self._tally.note)
        return ActiveListeners(
            activation,
            {name: replace(each, offload=self._offload) for name, each in created.items()},
            {each.name: without_mappings(each) for each in settings.listener if each.enabled},
            {name for name, each in known.items() if each.paused},
        )

    def _definitions(self, found: ActiveListeners) -> ListenerDefinitions:
        known = found.activation

        def load_newer() -> Mapping[str, ListenerPolicy]:
            nonlocal known
            if latest_activation(self._database) == known:
                return {}
            newer = self._compile()
            known = newer.activation
            return newer.policies

        return ListenerDefinitions(found.policies, load_newer)

    def _create_listener(
        self, settings: ListenerSettings, policy: ListenerPolicy
    ) -> RunningListener:
        """
        Return a listener with its chain of handlers, of which each passes frames to the next one.

        A frame passes tracing, timing, validation, sequence numbers and the offload of slow frames,
        as far as the settings ask for them, and then the `IntakeHandler`.
        """
        require_permitted(self._settings, settings)
        validation = make_validator(self._settings, settings, self._metrics)
        patient_check = merged_patient_check(policy, self._database)
        checked = policy.with_checks(validation, patient_check)
        sequence = sequencer(settings, self._ledger, self._database)
        handler = make_handler(checked, self._ledger, self._completions, self._metrics, sequence)
        offload = FrameOffload(
            handler,
            Threads.LARGE_FRAMES.executor,
            needs_lookup=None if patient_check is None else patient_check.applies_to,
            lookup_threads=Threads.MERGED_PATIENTS.executor,
            hook_threads=Threads.HOOKS.executor,
        )
        entry: Handler = offload if sequence is None else sequence.serialized(offload.submit)
        if validation is not None:
            entry = ValidatingHandler(validation, entry)
        entry = timed(entry, self._metrics, settings.name)
        if self._tracer is not None:
            entry = traced_handler(entry, self._tracer, settings.name)
        handlers = FrameHandlers(entry, handler.unframed, self._frame_counts)
        return RunningListener(
            self._create_port(settings, handlers), handler, validation, patient_check
        )

    def _create_port(self, listener: ListenerSettings, handle: FrameHandlers) -> Port:
        folder = folder_listener(self._settings, listener, handle, self._metrics)
        if folder is not None:
            return FolderPort(folder, self._schedule, every=listener.scan_every)
        created = make_port(
            self._settings, listener, handle, self._metrics, self._reactor, self._shared
        )
        address = str(listener.bind)
        return SocketPort(listener.name, address, created.factory, created.endpoint, created.drain)

    async def _state_of(self, message_id: int) -> QueueState:
        return await Threads.INTAKE.run(queries.message_state, self._database, message_id)
