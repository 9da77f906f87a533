"""
HTTP sender: posts each message, and returns the acknowledgment in the response body.

Raises `NotConnected` if nothing was sent, `ReplyLost` if the state at the receiver is unknown, and
`NoAcknowledgment` for a response without an acknowledgment. Repeats nothing by itself.
"""

import asyncio
import errno
import socket
import ssl
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

import httpx
from twisted.internet.defer import Deferred, succeed

from bridge.transports import NoAcknowledgment
from bridge.transports.http_protocol import CONTENT_TYPE, content_type_of
from mappings.hl7.acknowledgment import read_ack
from mllp.errors import LossReason, NotConnected, ReplyLost
from mllp.tls import describe_handshake

FIRST_REFUSAL: Final = 300
"""The lowest status that contradicts a positive acknowledgment."""

# A response may arrive in 1000 pieces, and in one more for each 32 of its bytes.
_PIECES, _BYTES_PER_PIECE = 1000, 32

_MAX_CAUSES = 8
_CAUSES = MappingProxyType(
    {errno.EHOSTUNREACH: "NoRouteError", errno.ENETUNREACH: "NoRouteError"}
)  # the names of `NotConnected.cause` are those of Twisted, as for MLLP


@dataclass(frozen=True, slots=True)
class HttpReceiver:
    """
    The address of a destination, and how to connect to it; times in seconds.

    `tls` returns the context for the next connection, None without TLS. `server_name` is the name
    that the certificate must have.
    """

    url: str
    connect_timeout: float
    reply_timeout: float
    tls: Callable[[], ssl.SSLContext | None] = lambda: None
    server_name: str = ""
    authorization: bytes | None = None


class HttpPoster:
    """Posts to one address; each request has its own connection."""

    def __init__(self, receiver: HttpReceiver, max_bytes: int) -> None:
        """A response may have up to `max_bytes` bytes."""
        self._receiver = receiver
        self._max_bytes = max_bytes

    async def post(self, payload: bytes, headers: Iterable[tuple[str, str]]) -> tuple[int, bytes]:
        """Return status and body of the response. Raises NotConnected, ReplyLost."""
        try:
            async with asyncio.timeout(self._receiver.reply_timeout):
                return await self._post(payload, headers)
        except TimeoutError:
            raise ReplyLost(LossReason.TIMEOUT) from None
        except (httpx.ConnectError, httpx.ConnectTimeout) as error:
            raise _not_connected(error) from None
        except httpx.HTTPError:
            raise ReplyLost(LossReason.CLOSED) from None

    async def _post(self, payload: bytes, headers: Iterable[tuple[str, str]]) -> tuple[int, bytes]:
        receiver, all_headers = self._receiver, [*headers]
        if receiver.authorization is not None:
            all_headers.append(("Authorization", receiver.authorization.decode("latin-1")))
        limit = httpx.Timeout(receiver.reply_timeout, connect=receiver.connect_timeout)
        extensions: dict[str, Any] = {"timeout": limit.as_dict()}
        if receiver.server_name:
            extensions["sni_hostname"] = receiver.server_name
        request = httpx.Request(
            "POST", receiver.url, headers=all_headers, content=payload, extensions=extensions
        )
        # Without a context there is no TLS: the address begins with http.
        async with httpx.AsyncClient(verify=receiver.tls() or False, trust_env=False) as client:
            response = await client.send(request, stream=True)
            try:
                body = await self._read(response)
            finally:
                await response.aclose()
        return response.status_code, body

    async def _read(self, response: httpx.Response) -> bytes:
        body, pieces = bytearray(), 0
        async for piece in response.aiter_raw():
            body += piece
            pieces += 1
            if len(body) > self._max_bytes or pieces > _PIECES + len(body) // _BYTES_PER_PIECE:
                raise ReplyLost(LossReason.GARBAGE)
        return bytes(body)


class HttpSender:
    """Posts messages to one address, one at a time, each over its own connection."""

    def __init__(
        self,
        receiver: HttpReceiver,
        *,
        matches: Callable[[bytes, bytes], bool],
        max_bytes: int = 16 * 2**20,
    ) -> None:
        """A response may have up to `max_bytes` bytes."""
        self._poster = HttpPoster(receiver, max_bytes)
        self._matches = matches

    def send(self, payload: bytes) -> Deferred[bytes]:
        """Post one message; return its acknowledgment."""
        return Deferred.fromFuture(asyncio.ensure_future(self._send(payload)))

    def close(self) -> Deferred[None]:
        """Do nothing: each message has its own connection."""
        return succeed(None)

    async def _send(self, payload: bytes) -> bytes:
        headers = [("Content-Type", content_type_of(payload)), ("Accept", CONTENT_TYPE)]
        status, body = await self._poster.post(payload, headers)
        return self._check_reply(body, status, payload)

    def _check_reply(self, body: bytes, status: int, payload: bytes) -> bytes:
        ack = read_ack(body)
        if ack.code is None:
            raise NoAcknowledgment(status)
        if not self._matches(payload, body):
            raise ReplyLost(LossReason.MISMATCH)
        if ack.code.positive and status >= FIRST_REFUSAL:  # contradictory
            raise ReplyLost(LossReason.GARBAGE)
        return body


def _not_connected(error: httpx.TransportError) -> NotConnected:
    cause = "TimeoutError" if isinstance(error, httpx.ConnectTimeout) else type(error).__name__
    for inner in _causes(error):
        if (handshake := describe_handshake(inner)) is not None:
            return NotConnected(handshake.reason, is_tls=True)
        if isinstance(inner, socket.gaierror):
            cause = "DNSLookupError"
        elif isinstance(inner, OSError):
            cause = _CAUSES.get(inner.errno or 0, type(inner).__name__)
    return NotConnected(cause)


def _causes(error: BaseException) -> Iterator[BaseException]:
    """Yield an error and those below it; httpx and anyio wrap the one of the system."""
    at: BaseException | None = error
    for _ in range(_MAX_CAUSES):
        if at is None:
            return
        yield at
        first = at.exceptions[0] if isinstance(at, BaseExceptionGroup) else None
        at = first or at.__cause__ or at.__context__
