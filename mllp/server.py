"""
The listening side: a Twisted factory that frames, bounds and orders; a handler answers.

It does not bind ports, knows no TLS settings (`mllp.tls` makes them) and no HL7.
"""

from itertools import count

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IAddress
from twisted.internet.protocol import Factory, Protocol
from typing_extensions import override

from mllp.admission import Admission, Ceiling, Refusal, source_of
from mllp.budget import FrameBudget
from mllp.connection import ServerConnection
from mllp.contract import (
    Clock,
    Handler,
    NakBuilder,
    Peer,
    ServerLimits,
    ServerObserver,
    Service,
)
from mllp.errors import FramingError
from mllp.gathering import Gathering
from mllp.pace import Pace
from mllp.telling import directly
from mllp.wire import Wire

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
