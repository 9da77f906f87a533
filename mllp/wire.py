"""
What a connection needs of Twisted's transports, as one typed interface, and its tuning.

Decides nothing about frames.
"""

import socket
from typing import Any, Protocol, cast

from twisted.internet.interfaces import ISSLTransport

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
