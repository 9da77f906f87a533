"""
The HTTP side of a listener, bounded as an MLLP listener is.

In size, in connections, and in time from a request's first byte to its last. Twisted's own
HTTP parser; it knows no HL7.
"""

from io import BytesIO
from typing import Any

from twisted.internet.interfaces import IAddress
from twisted.internet.protocol import Protocol, connectionDone
from twisted.python.failure import Failure
from twisted.web.http import HTTPChannel
from twisted.web.server import Request, Site
from typing_extensions import override

from bridge.transports.web.intake import Desk
from mllp.contract import Clock, ServerLimits, ServerObserver
from mllp.deadline import Deadline
from mllp.errors import FrameTimedOut, FrameTooLarge

IDLE = 60.0
"""Seconds that a connection without a request is kept where nothing is set."""

_TOO_LARGE = (
    b"HTTP/1.1 413 Content Too Large\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"  # at once
)


class _Bounded(Request):
    """
    A request whose body is kept in memory, and given up when it is too long.

    What still comes of such a body is read and thrown away for as long as a request may take:
    whoever hangs up on a sender that is writing takes the answer away with it.
    """

    channel: Any
    _left = 0
    _given_up = False

    @override
    def gotLength(self, length: int | None) -> None:
        limits: ServerLimits = self.channel.site.limits
        self._left = limits.max_frame
        self.content = BytesIO()  # never a file: it would hold patient data
        if length is not None and length > limits.max_frame:
            self._give_up()

    @override
    def handleContentChunk(self, data: bytes) -> None:
        self._left -= len(data)
        if self._given_up:
            return
        if self._left >= 0:
            super().handleContentChunk(data)  # type: ignore[no-untyped-call]  # Twisted's
        else:
            self._give_up()

    @override
    def process(self) -> None:
        if self._given_up:
            self.channel.loseConnection()
        else:
            super().process()  # type: ignore[no-untyped-call]  # Twisted's

    def _give_up(self) -> None:
        site = self.channel.site
        self._given_up = True
        self.content = BytesIO()
        site.observer.frame_refused(FrameTooLarge(site.limits.max_frame))
        self.channel.transport.write(_TOO_LARGE)


class _Channel(HTTPChannel):
    """A connection on which every request has to arrive in time."""

    site: "MessageSite"

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # Twisted's
        self._deadline: Deadline | None = None

    @override
    def dataReceived(self, data: bytes) -> None:
        if self._deadline is None:
            limits = self.site.limits
            self._deadline = Deadline(self.site.clock, limits.frame_timeout, self._overdue)
            self._deadline.start()
        super().dataReceived(data)  # type: ignore[no-untyped-call]  # Twisted's

    @override
    def allContentReceived(self) -> None:
        self._arrived()
        super().allContentReceived()  # type: ignore[no-untyped-call]  # Twisted's

    @override
    def connectionLost(self, reason: Failure = connectionDone) -> None:
        self._arrived()
        self.site.left(self)
        super().connectionLost(reason)  # type: ignore[no-untyped-call]  # Twisted's

    def _arrived(self) -> None:
        if self._deadline is not None:
            self._deadline.stop()
            self._deadline = None

    def _overdue(self) -> None:
        self._deadline = None
        self.site.observer.frame_refused(FrameTimedOut(0, self.site.limits.frame_timeout))
        transport: Any = self.transport
        transport.abortConnection()


class _Refused(Protocol):
    """A connection beyond the limit: closed at accept."""

    @override
    def connectionMade(self) -> None:
        transport: Any = self.transport
        transport.loseConnection()


class MessageSite(Site):
    """Serves one desk."""

    protocol = _Channel  # type: ignore[assignment]  # HTTP/1.1 alone
    noisy = False

    def __init__(
        self, desk: Desk, limits: ServerLimits, *, clock: Any, observer: ServerObserver
    ) -> None:
        """Take the reactor as `clock`."""
        super().__init__(desk, timeout=limits.idle_timeout or IDLE, reactor=clock)  # type: ignore[no-untyped-call]
        self.requestFactory = _Bounded
        self.desk = desk
        self.limits = limits
        self.clock: Clock = clock
        self.observer = observer
        self._open: set[_Channel] = set()

    @override
    def buildProtocol(self, addr: IAddress | None) -> Any:
        if len(self._open) >= self.limits.max_connections:
            self.observer.connection_refused()
            return _Refused()
        channel = super().buildProtocol(addr)  # type: ignore[no-untyped-call]  # Twisted's
        self._open.add(channel)
        return channel

    def left(self, channel: _Channel) -> None:
        """Take note that a connection has ended."""
        self._open.discard(channel)

    @override
    def log(self, request: Any) -> None:
        """Write no access log: what is worth counting is counted."""

    def pause(self) -> None:
        """Answer 503 until `resume`; what is in hand is answered."""
        self.desk.paused = True

    def resume(self) -> None:
        """Take messages again."""
        self.desk.paused = False

    def close(self) -> None:
        """Close every connection."""
        for channel in list(self._open):
            channel.loseConnection()  # type: ignore[no-untyped-call]  # Twisted's
