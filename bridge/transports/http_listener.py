"""
HL7 over HTTP: a listener. Each POST is a message, and its response is the acknowledgment.

uvicorn's protocol parses requests, with the limits of `bridge.web`. Twisted provides the
connections: port, TLS and admission (`mllp.limits`) are those of an MLLP listener. Bodies count
against the frame memory of the process (`mllp.limits`). A request must arrive within
`frame_timeout`. A refused request gets its response before its body is read.
"""

import asyncio
import hmac
import itertools
import math
from dataclasses import dataclass
from email.utils import formatdate
from http import HTTPStatus
from typing import Any, cast

from starlette.requests import ClientDisconnect
from starlette.types import Receive, Scope, Send
from twisted.internet.interfaces import (
    IAddress,
    IHandshakeListener,
    IProtocolNegotiationFactory,
    IPushProducer,
)
from twisted.internet.protocol import Factory, Protocol, connectionDone
from twisted.python.failure import Failure
from typing_extensions import override
from uvicorn.server import ServerState
from zope.interface import implementer  # type: ignore[import-untyped]  # has no types

from bridge.transports.http_protocol import (
    ACCEPTED,
    CONTENT_TYPE,
    read_content_type,
    status_of,
    to_listener_charset,
    to_sender_charset,
)
from bridge.web.connections import HttpConnection, HttpConnections, HttpLimits, Rank
from bridge.web.protocol import HttpProtocol
from bridge.web.server import http_config
from mllp.contract import (
    Clock,
    Deadline,
    Handler,
    NakBuilder,
    ServerLimits,
    ServerObserver,
    as_deferred,
)
from mllp.errors import FrameMemoryExhausted, FrameTimedOut, FrameTooLarge, FramingError
from mllp.framing import Frame
from mllp.limits import (
    Admission,
    ConnectionActivity,
    FrameBudget,
    SharedConnectionLimit,
    source_of,
)
from mllp.server import MAX_HEAD_BYTES
from mllp.tls import incoming_failure
from mllp.transport import end_writing, is_tls, tls_refusal

IDLE_SECONDS = 30.0
"""Seconds that a connection without a request stays open, by default."""

DRAIN_SECONDS = 10.0
"""Seconds that a stop waits for responses in progress."""

_SMALL = 64 * 2**10  # bytes of a refused request's body that are read to keep the connection open
_UNLIMITED = 2**60

_MORE_HEADERS = {
    HTTPStatus.UNAUTHORIZED: (b"www-authenticate", b'Basic realm="HL7"'),
    HTTPStatus.METHOD_NOT_ALLOWED: (b"allow", b"POST"),
    HTTPStatus.SERVICE_UNAVAILABLE: (b"retry-after", b"5"),
}


@dataclass(frozen=True, slots=True)
class HttpListenerRules:
    """Requirements of an HTTP listener for requests."""

    path: str = "/"
    charset: str = "utf-8"
    authorization: bytes | None = None


@dataclass(frozen=True, slots=True)
class _RequestPeer:
    """The peer of one request; it gets the response only."""

    host: str
    port: int
    connection_id: int
    accepts_later_frames: bool = False

    def send(self, payload: bytes) -> bool:
        """Return False: nothing can be sent after the response."""
        return False


class _Body:
    """The body of one request. Its memory counts until `close`."""

    def __init__(self, limits: ServerLimits, budget: FrameBudget, source: str) -> None:
        self._limits = limits
        self._memory = budget.account(source, resume=self._resume, refuse=self._refuse)
        self._has_memory = asyncio.Event()
        self._has_memory.set()
        self._refused = 0  # bytes that the budget took back
        self._timer: asyncio.Timeout | None = None
        self.data = bytearray()

    async def read(self, receive: Receive, declared: int) -> bytes:
        """Read the body. Raises FramingError; ClientDisconnect."""
        try:
            async with asyncio.timeout(self._limits.frame_timeout or None) as self._timer:
                await self._read(receive, declared)
        except TimeoutError:
            if self._refused or not self._has_memory.is_set():
                raise FrameMemoryExhausted(self._refused or len(self.data)) from None
            raise FrameTimedOut(len(self.data), self._limits.frame_timeout) from None
        self._memory.report(len(self.data), 0)
        return bytes(self.data)

    async def _read(self, receive: Receive, declared: int) -> None:
        limit = self._limits.max_frame
        more = True
        while more:
            await self._has_memory.wait()
            message = await receive()
            if message["type"] == "http.disconnect":
                raise ClientDisconnect
            self.data += message.get("body", b"")
            more = message.get("more_body", False)
            is_too_long = len(self.data) > limit
            if is_too_long or declared > limit:
                # The refusal names the message, so it waits for the first segment.
                head = self.head
                if is_too_long or not more or len(head) >= MAX_HEAD_BYTES or b"\r" in head:
                    raise FrameTooLarge(limit)
            elif not self._memory.report(0, len(self.data)):
                self._has_memory.clear()

    @property
    def head(self) -> bytes:
        return bytes(self.data[:MAX_HEAD_BYTES])

    def close(self) -> None:
        self._memory.close()

    def _resume(self) -> None:
        self._has_memory.set()

    def _refuse(self) -> None:
        """Release the memory of the incomplete body, and end the reading."""
        self._refused = len(self.data)
        self.data.clear()
        self._memory.close()
        if self._timer is not None and not self._timer.expired():
            self._timer.reschedule(0)


