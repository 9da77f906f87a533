"""The listeners of a process: sockets and folders that start, stop and pause as the settings
change.

One whose settings changed closes before another opens in its place: what is in hand is answered
first. What a listener that is off or gone has taken is still read as it reads.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping
from typing import Any, NamedTuple, Protocol

import structlog
from twisted.internet.error import CannotListenError
from typing_extensions import override

from bridge.errors import BridgeError
from bridge.intake.patients.merged_patients import Acquaintance
from bridge.intake.receive.handler import IntakeHandler
from bridge.intake.receive.listener import Listening
from bridge.intake.receive.validation import Validator
from bridge.redaction import describe
from bridge.runtime.channel_control import Switchboard
from bridge.runtime.schedule import Job, Schedule
from bridge.transports.folders.intake import FolderListener
from bridge.wiring.listeners import policy
from config.listeners import Listener
from mllp.errors import TLSConfigurationError


class PortTaken(BridgeError):  # noqa: N818  # named for what happened
    """A listener's address cannot be bound."""

    def __init__(self, listener: str, address: str) -> None:
        super().__init__(f"listener {listener} cannot listen on {address}: is it in use?")


class Port(Protocol):
    """Where messages come in, whatever it is."""

    async def start(self) -> None:
        """Take messages from now on."""

    async def stop(self) -> None:
        """Take no more; answer those in hand."""

    def pause(self) -> None:
        """Take none until `resume`."""

    def resume(self) -> None:
        """Take messages again."""


class Pausable(Protocol):
    """What a factory has to offer."""

    def pause(self) -> None:
        """Take none until `resume`."""

    def resume(self) -> None:
        """Take messages again."""


class SocketPort:
    """A factory on an endpoint."""

    def __init__(
        self,
        listener: str,
        address: str,
        factory: Pausable,
        endpoint: Any,
        drain: Callable[[], Awaitable[object]],
    ) -> None:
        """`drain` answers what is in hand and closes the connections."""
        self._log = structlog.get_logger("intake").bind(listener=listener)
        self._listener = listener
        self._address = address
        self._factory = factory
        self._endpoint = endpoint
        self._drain = drain
        self._port: Any = None

    async def start(self) -> None:
        """Bind. Raises PortTaken."""
        loop = asyncio.get_running_loop()
        try:
            self._port = await self._endpoint.listen(self._factory).asFuture(loop)
        except CannotListenError as error:
            raise PortTaken(self._listener, self._address) from error
        where = self._port.getHost()
        self._log.info("listening", address=f"{where.host}:{where.port}")

    async def stop(self) -> None:
        """Close the port, then the connections."""
        stopped = None if self._port is None else self._port.stopListening()
        if stopped is not None:
            await stopped.asFuture(asyncio.get_running_loop())
        await self._drain()

    def pause(self) -> None:
        """Take none until `resume`."""
        self._factory.pause()

    def resume(self) -> None:
        """Take messages again."""
        self._factory.resume()


class FolderPort:
    """A folder that a job of the schedule scans."""

    def __init__(self, folder: FolderListener, schedule: Schedule, *, every: float) -> None:
        """`every`: the seconds between scans while nothing is wrong."""
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
        """Take no further file."""
        self._folder.pause()

    def resume(self) -> None:
        """Take files again."""
        self._folder.resume()


class Senders(NamedTuple):
    """
    What every listener reads with, those that are on as written, and which are paused.

    It holds at least the activation of this number.
    """

    activation: int
    listenings: Mapping[str, Listening]
    written: Mapping[str, Listener]
    paused: Collection[str]


def bare(listener: Listener) -> Listener:
    """Give a listener without what it reads with: that changes while its port stays open."""
    return listener.model_copy(update={"mappings": []})


class Gate(NamedTuple):
    """One listener's port, and what takes its messages."""

    port: Port
    handler: IntakeHandler
    validator: Validator | None
    acquaintance: Acquaintance | None

    def adopt(self, listening: Listening) -> None:
        """Let frames that come from now on be read by other definitions."""
        if self.acquaintance is not None:
            self.acquaintance.adopt(listening)
        self.handler.adopt(policy(listening, self.validator, self.acquaintance))


