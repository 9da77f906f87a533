"""
One HTTP/1.1 connection: uvicorn's protocol with limits on time, size and ambiguity.

The protocol refuses a request with a problem body (RFC 9457) if two parsers could read it
differently, or if it is too large, too slow or beyond the limits of `http_connections`. After a
response to a body that was not read to its end, it closes the connection.
"""

import json
import uuid
from contextlib import suppress
from functools import partial
from http import HTTPStatus
from typing import Any
from urllib.parse import urlsplit

import httptools
from typing_extensions import override
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from bridge.runtime.http_connections import HttpConnection, HttpConnections, Rank

MAX_HEADERS = 64 * 1024
"""Bytes of a request's first line and headers."""

MAX_HEADER_COUNT = 100
MAX_PIPELINED = 16
"""Requests of one connection that wait for the one in progress."""

MAX_OVERHEAD, OVERHEAD_FACTOR = 256 * 2**10, 16
"""Limit of chunk headers, extensions and trailers: bytes, plus bytes for each byte of the body."""

MAX_CHUNKS, MEAN_CHUNK = 1000, 32
"""A chunked body may have `MAX_CHUNKS`, and one more for each `MEAN_CHUNK` bytes."""

LINGER_BYTES, LINGER_SECONDS = 2**20, 5.0
"""Input discarded after a response (bytes, seconds): an early reset could destroy the response."""

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