class MessageApplication:
    """An ASGI application: each POST is a message, which `handle` processes."""

    def __init__(
        self,
        handle: Handler,
        rules: HttpListenerRules,
        limits: ServerLimits,
        observer: ServerObserver,
        refuse: NakBuilder,
        budget: FrameBudget,
    ) -> None:
        """`refuse` builds the reply to a body that is too long."""
        self._handle = handle
        self._rules = rules
        self._limits = limits
        self._observer = observer
        self._refuse = refuse
        self._budget = budget
        self._connection_ids = itertools.count(1)
        self.paused = False
        self.in_progress = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        connection: HttpConnection = scope["state"]["connection"]
        # Of several headers with one name, the last one counts.
        headers = {name: value.decode("latin-1") for name, value in scope["headers"]}
        length = headers.get(b"content-length", "")
        declared = int(length) if length else _SMALL + 1 if b"transfer-encoding" in headers else 0
        if refusal := self._refusal(scope, headers):
            if declared > _SMALL:
                await _respond(send, refusal, b"", "text/plain")
                return
            while (await receive()).get("more_body", False):
                pass  # so that the connection stays open
            await _respond_in_words(send, refusal)
            return
        body = _Body(self._limits, self._budget, source_of(connection.peer))
        try:
            payload = await body.read(receive, declared if length else 0)
            if self.paused:
                await _respond_in_words(send, HTTPStatus.SERVICE_UNAVAILABLE)
                return
            await self._answer(scope, send, payload, headers)
        except ClientDisconnect:
            return
        except FramingError as error:
            self._observer.frame_refused(error)
            await self._respond_to_broken(error, body, connection, receive, send)
        finally:
            body.close()

    def _refusal(self, scope: Scope, headers: dict[bytes, str]) -> HTTPStatus | None:
        """Return the status of a request that is refused regardless of its body, else None."""
        required = self._rules.authorization
        given = headers.get(b"authorization", "").encode("latin-1")
        media, _ = read_content_type(headers.get(b"content-type", ""))
        encoding = headers.get(b"content-encoding") or "identity"
        if scope["raw_path"].decode("latin-1") != self._rules.path:
            return HTTPStatus.NOT_FOUND
        if required is not None and not hmac.compare_digest(required, given):
            return HTTPStatus.UNAUTHORIZED
        if scope["method"] != "POST":
            return HTTPStatus.METHOD_NOT_ALLOWED
        if media not in ACCEPTED or encoding.lower() != "identity":
            return HTTPStatus.UNSUPPORTED_MEDIA_TYPE
        return HTTPStatus.SERVICE_UNAVAILABLE if self.paused else None

    async def _answer(
        self, scope: Scope, send: Send, body: bytes, headers: dict[bytes, str]
    ) -> None:
        connection: HttpConnection = scope["state"]["connection"]
        host, port = scope["client"] or ("", 0)
        _, charset = read_content_type(headers.get(b"content-type", ""))
        payload = to_listener_charset(body, charset, self._rules.charset)
        self._observer.frame_received(len(payload))
        peer = _RequestPeer(host, port, next(self._connection_ids))
        self.in_progress += 1
        try:
            answered = as_deferred(self._handle, Frame(payload), peer)
            replies = await answered.asFuture(asyncio.get_running_loop())
        except Exception:  # noqa: BLE001  # the observer of the handler has counted it
            replies = None
        finally:
            self.in_progress -= 1
        if not connection.is_open:
            self._observer.replies_dropped(1)
        elif replies is None:
            await _respond_in_words(send, HTTPStatus.INTERNAL_SERVER_ERROR)
        elif not replies or not replies[-1]:
            await _respond(send, HTTPStatus.NO_CONTENT)
        else:
            # A request has one response: the application acknowledgment, if there are two.
            status = status_of(replies[-1])
            reply = to_sender_charset(replies[-1], charset, self._rules.charset)
            kind = f"{CONTENT_TYPE}; charset={charset}" if charset else CONTENT_TYPE
            await _respond(send, status, reply, kind)

    async def _respond_to_broken(
        self,
        error: FramingError,
        body: _Body,
        connection: HttpConnection,
        receive: Receive,
        send: Send,
    ) -> None:
        """Respond to a request whose body cannot be read to its end."""
        if isinstance(error, FrameTooLarge):
            reply = self._refuse(error, body.head) or b""
            kind = CONTENT_TYPE if reply else "text/plain"
            await _respond(send, HTTPStatus.REQUEST_ENTITY_TOO_LARGE, reply, kind)
        elif isinstance(error, FrameMemoryExhausted):
            await _respond(send, HTTPStatus.SERVICE_UNAVAILABLE, b"", "text/plain")
        else:
            connection.abort()
            while (await receive())["type"] != "http.disconnect":
                pass