class Known(Mapping[str, Listening]):
    """
    What listeners read with, as this process knows it.

    Another node may have taken a message by a listener that is not known here yet: then it is
    looked for at once, on the thread that asks.
    """

    def __init__(
        self, found: Mapping[str, Listening], again: Callable[[], Mapping[str, Listening]]
    ) -> None:
        """`again` gives what there is by now, if that may be more."""
        self._found = found
        self._again = again

    @override
    def __getitem__(self, name: str) -> Listening:
        if name not in self._found:
            self._found = {**self._found, **self._again()}
        return self._found[name]

    @override
    def __iter__(self) -> Iterator[str]:
        return iter(self._found)

    @override
    def __len__(self) -> int:
        return len(self._found)


class Gates:
    """Opens, exchanges and closes them; on the event loop's thread."""

    def __init__(self, make: Callable[[Listener, Listening], Gate]) -> None:
        """`make` raises BridgeError or TLSConfigurationError where a gate cannot be."""
        self._log = structlog.get_logger("intake")
        self._make = make
        self._gates: dict[str, Gate] = {}
        self._written: dict[str, Listener] = {}
        self.troubles: dict[str, str] = {}
        """Why some do not listen, by their names."""

    def begin(self, found: Senders, must: Collection[Listener]) -> None:
        """Make the first ones; raises for one of `must`."""
        for written in found.written.values():
            self._made(written, found, must=written in must)

    @property
    def ports(self) -> Mapping[str, Port]:
        """The ports there are."""
        return {name: gate.port for name, gate in self._gates.items()}

    async def open(self, must: Collection[Listener]) -> None:
        """Open all; raises for one of `must`."""
        for name, gate in list(self._gates.items()):
            if self._written[name] in must:
                await gate.port.start()
            elif not await self._opened(name, gate):
                self._forget(name)

    async def close(self) -> None:
        """Close all, and answer what is in hand."""
        await asyncio.gather(*(gate.port.stop() for gate in self._gates.values()))

    async def adopt(self, found: Senders, board: Switchboard) -> None:
        """Go on with other listeners; `troubles` names those that could not be opened."""
        gone = [n for n, written in self._written.items() if found.written.get(n) != written]
        await asyncio.gather(*(self._end(name, board) for name in gone))
        self.troubles = {n: why for n, why in self.troubles.items() if n in found.written}
        for name, written in found.written.items():
            if name in self._gates:
                self._gates[name].adopt(found.listenings[name])
                continue
            if not self._made(written, found):
                continue
            gate = self._gates[name]
            board.connect(name, gate.port, paused=name in found.paused)
            if not await self._opened(name, gate):
                board.disconnect(name)
                self._forget(name)

    async def _end(self, name: str, board: Switchboard) -> None:
        gate = self._gates[name]
        self._forget(name)
        board.disconnect(name)
        await gate.port.stop()
        self._log.info("closed", listener=name)

    def _forget(self, name: str) -> None:
        del self._gates[name], self._written[name]

    def _made(self, written: Listener, found: Senders, *, must: bool = False) -> bool:
        try:
            self._gates[written.name] = self._make(written, found.listenings[written.name])
        except (BridgeError, TLSConfigurationError) as error:
            if must:
                raise
            self._complain(written.name, error)
            return False
        self._written[written.name] = written
        return True

    async def _opened(self, name: str, gate: Gate) -> bool:
        """Open a port; tell whether that went well."""
        try:
            await gate.port.start()
        except (BridgeError, OSError) as error:
            self._complain(name, error)
            return False
        self.troubles.pop(name, None)
        return True

    def _complain(self, name: str, error: Exception) -> None:
        """Say once why a listener does not listen, however often it is tried."""
        if name not in self.troubles:
            self._log.error("not listening", listener=name, error=describe(error))
        self.troubles[name] = str(error)
