"""
HTTP server of a listener, with the limits of an MLLP listener.

`mllp.admission` admits connections. Bodies count against the frame memory of the process
(`mllp.memory_budget`). A request must arrive within `frame_timeout`. A refused request gets its
response before its body is read.
"""

import asyncio
from http import HTTPStatus
from io import BytesIO
from typing import Any, cast

from twisted.internet.interfaces import IAddress, IHandshakeListener
from twisted.internet.protocol import Protocol, connectionDone
from twisted.python.failure import Failure
from twisted.web.http import HTTPChannel
from twisted.web.server import Request, Site
from typing_extensions import override
from zope.interface import implementer  # type: ignore[import-untyped]  # has no types

from bridge.transports.http_protocol import early_response
from bridge.transports.http_resource import MessageResource
from mllp.admission import Admission, ConnectionActivity, SharedConnectionLimit, source_of
from mllp.contract import Clock, Deadline, NakBuilder, ServerLimits, ServerObserver
from mllp.errors import FrameMemoryExhausted, FrameTimedOut, FrameTooLarge
from mllp.handshakes import incoming_failure
from mllp.memory_budget import FrameBudget
from mllp.session import MAX_HEAD_BYTES
from mllp.transport import is_tls, tls_refusal

IDLE_SECONDS = 30.0
"""Seconds that a connection without a request stays open, by default."""

DRAIN_SECONDS = 10.0
"""Seconds that a stop waits for responses in progress."""

_SMALL = 64 * 2**10  # bytes of a refused request's body that are read to keep the connection open
_TURNS = 4  # requests from buffers of connections that are handled in an iteration of the loop
# A chunked body may have 1000 lines, and one more for each 16 of its bytes.
_CHUNK_LINES, _BYTES_PER_CHUNK_LINE = 1000, 16


class _BoundedRequest(Request):
    """
    A request whose body is kept in memory, up to a limit.

    A request beyond the limit gets the AR of a frame that is too large, as soon as the start of
    the message has arrived. The rest of the body is read and discarded until the timeout, because
    closing the connection earlier would destroy the response.
    """

    channel: Any
    content: Any
    _left = 0
    _too_long = False
    _given_up = False
    _refused = False
    _memory: Any = None

    @override
    def gotLength(self, length: int | None) -> None:
        site: MessageSite = self.channel.site
        self._left = site.limits.max_frame
        self._memory = self.channel.memory
        self.content = BytesIO()  # never a temporary file, which would contain patient data
        # Twisted sets these when the body is complete.
        self.method = self.channel._command  # noqa: SLF001
        self.path = self.channel._path.partition(b"?")[0]  # noqa: SLF001
        refusal = site.resource.refusal(self)
        self._refused = refusal is not None
        if refusal is not None and (length is None or length > _SMALL):
            self._given_up = True
            self.channel.transport.write(early_response(refusal))
        self._too_long = length is not None and length > site.limits.max_frame

    @override
    def handleContentChunk(self, data: bytes) -> None:
        if self._given_up or self._refused:
            return
        self._left -= len(data)
        if self._left < 0 or self._too_long:
            self.content.write(data[:MAX_HEAD_BYTES])
            head = self.content.getvalue()
            if self._left < 0 or len(head) >= MAX_HEAD_BYTES or b"\r" in head:
                self._give_up()
        else:
            super().handleContentChunk(data)  # type: ignore[no-untyped-call]  # Twisted's
            self.channel.report_memory(self.content.tell())

    @override
    def setHeader(self, name: bytes | str, value: bytes | str) -> None:
        """Set a header of the response, except Twisted's `Server`."""
        if name.lower() not in {b"server", "server"}:
            super().setHeader(name, value)  # type: ignore[no-untyped-call]  # Twisted's

    @override
    def process(self) -> None:
        if self._too_long and not (self._given_up or self._refused):
            self._give_up()
        if self._given_up:
            self.channel.loseConnection()
        else:
            self._memory.report(self.content.getbuffer().nbytes, 0)
            super().process()  # type: ignore[no-untyped-call]  # Twisted's

    def release(self) -> None:
        """Release the memory of the body after the response."""
        self._memory.close()

    def drop(self) -> None:
        """Release the memory of an incomplete body."""
        self._given_up, self.content = True, BytesIO()

    def _give_up(self) -> None:
        site: MessageSite = self.channel.site
        error = FrameTooLarge(site.limits.max_frame)
        head, self.content = self.content.getvalue()[:MAX_HEAD_BYTES], BytesIO()
        self._given_up = True
        self._memory.close()
        site.observer.frame_refused(error)
        reply = site.refuse(error, head) if site.resource.is_authorized(self) else None
        status = HTTPStatus.REQUEST_ENTITY_TOO_LARGE
        self.channel.transport.write(early_response(status, reply or b""))


