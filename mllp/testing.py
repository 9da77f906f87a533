"""Test doubles of the MLLP endpoints, and a network in memory. No sockets, no reactor, no threads.

`MemoryServer` is the real server on a network in memory; `MemoryEndpoint` connects a real client
to it; `MemoryClient` replaces a client. Bytes, closes and resets travel when the clock is
advanced, also by 0: `deliver_all` delivers everything.
"""

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Final

from twisted.internet.address import IPv4Address
from twisted.internet.defer import Deferred, fail, succeed
from twisted.internet.error import ConnectionAborted, ConnectionDone, ConnectionLost
from twisted.internet.error import ConnectionRefusedError as Refused
from twisted.internet.interfaces import IHalfCloseableProtocol
from twisted.internet.protocol import Protocol, connectionDone
from twisted.internet.task import Clock
from twisted.python.failure import Failure
from typing_extensions import override

from mllp.contract import Handler, NakBuilder, ServerLimits, ServerObserver
from mllp.errors import NotConnected
from mllp.framing import Frame, FrameReader, frame
from mllp.server import MLLPServerFactory, close_without_nak

END_OF_STREAM: Final = b""


class MemoryTransport:
    """One end of a connection: what Twisted's TCP transports do, without TCP."""

    def __init__(self, clock: Clock, protocol: Any, peer: IPv4Address) -> None:
        self.protocol = protocol
        self.other: MemoryTransport | None = None
        self.open = True
        self.reading = True
        self._clock = clock
        self._peer = peer
        self._inbox: deque[bytes] = deque()
        self._writable = True
        self._producer: Any = None

    def write(self, data: bytes) -> None:
        """Send."""
        if self.open and self._writable and self.other is not None:
            self.other._arrive(data)  # noqa: SLF001  # the other end of this connection

    def loseConnection(self) -> None:  # noqa: N802  # Twisted's name
        """Close."""
        self.loseWriteConnection()
        self._clock.callLater(0, self._lost, ConnectionDone())

    def loseWriteConnection(self) -> None:  # noqa: N802  # Twisted's name
        """Close the writing side; continue to read."""
        if self.open and self._writable and self.other is not None:
            self._writable = False
            self.other._arrive(END_OF_STREAM)  # noqa: SLF001  # the other end of this connection

    def abortConnection(self) -> None:  # noqa: N802  # Twisted's name
        """Close now, with a reset."""
        self._clock.callLater(0, self._lost, ConnectionAborted())
        if self.other is not None:
            self._clock.callLater(0, self.other._lost, ConnectionLost())  # noqa: SLF001  # as above

    def pauseProducing(self) -> None:  # noqa: N802  # Twisted's name
        """Stop reading."""
        self.reading = False

    def resumeProducing(self) -> None:  # noqa: N802  # Twisted's name
        """Read again."""
        self.reading = True
        self._clock.callLater(0, self._deliver)

    def registerProducer(self, producer: object, streaming: bool) -> None:  # noqa: N802  # Twisted's
        """Set the producer to pause when the peer does not read."""
        self._producer = producer

    def unregisterProducer(self) -> None:  # noqa: N802  # Twisted's name
        self._producer = None

    def getPeer(self) -> IPv4Address:  # noqa: N802  # Twisted's name
        return self._peer

    def stall(self) -> None:
        """Simulate a peer that stops reading."""
        if self._producer is not None:
            self._producer.pauseProducing()

    def flow(self) -> None:
        """Simulate a peer that reads again."""
        if self._producer is not None:
            self._producer.resumeProducing()

    def _arrive(self, data: bytes) -> None:
        self._inbox.append(data)
        self._clock.callLater(0, self._deliver)

    def _deliver(self) -> None:
        while self.open and self.reading and self._inbox:
            data = self._inbox.popleft()
            if data:
                self.protocol.dataReceived(data)
            elif IHalfCloseableProtocol.providedBy(self.protocol):
                self.protocol.readConnectionLost()
            else:
                self._lost(ConnectionDone())

    def _lost(self, reason: Exception) -> None:
        if self.open:
            self.loseWriteConnection()
            self.open = False
            self.protocol.connectionLost(Failure(reason))  # type: ignore[no-untyped-call]


def connect_protocols(clock: Clock, server: Any, client: Any) -> None:
    serving = MemoryTransport(clock, server, IPv4Address("TCP", "192.0.2.7", 49152))
    calling = MemoryTransport(clock, client, IPv4Address("TCP", "192.0.2.1", 2575))
    serving.other, calling.other = calling, serving
    server.makeConnection(serving)
    client.makeConnection(calling)


def deliver_all(clock: Clock) -> None:
    """Deliver everything that is under way."""
    clock.advance(0)


