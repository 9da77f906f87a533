"""
Callers: send requests to a report service by HTTP, or to an ASGI application in this process.

A caller makes one attempt per request; the queues repeat failed calls. An application runs in the
caller's task, so cancelling the task cancels the application. Its errors have the results of an
HTTP server: status 500 before the response has started, else no answer.
"""

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from contextlib import suppress
from http.cookiejar import CookieJar, DefaultCookiePolicy
from typing import Any, Final
from urllib.parse import unquote, urlsplit

import httpx
from typing_extensions import override

from bridge.engine_client.errors import EngineFailure
from bridge.engine_client.transport import (
    EngineCaller,
    EngineRequest,
    EngineResponse,
    bad_address,
    no_answer,
    request_target,
    unreachable,
)
from bridge.errors import FailureKind
from bridge.web.bodies import IN_PROCESS
from mllp.handshakes import HandshakeFailure, describe_handshake

TIMEOUT: Final = httpx.Timeout(30.0, connect=5.0)
"""Seconds to wait for a free connection, for a part of the response, and to connect."""

LIMITS: Final = httpx.Limits(max_connections=64, max_keepalive_connections=32)

MAX_RESPONSE_BYTES: Final = 64 * 2**20
"""Bytes of the largest response: several times the largest export of our own engine."""

_NOT_SENT: Final = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)
_NEVER_VALID: Final = (httpx.UnsupportedProtocol, httpx.InvalidURL, httpx.TooManyRedirects)


_MAX_CAUSES: Final = 6
"""Errors below one another that are searched for that of the TLS library."""

OnHandshakeFailure = Callable[[str, HandshakeFailure], object]
"""Handles a failed TLS handshake with the service at an address."""


def ignore_handshake_failure(_address: str, _failure: HandshakeFailure) -> None:
    """Ignore a failed handshake."""


class HttpCaller(EngineCaller):
    """Sends requests to the service at the base address of an httpx client."""

    def __init__(
        self,
        client: httpx.AsyncClient,
        max_response_bytes: int = MAX_RESPONSE_BYTES,
        on_handshake_failure: OnHandshakeFailure = ignore_handshake_failure,
    ) -> None:
        """`aclose` closes the client; `max_response_bytes` limits each response."""
        self._on_handshake_failure = on_handshake_failure
        self._client = client
        self._max_response_bytes = max_response_bytes
        self._base = str(client.base_url).rstrip("/")

    @override
    async def send(self, request: EngineRequest) -> EngineResponse:
        prepared = self._client.build_request(
            request.method,
            request_target(request, self._base),
            content=request.content,
            # httpx rejects text that is not ASCII
            headers={name.encode(): value.encode() for name, value in request.headers.items()},
        )
        if request.read_timeout:
            prepared.extensions["timeout"]["read"] = request.read_timeout
        if self._client.is_closed:
            raise unreachable(request.path)
        try:
            return await self._exchange(prepared, request.path)
        except _NOT_SENT as error:
            self._note_handshake(error)
            raise unreachable(request.path) from None
        except _NEVER_VALID:
            raise bad_address(request.path) from None
        except httpx.HTTPError:
            raise no_answer(request.path) from None

    def _note_handshake(self, error: BaseException | None) -> None:
        """Report a failed TLS handshake; httpx puts the error of the TLS library below its own."""
        for _ in range(_MAX_CAUSES):
            if error is None:
                return
            if found := describe_handshake(error):
                self._on_handshake_failure(self._base, found)
                return
            error = error.__cause__ or error.__context__

    @override
    async def aclose(self) -> None:
        await self._client.aclose()

    async def _exchange(self, request: httpx.Request, path: str) -> EngineResponse:
        response = await self._client.send(request, stream=True)
        parts, size = [], 0
        try:
            async for part in response.aiter_bytes():
                size += len(part)
                if size > self._max_response_bytes:
                    raise EngineFailure(
                        path, FailureKind.AMBIGUOUS, "too_large", response.status_code
                    )
                parts.append(part)
        finally:
            await response.aclose()
        return EngineResponse(response.status_code, response.headers, b"".join(parts))


