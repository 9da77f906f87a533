"""
A network in memory: pairs of transports on a `twisted.internet.task.Clock`.

Bytes, ends and resets travel when the clock is advanced, by 0 too: `settle` lets everything
arrive. No sockets, no reactor, no threads. For tests; `mllp.testing` builds on it.
"""

from collections import deque
from typing import Any, Final

from twisted.internet.address import IPv4Address
from twisted.internet.error import ConnectionAborted, ConnectionDone, ConnectionLost
from twisted.internet.interfaces import IHalfCloseableProtocol
from twisted.internet.task import Clock
from twisted.python.failure import Failure

END_OF_STREAM: Final = b""


class MemoryWire:
    """One end of a connection: what Twisted's TCP transports do, without TCP."""

    def __init__(self, clock: Clock, protocol: Any, peer: IPv4Address) -> None:
        self.protocol = protocol
        self.other: MemoryWire | None = None
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
            self.other._arrive(data)  # noqa: SLF001  # the other end of one thing

    def loseConnection(self) -> None:  # noqa: N802  # Twisted's name
        """Close."""
        self.loseWriteConnection()
        self._clock.callLater(0, self._lost, ConnectionDone())

    def loseWriteConnection(self) -> None:  # noqa: N802  # Twisted's name
        """Send no more, but go on reading."""
        if self.open and self._writable and self.other is not None:
            self._writable = False
            self.other._arrive(END_OF_STREAM)  # noqa: SLF001  # the other end of one thing

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
        """Take note of who to tell that the peer does not take what is written."""
        self._producer = producer

    def unregisterProducer(self) -> None:  # noqa: N802  # Twisted's name
        """Tell nobody any more."""
        self._producer = None

    def getPeer(self) -> IPv4Address:  # noqa: N802  # Twisted's name
        """Return the other end's address."""
        return self._peer

    def stall(self) -> None:
        """Behave as if the peer had stopped taking what is written."""
        if self._producer is not None:
            self._producer.pauseProducing()

    def flow(self) -> None:
        """Behave as if the peer took it again."""
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


def join(clock: Clock, server: Any, client: Any) -> None:
    """Connect two protocols, the server's first."""
    serving = MemoryWire(clock, server, IPv4Address("TCP", "192.0.2.7", 49152))
    calling = MemoryWire(clock, client, IPv4Address("TCP", "192.0.2.1", 2575))
    serving.other, calling.other = calling, serving
    server.makeConnection(serving)
    client.makeConnection(calling)


def settle(clock: Clock) -> None:
    """Let everything that is under way arrive."""
    clock.advance(0)