async def _respond_in_words(send: Send, status: HTTPStatus) -> None:
    """Respond without an acknowledgment."""
    await _respond(send, status, f"{status.phrase}\n".encode(), "text/plain; charset=utf-8")


async def _respond(send: Send, status: HTTPStatus, body: bytes = b"", kind: str = "") -> None:
    headers = [(b"date", formatdate(usegmt=True).encode())]
    if kind:
        headers += [
            (b"content-type", kind.encode("latin-1")),
            (b"content-length", b"%d" % len(body)),
        ]
    if status in _MORE_HEADERS:
        headers.append(_MORE_HEADERS[status])
    await send({"type": "http.response.start", "status": int(status), "headers": headers})
    await send({"type": "http.response.body", "body": body})


class _TwistedTransport(asyncio.Transport):
    """A transport of Twisted as one of asyncio."""

    def __init__(self, transport: Any) -> None:
        super().__init__()
        self._transport = transport
        self._is_closing = False
        self._reads = True
        self.is_full = False
        """Whether the client does not read what is written."""

    @override
    def get_extra_info(self, name: str, default: Any = None) -> Any:
        if name not in {"peername", "sockname"}:
            return default
        address = self._transport.getPeer() if name == "peername" else self._transport.getHost()
        return (address.host, address.port) if hasattr(address, "port") else default

    @override
    def is_closing(self) -> bool:
        return self._is_closing

    @override
    def is_reading(self) -> bool:
        return self._reads

    @override
    def pause_reading(self) -> None:
        self._reads = False
        self._transport.pauseProducing()

    @override
    def resume_reading(self) -> None:
        if not self._reads:
            self._reads = True
            self._transport.resumeProducing()

    @override
    def get_write_buffer_size(self) -> int:
        return int(self.is_full)

    @override
    def write(self, data: Any) -> None:
        self._transport.write(bytes(data))

    @override
    def write_eof(self) -> None:
        if not is_tls(self._transport):  # TLS has no half-closed connections
            self._transport.unregisterProducer()
            end_writing(self._transport)

    @override
    def close(self) -> None:
        self._is_closing = True
        self._transport.unregisterProducer()  # else Twisted waits for it
        self._transport.loseConnection()

    @override
    def abort(self) -> None:
        self._is_closing = True
        self._transport.abortConnection()


@implementer(IHandshakeListener, IPushProducer)
class _Connection(Protocol):
    """A connection of Twisted; `HttpProtocol` gets its bytes."""

    def __init__(self, listener: "HttpListener", host: str) -> None:
        self._listener = listener
        self._host, self.source = host, source_of(host)
        self._accepted = listener.clock.seconds()
        self._http: HttpProtocol | None = None
        self._in_handshake = False
        self._deadline = Deadline(
            listener.clock, listener.limits.frame_timeout, self._handshake_overdue
        )

    @property
    def since(self) -> float:
        return self._accepted if self._http is None else self._http.since

    @property
    def activity(self) -> ConnectionActivity:
        """The activity of the connection, for admission control."""
        if self._http is None or self._in_handshake:
            return ConnectionActivity.IDLE
        rank = self._http.connection.rank
        if rank is Rank.BUSY or self._socket.is_full:
            return ConnectionActivity.BUSY
        if rank is Rank.STALLED or self._http.is_in_head:
            return ConnectionActivity.UNFINISHED
        return ConnectionActivity.IDLE

    def evict(self) -> None:
        """Close the connection in favour of another one."""
        self._listener.observer.evicted(self._host)
        cast(Any, self.transport).abortConnection()

    def close(self) -> None:
        self._socket.close()

    @override
    def connectionMade(self) -> None:
        transport: Any = self.transport
        if is_tls(transport):
            self._in_handshake = True
            self._deadline.start()
        transport.registerProducer(self, True)
        self._socket = _TwistedTransport(transport)
        self._http = self._listener.protocol_of_connection()
        self._http.connection_made(self._socket)

    def handshakeCompleted(self) -> None:  # noqa: N802  # Twisted's name
        """Cancel the deadline: the TLS handshake is complete."""
        self._in_handshake = False
        self._deadline.stop()

    def _handshake_overdue(self) -> None:
        timeout = self._listener.limits.frame_timeout
        self._listener.observer.frame_refused(FrameTimedOut(0, timeout))
        self._socket.abort()

    @override
    def dataReceived(self, data: bytes) -> None:
        if self._http is not None:
            self._http.data_received(data)

    @override
    def connectionLost(self, reason: Failure = connectionDone) -> None:
        self._deadline.stop()
        if self._in_handshake:
            refused = tls_refusal(cast(Any, self.transport))
            why = incoming_failure(reason, refused, timed_out=None)
            self._listener.observer.handshake_failed(self._host, why)
        self._listener.left(self)
        if self._http is not None:
            self._http.connection_lost(None)

    def pauseProducing(self) -> None:  # noqa: N802  # Twisted's name
        """The client does not read."""
        self._socket.is_full = True
        if self._http is not None:
            self._http.pause_writing()

    def resumeProducing(self) -> None:  # noqa: N802  # Twisted's name
        """The client has read."""
        self._socket.is_full = False
        if self._http is not None:
            self._http.resume_writing()

    def stopProducing(self) -> None:  # noqa: N802  # Twisted's name
        """The connection is lost."""


