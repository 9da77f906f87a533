"""
The listening side: a Twisted factory that frames, bounds and orders; a handler answers.

It does not bind ports, knows no TLS settings (`mllp.tls` makes them) and no HL7.
"""

from itertools import count

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IAddress
from twisted.internet.protocol import Factory, Protocol
from typing_extensions import override

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
    ) -> None:
        self._service = Service(
            directly(handle),
            limits or ServerLimits(),
            clock,
            observer or ServerObserver(),
            on_unframed,
            Pace(),
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
        if self._draining or len(self._connections) >= self._service.limits.max_connections:
            self._service.observer.connection_refused()
            return _Refused()
        connection = ServerConnection(self._service, next(self._ids), self._connections.discard)
        connection.factory = self
        if self._paused:
            connection.pause()
        self._connections.add(connection)
        return connection

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