class HttpProtocol(HttpToolsProtocol):
    """A connection that registers itself with `HttpConnections`."""

    def __init__(self, registry: HttpConnections, **named: Any) -> None:
        super().__init__(**named)
        self._registry = registry
        self._since = self._progress = self.loop.time()  # start of the state; time of the last byte
        self._requests = 0
        self._in_head = self._in_body = False
        self._head_bytes = self._raw_bytes = self._body_bytes = self._chunks = 0
        self._timed_from = 0  # the bytes of the body that came before `_since`
        self._discarding = self._closes = False
        self._discarded = 0
        self._waiting_refusal: HTTPStatus | None = None  # sent after the earlier responses
        self._unsent: tuple[float, int] | None = None  # measured since; bytes in the buffer

    # Called by the event loop.

    @override
    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        peer = self.client[0] if self.client else ""
        self._connection = HttpConnection(peer, self._expire, transport.abort)
        self._registry.add(self._connection)

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        self._registry.remove(self._connection)
        super().connection_lost(exc)

    @override
    def data_received(self, data: bytes) -> None:
        self._progress = self.loop.time()
        if self._discarding:
            self._discarded += len(data)
            if self._discarded > LINGER_BYTES:
                self.transport.abort()
            return
        if not self._in_head and not self._in_body:
            self._head_bytes = 0
        self._raw_bytes += len(data)
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade:  # no other protocol is supported
            self._closes, self._discarding = True, True
        except httptools.HttpParserError as error:
            self._refuse(_status_of(error))
            return
        if self._in_head:
            self._head_bytes += len(data)
            if self._head_bytes > MAX_HEADERS:
                self._refuse(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)
        elif self._in_body and self._raw_bytes > MAX_OVERHEAD + OVERHEAD_FACTOR * self._body_bytes:
            self._refuse(HTTPStatus.BAD_REQUEST)
        self._update_rank()

    @override
    def pause_writing(self) -> None:
        super().pause_writing()
        self._update_rank()

    @override
    def resume_writing(self) -> None:
        super().resume_writing()
        self._unsent = None
        self._update_rank()

    # Called by the parser.

    @override
    def on_message_begin(self) -> None:
        super().on_message_begin()
        if len(self.pipeline) >= MAX_PIPELINED:
            raise _RequestRefused
        self._in_head, self._head_bytes = True, 0
        if self._requests:  # the first request's time began with the connection
            self._since = self._progress
        self._requests += 1

    @override
    def on_header(self, name: bytes, value: bytes) -> None:
        if not self._in_head:  # a trailer: no application sees it
            return
        if len(self.headers) >= MAX_HEADER_COUNT:
            raise _RequestRefused(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)
        super().on_header(name, value)

    @override
    def on_headers_complete(self) -> None:
        _require_unambiguous(self.parser.get_http_version(), self.parser.get_method(), self.headers)
        head = len(self.url) + sum(len(name) + len(value) for name, value in self.headers)
        if head > MAX_HEADERS:
            raise _RequestRefused(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)
        path = _path_of(self.url, self.headers)
        if not self._registry.admits(self._connection, path):
            raise _RequestRefused(HTTPStatus.SERVICE_UNAVAILABLE)
        self._in_head, self._in_body = False, True
        self._since = self._progress
        self._raw_bytes = self._body_bytes = self._chunks = self._timed_from = 0
        super().on_headers_complete()

    def on_chunk_header(self) -> None:
        """Refuse a body of tiny chunks: the calls for each one cost the time of many bytes."""
        self._chunks += 1
        if self._chunks > MAX_CHUNKS + self._body_bytes // MEAN_CHUNK:
            raise _RequestRefused

    @override
    def on_body(self, body: bytes) -> None:
        self._body_bytes += len(body)
        super().on_body(body)

    @override
    def on_message_complete(self) -> None:
        self._in_body = False
        self._since = self._progress
        super().on_message_complete()

    # Called by a request in progress.

    @override
    def _start_asgi_task(self, cycle: Any, app: Any) -> None:
        async def serve(scope: Any, receive: Any, send: Any) -> None:
            async def sending(message: Any) -> None:
                if message["type"] != "http.response.start" or not (
                    cycle.more_body or self._connection.surplus
                ):
                    await send(message)
                    return
                closing = (b"connection", b"close")
                await send({**message, "headers": [*message.get("headers", ()), closing]})
                self._closes, cycle.keep_alive = True, True  # closed by us after the unread body

            await app(scope, receive, sending)

        begin = partial(super()._start_asgi_task, cycle, serve)
        self._registry.begin(self._connection, cycle.scope["path"], begin)

    @override
    def on_response_complete(self) -> None:
        # Replaces uvicorn's method, which sets a timer for each response; `_expire` is our timer.
        self.server_state.total_requests += 1
        self._since = self.loop.time()
        if self._closes:
            self._linger()
        elif self.pipeline:
            self.flow.resume_reading()
            self._start_asgi_task(*self.pipeline.pop())
        elif self._waiting_refusal is not None:
            self._write_refusal(self._waiting_refusal)
        elif not self.transport.is_closing():
            self.flow.resume_reading()
        self._update_rank()

    @override
    def send_400_response(self, msg: str) -> None:
        self._refuse(HTTPStatus.BAD_REQUEST)

    # Called by the registry.

    def _expire(self, now: float) -> str:
        """Close the connection if a time limit has passed; return the reason, or ''."""
        ending = self._discarding or self.transport.is_closing()
        if self._does_not_read(now):
            self.transport.abort()
            return "unread_response"
        if self._in_body and not ending:
            return self._expire_body(now)
        if self._is_working():
            return ""
        if ending and now - self._since > LINGER_SECONDS:
            self.transport.abort()
            return "lingering"
        return "" if ending else self._expire_waiting(now)

    def _expire_waiting(self, now: float) -> str:
        limits, waited = self._registry.limits, now - self._since
        if self._in_head and waited > limits.head:
            self._refuse(HTTPStatus.REQUEST_TIMEOUT)
            return "slow_head"
        if waited > (limits.idle if self._requests else limits.head):
            self.transport.close()
            return "idle"
        return ""

    def _expire_body(self, now: float) -> str:
        limits = self._registry.limits
        if self.flow.read_paused:  # the application is slow, not the client
            self._since, self._timed_from, self._progress = now, self._body_bytes, now
            return ""
        arrived = self._body_bytes - self._timed_from
        behind = (now - self._since - limits.body) * limits.body_rate - arrived
        if now - self._progress <= limits.body and behind <= 0:
            return ""
        self._refuse(HTTPStatus.REQUEST_TIMEOUT)
        return "slow_body"

    def _does_not_read(self, now: float) -> bool:
        """True if the client reads the response more slowly than `body_rate` for too long."""
        size, limits = self.transport.get_write_buffer_size(), self._registry.limits
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

    # Rank, and the end of the connection.

    def _is_working(self) -> bool:
        cycle: Any = self.cycle  # None before the first request
        return bool(self.pipeline) or (cycle is not None and not cycle.response_complete)

    def _update_rank(self) -> None:
        working = self._is_working() and not self.transport.is_closing()
        if not working:
            rank = Rank.IDLE
        elif self._in_body or self.flow.write_paused:
            rank = Rank.STALLED
        else:
            rank = Rank.BUSY
        if rank is not self._connection.rank:
            self._connection.rank = rank
            self._registry.rank(self._connection, rank)

    def _refuse(self, status: HTTPStatus) -> None:
        """Answer with a problem and close, after the responses to the requests before this one."""
        if self.transport.is_closing() or self._waiting_refusal is not None:
            return
        in_body, self._in_head, self._in_body = self._in_body, False, False
        self._discarding = True
        if not self._is_working():
            self._write_refusal(status)
        elif not in_body:
            self._waiting_refusal = status
        elif self.pipeline:
            self.pipeline.popleft()  # the newest: the one whose body is refused
            self._waiting_refusal = status
        elif self.cycle.response_started:
            self.transport.abort()
        else:
            self.cycle.disconnected = True
            self.cycle.message_event.set()
            self._write_refusal(status)
        self._update_rank()

    def _write_refusal(self, status: HTTPStatus) -> None:
        self._waiting_refusal = None
        request_id = uuid.uuid4().hex
        body = json.dumps(_problem(status, request_id)).encode()
        head = [
            f"HTTP/1.1 {status.value} {status.phrase}",
            "Content-Type: application/problem+json",
            f"Content-Length: {len(body)}",
            f"X-Request-Id: {request_id}",
            "Cache-Control: no-store",
            "Connection: close",
        ]
        if status is HTTPStatus.SERVICE_UNAVAILABLE:
            head.append("Retry-After: 1")
        self.transport.write("\r\n".join(head).encode() + b"\r\n\r\n" + body)
        self._linger()

    def _linger(self) -> None:
        """Close our side and discard some input: a reset could destroy the response."""
        if self.transport.is_closing():
            return
        self._discarding, self._since = True, self.loop.time()
        self.flow.resume_reading()
        with suppress(OSError):  # the client is gone; the next read shows it
            self.transport.write_eof()


def _require_unambiguous(version: str, method: bytes, headers: list[tuple[bytes, bytes]]) -> None:
    """
    Raise unless every parser reads this head in the same way.

    RFC 9112: exactly one Host (§3.2), no transfer coding but `chunked` (§6.1). The parser itself
    refuses obs-fold, a bare LF, two lengths, and both framings at once.
    """
    hosts = sum(name == b"host" for name, _ in headers)
    codings = [value.strip().lower() for name, value in headers if name == b"transfer-encoding"]
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


def _status_of(error: httptools.HttpParserError) -> HTTPStatus:
    cause = error.__context__
    return cause.status if isinstance(cause, _RequestRefused) else HTTPStatus.BAD_REQUEST


def _problem(status: HTTPStatus, request_id: str) -> dict[str, object]:
    code, detail = _DETAILS[status]
    return {
        "type": f"urn:report-engine:problem:{code}",
        "title": status.phrase,
        "status": status,
        "detail": detail,
        "instance": "",
        "code": code,
        "errors": [],
        "requestId": request_id,
        "message": detail,
        "retryable": status in _RETRYABLE,
    }
