"""
Receiving messages: the listeners of a process, which start, stop and pause as the settings change.

When the settings of a listener change, it answers its messages in progress and closes before a new
one opens. Stored messages of a disabled or deleted listener are still applied by its mappings. The
listeners start last, when every message that they acknowledge can be stored and applied.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Mapping
from datetime import UTC, datetime
from ipaddress import ip_network
from typing import Any, NamedTuple, Protocol

import structlog
from twisted.internet.endpoints import SSL4ServerEndpoint, TCP4ServerEndpoint, TCP6ServerEndpoint
from twisted.internet.error import CannotListenError

from bridge.errors import BridgeError
from bridge.executors import Threads
from bridge.intake.receive.acknowledgments import ControlIds
from bridge.intake.receive.completion import Completions
from bridge.intake.receive.handler import FrameOffload, IntakeHandler
from bridge.intake.receive.listener_policy import ListenerPolicy
from bridge.intake.receive.patient_check import PatientCheck, merged_patient_check
from bridge.intake.receive.sequence_numbers import Sequencer
from bridge.intake.receive.statistics import AckCounter, WireCounter, timed
from bridge.intake.validation.structure import make_validator
from bridge.intake.validation.validator import ValidatingHandler, Validator
from bridge.monitoring.channels import store_start_failures
from bridge.monitoring.tracing import traced_handler
from bridge.queue.message_log import MessageLog
from bridge.redaction import describe
from bridge.runtime.channel_control import ActivationFollower, ChannelControl, PausableChannel
from bridge.runtime.context import Process
from bridge.runtime.listener_definitions import ActiveListeners, ListenerCompiler, without_mappings
from bridge.runtime.schedule import Job, Schedule, ServicePart, now_ms
from bridge.store.records.sequence_numbers import SequenceLinks
from bridge.transports.connection_paths import (
    RefusedPath,
    authorization_path,
    folder_at,
    require_permitted,
)
from bridge.transports.folders import FolderListener, FolderRules
from bridge.transports.http_protocol import read_authorization
from bridge.transports.tls import listener_tls_options
from config.listeners import ListenerSettings, SequenceNumbers
from config.quantities import Address, FolderAddress, WebAddress
from config.sections import ChannelKind
from mllp.contract import Handler, NakBuilder, ServerLimits
from mllp.errors import TLSConfigurationError
from mllp.limits import FrameBudget, SharedConnectionLimit
from mllp.server import MLLPServerFactory
from mllp.transport import SharedPort


class PortInUse(BridgeError):
    """A listener's address cannot be bound."""

    def __init__(self, listener: str, address: str) -> None:
        super().__init__(f"listener {listener} cannot listen on {address}: is it in use?")


class Port(PausableChannel, Protocol):
    """A socket or folder that receives messages."""

    async def start(self) -> None:
        """Accept messages."""

    async def stop(self) -> None:
        """Accept no more messages; answer those in progress."""


class SocketPort:
    """A TCP port with a Twisted factory, for MLLP or HTTP."""

    def __init__(
        self,
        listener: str,
        address: str,
        factory: PausableChannel,
        endpoint: Any,
        drain: Callable[[], Awaitable[object]],
    ) -> None:
        """`drain` answers the messages in progress and closes the connections."""
        self._log = structlog.get_logger("intake").bind(listener=listener)
        self._listener = listener
        self._address = address
        self._factory = factory
        self._endpoint = endpoint
        self._drain = drain
        self._port: Any = None

    async def start(self) -> None:
        """Bind. Raises PortInUse."""
        loop = asyncio.get_running_loop()
        try:
            self._port = await self._endpoint.listen(self._factory).asFuture(loop)
        except CannotListenError as error:
            raise PortInUse(self._listener, self._address) from error
        where = self._port.getHost()
        self._log.info("listening", address=f"{where.host}:{where.port}")

    async def stop(self) -> None:
        """Close the port, then the connections."""
        stopped = None if self._port is None else self._port.stopListening()
        if stopped is not None:
            await stopped.asFuture(asyncio.get_running_loop())
        await self._drain()

    def pause(self) -> None:
        """Accept no messages until `resume`."""
        self._factory.pause()

    def resume(self) -> None:
        """Accept messages again."""
        self._factory.resume()


