"""A listener, on a socket or a folder, as something that starts, stops and can be paused."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Protocol

import structlog
from twisted.internet.error import CannotListenError

from bridge.errors import BridgeError
from bridge.runtime.schedule import Job, Schedule
from bridge.transports.folders.intake import FolderListener


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