class RawConnection(Protocol):
    """One end of a connection: sends and records bytes."""

    transport: MemoryTransport  # type: ignore[assignment]  # Twisted's is optional and knows less

    def __init__(self) -> None:
        self.received = b""
        self.closed = False

    @property
    def frames(self) -> list[bytes]:
        """The payloads of all complete frames received."""
        reader = FrameReader()
        reader.receive(self.received)
        events = iter(reader.next_event, None)
        return [event.payload for event in events if isinstance(event, Frame)]

    @override
    def dataReceived(self, data: bytes) -> None:
        self.received += data

    @override
    def connectionLost(self, reason: Failure = connectionDone) -> None:
        self.closed = True

    def write(self, data: bytes) -> None:
        """Send bytes."""
        self.transport.write(data)

    def send(self, *payloads: bytes) -> None:
        self.transport.write(b"".join(map(frame, payloads)))

    def close(self) -> None:
        """Close after everything is sent."""
        self.transport.loseConnection()

    def reset(self) -> None:
        self.transport.abortConnection()


class MemoryCaller(RawConnection):
    """A sender's end; each method delivers everything."""

    def __init__(self, clock: Clock) -> None:
        super().__init__()
        self._clock = clock

    @override
    def write(self, data: bytes) -> None:
        super().write(data)
        deliver_all(self._clock)

    @override
    def send(self, *payloads: bytes) -> None:
        super().send(*payloads)
        deliver_all(self._clock)

    @override
    def close(self) -> None:
        super().close()
        deliver_all(self._clock)

    @override
    def reset(self) -> None:
        super().reset()
        deliver_all(self._clock)

    def end_writing(self) -> None:
        """Close the writing side; continue to read."""
        self.transport.loseWriteConnection()
        deliver_all(self._clock)

    def exchange(self, payload: bytes) -> list[bytes]:
        """Send one payload and return the replies."""
        before = len(self.frames)
        self.send(payload)
        return self.frames[before:]


class MemoryServer:
    """The real server, called by `MemoryCaller`s; the test advances `clock`."""

    def __init__(
        self,
        handle: Handler,
        limits: ServerLimits | None = None,
        *,
        clock: Clock | None = None,
        observer: ServerObserver | None = None,
        on_unframed: NakBuilder = close_without_nak,
    ) -> None:
        self.clock = clock or Clock()
        self.factory = MLLPServerFactory(
            handle, limits, clock=self.clock, observer=observer, on_unframed=on_unframed
        )

    def connect(self) -> MemoryCaller:
        caller = MemoryCaller(self.clock)
        connect_protocols(self.clock, self.factory.buildProtocol(None), caller)
        deliver_all(self.clock)
        return caller

    @property
    def endpoint(self) -> "MemoryEndpoint":
        """The endpoint for a real client."""
        return MemoryEndpoint(self.clock, lambda: self.factory.buildProtocol(None))


class MemoryEndpoint:
    """Connects a client to the protocols that `accept` makes; see `refusing` and `mute`."""

    def __init__(self, clock: Clock, accept: Callable[[], Any] = RawConnection) -> None:
        self.refusing = False
        """Whether attempts fail at once."""
        self.mute = False
        """Whether attempts neither succeed nor fail."""
        self.attempts = 0
        self.accepted: list[Any] = []
        """The server's end of each connection."""
        self._clock = clock
        self.accept = accept
        """Makes the server's end of the next connection."""

    def connect(self, factory: Any, /) -> Deferred[Any]:
        self.attempts += 1
        if self.refusing:
            return fail(Refused())  # type: ignore[no-untyped-call]
        if self.mute:
            return Deferred()
        server, client = self.accept(), factory.buildProtocol(None)
        self.accepted.append(server)
        connect_protocols(self._clock, server, client)
        return succeed(client)


class MemoryClient:
    """
    Replaces `MLLPClient` in tests.

    `answer` returns the reply, raises the error of `send`, or returns None: then the test fires
    the reply in `pending`.
    """

    def __init__(self, answer: Callable[[bytes], bytes | None]) -> None:
        self.sent: list[bytes] = []
        self.pending: list[Deferred[bytes]] = []
        self.closed = False
        self._answer = answer

    def send(self, payload: bytes) -> Deferred[bytes]:
        if self.closed:
            return fail(NotConnected())
        self.sent.append(payload)
        try:
            reply = self._answer(payload)
        except Exception as error:  # noqa: BLE001  # whatever the test wants it to be
            return fail(error)
        if reply is not None:
            return succeed(reply)
        self.pending.append(Deferred())
        return self.pending[-1]

    def close(self) -> Deferred[None]:
        self.closed = True
        return succeed(None)


class MemoryPeer:
    """A `Peer` for calling a handler without a server."""

    accepts_later_frames = True

    def __init__(self, host: str = "192.0.2.7", port: int = 49152, connection_id: int = 1) -> None:
        self.host, self.port, self.connection_id = host, port, connection_id
        self.sent: list[bytes] = []
        self.gone = False

    def send(self, payload: bytes) -> bool:
        """Record the payload, unless gone."""
        if not self.gone:
            self.sent.append(payload)
        return not self.gone


def answering(reply: Callable[[bytes], Sequence[bytes]]) -> Handler:
    """Return a handler that answers at once."""
    return lambda arrived, _peer, done: done(reply(arrived.payload))