class FolderPort:
    """A folder that a job of the schedule scans."""

    def __init__(self, folder: FolderListener, schedule: Schedule, *, every: float) -> None:
        """`every` is the number of seconds between scans while there are no errors."""
        self._folder = folder
        self._scans = schedule.periodic(Job.FOLDER_SCAN, folder.scan, every=every)

    async def start(self) -> None:
        """Make the folders, and scan from now on. Raises OSError."""
        await self._folder.prepare()
        await self._scans.start()

    async def stop(self) -> None:
        """Finish the file in progress, and scan no more."""
        self._folder.end()
        await self._scans.stop()

    def pause(self) -> None:
        """Process no further file until `resume`."""
        self._folder.pause()

    def resume(self) -> None:
        """Process files again."""
        self._folder.resume()


class RunningListener(NamedTuple):
    """One listener: its port, and the handler of its messages."""

    port: Port
    handler: IntakeHandler
    validator: Validator | None
    patient_check: PatientCheck | None

    def use(self, policy: ListenerPolicy) -> None:
        """Use other definitions for frames that arrive from now on."""
        if self.patient_check is not None:
            self.patient_check.use(policy)
        self.handler.use(policy.with_checks(self.validator, self.patient_check))


class ListenerRegistry:
    """Opens, replaces and closes listeners on the event loop's thread."""

    def __init__(self, make: Callable[[ListenerSettings, ListenerPolicy], RunningListener]) -> None:
        """`make` creates a listener. It raises BridgeError or TLSConfigurationError."""
        self._log = structlog.get_logger("intake")
        self._make = make
        self._listeners: dict[str, RunningListener] = {}
        self._settings: dict[str, ListenerSettings] = {}
        self.failures: dict[str, str] = {}
        """Why listeners do not listen, by name."""

    def create_all(self, found: ActiveListeners, required: Collection[ListenerSettings]) -> None:
        """
        Create the first listeners; raises if a `required` one fails.

        One that names a path that it may not use does not stop the others.
        """
        for settings in found.settings.values():
            self._try_to_create(settings, found, required=settings in required)

    @property
    def ports(self) -> Mapping[str, Port]:
        return {name: listener.port for name, listener in self._listeners.items()}

    async def open(self, required: Collection[ListenerSettings]) -> None:
        """Open all listeners; raises if a `required` one fails."""
        for name, listener in list(self._listeners.items()):
            if self._settings[name] in required:
                await listener.port.start()
            elif not await self._try_to_open(name, listener):
                self._forget(name)

    async def close(self) -> None:
        """Close all listeners; answer the messages in progress."""
        await asyncio.gather(*(listener.port.stop() for listener in self._listeners.values()))

    async def use(self, found: ActiveListeners, control: ChannelControl) -> None:
        """Use other listeners from now on; `failures` then has those that could not be opened."""
        outdated = [n for n, old in self._settings.items() if found.settings.get(n) != old]
        await asyncio.gather(*(self._stop(name, control) for name in outdated))
        self.failures = {n: why for n, why in self.failures.items() if n in found.settings}
        for name, settings in found.settings.items():
            if name in self._listeners:
                self._listeners[name].use(found.policies[name])
                continue
            if not self._try_to_create(settings, found):
                continue
            listener = self._listeners[name]
            control.connect(name, listener.port, paused=name in found.paused)
            if not await self._try_to_open(name, listener):
                control.disconnect(name)
                self._forget(name)

    async def _stop(self, name: str, control: ChannelControl) -> None:
        listener = self._listeners[name]
        self._forget(name)
        control.disconnect(name)
        await listener.port.stop()
        self._log.info("closed", listener=name)

    def _forget(self, name: str) -> None:
        del self._listeners[name], self._settings[name]

    def _try_to_create(
        self, settings: ListenerSettings, found: ActiveListeners, *, required: bool = False
    ) -> bool:
        name = settings.name
        try:
            self._listeners[name] = self._make(settings, found.policies[name])
        except (BridgeError, TLSConfigurationError) as error:
            if required and not isinstance(error, RefusedPath):
                raise
            self._record_failure(name, error)
            return False
        self._settings[name] = settings
        return True

    async def _try_to_open(self, name: str, listener: RunningListener) -> bool:
        """Open a port and return whether that succeeded."""
        try:
            await listener.port.start()
        except (BridgeError, OSError) as error:
            self._record_failure(name, error)
            return False
        self.failures.pop(name, None)
        return True

    def _record_failure(self, name: str, error: Exception) -> None:
        """Record why a listener does not listen; log the first failure."""
        if name not in self.failures:
            # A refusal contains settings only. Other texts may quote values.
            reason = str(error) if isinstance(error, RefusedPath) else describe(error)
            self._log.error("not listening", listener=name, error=reason)
        self.failures[name] = str(error)