def http_caller(
    base_url: str, on_handshake_failure: OnHandshakeFailure = ignore_handshake_failure
) -> HttpCaller:
    """
    Make a caller of the service at `base_url`.

    It ignores proxy settings of the environment and stores no cookies, because different requests
    carry the cookies of different users.
    """
    no_cookies = CookieJar(DefaultCookiePolicy(allowed_domains=[]))
    return HttpCaller(
        httpx.AsyncClient(
            base_url=base_url, timeout=TIMEOUT, limits=LIMITS, trust_env=False, cookies=no_cookies
        ),
        on_handshake_failure=on_handshake_failure,
    )


Message = MutableMapping[str, Any]
Application = Callable[
    [Message, Callable[[], Awaitable[Message]], Callable[[Message], Awaitable[None]]],
    Awaitable[None],
]

_SERVER_ERROR = 500
_CLIENT_ADDRESS = ("127.0.0.1", 0)


class InProcessCaller(EngineCaller):
    """Sends requests to an application whose base URL is `base`."""

    def __init__(self, application: Application, base: str) -> None:
        self._application = application
        self._base = base.rstrip("/")
        parts = urlsplit(base)
        self._scheme = parts.scheme
        self._host = (b"host", parts.netloc.encode("ascii"))
        self._server = (parts.hostname or "", parts.port)

    @override
    async def send(self, request: EngineRequest) -> EngineResponse:
        scope, exchange = self._scope(request), _Exchange(request.content or b"")
        with suppress(Exception):  # the application has logged it
            await self._application(scope, exchange.receive, exchange.send)
        if not exchange.begun:
            return EngineResponse(_SERVER_ERROR, {}, b"")
        if not exchange.ended:
            raise no_answer(request.path)
        return exchange.response()

    @override
    async def aclose(self) -> None:
        """Do nothing: no connection is open."""

    def _scope(self, request: EngineRequest) -> Message:
        """Return the ASGI scope of a request. Raises EngineFailure."""
        path, _, query = request_target(request, self._base).partition("?")
        headers = [self._host]
        headers += [(n.lower().encode(), v.encode()) for n, v in request.headers.items()]
        if request.content:
            headers.append((b"content-length", b"%d" % len(request.content)))
        return {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.3"},
            "http_version": "1.1",
            "method": request.method,
            "scheme": self._scheme,
            "path": unquote(path),
            "raw_path": path.encode("ascii"),
            "query_string": query.encode("ascii"),
            "root_path": "",
            "headers": headers,
            "client": _CLIENT_ADDRESS,
            "server": self._server,
            "extensions": {IN_PROCESS: {}},
        }


class _Exchange:
    """One request and its response: the `receive` and `send` of ASGI."""

    def __init__(self, content: bytes) -> None:
        self._content: bytes | None = content
        self._status = 0
        self._headers: dict[str, str] = {}
        self._parts: list[bytes] = []
        self._complete = asyncio.Event()

    @property
    def begun(self) -> bool:
        """Whether the response has started."""
        return self._status > 0

    @property
    def ended(self) -> bool:
        """Whether the response is complete."""
        return self._complete.is_set()

    async def receive(self) -> Message:
        """Return the request body; after the response, a disconnect."""
        if self._content is not None:
            content, self._content = self._content, None
            return {"type": "http.request", "body": content, "more_body": False}
        await self._complete.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Message) -> None:
        """Add a part of the response."""
        if message["type"] == "http.response.start":
            self._status = message["status"]
            self._headers = {
                name.decode("latin-1").lower(): value.decode("latin-1")
                for name, value in message.get("headers", ())
            }
        elif message["type"] == "http.response.body":
            self._parts.append(message.get("body", b""))
            if not message.get("more_body", False):
                self._complete.set()

    def response(self) -> EngineResponse:
        return EngineResponse(self._status, self._headers, b"".join(self._parts))
