"""
HTTP resource of a listener: each POST is a message, and the response is its acknowledgment.

The handler processes the messages. `http_server` enforces the limits.
"""

import hmac
import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

from twisted.internet.address import IPv4Address, IPv6Address
from twisted.python.failure import Failure
from twisted.web.resource import Resource
from twisted.web.server import NOT_DONE_YET
from typing_extensions import override

from bridge.transports.http_protocol import (
    ACCEPTED,
    CONTENT_TYPE,
    read_content_type,
    status_of,
    to_listener_charset,
    to_sender_charset,
)
from mllp.contract import Handler, ServerObserver, as_deferred
from mllp.framing import Frame


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


class MessageResource(Resource):  # requests are Any: Twisted's have no types
    isLeaf = True  # noqa: N815  # Twisted's name

    def __init__(self, handle: Handler, rules: HttpListenerRules, observer: ServerObserver) -> None:
        """`handle` processes the messages."""
        super().__init__()  # type: ignore[no-untyped-call]  # Twisted's
        self._handle = handle
        self._rules = rules
        self._observer = observer
        self._connection_ids = itertools.count(1)
        self.paused = False
        self.in_progress = 0

    @override
    def render(self, request: Any) -> Any:
        """Respond to an unacceptable request at once, to others when the handler has replies."""
        refusal = self.refusal(request)
        if refusal is not None:
            return _status_response(request, refusal)
        content: Any = request.content
        _, declared = read_content_type(_header(request, b"content-type"))
        payload = to_listener_charset(content.getvalue(), declared, self._rules.charset)
        self._observer.frame_received(len(payload))
        answered = as_deferred(self._handle, Frame(payload), self._sender(request))
        self.in_progress += 1
        gone: list[Failure] = []
        request.notifyFinish().addErrback(gone.append)
        answered.addBoth(self._answer, request, gone, declared)
        return NOT_DONE_YET

    def is_authorized(self, request: Any) -> bool:
        """True if a request has the required Authorization header."""
        required, given = self._rules.authorization, request.getHeader(b"authorization") or b""
        return required is None or hmac.compare_digest(required, given)

    def refusal(self, request: Any) -> HTTPStatus | None:
        """Return the status of a request that is refused regardless of its body, else None."""
        path = request.path.decode("latin-1")
        media, _ = read_content_type(_header(request, b"content-type"))
        if path != self._rules.path:
            return HTTPStatus.NOT_FOUND
        if not self.is_authorized(request):
            return HTTPStatus.UNAUTHORIZED
        if request.method != b"POST":
            return HTTPStatus.METHOD_NOT_ALLOWED
        encoded = (_header(request, b"content-encoding") or "identity").lower() != "identity"
        if media not in ACCEPTED or encoded:
            return HTTPStatus.UNSUPPORTED_MEDIA_TYPE
        return HTTPStatus.SERVICE_UNAVAILABLE if self.paused else None

    def _sender(self, request: Any) -> _RequestPeer:
        address = request.getClientAddress()
        if isinstance(address, IPv4Address | IPv6Address):
            return _RequestPeer(address.host, address.port, next(self._connection_ids))
        return _RequestPeer("", 0, next(self._connection_ids))

    def _answer(
        self, replies: Sequence[bytes] | Failure, request: Any, gone: list[Failure], charset: str
    ) -> None:
        self.in_progress -= 1
        request.release()
        if gone:
            self._observer.replies_dropped(1)
        elif isinstance(replies, Failure):
            request.write(_status_response(request, HTTPStatus.INTERNAL_SERVER_ERROR))
            request.finish()
        else:
            # A request has one response: the application acknowledgment, if there are two.
            reply = replies[-1] if replies else b""
            request.setResponseCode(status_of(reply) if reply else HTTPStatus.NO_CONTENT)
            if reply:
                reply = to_sender_charset(reply, charset, self._rules.charset)
                content_type = f"{CONTENT_TYPE}; charset={charset}" if charset else CONTENT_TYPE
                request.setHeader("content-type", content_type)
                request.setHeader("content-length", str(len(reply)))
                request.write(reply)
            request.finish()


def _header(request: Any, name: bytes) -> str:
    """Return a header, empty if it is missing. Any bytes are allowed."""
    return (request.getHeader(name) or b"").decode("latin-1")


def _status_response(request: Any, status: HTTPStatus) -> bytes:
    """Set status and headers of a response without an acknowledgment; return its body."""
    request.setResponseCode(status)
    request.setHeader("content-type", "text/plain; charset=utf-8")
    match status:
        case HTTPStatus.UNAUTHORIZED:
            request.setHeader("www-authenticate", 'Basic realm="HL7"')
        case HTTPStatus.METHOD_NOT_ALLOWED:
            request.setHeader("allow", "POST")
        case HTTPStatus.SERVICE_UNAVAILABLE:
            request.setHeader("retry-after", "5")
    text = f"{status.phrase}\n".encode()
    request.setHeader("content-length", str(len(text)))
    return text
