"""Twisted transports as one typed interface: flow control, open connections, shared ports."""

import socket
from enum import Enum, auto
from typing import Any, Generic, Protocol, TypeVar, cast

from twisted.internet.defer import Deferred, fail, succeed
from twisted.internet.error import CannotListenError
from twisted.internet.interfaces import ISSLTransport, IStreamServerEndpoint
from twisted.protocols.tls import TLSMemoryBIOFactory
from zope.interface import implementer  # type: ignore[import-untyped]  # has no types

from mllp.contract import Clock, Deadline

KEEP_ALIVE_SECONDS = 120
"""
Idle time after which TCP checks whether the peer is alive: firewalls forget connections after 5
to 10 minutes, and the kernel's default is two hours.
"""


class Transport(Protocol):
    """A TCP transport, plain or under TLS."""

    def write(self, data: bytes) -> None:
        """Send, or buffer until it can be sent."""

    def loseConnection(self) -> None:  # noqa: N802  # Twisted's name
        """Close when everything is written."""

    def abortConnection(self) -> None:  # noqa: N802  # Twisted's name
        """Close now, with a reset."""

    def pauseProducing(self) -> None:  # noqa: N802  # Twisted's name
        """Stop reading."""

    def resumeProducing(self) -> None:  # noqa: N802  # Twisted's name
        """Read again."""

    def registerProducer(self, producer: object, streaming: bool) -> None:  # noqa: N802  # Twisted's
        """Set the producer to pause while the peer does not read."""

    def unregisterProducer(self) -> None:  # noqa: N802  # Twisted's name
        """Remove the producer."""

    def getPeer(self) -> Any:  # noqa: N802  # Twisted's name
        """Return the peer's address."""


def is_tls(transport: Transport) -> bool:
    return bool(ISSLTransport.providedBy(transport))


def tls_refusal(transport: Transport) -> object:
    """Return what the options of a listener have kept about a refused certificate, else None."""
    handle = getattr(transport, "getHandle", lambda: None)()
    return getattr(handle, "get_app_data", lambda: None)()


def end_writing(transport: Transport) -> None:
    """Close the writing side but continue to read, if the transport can do that."""
    if not is_tls(transport) and hasattr(transport, "loseWriteConnection"):
        transport.loseWriteConnection()
    else:
        transport.loseConnection()


class ImmediateWriter:
    """
    Writes to the socket at once instead of in the reactor's next turn.

    A reply is small and the peer waits for it: usually the socket takes it whole. If it does
    not, the transport's own buffer is used from then on.
    """

    __slots__ = ("_send", "_transport")

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        handle = None if is_tls(transport) else getattr(transport, "getHandle", lambda: None)()
        self._send = handle.send if isinstance(handle, socket.socket) else None

    def write(self, data: bytes) -> None:
        """Send, or buffer until it can be sent."""
        if self._send is not None:
            try:
                sent = self._send(data)
            except OSError:  # full or gone: the transport handles it
                sent = 0
            if sent == len(data):
                return
            self._send = None  # from now on, buffered bytes go first
            data = data[sent:]
        self._transport.write(data)


def tune(transport: Transport) -> None:
    """Enable keep-alive, and disable the delay of small packets."""
    tcp = cast(Any, transport)
    if not hasattr(tcp, "setTcpKeepAlive"):
        return
    tcp.setTcpNoDelay(True)
    tcp.setTcpKeepAlive(True)
    handle = (tcp.transport if is_tls(transport) else tcp).getHandle()
    if isinstance(handle, socket.socket) and hasattr(socket, "TCP_KEEPIDLE"):
        handle.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, KEEP_ALIVE_SECONDS)


class PauseReason(Enum):
    """Why a connection is not read."""

    WINDOW = auto()
    """The limit of unanswered frames is reached."""
    MEMORY = auto()
    """All memory for unfinished frames is in use."""
    OUTPUT = auto()
    """The peer does not read our replies."""
    OPERATOR = auto()
    """The listener is paused."""
    ENDING = auto()
    """No more frames are accepted."""


