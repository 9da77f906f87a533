"""MLLP server: a Twisted factory that frames, bounds and orders; a handler answers.

The turns are `mllp.session`'s; here are the connection's beginning, its end, and the
time-outs that have to do with neither frames nor replies.

It does not bind ports, knows no TLS settings (`mllp.tls` makes them) and no HL7.
"""

from collections.abc import Callable
from itertools import count

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IAddress, IHalfCloseableProtocol, IHandshakeListener
from twisted.internet.protocol import Factory, Protocol, connectionDone
from twisted.python.failure import Failure
from typing_extensions import override
from zope.interface import implementer  # type: ignore[import-untyped]  # has no types

from mllp.admission import Activity, Admission, Ceiling, Refusal, source_of
from mllp.contract import (
    Clock,
    Deadline,
    Handler,
    NakBuilder,
    Pace,
    Peer,
    ServerLimits,
    ServerObserver,
    Service,
    Timer,
    directly,
)
from mllp.errors import FramingError
from mllp.framing import frame
from mllp.memory_budget import FrameBudget
from mllp.session import Conversation
from mllp.transport import Gate, Gathering, Hold, Outlet, Wire, end_writing, is_tls, tune

LINGER = 2.0
"""How long a connection that we end still swallows what the peer is sending: closing with
unread bytes resets the connection, and a reset can overtake our last reply."""


@implementer(IHalfCloseableProtocol, IHandshakeListener)
class ServerConnection(Protocol):
    """One connection, and the `Peer` that its handler sees."""

    transport: Wire  # type: ignore[assignment]  # Twisted's is optional and knows less

    def __init__(
        self,
        service: Service,
        connection_id: int,
        on_gone: Callable[["ServerConnection"], None],
        source: str = "",
    ) -> None:
        self.host, self.port, self.connection_id = "", 0, connection_id
        self.source = source
        self._active = service.clock.seconds()  # when it came, or when it answered last
        self._observer = service.observer
        self._on_gone = on_gone
        self._gate = Gate()
        self._eof = False  # the peer will send no more
        self._shaking = False  # the TLS handshake is not over
        self._ended = False  # nothing more is written: we have closed, or are gone
        limits, clock = service.limits, service.clock
        self._clock = clock
        self._rest: Timer | None = None  # while large frames are read too fast
        self._idle = Deadline(clock, limits.idle_timeout, self._idle_overdue)
        self._stalled = Deadline(clock, limits.write_timeout, self.abort)
        self._handshake = Deadline(clock, limits.frame_timeout, self.abort)
        self._lingering = Deadline(clock, LINGER, self.abort)
        self._turns = Conversation(
            service, self, self._gate, source=source, write=self._write, end=self._end
        )

    # What the transport calls

    @override
    def connectionMade(self) -> None:
        address = self.transport.getPeer()
        self.host, self.port = getattr(address, "host", ""), getattr(address, "port", 0)
        tune(self.transport)
        self._outlet = Outlet(self.transport)
        self.transport.registerProducer(self, True)
        self._observer.connection_opened(self)
        self._gate.attach(self.transport)
        self._idle.start()
        if is_tls(self.transport):
            self._shaking = True
            self._handshake.start()

    def handshakeCompleted(self) -> None:  # noqa: N802  # Twisted's name
        """Take note that TLS stands."""
        self._shaking = False
        self._handshake.stop()

    @override
    def dataReceived(self, data: bytes) -> None:
        if not self._ended:
            self._idle.touch()
            rest = self._turns.receive(data)
            if rest and not self._gate.holds:
                self.transport.pauseProducing()
                self._rest = self._clock.callLater(rest, self._rested)

    def readConnectionLost(self) -> None:  # noqa: N802  # Twisted's name
        """Answer what is in hand: the peer has only said that it will send no more."""
        self._eof = True
        self._gate.detach()
        if self._ended:
            self.transport.loseConnection()
        else:
            self._turns.receive_eof()

    def writeConnectionLost(self) -> None:  # noqa: N802  # Twisted's name
        """Nothing to do: it was us who ended the writing side."""

    @override
    def connectionLost(self, reason: Failure = connectionDone) -> None:
        self._ended = True
        self._gate.detach()
        for deadline in (self._handshake, self._idle, self._stalled, self._lingering):
            deadline.stop()
        self._turns.stop()
        if self._rest is not None:
            self._rest.cancel()
        self._gate.hold(Hold.ENDING)
        if self._shaking:
            self._observer.handshake_failed(self)
        self._observer.connection_closed(self)
        self._on_gone(self)

    def pauseProducing(self) -> None:  # noqa: N802  # Twisted's name
        """Read no more: what we wrote has not been taken."""
        self._stalled.start()
        self._turns.hold(Hold.OUTPUT)

    def resumeProducing(self) -> None:  # noqa: N802  # Twisted's name
        """Read again: what we wrote has been taken."""
        self._stalled.stop()
        self._turns.let_go(Hold.OUTPUT)

    def stopProducing(self) -> None:  # noqa: N802  # Twisted's name
        """Nothing to do: `connectionLost` follows."""

    # What the factory and the handler call

    def send(self, payload: bytes) -> bool:
        """Send a frame that answers no frame; False when the connection is gone or ending."""
        if self._ended:
            return False
        self._outlet.write(frame(payload))
        return True

    def pause(self) -> None:
        """Read no more until `resume`; answer what is in hand."""
        self._turns.hold(Hold.OPERATOR)

    def resume(self) -> None:
        """Read again."""
        self._turns.let_go(Hold.OPERATOR)

    def finish(self) -> None:
        """Take no further frame, answer those in hand, close."""
        self._turns.hold(Hold.ENDING)
        if not self._turns.in_hand and not self._ended:
            self._leave()
            self.transport.loseConnection()

    @property
    def activity(self) -> Activity:
        """What the connection is doing, as far as admission control is concerned."""
        if self._turns.in_hand:
            return Activity.BUSY
        return Activity.UNFINISHED if self._turns.frame_began else Activity.IDLE

    @property
    def since(self) -> float:
        """When it became idle, or when its unfinished frame began (s of the clock)."""
        return self._turns.began if self._turns.frame_began else self._active

    def evict(self) -> None:
        """Close in favour of another connection; an unfinished frame is refused."""
        self._observer.evicted(self.host)
        if self._shaking or self._turns.frame_began or self._ended:
            self.abort()
        else:
            self.finish()
            self._lingering.start()  # a peer that does not take our last reply must not stay

    def abort(self) -> None:
        """Close now."""
        self.transport.abortConnection()

    def _rested(self) -> None:
        """Read on, unless somebody has a reason not to."""
        self._rest = None
        if not self._gate.holds:
            self.transport.resumeProducing()

    # What the turns call, and the time-outs

    def _write(self, data: bytes) -> None:
        self._idle.touch()
        self._active = self._clock.seconds()
        self._outlet.write(data)

    def _end(self) -> None:
        """Close, so that what we have written arrives: swallow the rest of what is sent to us."""
        self._leave()
        if self._eof:
            self.transport.loseConnection()
        else:
            self._lingering.start()
            self._gate.detach()
            self.transport.resumeProducing()
            end_writing(self.transport)

    def _leave(self) -> None:
        self._ended = True
        self._idle.stop()
        self.transport.unregisterProducer()

    def _idle_overdue(self) -> None:
        if self._turns.quiet and not self._gate.holds:
            self.finish()
        else:
            self._idle.start()


