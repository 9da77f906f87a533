"""
One connection of a server, as Twisted sees it: what the transport says and is told.

The turns are `mllp.conversation`'s; here are the connection's beginning, its end, and the
time-outs that have to do with neither frames nor replies.
"""

from collections.abc import Callable

from twisted.internet.interfaces import IHalfCloseableProtocol, IHandshakeListener
from twisted.internet.protocol import Protocol, connectionDone
from twisted.python.failure import Failure
from typing_extensions import override
from zope.interface import implementer  # type: ignore[import-untyped]  # has no types

from mllp.admission import Activity
from mllp.contract import Service, Timer
from mllp.conversation import Conversation
from mllp.deadline import Deadline
from mllp.framing import frame
from mllp.gate import Gate, Hold
from mllp.wire import Outlet, Wire, end_writing, is_tls, tune

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