@implementer(IHandshakeListener)
class _Channel(HTTPChannel):
    """A connection with a deadline for the TLS handshake and for each request."""

    site: "MessageSite"
    requests: list[_BoundedRequest]
    _handlingRequest: bool  # noqa: N815  # Twisted's name
    _networkProducer: Any  # noqa: N815  # Twisted's name
    _dataBuffer: list[bytes]  # noqa: N815  # Twisted's name
    _waitingForTransport: bool  # noqa: N815  # Twisted's name
    _buffer: bytes
    length: int | None

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # Twisted's
        self._deadline: Deadline | None = None
        self._in_handshake = False  # whether the TLS handshake is in progress
        self._waits_for_memory = False
        self._body_refused = False  # the connection closes once the 503 is written
        self._missed_turn = False
        self._chunk_lines = self._chunk_bytes = 0
        self.host, self.source, self.since = "", "", 0.0

    def admit(self, host: str) -> None:
        """Start to count the connection for the source address `host`."""
        self.host, self.source = host, source_of(host)
        self.since = self.site.clock.seconds()
        self.memory = self.site.budget.account(
            self.source, resume=self._memory_released, refuse=self._refuse_body
        )

    @property
    def activity(self) -> ConnectionActivity:
        """The activity of the connection, for admission control."""
        if self._handlingRequest:
            return ConnectionActivity.BUSY
        has_begun = self._deadline is not None and not self._in_handshake
        return ConnectionActivity.UNFINISHED if has_begun else ConnectionActivity.IDLE

    def evict(self) -> None:
        """Close the connection in favour of another one."""
        self.site.observer.evicted(self.host)
        transport: Any = self.transport
        transport.abortConnection()

    @override
    def connectionMade(self) -> None:
        super().connectionMade()  # type: ignore[no-untyped-call]  # Twisted's
        transport: Any = self.transport
        if is_tls(transport):
            self._in_handshake = True
            self._start_deadline()

    def handshakeCompleted(self) -> None:  # noqa: N802  # Twisted's name
        """Cancel the deadline: the TLS handshake is complete."""
        self._in_handshake = False
        self._stop_deadline()

    @override
    def dataReceived(self, data: bytes) -> None:
        if self._deadline is None:
            self._start_deadline()
        super().dataReceived(data)  # type: ignore[no-untyped-call]  # Twisted's

    @override
    def rawDataReceived(self, data: bytes) -> None:
        if not self._handlingRequest and self.length is None and self._has_tiny_chunks(data):
            self._respondToBadRequestAndDisconnect()  # type: ignore[no-untyped-call]  # Twisted's
        else:
            super().rawDataReceived(data)

    def _has_tiny_chunks(self, data: bytes) -> bool:
        """True if a body has too many chunks: Twisted spends microseconds on each one."""
        self._chunk_lines += data.count(b"\r\n")
        self._chunk_bytes += len(data)
        return self._chunk_lines > _CHUNK_LINES + self._chunk_bytes // _BYTES_PER_CHUNK_LINE

    @override
    def allContentReceived(self) -> None:
        self._stop_deadline()
        self._chunk_lines = self._chunk_bytes = 0
        super().allContentReceived()  # type: ignore[no-untyped-call]  # Twisted's

    @override
    def connectionLost(self, reason: Failure = connectionDone) -> None:
        self._stop_deadline()
        if self._in_handshake:
            refused = tls_refusal(cast(Any, self.transport))
            why = incoming_failure(reason, refused, timed_out=None)
            self.site.observer.handshake_failed(self.host, why)
        self.site.left(self)
        if not self._handlingRequest:  # else the handler still uses the body
            self.memory.close()
        super().connectionLost(reason)  # type: ignore[no-untyped-call]  # Twisted's

    def _start_deadline(self) -> None:
        limits = self.site.limits
        self.since = self.site.clock.seconds()
        self._deadline = Deadline(self.site.clock, limits.frame_timeout, self._overdue)
        self._deadline.start()

    def _stop_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.stop()
            self._deadline = None

    @override
    def requestDone(self, request: Any) -> None:
        self.since = self.site.clock.seconds()
        if self._buffer or self._dataBuffer:
            self.site.queue_next_request(self)
        else:
            super().requestDone(request)  # type: ignore[no-untyped-call]  # Twisted's

    def take_turn(self) -> None:
        """Handle the next request, unless the client does not read the responses."""
        if self._waitingForTransport:
            self._missed_turn = True
        else:
            super().requestDone(self.requests[0])  # type: ignore[no-untyped-call]  # Twisted's

    @override
    def resumeProducing(self) -> None:
        super().resumeProducing()  # type: ignore[no-untyped-call]  # Twisted's
        if self._missed_turn:
            self._missed_turn = False
            self.site.queue_next_request(self)

    def _overdue(self) -> None:
        self._deadline = None
        transport: Any = self.transport
        if self._body_refused:  # the sender does not read its 503
            transport.abortConnection()
        elif self._handlingRequest:  # the next request waits for the response
            self._start_deadline()
        elif self._waits_for_memory:
            self._refuse_body()
        else:
            self.site.observer.frame_refused(FrameTimedOut(0, self.site.limits.frame_timeout))
            transport.abortConnection()

    def report_memory(self, size: int) -> None:
        """Count the incomplete body, and stop reading if there is no memory."""
        if not self.memory.report(0, size):
            self._waits_for_memory = True
            self._networkProducer.pauseProducing()

    def _memory_released(self) -> None:
        self._waits_for_memory = False
        self._networkProducer.resumeProducing()

    def _refuse_body(self) -> None:
        """Refuse an incomplete body: other frames use all memory."""
        transport: Any = self.transport
        self._body_refused = True
        self.site.observer.frame_refused(FrameMemoryExhausted(self.memory.unfinished))
        for request in self.requests:
            request.drop()
        self.memory.close()
        transport.write(early_response(HTTPStatus.SERVICE_UNAVAILABLE))
        if self._deadline is None:
            self._start_deadline()
        self.loseConnection()  # type: ignore[no-untyped-call]  # Twisted's


