"""
The delivery parts of a process: change feed, status poll, reconciler, one courier per destination.

When the settings of a destination change, its courier stops and requeues its claims before a new
one starts. The state of the circuits is stored in the database for the console, which may be
another process.
"""

import asyncio
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from random import SystemRandom
from typing import NamedTuple

import structlog

from bridge import active_settings
from bridge.active_settings import active_sources
from bridge.delivery.change_feed import ChangeFeedReader, ChangeProcessor
from bridge.delivery.composer import Composer
from bridge.delivery.courier import Courier, FurtherReplies
from bridge.delivery.destination_settings import (
    dicom_receiver,
    make_destinations,
    make_sender,
)
from bridge.delivery.destinations import CompiledDestination
from bridge.delivery.dicom_sender import PACS, request_again
from bridge.delivery.preparation import ReportTexts
from bridge.delivery.reconciler import Reconciler
from bridge.delivery.status_poll import StatusPoller
from bridge.delivery.step_statuses import StepStatuses
from bridge.engine_client.client import EngineClient
from bridge.errors import BridgeError
from bridge.executors import DELIVERIES, Threads
from bridge.intake.process.scheduled_steps import StepRules, StepWriter, step_rules
from bridge.monitoring.channels import (
    ChannelCircuit,
    read_channels,
    store_activity,
    store_circuits,
    store_start_failures,
)
from bridge.monitoring.tracing import order_trace_keys, traced_sender
from bridge.queue.commitments import Commitments
from bridge.queue.outbox import Outbox
from bridge.queue.states import RetryPolicy
from bridge.queue.wakeup import POLL_WITH_NOTIFICATIONS, POLL_WITHOUT_NOTIFICATIONS
from bridge.redaction import describe
from bridge.runtime.channel_control import ActivationFollower, ChannelControl, latest_activation
from bridge.runtime.context import Process
from bridge.runtime.membership import Membership
from bridge.runtime.schedule import Job, ServicePart, now_ms
from bridge.store.database import Database
from bridge.transports.connection_paths import RefusedPath
from config.quantities import DicomAddress
from config.sections import ChannelKind, DestinationSettings
from mllp.errors import NotConnected, TLSConfigurationError

CourierFactory = Callable[[CompiledDestination, DestinationSettings], Courier]


class ActiveDestinations(NamedTuple):
    """
    The enabled destinations, compiled and as settings, and the names of the paused ones; the rules
    of the worklist.
    """

    compiled: Sequence[CompiledDestination]
    settings: Mapping[str, DestinationSettings]
    paused: Collection[str]
    steps: StepRules | None


class CourierRegistry:
    """The couriers of a process; starts, replaces and stops them on the event loop's thread."""

    def __init__(self, make: CourierFactory) -> None:
        """`make` creates a courier. It raises BridgeError or TLSConfigurationError."""
        self._log = structlog.get_logger("couriers")
        self._make = make
        self._settings: dict[str, DestinationSettings] = {}
        self.failures: dict[str, str] = {}
        """Why destinations have no courier, by name."""
        self.by_name: dict[str, Courier] = {}
        """Couriers by the names of their destinations."""

    def __iter__(self) -> Iterator[Courier]:
        """Iterate over a copy: `use` may replace couriers during the iteration."""
        return iter(list(self.by_name.values()))

    def settings(self) -> Sequence[DestinationSettings]:
        """The settings of the destinations that have couriers."""
        return list(self._settings.values())

    def create_all(
        self, found: ActiveDestinations, required: Collection[DestinationSettings]
    ) -> None:
        """
        Create the first couriers, without starting them; raises if a `required` one fails.

        One that names a path that it may not use does not stop the others.
        """
        for destination in found.compiled:
            settings = found.settings[destination.name]
            self._try_to_create(destination, settings, required=settings in required)

    async def use(self, found: ActiveDestinations, control: ChannelControl) -> None:
        """Use other destinations from now on; `failures` then has those without a courier."""
        outdated = [n for n, old in self._settings.items() if found.settings.get(n) != old]
        await asyncio.gather(*(self._stop(name, control) for name in outdated))
        self.failures = {n: why for n, why in self.failures.items() if n in found.settings}
        for destination in found.compiled:
            if destination.name in self.by_name:
                self.by_name[destination.name].use(destination)
            elif self._try_to_create(destination, found.settings[destination.name]):
                courier = self.by_name[destination.name]
                control.connect(destination.name, courier, paused=destination.name in found.paused)
                courier.start()
                self._log.info("connected", destination=destination.name)

    async def _stop(self, name: str, control: ChannelControl) -> None:
        courier = self.by_name.pop(name)
        del self._settings[name]
        control.disconnect(name)
        await courier.stop()
        self._log.info("disconnected", destination=name)

    def _try_to_create(
        self,
        destination: CompiledDestination,
        settings: DestinationSettings,
        *,
        required: bool = False,
    ) -> bool:
        """Create a courier and return whether that succeeded; log the first failure."""
        try:
            self._create(destination, settings)
        except (BridgeError, TLSConfigurationError) as error:
            if required and not isinstance(error, RefusedPath):
                raise
            if destination.name not in self.failures:
                # A refusal contains settings only. Other texts may quote values.
                reason = str(error) if isinstance(error, RefusedPath) else describe(error)
                self._log.error("not connected", destination=destination.name, error=reason)
            self.failures[destination.name] = str(error)
            return False
        self.failures.pop(destination.name, None)
        return True

    def _create(self, destination: CompiledDestination, settings: DestinationSettings) -> None:
        self.by_name[destination.name] = self._make(destination, settings)
        self._settings[destination.name] = settings


