"""
HTTP sender: posts each message, and returns the acknowledgment in the response body.

Raises `NotConnected` if nothing was sent, `ReplyLost` if the state at the receiver is unknown, and
`NoAcknowledgment` for a response without an acknowledgment. Repeats nothing by itself.
"""

from collections.abc import Callable
from typing import Any

from twisted.internet.defer import CancelledError, Deferred, succeed
from twisted.internet.error import ConnectError, DNSLookupError
from twisted.internet.error import TimeoutError as ConnectTimedOut
from twisted.internet.protocol import Protocol, connectionDone
from twisted.python.failure import Failure
from twisted.web._newclient import RequestNotSent
from twisted.web.client import Agent, ResponseDone
from twisted.web.http import PotentialDataLoss
from twisted.web.http_headers import Headers
from twisted.web.iweb import IBodyProducer
from typing_extensions import override
from zope.interface import implementer  # type: ignore[import-untyped]

from bridge.transports import NoAcknowledgment
from bridge.transports.http_protocol import CONTENT_TYPE, content_type_of
from mappings.hl7.acknowledgment import read_ack
from mllp.contract import Clock, Timer
from mllp.errors import LossReason, NotConnected, ReplyLost
from mllp.handshakes import describe_handshake

NOT_SENT = (ConnectError, ConnectTimedOut, DNSLookupError, RequestNotSent)
FIRST_REFUSAL = 300
"""The lowest status that contradicts a positive acknowledgment."""

# A response may arrive in 1000 pieces, and in one more for each 32 of its bytes.
_PIECES, _BYTES_PER_PIECE = 1000, 32


@implementer(IBodyProducer)
class _Body:
    """A message as request body."""

    def __init__(self, payload: bytes) -> None:
        self._payload = payload
        self.length = len(payload)

    def startProducing(self, consumer: Any) -> Deferred[None]:  # noqa: N802  # Twisted's name
        consumer.write(self._payload)
        return succeed(None)

    def pauseProducing(self) -> None:  # noqa: N802  # Twisted's name
        """Do nothing: the body was written at once."""

    def resumeProducing(self) -> None:  # noqa: N802  # Twisted's name
        """Do nothing: the body was written at once."""

    def stopProducing(self) -> None:  # noqa: N802  # Twisted's name
        """Do nothing: the body was written at once."""


class _BodyCollector(Protocol):
    """Collects the body of a response, up to a limit."""

    def __init__(self, max_bytes: int) -> None:
        self.done: Deferred[bytes] = Deferred(lambda _: self._cancel())
        self._max_bytes = max_bytes
        self._data = bytearray()
        self._pieces = 0

    @override
    def dataReceived(self, data: bytes) -> None:
        self._data += data
        self._pieces += 1
        too_many = self._pieces > _PIECES + len(self._data) // _BYTES_PER_PIECE
        if too_many or len(self._data) > self._max_bytes:
            self._abort()
            self._finish(ReplyLost(LossReason.GARBAGE))

    @override
    def connectionLost(self, reason: Failure = connectionDone) -> None:
        # A response without a length ends with its connection (RFC 9112 §6.3).
        is_complete = isinstance(reason.value, ResponseDone | PotentialDataLoss)
        self._finish(bytes(self._data) if is_complete else ReplyLost(LossReason.CLOSED))

    def _finish(self, outcome: bytes | ReplyLost) -> None:
        if self.done.called:
            return
        if isinstance(outcome, bytes):
            self.done.callback(outcome)
        else:
            self.done.errback(outcome)

    def _cancel(self) -> None:
        """Give up: the request was sent, so its result is unknown."""
        self._abort()
        self._finish(ReplyLost(LossReason.CLOSED))

    def _abort(self) -> None:
        transport: Any = self.transport
        if transport is not None:
            transport.loseConnection()


class HttpSender:
    """Posts messages to one address, one at a time."""

    def __init__(
        self,
        agent: Agent,
        url: bytes,
        *,
        clock: Clock,
        reply_timeout: float,
        matches: Callable[[bytes, bytes], bool],
        authorization: bytes | None = None,
        max_bytes: int = 16 * 2**20,
    ) -> None:
        """`agent` has the TLS options; a response may have up to `max_bytes` bytes."""
        self._agent = agent
        self._url = url
        self._clock = clock
        self._reply_timeout = reply_timeout
        self._matches = matches
        self._authorization = authorization
        self._max_bytes = max_bytes

    def send(self, payload: bytes) -> Deferred[bytes]:
        """Post one message; return its acknowledgment."""
        headers = Headers({b"content-type": [content_type_of(payload).encode()]})
        headers.setRawHeaders(b"accept", [CONTENT_TYPE.encode()])
        if self._authorization is not None:
            headers.setRawHeaders(b"authorization", [self._authorization])
        body: Any = _Body(payload)
        requested = self._agent.request(b"POST", self._url, headers, body)
        overdue: list[None] = []

        def give_up() -> None:
            overdue.append(None)
            answered.cancel()

        timer = self._clock.callLater(self._reply_timeout, give_up)
        answered: Deferred[bytes] = requested.addCallback(self._read, payload)
        answered.addErrback(_classify, overdue)
        return answered.addBoth(_stop_timer, timer)

    def close(self) -> Deferred[None]:
        """Do nothing: each message has its own connection."""
        return succeed(None)

    def _read(self, response: Any, payload: bytes) -> Deferred[bytes]:
        collector = _BodyCollector(self._max_bytes)
        response.deliverBody(collector)
        return collector.done.addCallback(self._check_reply, int(response.code), payload)

    def _check_reply(self, body: bytes, status: int, payload: bytes) -> bytes:
        ack = read_ack(body)
        if ack.code is None:
            raise NoAcknowledgment(status)
        if not self._matches(payload, body):
            raise ReplyLost(LossReason.MISMATCH)
        if ack.code.positive and status >= FIRST_REFUSAL:  # contradictory
            raise ReplyLost(LossReason.GARBAGE)
        return body


def _stop_timer(outcome: Any, timer: Timer) -> Any:
    if timer.active():
        timer.cancel()
    return outcome


def _classify(failure: Failure, overdue: list[None]) -> Failure:
    """Convert a failure to NotConnected or ReplyLost."""
    error = failure.value
    if overdue:
        raise ReplyLost(LossReason.TIMEOUT)
    if isinstance(error, NoAcknowledgment | ReplyLost):
        return failure
    if isinstance(error, NOT_SENT):
        raise NotConnected(type(error).__name__)
    for reason in [failure, *getattr(error, "reasons", [])]:
        if (handshake := describe_handshake(reason.value)) is not None:
            raise NotConnected(handshake.reason, is_tls=True)
    if isinstance(error, CancelledError):
        raise NotConnected("cancelled")
    raise ReplyLost(LossReason.CLOSED)
