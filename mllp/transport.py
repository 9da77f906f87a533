"""Twisted transports as one typed interface: flow control, open connections, shared ports.

Decides nothing about frames.

The reasons are independent; the transport is told only when the first comes or the last goes.

Opens and closes none, except those that outstay the wait.

SO_REUSEPORT. All of them must ask for it, and run as one user. Linux and BSDs.
"""

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
"""Silence after which TCP asks whether the peer is still there: firewalls forget after 5 to 10
minutes, and the kernel's own default is two hours."""


class Wire(Protocol):
    """A TCP transport, plain or under TLS."""

    def write(self, data: bytes) -> None:
        """Send, or keep until it can be sent."""

    def loseConnection(self) -> None:  # noqa: N802  # Twisted's name
        """Close when all is written."""

    def abortConnection(self) -> None:  # noqa: N802  # Twisted's name
        """Close now, with a reset."""

    def pauseProducing(self) -> None:  # noqa: N802  # Twisted's name
        """Stop reading."""

    def resumeProducing(self) -> None:  # noqa: N802  # Twisted's name
        """Read again."""

    def registerProducer(self, producer: object, streaming: bool) -> None:  # noqa: N802  # Twisted's
        """Name who is to be paused while the peer does not take what we write."""

    def unregisterProducer(self) -> None:  # noqa: N802  # Twisted's name
        """Name nobody."""

    def getPeer(self) -> Any:  # noqa: N802  # Twisted's name
        """Return the peer's address."""


def is_tls(wire: Wire) -> bool:
    """Whether TLS lies between us and TCP."""
    return bool(ISSLTransport.providedBy(wire))


def end_writing(wire: Wire) -> None:
    """Tell the peer that nothing more comes, but keep reading where the transport can do that."""
    if not is_tls(wire) and hasattr(wire, "loseWriteConnection"):
        wire.loseWriteConnection()
    else:
        wire.loseConnection()


class Outlet:
    """
    Writes to a transport, and does not wait for the reactor's next turn where it need not.

    A reply is small and the peer waits for it: nearly always the socket takes it whole, and the
    reactor need not watch it. Once it does not, the transport's own buffer does all the rest.
    """

    __slots__ = ("_send", "_wire")

    def __init__(self, wire: Wire) -> None:
        self._wire = wire
        handle = None if is_tls(wire) else getattr(wire, "getHandle", lambda: None)()
        self._send = handle.send if isinstance(handle, socket.socket) else None

    def write(self, data: bytes) -> None:
        """Send, or keep until it can be sent."""
        if self._send is not None:
            try:
                sent = self._send(data)
            except OSError:  # full, or gone: the transport finds out which
                sent = 0
            if sent == len(data):
                return
            self._send = None  # what is buffered goes first, from now on
            data = data[sent:]
        self._wire.write(data)


def tune(wire: Wire) -> None:
    """Notice dead peers, and do not hold small frames back."""
    tcp = cast(Any, wire)
    if not hasattr(tcp, "setTcpKeepAlive"):
        return
    tcp.setTcpNoDelay(True)
    tcp.setTcpKeepAlive(True)
    handle = (tcp.transport if is_tls(wire) else tcp).getHandle()
    if isinstance(handle, socket.socket) and hasattr(socket, "TCP_KEEPIDLE"):
        handle.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, KEEP_ALIVE_SECONDS)


class Hold(Enum):
    """Why a connection is not read."""

    WINDOW = auto()
    """As many frames are in hand as may be."""
    MEMORY = auto()
    """All memory for unfinished frames is in use."""
    OUTPUT = auto()
    """The peer does not take our replies."""
    OPERATOR = auto()
    """The listener is paused."""
    ENDING = auto()
    """No further frame is wanted."""


class Gate:
    """The reasons to hold one connection."""

    __slots__ = ("_wire", "holds")

    def __init__(self) -> None:
        self.holds: set[Hold] = set()
        """Empty: the connection is read. Look, but change it by the methods only."""
        self._wire: Wire | None = None

    def attach(self, wire: Wire) -> None:
        """Govern this transport from now on."""
        self._wire = wire
        if self.holds:
            wire.pauseProducing()

    def detach(self) -> None:
        """Leave the transport alone: there is nothing more to read, or we no longer decide."""
        self._wire = None

    def hold(self, reason: Hold) -> None:
        """Stop reading, if nobody has already."""
        if not self.holds and self._wire is not None:
            self._wire.pauseProducing()
        self.holds.add(reason)

    def let_go(self, reason: Hold) -> bool:
        """Read again, if this was the last reason; say whether it was."""
        if reason not in self.holds:
            return False
        self.holds.remove(reason)
        if self.holds:
            return False
        if self._wire is not None:
            self._wire.resumeProducing()
        return True


class Abortable(Protocol):
    """A connection, as far as this file is concerned."""

    def abort(self) -> None:
        """Close now."""


C = TypeVar("C", bound=Abortable)


class Gathering(Generic[C]):
    """A set of connections; `grace` is how many seconds they have to end by themselves."""

    def __init__(self, clock: Clock, grace: float) -> None:
        self._present: set[C] = set()
        self._waiting: list[Deferred[None]] = []
        self._deadline = Deadline(clock, grace, self._abort_all)

    def __len__(self) -> int:
        return len(self._present)

    def all(self) -> tuple[C, ...]:
        """Return them; they may come and go while you look."""
        return tuple(self._present)

    def add(self, connection: C) -> None:
        """Take note of a connection."""
        self._present.add(connection)

    def discard(self, connection: C) -> None:
        """Take note that it has ended."""
        self._present.discard(connection)
        if not self._present:
            self._deadline.stop()
            waiting, self._waiting = self._waiting, []
            for done in waiting:
                done.callback(None)

    def ended(self) -> Deferred[None]:
        """Fire when none is left; those that take longer than the grace are aborted."""
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
    """Where to listen, beside others; with TLS where `tls` is given (its context factory)."""

    def __init__(
        self, reactor: Any, host: str, port: int, *, backlog: int, tls: Any = None
    ) -> None:
        self._reactor = reactor
        self._host, self._port = host, port
        self._backlog = backlog
        self._tls = tls

    def listen(self, protocolFactory: Any) -> Deferred[Any]:  # noqa: N803  # Twisted's name
        """Listen; fires with the port, or fails with CannotListenError."""
        family = socket.AF_INET6 if ":" in self._host else socket.AF_INET
        factory = protocolFactory
        if self._tls is not None:
            factory = TLSMemoryBIOFactory(self._tls, False, factory)
        with socket.socket(family, socket.SOCK_STREAM) as made:
            made.setblocking(False)
            try:
                made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
                made.bind((self._host, self._port))
                made.listen(self._backlog)
            except OSError as error:
                return fail(CannotListenError(self._host, self._port, error))  # type: ignore[no-untyped-call]
            # It keeps a duplicate of the descriptor.
            return succeed(self._reactor.adoptStreamPort(made.fileno(), family, factory))
