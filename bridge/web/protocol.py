"""
One HTTP/1.1 connection: uvicorn's protocol with limits on time, size and ambiguity.

The protocol refuses a request with a problem body (RFC 9457) if two parsers could read it
differently, or if it is too large, too slow or beyond the limits of `connections`. After a response
to a body that was not read to its end, it closes the connection.

It overrides the callbacks of `asyncio.Protocol` and those that httptools documents for its parser.
It gives uvicorn a transport of its own. `GuardedApplication` sees the responses.
"""

import asyncio
import json
import uuid
from collections import deque
from contextlib import suppress
from http import HTTPStatus
from typing import Any, NoReturn
from urllib.parse import urlsplit

from starlette.types import ASGIApp, Message, Receive, Scope, Send
from typing_extensions import override
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from bridge.contract.responses import PROBLEM_TYPE, ProblemBody
from bridge.web.connections import HttpConnection, HttpConnections, Rank

MAX_HEADERS = 64 * 1024
"""Bytes of a request's first line and headers."""

MAX_HEADER_COUNT = 100
MAX_PIPELINED = 16
"""Requests of one connection that wait for the one in progress."""

MAX_OVERHEAD, OVERHEAD_FACTOR = 256 * 2**10, 16
"""Limit of chunk headers, extensions and trailers: bytes, plus bytes for each byte of the body."""

MAX_CHUNKS, MEAN_CHUNK = 1000, 32
"""A chunked body may have `MAX_CHUNKS`, and one more for each `MEAN_CHUNK` bytes."""

LINGER_BYTES_REFUSED = 64 * 2**10
"""Input that is discarded after a refusal. A client that sends much more gets a reset."""

_DETAILS = {
    HTTPStatus.BAD_REQUEST: ("malformed_http", "the request is not HTTP/1.1"),
    HTTPStatus.REQUEST_TIMEOUT: ("request_timeout", "the request was not completed in time"),
    HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE: (
        "headers_too_large",
        "the request's first line and headers are too large",
    ),
    HTTPStatus.SERVICE_UNAVAILABLE: ("too_many_connections", "too many connections are open"),
}
_RETRYABLE = frozenset({HTTPStatus.SERVICE_UNAVAILABLE, HTTPStatus.REQUEST_TIMEOUT})

_WITHOUT_HOST = "1.0"
_VERSIONS = frozenset({_WITHOUT_HOST, "1.1"})


class _RequestRefused(Exception):
    """Stops the parser: the request is refused with this status."""

    def __init__(self, status: HTTPStatus = HTTPStatus.BAD_REQUEST) -> None:
        super().__init__(status.phrase)
        self.status = status


class _Request:
    """How far a request has arrived, and how far it is answered."""

    __slots__ = ("has_response", "is_complete", "is_last")

    def __init__(self, *, is_last: bool) -> None:
        self.is_complete = self.has_response = False
        self.is_last = is_last  # the connection closes after its response


class GuardedApplication:
    """ASGI middleware: each request waits its turn; a response to half a request says `close`."""

    def __init__(self, application: ASGIApp) -> None:
        self._application = application

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request: _Request = scope["state"].pop("request")
        protocol: HttpProtocol = scope["state"].pop("protocol")

        async def respond(message: Message) -> None:
            if message["type"] == "http.response.start":
                request.has_response = True
                if protocol.closes_after(request):
                    closing = (b"connection", b"close")
                    message = {**message, "headers": [*message.get("headers", ()), closing]}
                await send(message)
                return
            await send(message)
            if not message.get("more_body", False):
                protocol.answered(request)

        try:
            if await protocol.turn(scope["path"]):
                await self._application(scope, receive, respond)
        finally:
            protocol.answered(request)


class _Transport(asyncio.Transport):
    """The transport that uvicorn uses; it closes the connection as `HttpProtocol` decides."""

    def __init__(self, transport: asyncio.Transport, protocol: "HttpProtocol") -> None:
        super().__init__()
        self._transport = transport
        self._protocol = protocol

    @override
    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self._transport.get_extra_info(name, default)

    @override
    def pause_reading(self) -> None:
        self._transport.pause_reading()

    @override
    def resume_reading(self) -> None:
        self._transport.resume_reading()

    @override
    def write(self, data: Any) -> None:
        self._transport.write(data)

    @override
    def is_closing(self) -> bool:
        return self._protocol.is_ending

    @override
    def close(self) -> None:
        self._protocol.close()


