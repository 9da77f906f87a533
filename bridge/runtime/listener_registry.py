"""
Listener registry: the listeners of a process, which start, stop and pause as the settings change.

When the settings of a listener change, it answers its messages in progress and closes before a new
one opens. Stored messages of a disabled or deleted listener are still processed by its mappings.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping
from threading import Lock
from typing import Any, NamedTuple, Protocol

import structlog
from twisted.internet.error import CannotListenError
from typing_extensions import override

from bridge.errors import BridgeError
from bridge.intake.receive.handler import IntakeHandler
from bridge.intake.receive.listener_policy import ListenerPolicy
from bridge.intake.receive.patient_check import PatientCheck
from bridge.intake.validation.validator import Validator
from bridge.redaction import describe
from bridge.runtime.channel_control import ChannelControl, PausableChannel
from bridge.runtime.schedule import Job, Schedule
from bridge.transports.connection_paths import RefusedPath
from bridge.transports.folder_listener import FolderListener
from config.listeners import ListenerSettings
from mllp.errors import TLSConfigurationError


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


class ActiveListeners(NamedTuple):
    """
    The definitions of all listeners, the settings of enabled ones, and the names of paused ones.

    The definitions include at least the activation with the number `activation`.
    """

    activation: int
    policies: Mapping[str, ListenerPolicy]
    settings: Mapping[str, ListenerSettings]
    paused: Collection[str]


def without_mappings(listener: ListenerSettings) -> ListenerSettings:
    """Return the settings of a listener without mappings: they change while its port is open."""
    return listener.model_copy(update={"mappings": []})


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


class ListenerDefinitions(Mapping[str, ListenerPolicy]):
    """
    The definitions of listeners, by name.

    Another node may have received a message by a listener that is not loaded here yet. Then the
    definitions are loaded again, on the calling thread. `in` loads nothing: it tells whether
    definitions are loaded.
    """

    def __init__(
        self,
        found: Mapping[str, ListenerPolicy],
        load_newer: Callable[[], Mapping[str, ListenerPolicy]],
    ) -> None:
        """`load_newer` returns newer definitions, if there are any."""
        self._found = found
        self._load_newer = load_newer
        self._loading = Lock()  # several threads read messages

    @override
    def __getitem__(self, name: str) -> ListenerPolicy:
        if name not in self._found:
            with self._loading:
                if name not in self._found:
                    self._found = {**self._found, **self._load_newer()}
        return self._found[name]

    @override
    def __contains__(self, name: object) -> bool:
        return name in self._found

    @override
    def __iter__(self) -> Iterator[str]:
        return iter(self._found)

    @override
    def __len__(self) -> int:
        return len(self._found)


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