class _RefusedConnection(Protocol):
    """A connection beyond the limit; it is closed at once."""

    @override
    def connectionMade(self) -> None:
        cast(Any, self.transport).loseConnection()


@implementer(IProtocolNegotiationFactory)
class HttpListener(Factory):
    """Serves the messages of one listener."""

    noisy = False

    def __init__(
        self,
        handle: Handler,
        rules: HttpListenerRules,
        limits: ServerLimits,
        *,
        clock: Clock,
        observer: ServerObserver,
        refuse: NakBuilder,
        budget: FrameBudget | None = None,
        shared_limit: SharedConnectionLimit | None = None,
    ) -> None:
        """
        `clock` is the reactor; `refuse` builds the reply to a body that is too long.

        `budget` and `shared_limit` are shared with the other listeners of the process.
        """
        self.limits = limits
        self.clock = clock
        self.observer = observer
        self._application = MessageApplication(
            handle, rules, limits, observer, refuse, budget or FrameBudget()
        )
        self._connections = HttpConnections(_http_limits(limits), self._note)
        self._config = http_config(self._application, self._connections)
        self._config.load()
        self._state = ServerState()
        self._admission = Admission(
            limits.max_connections,
            per_source=limits.max_connections_per_source,
            allow=limits.allow,
            shared_limit=shared_limit,
        )
        self._open: set[_Connection] = set()

    def acceptableProtocols(self) -> list[bytes]:  # noqa: N802  # Twisted's name
        """Return the protocols for the negotiation in the TLS handshake (ALPN)."""
        return [b"http/1.1"]

    @override
    def buildProtocol(self, addr: IAddress | None) -> Protocol:
        host = getattr(addr, "host", "")
        reason = self._admission.request(host, self.clock.seconds())
        if reason is not None:
            self.observer.refused(reason, host)
            return _RefusedConnection()
        connection = _Connection(self, host)
        self._admission.enter(connection)
        self._open.add(connection)
        return connection

    def protocol_of_connection(self) -> HttpProtocol:
        return HttpProtocol(
            self._connections, config=self._config, server_state=self._state, app_state={}
        )

    def left(self, connection: _Connection) -> None:
        """Remove a connection that has ended."""
        self._admission.leave(connection)
        self._open.discard(connection)

    def _note(self, reason: str) -> None:
        if reason == "slow_head":
            self.observer.frame_refused(FrameTimedOut(0, self.limits.frame_timeout))

    def pause(self) -> None:
        """Answer 503 until `resume`; requests in progress get their response."""
        self._application.paused = True

    def resume(self) -> None:
        """Accept messages again."""
        self._application.paused = False

    async def drain(self) -> None:
        """Answer requests in progress, refuse new ones, then close every connection."""
        self.pause()
        loop = asyncio.get_running_loop()
        until = loop.time() + DRAIN_SECONDS
        while self._application.in_progress and loop.time() < until:  # noqa: ASYNC110  # it has no event
            await asyncio.sleep(0.02)
        for connection in list(self._open):
            connection.close()
        self._connections.stop()


def _http_limits(limits: ServerLimits) -> HttpLimits:
    """Return the limits on time; `Admission` limits connections, and `_Body` the body."""
    frame, idle = limits.frame_timeout or math.inf, limits.idle_timeout or IDLE_SECONDS
    return HttpLimits(
        connections=_UNLIMITED,
        per_source=_UNLIMITED,
        silent=idle,
        head=frame,
        body=2 * frame,
        body_rate=1,
        idle=idle,
        write=limits.write_timeout or math.inf,
        linger=frame,
        linger_bytes=_UNLIMITED,
    )