class CircuitRecorder:
    """Stores circuits that changed. A new courier's circuit is closed."""

    def __init__(
        self, database: Database, couriers: Mapping[str, Courier], clock: Callable[[], int]
    ) -> None:
        self._database = database
        self._couriers = couriers
        self._clock = clock
        self._stored: dict[str, ChannelCircuit] = {}
        self._replies: dict[str, int] = {}

    async def store(self) -> None:
        """Store changed circuits and the time of new replies; retried by the next call."""
        current = {name: courier.circuit_status for name, courier in self._couriers.items()}
        changed = {
            name: circuit
            for name, (until, _, refused, problem) in current.items()
            if self._stored.get(name) != (circuit := ChannelCircuit(until, refused, *problem))
        }
        now = self._clock()
        active = {
            (ChannelKind.DESTINATION, name): now
            for name, (_, replies, *_) in current.items()
            if replies > self._replies.get(name, 0)
        }
        self._stored = {name: stored for name, stored in self._stored.items() if name in current}
        self._replies = {
            n: r for n, r in self._replies.items() if n in current and r <= current[n][1]
        }
        if not changed and not active:
            return
        await Threads.LEASES.run(store_circuits, self._database, changed)
        await Threads.LEASES.run(store_activity, self._database, active)
        self._stored |= changed
        self._replies = {name: replies for name, (_, replies, *_) in current.items()}


RECHECK_SECONDS = 10.0  # seconds until the reconciler reads a difference again


