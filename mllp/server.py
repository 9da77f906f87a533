"""MLLP server: a Twisted factory. It frames, limits and orders; a handler answers.

`mllp.session` handles frames and replies. This module handles the begin and end of connections
and their timeouts. It does not bind ports and knows no HL7.
"""

from collections.abc import Callable
from itertools import count

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IAddress, IHalfCloseableProtocol, IHandshakeListener
from twisted.internet.protocol import Factory, Protocol, connectionDone
from twisted.python.failure import Failure
from typing_extensions import override
from zope.interface import implementer  # type: ignore[import-untyped]  # has no types

from mllp.admission import (
    Admission,
    AdmissionRefusal,
    ConnectionActivity,
    SharedConnectionLimit,
    source_of,
)
from mllp.contract import (
    Clock,
    Deadline,
    Handler,
    ListenerContext,
    NakBuilder,
    ReadThrottle,
    ServerLimits,
    ServerObserver,
    SharedWindow,
    Timer,
)
from mllp.errors import FramingError
from mllp.framing import frame
from mllp.handshakes import incoming_failure
from mllp.memory_budget import FrameBudget
from mllp.session import ServerSession
from mllp.transport import (
    ConnectionSet,
    ImmediateWriter,
    PauseReason,
    ReadGate,
    Transport,
    end_writing,
    is_tls,
    tls_refusal,
    tune,
)

LINGER_SECONDS = 2.0
"""
Seconds for which a connection that we end still reads: closing with unread bytes resets the
connection, and a reset can overtake our last reply.
"""


@implementer(IHalfCloseableProtocol, IHandshakeListener)
class ServerConnection(Protocol):
    """One connection, and the `Peer` for its handler."""

    transport: Transport  # type: ignore[assignment]  # Twisted's is optional and knows less
    accepts_later_frames = True

    def __init__(
        self,
        context: ListenerContext,
        connection_id: int,
        on_gone: Callable[["ServerConnection"], None],
        source: str = "",
    ) -> None:
        self.host, self.port, self.connection_id = "", 0, connection_id
        self.source = source
        self._active_at = context.clock.seconds()  # time of accept, or of the last reply
        self._observer = context.observer
        self._on_gone = on_gone
        self._gate = ReadGate()
        self._eof = False  # whether the peer has closed its sending side
        self._in_handshake = False  # whether the TLS handshake is in progress
        self._ended = False  # whether nothing more is written
        limits, clock = context.limits, context.clock
        self._clock = clock
        self._pause_timer: Timer | None = None  # runs while large frames arrive too fast
        self._idle = Deadline(clock, limits.idle_timeout, self._on_idle_timeout)
        self._stalled = Deadline(clock, limits.write_timeout, self.abort)
        self._handshake = Deadline(clock, limits.frame_timeout, self._on_handshake_timeout)
        self._handshake_timeout, self._handshake_timed_out = limits.frame_timeout, False
        self._lingering = Deadline(clock, LINGER_SECONDS, self.abort)
        self._session = ServerSession(
            context, self, self._gate, source=source, write=self._write, end=self._end
        )

    # Called by the transport

    @override
    def connectionMade(self) -> None:
        address = self.transport.getPeer()
        self.host, self.port = getattr(address, "host", ""), getattr(address, "port", 0)
        tune(self.transport)
        self._outlet = ImmediateWriter(self.transport)
        self.transport.registerProducer(self, True)
        self._observer.connection_opened(self)
        self._gate.attach(self.transport)
        self._idle.start()
        if is_tls(self.transport):
            self._in_handshake = True
            self._handshake.start()

    def handshakeCompleted(self) -> None:  # noqa: N802  # Twisted's name
        """Handle the end of the TLS handshake."""
        self._in_handshake = False
        self._handshake.stop()

    @override
    def dataReceived(self, data: bytes) -> None:
        if not self._ended:
            self._idle.touch()
            pause = self._session.receive(data)
            if pause and not self._gate.reasons:
                self.transport.pauseProducing()
                self._pause_timer = self._clock.callLater(pause, self._resume_reading)

    def readConnectionLost(self) -> None:  # noqa: N802  # Twisted's name
        """Handle a half-close: the peer sends no more, but frames are still answered."""
        self._eof = True
        self._gate.detach()
        if self._ended:
            self.transport.loseConnection()
        else:
            self._session.receive_eof()

    def writeConnectionLost(self) -> None:  # noqa: N802  # Twisted's name
        """Do nothing: we ended the writing side ourselves."""

    @override
    def connectionLost(self, reason: Failure = connectionDone) -> None:
        self._ended = True
        self._gate.detach()
        for deadline in (self._handshake, self._idle, self._stalled, self._lingering):
            deadline.stop()
        self._session.stop()
        if self._pause_timer is not None:
            self._pause_timer.cancel()
        self._gate.hold(PauseReason.ENDING)
        if self._in_handshake:
            timeout = self._handshake_timeout if self._handshake_timed_out else None
            why = incoming_failure(reason, tls_refusal(self.transport), timed_out=timeout)
            self._observer.handshake_failed(self.host, why)
        self._observer.connection_closed(self)
        self._on_gone(self)

    def pauseProducing(self) -> None:  # noqa: N802  # Twisted's name
        """Stop reading: the peer does not read what we wrote."""
        self._stalled.start()
        self._session.hold(PauseReason.OUTPUT)

    def resumeProducing(self) -> None:  # noqa: N802  # Twisted's name
        """Read again: the peer has read what we wrote."""
        self._stalled.stop()
        self._session.release(PauseReason.OUTPUT)

    def stopProducing(self) -> None:  # noqa: N802  # Twisted's name
        """Do nothing: `connectionLost` follows."""

    # Called by the factory and the handler

    def send(self, payload: bytes) -> bool:
        """Send a frame that is not a reply; False if the connection is gone or ending."""
        if self._ended:
            return False
        self._outlet.write(frame(payload))
        return True

    def pause(self) -> None:
        """Stop reading until `resume`; frames that have arrived are answered."""
        self._session.hold(PauseReason.OPERATOR)

    def resume(self) -> None:
        """Read again."""
        self._session.release(PauseReason.OPERATOR)

    def finish(self) -> None:
        """Accept no more frames, answer those that have arrived, close."""
        self._session.hold(PauseReason.ENDING)
        if not self._session.unanswered and not self._ended:
            self._stop_writing()
            self.transport.loseConnection()

    @property
    def activity(self) -> ConnectionActivity:
        """What the connection is doing, for admission control."""
        if self._session.unanswered:
            return ConnectionActivity.BUSY
        return ConnectionActivity.UNFINISHED if self._session.in_frame else ConnectionActivity.IDLE

    @property
    def since(self) -> float:
        """When it became idle, or when its unfinished frame began (seconds of the clock)."""
        return self._session.frame_started_at if self._session.in_frame else self._active_at

    def evict(self) -> None:
        """Close in favour of another connection; an unfinished frame is refused."""
        self._observer.evicted(self.host)
        if self._in_handshake or self._session.in_frame or self._ended:
            self.abort()
        else:
            self.finish()
            self._lingering.start()  # a peer that does not read our last reply must not stay

    def abort(self) -> None:
        """Close now."""
        self.transport.abortConnection()

    def _resume_reading(self) -> None:
        """Read again, unless there is another reason to pause."""
        self._pause_timer = None
        if not self._gate.reasons:
            self.transport.resumeProducing()

    # Called by the session, and timeouts

    def _write(self, data: bytes) -> None:
        self._idle.touch()
        self._active_at = self._clock.seconds()
        self._outlet.write(data)

    def _end(self) -> None:
        """Close so that the peer gets all replies: read and drop what it still sends."""
        self._stop_writing()
        if self._eof:
            self.transport.loseConnection()
        else:
            self._lingering.start()
            self._gate.detach()
            self.transport.resumeProducing()
            end_writing(self.transport)

    def _stop_writing(self) -> None:
        self._ended = True
        self._idle.stop()
        self.transport.unregisterProducer()

    def _on_handshake_timeout(self) -> None:
        self._handshake_timed_out = True
        self.abort()

    def _on_idle_timeout(self) -> None:
        if self._session.is_idle and not self._gate.reasons:
            self.finish()
        else:
            self._idle.start()


