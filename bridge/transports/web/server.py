"""
The HTTP side of a listener, bounded as an MLLP listener is.

In size, in connections, and in time from a request's first byte to its last. Twisted's own
HTTP parser; it knows no HL7.
"""

from io import BytesIO
from typing import Any

from twisted.internet.interfaces import IAddress, IHandshakeListener
from twisted.internet.protocol import Protocol, connectionDone
from twisted.python.failure import Failure
from twisted.web.http import HTTPChannel
from twisted.web.server import Request, Site
from typing_extensions import override
from zope.interface import implementer  # type: ignore[import-untyped]  # has no types

from bridge.transports.web.dialect import CONTENT_TYPE
from bridge.transports.web.intake import Desk
from mllp.contract import Clock, NakBuilder, ServerLimits, ServerObserver
from mllp.conversation import HEAD
from mllp.deadline import Deadline
from mllp.errors import FrameTimedOut, FrameTooLarge
from mllp.wire import is_tls

IDLE = 60.0
"""Seconds that a connection without a request is kept where nothing is set."""

_TOO_LARGE = (  # at once
    "HTTP/1.1 413 Content Too Large\r\nconnection: close\r\n"
    "content-type: {kind}\r\ncontent-length: {length}\r\n\r\n"
)


class _Bounded(Request):
    """
    A request whose body is kept in memory, and given up when it is too long.

    The answer is the AR that a frame beyond the limit gets, once it is known which message it is
    about. What still comes of such a body is read and thrown away for as long as a request may
    take: whoever hangs up on a sender that is writing takes the answer away with it.
    """

    channel: Any
    content: Any
    _left = 0
    _too_long = False
    _given_up = False

    @override
    def gotLength(self, length: int | None) -> None:
        limits: ServerLimits = self.channel.site.limits
        self._left = limits.max_frame
        self.content = BytesIO()  # never a file: it would hold patient data
        self._too_long = length is not None and length > limits.max_frame

    @override
    def handleContentChunk(self, data: bytes) -> None:
        if self._given_up:
            return
        self._left -= len(data)
        if self._left < 0 or self._too_long:
            self.content.write(data[:HEAD])
            if self._left < 0 or self.content.tell() >= HEAD or b"\r" in self.content.getvalue():
                self._give_up()
        else:
            super().handleContentChunk(data)  # type: ignore[no-untyped-call]  # Twisted's

    @override
    def process(self) -> None:
        if self._too_long and not self._given_up:
            self._give_up()
        if self._given_up:
            self.channel.loseConnection()
        else:
            super().process()  # type: ignore[no-untyped-call]  # Twisted's

    def _give_up(self) -> None:
        site: MessageSite = self.channel.site
        error = FrameTooLarge(site.limits.max_frame)
        head, self.content = self.content.getvalue()[:HEAD], BytesIO()
        self._given_up = True
        site.observer.frame_refused(error)
        told = site.refuse(error, head) if site.desk.hears(self) else None
        answer = told or b""
        kind = CONTENT_TYPE if answer else "text/plain"
        start = _TOO_LARGE.format(kind=kind, length=len(answer)).encode("ascii")
        self.channel.transport.write(start + answer)


@implementer(IHandshakeListener)
class _Channel(HTTPChannel):
    """A connection on which every request has to arrive in time, and TLS before the first."""

    site: "MessageSite"

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # Twisted's
        self._deadline: Deadline | None = None

    @override
    def connectionMade(self) -> None:
        super().connectionMade()  # type: ignore[no-untyped-call]  # Twisted's
        transport: Any = self.transport
        if is_tls(transport):
            self._begun()

    def handshakeCompleted(self) -> None:  # noqa: N802  # Twisted's name
        """Take note that TLS stands; a request may come when it likes."""
        self._arrived()

    @override
    def dataReceived(self, data: bytes) -> None:
        if self._deadline is None:
            self._begun()
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

    def _begun(self) -> None:
        limits = self.site.limits
        self._deadline = Deadline(self.site.clock, limits.frame_timeout, self._overdue)
        self._deadline.start()

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
        self,
        desk: Desk,
        limits: ServerLimits,
        *,
        clock: Any,
        observer: ServerObserver,
        refuse: NakBuilder,
    ) -> None:
        """Take the reactor as `clock`; `refuse` says what a body that is too long is answered."""
        super().__init__(desk, timeout=limits.idle_timeout or IDLE, reactor=clock)  # type: ignore[no-untyped-call]
        self.requestFactory = _Bounded
        self.desk = desk
        self.limits = limits
        self.clock: Clock = clock
        self.observer = observer
        self.refuse = refuse
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
