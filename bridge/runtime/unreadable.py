"""
What cannot be read as HTTP gets a problem body (RFC 9457), too, before the connection closes.

No application sees such a request: its address, its headers and what they hold are unknown.
"""

import json
import sys
import uuid
from http import HTTPStatus

import h11
from typing_extensions import override
from uvicorn.protocols.http.h11_impl import H11Protocol

_DETAILS = {
    HTTPStatus.BAD_REQUEST: ("malformed_http", "the request is not HTTP/1.1"),
    HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE: (
        "headers_too_large",
        "the request's first line and headers are too large",
    ),
}


class HttpProtocol(H11Protocol):
    """Uvicorn's own protocol, but for the answer to what it cannot read."""

    @override
    def send_400_response(self, msg: str) -> None:
        """Answer 431 for headers that find no end, else 400, and close."""
        status = _status(sys.exc_info()[1])
        request_id = uuid.uuid4().hex
        body = json.dumps(_problem(status, request_id)).encode()
        headers = [
            ("Content-Type", "application/problem+json"),
            ("Content-Length", str(len(body))),
            ("X-Request-Id", request_id),
            ("Cache-Control", "no-store"),
            ("Connection", "close"),
        ]
        answer = h11.Response(status_code=status, headers=headers, reason=status.phrase)
        for event in (answer, h11.Data(data=body), h11.EndOfMessage()):
            self.transport.write(self.conn.send(event) or b"")
        self.transport.close()


def _status(error: BaseException | None) -> HTTPStatus:
    hint = error.error_status_hint if isinstance(error, h11.RemoteProtocolError) else 0
    known = next((each for each in _DETAILS if each == hint), None)
    return known or HTTPStatus.BAD_REQUEST


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