def close_without_nak(_error: FramingError, _head: bytes) -> None:
    """Send nothing for an abandoned frame: the connection just closes."""


class _RejectedConnection(Protocol):
    """
    A connection that is closed at accept. (Returning None would not work: TLS wraps the
    protocol.)
    """

    transport: Transport  # type: ignore[assignment]  # Twisted's is optional and knows less

    @override
    def connectionMade(self) -> None:
        self.transport.loseConnection()


class MLLPServerFactory(Factory):
    """
    Makes the connections of one listener.

    `handle` gets every complete frame, truncated ones too (`Frame.truncated`). `clock` is the
    reactor, or a `twisted.internet.task.Clock`.
    """

    noisy = False

    def __init__(
        self,
        handle: Handler,
        limits: ServerLimits | None = None,
        *,
        clock: Clock,
        observer: ServerObserver | None = None,
        on_unframed: NakBuilder = close_without_nak,
        grace: float = 30.0,
        budget: FrameBudget | None = None,
        shared_limit: SharedConnectionLimit | None = None,
    ) -> None:
        """`budget` and `shared_limit` are shared with the other listeners of the process."""
        limits = limits or ServerLimits()
        self._context = ListenerContext(
            handle,
            limits,
            clock,
            observer or ServerObserver(),
            on_unframed,
            ReadThrottle(),
            budget or FrameBudget(),
            SharedWindow(limits.window, limits.shared_window),
        )
        self._admission = Admission(
            limits.max_connections,
            per_source=limits.max_connections_per_source,
            allow=limits.allow,
            shared_limit=shared_limit,
        )
        self._ids = count(1)
        self._connections: ConnectionSet[ServerConnection] = ConnectionSet(clock, grace)
        self._paused = False
        self._draining = False

    @property
    def connections(self) -> int:
        """How many connections are open."""
        return len(self._connections)

    @property
    def paused(self) -> bool:
        return self._paused

    @override
    def buildProtocol(self, addr: IAddress | None) -> Protocol:
        host = getattr(addr, "host", "")
        reason = (
            AdmissionRefusal.DRAINING
            if self._draining
            else self._admission.request(host, self._context.clock.seconds())
        )
        if reason is not None:
            self._context.observer.refused(reason, host)
            return _RejectedConnection()
        connection = ServerConnection(self._context, next(self._ids), self._remove, source_of(host))
        self._admission.enter(connection)
        connection.factory = self
        if self._paused:
            connection.pause()
        self._connections.add(connection)
        return connection

    def _remove(self, connection: ServerConnection) -> None:
        self._admission.leave(connection)
        self._connections.discard(connection)

    def pause(self) -> None:
        """
        Stop reading. Connections stay open and new ones are accepted; received frames are
        answered.
        """
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
        Stop for good: stop reading, answer the frames that have arrived, close.

        Fires when all connections have ended; after `grace` seconds they are aborted. The owner
        of the listening port stops it first.
        """
        self._draining = True
        for connection in self._connections.all():
            connection.finish()
        return self._connections.ended()
