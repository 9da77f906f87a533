"""
One connection of a client as a Twisted protocol, and the attempt to open it.

`mllp.client` decides when to send a payload. The connection may be used after the TLS handshake.
"""

from collections.abc import Callable
from typing import Any, cast
from typing import Protocol as Interface

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IHandshakeListener, IReactorTime
from twisted.internet.protocol import Factory, Protocol, connectionDone
from twisted.python.failure import Failure
from typing_extensions import override
from zope.interface import implementer  # type: ignore[import-untyped]  # has no types

from mllp.contract import Clock
from mllp.errors import FramingError, NotConnected
from mllp.framing import END, START, Event, Frame, FrameReader
from mllp.handshakes import describe_handshake
from mllp.transport import ImmediateWriter, Transport, is_tls, tune

MAX_KEPT_BYTES = 4096
"""Bytes without a frame that are kept for people."""

_PADDING = b"\r\n\0\t "
"""Bytes that some peers write between frames."""


class UnframedBytes:
    """The bytes outside of complete frames since the last payload was sent: number and head."""

    __slots__ = ("head", "length")

    def __init__(self) -> None:
        self.head, self.length = b"", 0

    def add(self, length: int, head: bytes) -> None:
        """Add bytes; padding between frames does not count."""
        if length > len(head) or head.strip(_PADDING):
            self.length += length
            self.head += head[: MAX_KEPT_BYTES - len(self.head)]


@implementer(IHandshakeListener)
class ClientConnection(Protocol):
    """One connection; `ready` fires once, with the connection or with the failure."""

    transport: Transport  # type: ignore[assignment]  # Twisted's is optional and knows less

    def __init__(
        self,
        max_frame: int,
        *,
        on_event: Callable[["ClientConnection", Event], object],
        on_framing_error: Callable[["ClientConnection", FramingError], object],
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
        self._reader = FrameReader(max_frame, max_noise=MAX_KEPT_BYTES)
        self._unframed = UnframedBytes()
        self._usable = False
        self._dropped = False
        self._paused = False

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
        self._read()

    def _read(self) -> None:
        try:
            while (event := self._next()) is not None:
                if isinstance(event, Frame):
                    self._unframed = UnframedBytes()
                else:
                    self._unframed.add(event.length, event.head)
                self._on_event(self, event)
        except FramingError as error:
            self._on_framing_error(self, error)

    @override
    def connectionLost(self, reason: Failure = connectionDone) -> None:
        self._dropped = True
        if self._usable:
            self._on_closed(self, reason)
        elif not self.ready.called:
            self.ready.errback(reason)

    def _next(self) -> Event | None:
        return None if self._dropped or self._paused else self._reader.next_event()

    def write(self, data: bytes) -> None:
        """Send bytes."""
        self._unframed = UnframedBytes()
        self._outlet.write(data)

    def pause(self) -> None:
        """Read nothing until `resume`."""
        if not self._paused and not self._dropped:
            self._paused = True
            self.transport.pauseProducing()

    def resume(self) -> None:
        """Read again."""
        if self._paused and not self._dropped:
            self._paused = False
            self.transport.resumeProducing()
            self._read()

    def describe_unframed(self) -> tuple[str, bytes]:
        """
        Return what is wrong with the frame of the bytes since the last payload was sent, and the
        first ones; '' and nothing if none came.
        """
        before, reader = self._unframed, self._reader
        in_frame = reader.in_frame
        length = before.length + (reader.received + len(START) if in_frame else 0)
        if not length:
            return "", b""
        head = before.head + (START + reader.head(MAX_KEPT_BYTES) if in_frame else b"")
        if not in_frame:
            ends = END in before.head
            missing = "a start block" if ends else "a start block or an end block"
        elif reader.ends_with_half_an_end:
            missing = "an end block: FS came without CR"
        else:
            missing = "an end block"
        noun = "byte" if length == 1 else "bytes"
        return f"the receiver sent {length} {noun} without {missing}", head[:MAX_KEPT_BYTES]

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


def cause_of(failure: Failure) -> NotConnected:
    """Return why there is no connection: the handshake in words, or the exception's class."""
    if words := tls_cause_of(failure):
        return NotConnected(words, is_tls=True)
    return NotConnected(type(failure.value).__name__)


def tls_cause_of(failure: Failure) -> str:
    """Return why the TLS handshake failed, '' if it did not."""
    found = describe_handshake(failure.value)
    return found.reason if found else ""
