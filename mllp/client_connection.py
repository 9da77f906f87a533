"""
One connection of a client as a Twisted protocol, and the attempt to open it.

`mllp.client` decides when to send a payload. The connection may be used after the TLS handshake.
"""

from collections.abc import Callable
from typing import Any, cast
from typing import Protocol as Interface

from OpenSSL import SSL
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IHandshakeListener, IReactorTime
from twisted.internet.protocol import Factory, Protocol, connectionDone
from twisted.python.failure import Failure
from typing_extensions import override
from zope.interface import implementer  # type: ignore[import-untyped]  # has no types

from mllp.contract import Clock
from mllp.errors import FramingError
from mllp.framing import Event, FrameReader
from mllp.transport import ImmediateWriter, Transport, is_tls, tune


@implementer(IHandshakeListener)
class ClientConnection(Protocol):
    """One connection; `ready` fires once, with the connection or with the failure."""

    transport: Transport  # type: ignore[assignment]  # Twisted's is optional and knows less

    def __init__(
        self,
        max_frame: int,
        *,
        on_event: Callable[["ClientConnection", Event], object],
        on_framing_error: Callable[["ClientConnection"], object],
        on_closed: Callable[["ClientConnection", Failure], object],
    ) -> None:
        """
        `on_event` handles a frame or noise, `on_closed` the end of a connection that was ready.

        `on_framing_error` handles bytes that are not a frame; nothing more is read.
        """
        self.ready: Deferred[ClientConnection] = Deferred(lambda _: self.abort())
        self.replies_received = 0
        """How many payloads the peer has answered."""
        self._on_event, self._on_framing_error = on_event, on_framing_error
        self._on_closed = on_closed
        self._reader = FrameReader(max_frame)
        self._usable = False
        self._dropped = False

    @override
    def connectionMade(self) -> None:
        tune(self.transport)
        self._outlet = ImmediateWriter(self.transport)
        if not is_tls(self.transport):
            self.handshakeCompleted()

    def handshakeCompleted(self) -> None:  # noqa: N802  # Twisted's name
        """Handle the end of the TLS handshake: the connection may be used."""
        if not self._usable and not self._dropped:
            self._usable = True
            self.ready.callback(self)

    @override
    def dataReceived(self, data: bytes) -> None:
        if not self._dropped:
            self._reader.receive(data)
        try:
            while (event := self._next()) is not None:
                self._on_event(self, event)
        except FramingError:
            self._on_framing_error(self)

    @override
    def connectionLost(self, reason: Failure = connectionDone) -> None:
        self._dropped = True
        if self._usable:
            self._on_closed(self, reason)
        elif not self.ready.called:
            self.ready.errback(reason)

    def _next(self) -> Event | None:
        return None if self._dropped else self._reader.next_event()

    def write(self, data: bytes) -> None:
        """Send bytes."""
        self._outlet.write(data)

    def abort(self) -> None:
        """Close now: received bytes are ignored, unsent bytes are dropped."""
        self._dropped = True
        if self.connected:
            self.transport.abortConnection()

    def close(self) -> None:
        """Close after all bytes are sent."""
        self._dropped = True
        self.transport.loseConnection()


class Endpoint(Interface):
    """The address to connect to: any `IStreamClientEndpoint`."""

    def connect(self, factory: Any, /) -> Deferred[Any]:
        """Connect, and fire with the protocol that the factory made."""


def connect(
    endpoint: Endpoint, make: Callable[[], ClientConnection], *, clock: Clock, timeout: float
) -> Deferred[ClientConnection]:
    """
    Connect, TLS handshake included, within `timeout` seconds; `make` makes the connection.

    Makes one attempt. Cancelling closes the connection.
    """
    attempt = endpoint.connect(Factory.forProtocol(make))
    usable: Deferred[ClientConnection] = attempt.addCallback(_until_ready)
    return usable.addTimeout(timeout, cast(IReactorTime, clock))


def _until_ready(connection: ClientConnection) -> Deferred[ClientConnection]:
    return connection.ready


def cause_of(failure: Failure) -> str:
    """Return why there is no connection: the exception's class, or the TLS library's reason."""
    error = failure.value
    if isinstance(error, SSL.Error) and error.args and error.args[0]:
        return f"TLS: {error.args[0][0][-1]}"
    return type(error).__name__