class HttpProtocol(HttpToolsProtocol):
    """A connection that registers itself with `HttpConnections`."""

    def __init__(
        self, registry: HttpConnections, *, app_state: dict[str, Any], **named: Any
    ) -> None:
        self._state = {**app_state, "protocol": self}  # uvicorn copies it for each request
        super().__init__(app_state=self._state, **named)
        self._registry = registry
        self.since = self._progress = self.loop.time()  # start of the state; time of the last byte
        self._begun = 0  # requests
        self._requests: deque[_Request] = deque()  # not answered yet
        self._newest: _Request | None = None
        self.is_in_head = self._in_body = False
        self._head_bytes = self._fields_bytes = 0
        self._raw_bytes = self._body_bytes = self._chunks = 0
        self._timed_from = 0  # the bytes of the body that came before `_since`
        self._body: list[bytes] = []  # parts of this packet
        self._discarded = 0
        self._discards = False  # input is not parsed any more
        self._refusal: HTTPStatus | None = None  # of the request that is being parsed
        self._is_refused = False
        self._is_write_paused = False
        self._unsent: tuple[float, int] | None = None  # measured since; bytes in the buffer
        self.is_ending = False
        """Whether the last response is written."""

    # Called by the event loop.

    @override
    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self._socket = transport
        super().connection_made(_Transport(transport, self))
        peer = self.client[0] if self.client else ""
        self.connection = HttpConnection(peer, self._expire, transport.abort)
        self._state["connection"] = self.connection
        self._registry.add(self.connection)

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        self._discards = self.is_ending = True
        self.connection.is_open = False
        self._registry.remove(self.connection)
        super().connection_lost(None)  # with an error, uvicorn would keep its timer

    @override
    def data_received(self, data: bytes) -> None:
        self._progress = self.loop.time()
        if self._discards:
            self._discarded += len(data)
            limit = self._registry.limits.linger_bytes
            if self._discarded > (LINGER_BYTES_REFUSED if self._is_refused else limit):
                self._socket.abort()
            return
        if not self.is_in_head and not self._in_body:
            self._head_bytes = 0
        self._raw_bytes += len(data)
        super().data_received(data)
        self._pass_body()
        if self.is_in_head:
            self._head_bytes += len(data)
            if self._head_bytes > MAX_HEADERS:
                self._refuse(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)
        elif self._in_body and self._raw_bytes > MAX_OVERHEAD + OVERHEAD_FACTOR * self._body_bytes:
            self._refuse(HTTPStatus.BAD_REQUEST)
        self._update_rank()

    @override
    def pause_writing(self) -> None:
        super().pause_writing()
        self._is_write_paused = True
        self._update_rank()

    @override
    def resume_writing(self) -> None:
        super().resume_writing()
        self._is_write_paused, self._unsent = False, None
        self._update_rank()

    # Called by the parser.

    @override
    def on_message_begin(self) -> None:
        if len(self._requests) > MAX_PIPELINED:
            self._stop_parser()
        super().on_message_begin()
        self.is_in_head, self._head_bytes, self._fields_bytes = True, 0, 0
        if self._begun:  # the first request's time began with the connection
            self.since = self._progress
        self._begun += 1

    @override
    def on_header(self, name: bytes, value: bytes) -> None:
        if not self.is_in_head:  # a trailer: no application sees it
            return
        if len(self.headers) >= MAX_HEADER_COUNT:
            self._stop_parser(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)
        self._fields_bytes += len(name) + len(value)
        super().on_header(name, value)

    @override
    def on_headers_complete(self) -> None:
        try:
            _require_unambiguous(
                self.parser.get_http_version(), self.parser.get_method(), self.headers
            )
            path = _path_of(self.url, self.headers)
        except _RequestRefused as refusal:
            self._stop_parser(refusal.status)
        if len(self.url) + self._fields_bytes > MAX_HEADERS:
            self._stop_parser(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)
        if not self._registry.admits(self.connection, path):
            self._stop_parser(HTTPStatus.SERVICE_UNAVAILABLE)
        self.is_in_head, self._in_body = False, True
        self.since = self._progress
        self._raw_bytes = self._body_bytes = self._chunks = self._timed_from = 0
        upgrades = self.parser.should_upgrade()  # no other protocol is supported
        self._discards = upgrades
        self._newest = self.scope["state"]["request"] = _Request(is_last=upgrades)
        self._requests.append(self._newest)
        super().on_headers_complete()

    def on_chunk_header(self) -> None:
        """Refuse a body of tiny chunks: the calls for each one cost the time of many bytes."""
        self._chunks += 1
        if self._chunks > MAX_CHUNKS + self._body_bytes // MEAN_CHUNK:
            self._stop_parser()

    @override
    def on_body(self, body: bytes) -> None:
        self._body_bytes += len(body)
        self._body.append(body)

    def _pass_body(self) -> None:
        """Give uvicorn the parts of a packet at once: its work for each is that of many bytes."""
        if self._body:
            body = b"".join(self._body)
            self._body.clear()
            super().on_body(body)

    @override
    def on_message_complete(self) -> None:
        self._pass_body()
        self._in_body = False
        self.since = self._progress
        if self._newest is not None:
            self._newest.is_complete = True
        super().on_message_complete()

    @override
    def send_400_response(self, msg: str) -> None:
        self._refuse(self._refusal or HTTPStatus.BAD_REQUEST)

    def _stop_parser(self, status: HTTPStatus = HTTPStatus.BAD_REQUEST) -> NoReturn:
        self._refusal = status
        raise _RequestRefused(status)

    # Called by `GuardedApplication` and by the transport of uvicorn.

    async def turn(self, path: str) -> bool:
        """Wait until a request may start; return False if the connection has ended."""
        return await self._registry.turn(self.connection, path)

    def closes_after(self, request: _Request) -> bool:
        """True if the response to this request must be the last one."""
        return request.is_last or not request.is_complete or self.connection.surplus

    def answered(self, request: _Request) -> None:
        """Record that the response to a request is written, or that there will be none."""
        if request not in self._requests:
            return
        self._requests.remove(request)
        self.since = self.loop.time()
        if self._is_refused:
            self._send_refusal()
        self._update_rank()

    def close(self) -> None:
        """Close; if the client still sends, let it read the response before."""
        if self.is_ending:
            return
        if self.is_in_head or self._in_body or self._discards:
            self._linger()
        else:
            self.is_ending = True
            self._socket.close()

    def _linger(self) -> None:
        """Close our side and discard some input: a reset could destroy the response."""
        self.is_ending = self._discards = True
        self.since = self.loop.time()
        self._socket.resume_reading()
        with suppress(OSError):  # the client is gone; the next read shows it
            self._socket.write_eof()

    # Called by the registry.

    def _expire(self, now: float) -> str:
        """Close the connection if a time limit has passed; return the reason, or ''."""
        is_ending = self.is_ending or self._discards
        if self._does_not_read(now):
            self._socket.abort()
            return "unread_response"
        if self._in_body and not is_ending:
            return self._expire_body(now)
        if self._requests and not self.is_ending:
            return ""
        if is_ending and now - self.since > self._registry.limits.linger:
            self._socket.abort()
            return "lingering"
        return "" if is_ending else self._expire_waiting(now)

    def _expire_waiting(self, now: float) -> str:
        limits, waited = self._registry.limits, now - self.since
        if self.is_in_head and waited > limits.head:
            self._refuse(HTTPStatus.REQUEST_TIMEOUT)
            return "slow_head"
        if waited > (limits.idle if self._begun else limits.silent):
            self._socket.close()
            return "idle"
        return ""

    def _expire_body(self, now: float) -> str:
        limits = self._registry.limits
        if not self._socket.is_reading():  # the application is slow, not the client
            self.since, self._timed_from, self._progress = now, self._body_bytes, now
            return ""
        arrived = self._body_bytes - self._timed_from
        behind = (now - self.since - limits.body) * limits.body_rate - arrived
        if now - self._progress <= limits.body and behind <= 0:
            return ""
        self._refuse(HTTPStatus.REQUEST_TIMEOUT)
        return "slow_body"

    def _does_not_read(self, now: float) -> bool:
        """True if the client reads the response more slowly than `body_rate` for too long."""
        size, limits = self._socket.get_write_buffer_size(), self._registry.limits
        if not size:
            self._unsent = None
            return False
        if self._unsent is None or size > self._unsent[1]:
            self._unsent = (now if self._unsent is None else self._unsent[0], size)
        since, before = self._unsent
        if now - since <= limits.write:
            return False
        if before - size >= limits.body_rate * limits.write / 4:
            self._unsent = (now, size)
            return False
        return True

    def _update_rank(self) -> None:
        if not self._requests or self.is_ending:
            rank = Rank.IDLE
        elif self._in_body or self._is_write_paused:
            rank = Rank.STALLED
        else:
            rank = Rank.BUSY
        if rank is not self.connection.rank:
            self.connection.rank = rank
            self._registry.rank(self.connection, rank)

    # Refusals.

    def _refuse(self, status: HTTPStatus) -> None:
        """Answer with a problem and close, after the responses to the requests before this one."""
        if self.is_ending or self._is_refused:
            return
        self._is_refused, self._refusal = True, status
        self.is_in_head, self._in_body, self._discards = False, False, True
        self._body.clear()
        self._send_refusal()
        self._update_rank()

    def _send_refusal(self) -> None:
        refused = self._newest if self._newest and not self._newest.is_complete else None
        if any(request is not refused for request in self._requests):
            return
        if refused is not None and refused.has_response:
            self._socket.abort()
            return
        self.is_ending = True
        super().connection_lost(None)  # the application gets `http.disconnect`
        self._socket.write(_refusal(self._refusal or HTTPStatus.BAD_REQUEST))
        self._linger()