class ListenerFactory:
    """Creates the listeners of a process; `limit` limits the connections of all of them."""

    def __init__(
        self,
        process: Process,
        log: MessageLog,
        completions: Completions,
        limit: SharedConnectionLimit,
    ) -> None:
        self._process, self._message_log, self._completions = process, log, completions
        self._limit = limit
        self._budget = FrameBudget(process.settings.intake.frame_memory)
        self.frame_counts: Counter[str] = Counter()
        """Frames by listener."""

    def create(self, settings: ListenerSettings, policy: ListenerPolicy) -> RunningListener:
        """
        Return a listener with its chain of handlers, of which each passes frames to the next one.

        A frame passes tracing, timing, validation, sequence numbers and the offload of slow frames,
        as far as the settings ask for them, and then the `IntakeHandler`. Raises BridgeError,
        TLSConfigurationError.
        """
        process, metrics = self._process, self._process.metrics
        require_permitted(process.settings, settings)
        validation = make_validator(process.settings, settings, metrics)
        patient_check = merged_patient_check(policy, process.database)
        sequence = self._sequencer(settings)
        handler = IntakeHandler(
            policy.with_checks(validation, patient_check),
            self._message_log,
            self._completions,
            AckCounter(metrics, policy.name),
            clock=lambda: datetime.now(UTC),
            new_id=ControlIds(),
            sequencer=sequence,
        )
        needs_lookup = None if patient_check is None else patient_check.applies_to
        offload = FrameOffload(handler, needs_lookup=needs_lookup)
        entry: Handler = offload if sequence is None else sequence.serialized(offload.submit)
        if validation is not None:
            entry = ValidatingHandler(validation, entry)
        entry = timed(entry, metrics, settings.name)
        if process.tracer is not None:
            entry = traced_handler(entry, process.tracer, settings.name)
        port = self._port(settings, entry, handler.unframed)
        return RunningListener(port, handler, validation, patient_check)

    def _sequencer(self, listener: ListenerSettings) -> Sequencer | None:
        mode = listener.sequence_numbers
        if mode is SequenceNumbers.OFF:
            return None
        return Sequencer(
            self._message_log, SequenceLinks(self._process.database, listener.name), mode
        )

    def _port(self, listener: ListenerSettings, handle: Handler, unframed: NakBuilder) -> Port:
        """Return the port of a listener: MLLP, HTTP, or a folder."""
        process, address = self._process, listener.bind
        observer = WireCounter(process.metrics, listener.name, self.frame_counts)
        if isinstance(address, FolderAddress):
            rules = FolderRules(
                scan_interval=listener.scan_every,
                max_file=listener.max_frame,
                answer_files=listener.answer_files,
            )
            path = folder_at(process.settings, listener)
            folder = FolderListener(listener.name, path, handle, unframed, rules, observer)
            return FolderPort(folder, process.schedule, every=listener.scan_every)
        endpoint = self._endpoint(listener, address)
        limits, reactor = server_limits(listener), process.reactor
        if isinstance(address, WebAddress):
            from bridge.transports import http_listener  # noqa: PLC0415  # others need no uvicorn

            authorization = read_authorization(
                f"listener {listener.name}", authorization_path(process.settings, listener)
            )
            site = http_listener.HttpListener(
                handle,
                http_listener.HttpListenerRules(address.path, listener.charset, authorization),
                limits,
                clock=reactor,
                observer=observer,
                refuse=unframed,
                budget=self._budget,
                shared_limit=self._limit,
            )
            return SocketPort(listener.name, str(address), site, endpoint, site.drain)
        factory = MLLPServerFactory(
            handle,
            limits,
            clock=reactor,
            observer=observer,
            on_unframed=unframed,
            budget=self._budget,
            shared_limit=self._limit,
        )

        def drain() -> Awaitable[object]:
            return factory.drain().asFuture(asyncio.get_running_loop())

        return SocketPort(listener.name, str(address), factory, endpoint, drain)

    def _endpoint(self, listener: ListenerSettings, address: Address | WebAddress) -> Any:
        """Return the endpoint of a listener, with TLS if set. Raises TLSConfigurationError."""
        host, port, reactor = address.host, address.port, self._process.reactor
        backlog = 1024  # beyond it, senders repeat their SYN after a second
        tls = listener.tls
        options = None if tls is None else listener_tls_options(self._process.settings, tls)
        if listener.share_port:
            return SharedPort(reactor, host, port, backlog=backlog, tls=options)
        if options is not None:
            return SSL4ServerEndpoint(reactor, port, options, backlog=backlog, interface=host)  # type: ignore[no-untyped-call]
        kind = TCP6ServerEndpoint if ":" in host else TCP4ServerEndpoint
        return kind(reactor, port, backlog=backlog, interface=host)


