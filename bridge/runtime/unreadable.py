"""
What cannot be read as HTTP gets a problem body (RFC 9457), too, before the connection closes.

No application sees such a request: its address, its headers and what they hold are unknown.
"""

import json
import uuid
from http import HTTPStatus
from typing import Any

from typing_extensions import override
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

MAX_HEADERS = 64 * 1024
"""Bytes of a first line and headers that are waited for to end."""

_DETAILS = {
    HTTPStatus.BAD_REQUEST: ("malformed_http", "the request is not HTTP/1.1"),
    HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE: (
        "headers_too_large",
        "the request's first line and headers are too large",
    ),
}


_WITHOUT_HOST = "1.0"
_VERSIONS = frozenset({_WITHOUT_HOST, "1.1"})


class _Unreadable(Exception):  # noqa: N818  # no error of ours: the parser refuses the request
    """A request of another version, or one that names no host or several (RFC 9112 §3.2)."""


class HttpProtocol(HttpToolsProtocol):
    """Uvicorn's own protocol, but for the answer to what it cannot read, and for what that is."""

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self._in_head = False
        self._head = 0  # bytes that have come of it

    @override
    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self._in_head:
            self._head += len(data)
            if self._head > MAX_HEADERS:
                self._refuse(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)

    @override
    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._in_head, self._head = True, 0

    @override
    def on_headers_complete(self) -> None:
        self._in_head = False
        version = self.parser.get_http_version()
        hosts = sum(name == b"host" for name, _ in self.headers)
        if version not in _VERSIONS or hosts > 1 or (not hosts and version != _WITHOUT_HOST):
            raise _Unreadable
        super().on_headers_complete()

    @override
    def send_400_response(self, msg: str) -> None:
        """Answer 400, and close."""
        self._refuse(HTTPStatus.BAD_REQUEST)

    def _refuse(self, status: HTTPStatus) -> None:
        self._in_head = False
        request_id = uuid.uuid4().hex
        body = json.dumps(_problem(status, request_id)).encode()
        head = (
            f"HTTP/1.1 {status.value} {status.phrase}",
            "Content-Type: application/problem+json",
            f"Content-Length: {len(body)}",
            f"X-Request-Id: {request_id}",
            "Cache-Control: no-store",
            "Connection: close",
        )
        self.transport.write("\r\n".join(head).encode() + b"\r\n\r\n" + body)
        self.transport.close()


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
        "retryable": False,
    }