class Delivery:
    """Creates and connects the delivery parts of a process."""

    def __init__(self, process: Process, client: EngineClient, membership: Membership) -> None:
        settings, database, metrics = process.settings, process.database, process.metrics
        self._process, self._settings, self._database = process, settings, database
        self._schedule = process.schedule
        self._poll_every = settings.schedule.poll_status_every
        self._owner = f"{process.node}-delivery"
        self._outbox = Outbox(database, self._owner, session=membership.session)
        self._membership = membership
        membership.call_on_wakeup(self._notify)
        self._activation = latest_activation(database)
        found = self._compile()
        self._composer = Composer(database, lambda: datetime.now(UTC), process.tally.note)
        self._texts = ReportTexts(client)
        self._commitments = Commitments(database, now_ms)
        self._couriers = CourierRegistry(self._make_courier)
        self._couriers.create_all(found, settings.destination)
        by_name, kind = self._couriers.by_name, ChannelKind.DESTINATION
        self._control = ChannelControl(database, kind, by_name, metrics, now_ms, process.schedule)
        self._circuits = CircuitRecorder(database, by_name, now_ms)
        self._steps = StepWriter(found.steps)
        self._processor = ChangeProcessor(
            database,
            self._outbox,
            found.compiled,
            now_ms,
            write_steps=self._steps.write if self._has_steps else None,
        )
        self._step_statuses = StepStatuses(self._processor)
        self._readers = [
            ChangeFeedReader(
                client, self._processor, metrics, self._notify, random=SystemRandom(), site=site
            )
            for site in client.tokens.distinct()
        ]
        self._poller = StatusPoller(client, self._processor, self._notify, every=self._poll_every)
        self._reconciler = Reconciler(client, database, found.compiled, metrics, RECHECK_SECONDS)
        self._reconciling = asyncio.Lock()
        self._last_request = 0  # time of the last request for a round that was executed

    def parts(self) -> list[ServicePart]:
        """Return the parts in the order of their start."""
        periodic, store = self._schedule.periodic, self._circuits.store
        return [
            ServicePart("channel control", self._control.start, self._control.stop),
            periodic(Job.CIRCUITS, store, last=store),
            periodic(Job.OUTBOX_LEASES, self._keep_leases),
            ServicePart("couriers", self._start_couriers, self._stop_couriers),
            periodic(Job.COMMITMENTS, self._follow_commitments),
            self._activation_follower().part(self._schedule, Job.DESTINATION_ACTIVATIONS),
            ServicePart("change feed readers", self._start_readers, self._stop_readers),
            periodic(Job.STATUS_POLL, self._poll, every=self._poll_every),
            periodic(Job.RECONCILING, self._reconcile),
            periodic(Job.ROUND_REQUESTS, self._run_requested_round),
            *([periodic(Job.STEP_STATUSES, self._queue_statuses)] if self._has_steps else ()),
        ]

    @property
    def _has_steps(self) -> bool:
        """Whether there is a worklist, and modalities can report performed steps."""
        return self._settings.dicom.bind is not None

    async def _queue_statuses(self) -> None:
        """Queue the status messages of performed steps."""
        if await DELIVERIES.run(self._step_statuses.queue):
            self._notify()

    def _activation_follower(self) -> ActivationFollower[ActiveDestinations]:
        couriers = self._couriers
        return ActivationFollower(
            self._process.latest_activation,
            self._activation,
            self._compile,
            self._use,
            lambda: couriers.failures,
        )

    def _make_courier(
        self, destination: CompiledDestination, settings: DestinationSettings
    ) -> Courier:
        process = self._process
        further = FurtherReplies(self._outbox, destination.name, now_ms)
        connection = make_sender(
            self._settings, settings, process.reactor, further.take, self._commitments
        )
        trace_keys = order_trace_keys(self._database)
        notified = self._database.dialect == "postgresql"
        return Courier(
            destination,
            self._outbox,
            self._composer,
            self._texts,
            traced_sender(connection, process.tracer, settings.name, trace_keys),
            process.metrics,
            clock=now_ms,
            random=SystemRandom(),
            on_pause=partial(self._control_pause, destination.name),
            poll=POLL_WITH_NOTIFICATIONS if notified else POLL_WITHOUT_NOTIFICATIONS,
            session=self._membership.session,
            further=further,
        )

    def _compile(self) -> ActiveDestinations:
        """Compile the active versions. Blocking."""
        settings = active_settings.current(self._settings, self._database)
        find = active_sources(settings, self._database)
        known = read_channels(self._database, ChannelKind.DESTINATION)
        return ActiveDestinations(
            make_destinations(settings, find),
            {
                destination.name: destination
                for destination in settings.destination
                if destination.enabled
            },
            {name for name, channel in known.items() if channel.paused},
            step_rules(settings, find),
        )

    async def _use(self, found: ActiveDestinations) -> None:
        self._steps.rules = found.steps
        self._processor.use(found.compiled)
        self._reconciler.use(found.compiled)
        await self._couriers.use(found, self._control)
        await self._store_failures()

    async def _store_failures(self) -> None:
        """Store which destinations could not be connected on this node."""
        reasons, kind = dict(self._couriers.failures), ChannelKind.DESTINATION
        await DELIVERIES.run(
            store_start_failures, self._database, kind, self._owner, reasons, now_ms()
        )

    def _notify(self) -> None:
        for courier in self._couriers:
            courier.notify()

    def _control_pause(self, name: str, reason: str) -> None:
        self._control.pause_by_policy(name, reason)

    async def _start_couriers(self) -> None:
        await Threads.LEASES.run(self._outbox.requeue_expired_claims, now_ms(), include_own=True)
        for courier in self._couriers:
            courier.start()
        await self._store_failures()

    async def _stop_couriers(self) -> None:
        await asyncio.gather(*(courier.stop() for courier in self._couriers))

    async def _start_readers(self) -> None:
        for reader in self._readers:
            reader.start()

    async def _stop_readers(self) -> None:
        await asyncio.gather(*(reader.stop() for reader in self._readers))

    async def _poll(self) -> None:
        """Poll the status of reports if the service has no change feed."""
        without_feed = any(reader.supported is False for reader in self._readers)
        if without_feed and self._membership.leads():
            await self._poller.poll()

    async def _keep_leases(self) -> None:
        """
        Extend the leases of all couriers, then requeue claims whose leases have expired.

        In the other order, a clock that was set forward would requeue claims in progress here.
        """
        for courier in self._couriers:
            await courier.keep_leases()
        if await Threads.LEASES.run(self._outbox.requeue_expired_claims, now_ms()):
            self._notify()
        for courier in self._couriers:
            await courier.correct_due_times()

    async def _follow_commitments(self) -> None:
        """Send objects again that a PACS does not keep, and repeat requests without an answer."""
        if not self._membership.leads():
            return
        for settings in self._couriers.settings():
            chosen, address = settings.dicom, settings.address
            courier = self._couriers.by_name.get(settings.name)  # None: stopped since
            if chosen is None or not chosen.commitment or not isinstance(address, DicomAddress):
                continue
            if courier is None or courier.is_paused:
                continue
            name, within = settings.name, chosen.commitment_within
            if await DELIVERIES.run(self._commitments.repeat_failed, name):
                self._notify()
            retry = RetryPolicy(settings.retry_first, settings.retry_max)
            late = await DELIVERIES.run(self._commitments.repeat_requests, name, within, retry)
            if late:
                # After an error the next request follows after an interval.
                with suppress(NotConnected, TLSConfigurationError):
                    receiver = dicom_receiver(self._settings, settings, address)
                    await PACS.run(request_again, receiver, self._commitments, late)

    async def _reconcile(self) -> None:
        """Compare the next page with the service, on the node that leads."""
        if self._membership.leads():
            async with self._reconciling:
                await self._reconciler.reconcile(now_ms())

    async def _run_requested_round(self) -> None:
        """Run a requested round at once; after a failure the periodic job continues it."""
        requested = await DELIVERIES.run(self._reconciler.requested_since)
        if requested and requested != self._last_request:
            self._last_request = requested
            await self._reconcile()
