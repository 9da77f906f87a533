"""One connection of a client, as Twisted sees it: bytes become events, ends become calls.

It knows when it may be used (under TLS: not before the handshake has succeeded) and nothing
of turns: those are `mllp.client`'s.
"""

from typing import Protocol as Interface

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IHandshakeListener
from twisted.internet.protocol import Protocol, connectionDone
from twisted.python.failure import Failure
from typing_extensions import override
from zope.interface import implementer  # type: ignore[import-untyped]  # has no types

from mllp.errors import FramingError
from mllp.framing import Event, FrameReader
from mllp.transport import Outlet, Wire, is_tls, tune


class Owner(Interface):
    """Who is told what happens on a link."""

    def arrived(self, link: "Link", event: Event) -> None:
        """Take a frame, or noise."""

    def garbled(self, link: "Link") -> None:
        """Take note that what comes is no frame; nothing more is read."""

    def gone(self, link: "Link", reason: Failure) -> None:
        """Take note of the end of a link that had been ready."""


@implementer(IHandshakeListener)
class Link(Protocol):
    """One connection; `ready` fires once, with the link or with why it never was."""

    transport: Wire  # type: ignore[assignment]  # Twisted's is optional and knows less

    def __init__(self, owner: Owner, max_frame: int) -> None:
        self.ready: Deferred[Link] = Deferred(lambda _: self.abort())
        self.served = 0
        """How many payloads it has answered."""
        self._owner = owner
        self._reader = FrameReader(max_frame)
        self._usable = False
        self._dropped = False

    @override
    def connectionMade(self) -> None:
        tune(self.transport)
        self._outlet = Outlet(self.transport)
        if not is_tls(self.transport):
            self.handshakeCompleted()

    def handshakeCompleted(self) -> None:  # noqa: N802  # Twisted's name
        """Take note that the peer is who it should be: the link may be used."""
        if not self._usable and not self._dropped:
            self._usable = True
            self.ready.callback(self)

    @override
    def dataReceived(self, data: bytes) -> None:
        if not self._dropped:
            self._reader.receive(data)
        try:
            while (event := self._next()) is not None:
                self._owner.arrived(self, event)
        except FramingError:
            self._owner.garbled(self)

    @override
    def connectionLost(self, reason: Failure = connectionDone) -> None:
        self._dropped = True
        if self._usable:
            self._owner.gone(self, reason)
        elif not self.ready.called:
            self.ready.errback(reason)

    def _next(self) -> Event | None:
        return None if self._dropped else self._reader.next_event()

    def write(self, data: bytes) -> None:
        """Send."""
        self._outlet.write(data)

    def abort(self) -> None:
        """End it now: nothing that still comes is looked at, nothing unsent is sent."""
        self._dropped = True
        if self.connected:
            self.transport.abortConnection()

    def leave(self) -> None:
        """End it in good order."""
        self._dropped = True
        self.transport.loseConnection()