def server_limits(listener: ListenerSettings) -> ServerLimits:
    """Return the limits of a listener's connections and frames."""
    return ServerLimits(
        max_frame=listener.max_frame,
        max_connections=listener.max_connections,
        max_connections_per_source=listener.per_source,
        allow=[ip_network(network) for network in listener.allow],
        frame_timeout=listener.frame_timeout,
        idle_timeout=listener.idle_timeout,
    )


class Receiving:
    """The listeners of a process, and the log that stores what they receive."""

    def __init__(
        self,
        process: Process,
        log: MessageLog,
        completions: Completions,
        limit: SharedConnectionLimit,
    ) -> None:
        self._process, self._message_log = process, log
        self._compiler = ListenerCompiler(process)
        self._first = self._compiler.compile()
        factory = ListenerFactory(process, log, completions, limit)
        self._required = [without_mappings(listener) for listener in process.settings.listener]
        self._listeners = ListenerRegistry(factory.create)
        self._listeners.create_all(self._first, self._required)
        self._control = ChannelControl(
            process.database,
            ChannelKind.LISTENER,
            self._listeners.ports,
            process.metrics,
            now_ms,
            process.schedule,
            factory.frame_counts,
        )

    def parts(self) -> list[ServicePart]:
        """Return the parts in the order of their start."""
        listeners, control = self._listeners, self._control
        follower = ActivationFollower(
            self._process.latest_activation,
            self._first.activation,
            self._compiler.compile,
            self._use,
            lambda: listeners.failures,
        )

        async def start_log() -> None:
            self._message_log.start(asyncio.get_running_loop())

        return [
            ServicePart("message log", start_log, self._message_log.stop),
            ServicePart("channel control", control.start, control.stop),
            ServicePart("listeners", self._open, listeners.close),
            follower.part(self._process.schedule, Job.LISTENER_ACTIVATIONS),
        ]

    async def _open(self) -> None:
        await self._listeners.open(self._required)
        await self._store_failures()

    async def _use(self, found: ActiveListeners) -> None:
        await self._listeners.use(found, self._control)
        await self._store_failures()

    async def _store_failures(self) -> None:
        """Store which listeners could not start on this node."""
        process, failures = self._process, dict(self._listeners.failures)
        owner, kind = f"{process.node}-intake", ChannelKind.LISTENER
        await Threads.MESSAGES.run(
            store_start_failures, process.database, kind, owner, failures, now_ms()
        )