__all__ = [
    "Handler",
    "MLLPServerFactory",
    "NakBuilder",
    "Peer",
    "ServerLimits",
    "ServerObserver",
    "close_in_silence",
]


def close_in_silence(_error: FramingError, _head: bytes) -> None:
    """Answer nothing to what is no frame: the connection just closes."""


class _Refused(Protocol):
    """A connection closed at accept. (Returning None would not do: TLS wraps what it is given.)"""

    transport: Wire  # type: ignore[assignment]  # Twisted's is optional and knows less

    @override
    def connectionMade(self) -> None:
        self.transport.loseConnection()


class MLLPServerFactory(Factory):
    """
    Makes the connections of one listener.

    `handle` gets every whole frame, truncated ones too (`Frame.truncated`), and answers for
    them. `clock` is the reactor, or a `twisted.internet.task.Clock`.
    """

    noisy = False

    def __init__(
        self,
        handle: Handler,
        limits: ServerLimits | None = None,
        *,
        clock: Clock,
        observer: ServerObserver | None = None,
        on_unframed: NakBuilder = close_in_silence,
        grace: float = 30.0,
        budget: FrameBudget | None = None,
        ceiling: Ceiling | None = None,
    ) -> None:
        """`budget` and `ceiling` are shared with the other listeners of the process."""
        limits = limits or ServerLimits()
        self._service = Service(
            directly(handle),
            limits,
            clock,
            observer or ServerObserver(),
            on_unframed,
            Pace(),
            budget or FrameBudget(),
        )
        self._admission = Admission(
            limits.max_connections,
            per_source=limits.max_connections_per_source,
            allow=limits.allow,
            ceiling=ceiling,
        )
        self._ids = count(1)
        self._connections: Gathering[ServerConnection] = Gathering(clock, grace)
        self._paused = False
        self._draining = False

    @property
    def connections(self) -> int:
        """How many connections are open."""
        return len(self._connections)

    @property
    def paused(self) -> bool:
        """Whether the listener is paused."""
        return self._paused

    @override
    def buildProtocol(self, addr: IAddress | None) -> Protocol:
        host = getattr(addr, "host", "")
        reason = (
            Refusal.DRAINING
            if self._draining
            else self._admission.request(host, self._service.clock.seconds())
        )
        if reason is not None:
            self._service.observer.refused(reason, host)
            return _Refused()
        connection = ServerConnection(self._service, next(self._ids), self._left, source_of(host))
        self._admission.enter(connection)
        connection.factory = self
        if self._paused:
            connection.pause()
        self._connections.add(connection)
        return connection

    def _left(self, connection: ServerConnection) -> None:
        self._admission.leave(connection)
        self._connections.discard(connection)

    def pause(self) -> None:
        """Read from nobody. Connections stay and come; frames in hand are answered."""
        self._paused = True
        for connection in self._connections.all():
            connection.pause()

    def resume(self) -> None:
        """Read again."""
        self._paused = False
        for connection in self._connections.all():
            connection.resume()

    def drain(self) -> Deferred[None]:
        """
        Stop for good: read no more, answer the frames in hand, close.

        Fires when all connections have ended; after `grace` seconds they are aborted. The
        listening port is its owner's to stop, before this.
        """
        self._draining = True
        for connection in self._connections.all():
            connection.finish()
        return self._connections.ended()