def _require_unambiguous(version: str, method: bytes, headers: list[tuple[bytes, bytes]]) -> None:
    """
    Raise unless every parser reads this head in the same way.

    RFC 9112: exactly one Host (§3.2), no transfer coding but `chunked` (§6.1). The parser itself
    refuses obs-fold, a bare LF, two lengths, and both framings at once.
    """
    hosts, codings = 0, []
    for name, value in headers:
        if name == b"host":
            hosts += 1
        elif name == b"transfer-encoding":
            codings.append(value.strip().lower())
    if (
        version not in _VERSIONS
        or hosts > 1
        or (not hosts and version != _WITHOUT_HOST)
        or method == b"CONNECT"
        or (codings and (codings != [b"chunked"] or version == _WITHOUT_HOST))
    ):
        raise _RequestRefused


def _path_of(target: bytes, headers: list[tuple[bytes, bytes]]) -> str:
    """Return the path; raise for a target whose authority is not the Host header's (§3.2.2)."""
    try:
        parts = urlsplit(target.decode("ascii"))
    except ValueError:
        raise _RequestRefused from None
    if target.startswith((b"/", b"*")):
        return target.partition(b"?")[0].decode("ascii", "replace")
    host = next((value for name, value in headers if name == b"host"), b"")
    if parts.scheme not in {"http", "https"} or parts.netloc.lower().encode() != host.lower():
        raise _RequestRefused
    return parts.path


def _refusal(status: HTTPStatus) -> bytes:
    request_id = uuid.uuid4().hex
    code, detail = _DETAILS[status]
    problem = ProblemBody.of(status, code, detail, request_id, retryable=status in _RETRYABLE)
    body = json.dumps(problem.model_dump()).encode()
    head = [
        f"HTTP/1.1 {status.value} {status.phrase}",
        f"Content-Type: {PROBLEM_TYPE}",
        f"Content-Length: {len(body)}",
        f"X-Request-Id: {request_id}",
        "Cache-Control: no-store",
        "Connection: close",
    ]
    if status is HTTPStatus.SERVICE_UNAVAILABLE:
        head.append("Retry-After: 1")
    return "\r\n".join(head).encode() + b"\r\n\r\n" + body