class _RefusedConnection(Protocol):
    """A connection beyond the limit; it is closed at once."""

    @override
    def connectionMade(self) -> None:
        transport: Any = self.transport
        transport.loseConnection()


class MessageSite(Site):
    """Serves the resource of one listener."""

    protocol = _Channel  # type: ignore[assignment]  # HTTP/1.1 alone
    noisy = False

    def __init__(
        self,
        resource: MessageResource,
        limits: ServerLimits,
        *,
        clock: Any,
        observer: ServerObserver,
        refuse: NakBuilder,
        budget: FrameBudget | None = None,
        shared_limit: SharedConnectionLimit | None = None,
    ) -> None:
        """
        `clock` is the reactor; `refuse` builds the reply to a body that is too long.

        `budget` and `shared_limit` are shared with the other listeners of the process.
        """
        super().__init__(  # type: ignore[no-untyped-call]
            resource,
            timeout=limits.idle_timeout or IDLE_SECONDS,
            reactor=clock,
            parsePOSTFormSubmission=False,  # a body is a message
        )
        self.requestFactory = _BoundedRequest
        self.resource: MessageResource = resource
        self.limits = limits
        self.clock: Clock = clock
        self.observer = observer
        self.refuse = refuse
        self.budget = budget or FrameBudget()
        self._admission = Admission(
            limits.max_connections,
            per_source=limits.max_connections_per_source,
            allow=limits.allow,
            shared_limit=shared_limit,
        )
        self._open: set[_Channel] = set()
        self._waiting: list[_Channel] = []  # with a buffered request

    @override
    def buildProtocol(self, addr: IAddress | None) -> Any:
        host = getattr(addr, "host", "")
        reason = self._admission.request(host, self.clock.seconds())
        if reason is not None:
            self.observer.refused(reason, host)
            return _RefusedConnection()
        channel = super().buildProtocol(addr)  # type: ignore[no-untyped-call]  # Twisted's
        channel.admit(host)
        self._admission.enter(channel)
        self._open.add(channel)
        return channel

    def left(self, channel: _Channel) -> None:
        """Remove a connection that has ended."""
        self._admission.leave(channel)
        self._open.discard(channel)

    def queue_next_request(self, channel: _Channel) -> None:
        """Handle the next buffered request of a connection after those of other connections."""
        if not self._waiting:
            self.clock.callLater(0, self._take_turns)
        self._waiting.append(channel)

    def _take_turns(self) -> None:
        turns, self._waiting = self._waiting[:_TURNS], self._waiting[_TURNS:]
        if self._waiting:
            self.clock.callLater(0, self._take_turns)
        for channel in turns:
            if channel in self._open:
                channel.take_turn()

    @override
    def log(self, request: Any) -> None:
        """Write no access log; metrics count requests."""

    def pause(self) -> None:
        """Answer 503 until `resume`; requests in progress get their response."""
        self.resource.paused = True

    def resume(self) -> None:
        """Accept messages again."""
        self.resource.paused = False

    async def drain(self) -> None:
        """Answer requests in progress, refuse new ones, then close every connection."""
        self.pause()
        loop = asyncio.get_running_loop()
        until = loop.time() + DRAIN_SECONDS
        while self.resource.in_progress and loop.time() < until:  # noqa: ASYNC110  # it has no event
            await asyncio.sleep(0.02)
        for channel in list(self._open):
            channel.loseConnection()  # type: ignore[no-untyped-call]  # Twisted's