class ReadGate:
    """Pauses reading of one connection while there is a reason; the reasons are independent."""

    __slots__ = ("_transport", "reasons")

    def __init__(self) -> None:
        self.reasons: set[PauseReason] = set()
        """Empty: the connection is read. Change it by the methods only."""
        self._transport: Transport | None = None

    def attach(self, transport: Transport) -> None:
        """Control this transport from now on."""
        self._transport = transport
        if self.reasons:
            transport.pauseProducing()

    def detach(self) -> None:
        """Stop controlling the transport."""
        self._transport = None

    def pause(self, reason: PauseReason) -> None:
        if not self.reasons and self._transport is not None:
            self._transport.pauseProducing()
        self.reasons.add(reason)

    def resume(self, reason: PauseReason) -> bool:
        """Remove a reason; continue reading if it was the last one; True if it was."""
        if reason not in self.reasons:
            return False
        self.reasons.remove(reason)
        if self.reasons:
            return False
        if self._transport is not None:
            self._transport.resumeProducing()
        return True


class Abortable(Protocol):
    """A connection that can be closed."""

    def abort(self) -> None:
        """Close now."""


ConnectionT = TypeVar("ConnectionT", bound=Abortable)


class ConnectionSet(Generic[ConnectionT]):
    """A set of open connections; `grace` is the time in seconds that they have to end."""

    def __init__(self, clock: Clock, grace: float) -> None:
        self._present: set[ConnectionT] = set()
        self._waiting: list[Deferred[None]] = []
        self._deadline = Deadline(clock, grace, self._abort_all)

    def __len__(self) -> int:
        return len(self._present)

    def all(self) -> tuple[ConnectionT, ...]:
        """Return the connections; the set may change during an iteration."""
        return tuple(self._present)

    def add(self, connection: ConnectionT) -> None:
        self._present.add(connection)

    def discard(self, connection: ConnectionT) -> None:
        """Remove a connection that has ended."""
        self._present.discard(connection)
        if not self._present:
            self._deadline.stop()
            waiting, self._waiting = self._waiting, []
            for done in waiting:
                done.callback(None)

    def ended(self) -> Deferred[None]:
        """Fire when none is left; after the grace time they are aborted."""
        if not self._present:
            return succeed(None)
        if not self._deadline.running:
            self._deadline.start()
        done: Deferred[None] = Deferred()
        self._waiting.append(done)
        return done

    def _abort_all(self) -> None:
        for connection in self.all():
            connection.abort()


@implementer(IStreamServerEndpoint)
class SharedPort:
    """
    A server endpoint whose port several processes share (SO_REUSEPORT), with TLS if `tls` is
    given.

    All processes must use it and run as the same user. Linux and BSD only.
    """

    def __init__(
        self, reactor: Any, host: str, port: int, *, backlog: int, tls: Any = None
    ) -> None:
        self._reactor = reactor
        self._host, self._port = host, port
        self._backlog = backlog
        self._tls = tls

    def listen(self, protocolFactory: Any) -> Deferred[Any]:  # noqa: N803  # Twisted's name
        """Listen; fire with the port, or fail with CannotListenError."""
        family = socket.AF_INET6 if ":" in self._host else socket.AF_INET
        factory = protocolFactory
        if self._tls is not None:
            factory = TLSMemoryBIOFactory(self._tls, False, factory)
        with socket.socket(family, socket.SOCK_STREAM) as created:
            created.setblocking(False)
            try:
                created.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                created.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
                created.bind((self._host, self._port))
                created.listen(self._backlog)
            except OSError as error:
                return fail(CannotListenError(self._host, self._port, error))  # type: ignore[no-untyped-call]
            # The reactor keeps a duplicate of the descriptor.
            return succeed(self._reactor.adoptStreamPort(created.fileno(), family, factory))
