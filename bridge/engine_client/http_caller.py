"""
HTTP caller: sends requests to a report service in another process or on another host, by httpx.

It makes one attempt per request; the queues repeat failed calls.
"""

from collections.abc import Mapping
from http.cookiejar import CookieJar, DefaultCookiePolicy
from typing import Final

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

TIMEOUT: Final = httpx.Timeout(30.0, connect=5.0)
"""Seconds to wait for a free connection, for a part of the response, and to connect."""

LIMITS: Final = httpx.Limits(max_connections=64, max_keepalive_connections=32)

LARGEST: Final = 64 * 2**20
"""Bytes of the largest response: several times the largest export of our own engine."""

_NOT_SENT: Final = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)
_NEVER_VALID: Final = (httpx.UnsupportedProtocol, httpx.InvalidURL, httpx.TooManyRedirects)


class HttpCaller(EngineCaller):
    """Sends requests to the service at the base address of an httpx client."""

    def __init__(self, client: httpx.AsyncClient, largest: int = LARGEST) -> None:
        """`aclose` closes the client; `largest` is in bytes."""
        self._client = client
        self._largest = largest
        self._base = str(client.base_url).rstrip("/")

    @override
    async def send(self, request: EngineRequest) -> EngineResponse:
        sent = self._client.build_request(
            request.method,
            request_target(request, self._base),
            content=request.content,
            headers=_encoded(request.headers),
        )
        if request.wait:
            sent.extensions["timeout"]["read"] = request.wait
        if self._client.is_closed:
            raise unreachable(request.path)
        try:
            return await self._exchange(sent, request.path)
        except _NOT_SENT:
            raise unreachable(request.path) from None
        except _NEVER_VALID:
            raise bad_address(request.path) from None
        except httpx.HTTPError:
            raise no_answer(request.path) from None

    @override
    async def aclose(self) -> None:
        await self._client.aclose()

    async def _exchange(self, sent: httpx.Request, path: str) -> EngineResponse:
        """Send a request and read the response in parts, up to the largest size."""
        response = await self._client.send(sent, stream=True)
        parts, size = [], 0
        try:
            async for part in response.aiter_bytes():
                size += len(part)
                if size > self._largest:
                    raise EngineFailure(
                        path, FailureKind.AMBIGUOUS, "too_large", response.status_code
                    )
                parts.append(part)
        finally:
            await response.aclose()
        return EngineResponse(response.status_code, response.headers, b"".join(parts))


def http_caller(base_url: str) -> HttpCaller:
    """
    Make a caller of the service at `base_url`.

    It ignores proxy settings of the environment and stores no cookies, because different requests
    carry the cookies of different users.
    """
    no_cookies = CookieJar(DefaultCookiePolicy(allowed_domains=[]))
    return HttpCaller(
        httpx.AsyncClient(
            base_url=base_url,
            timeout=TIMEOUT,
            limits=LIMITS,
            trust_env=False,
            cookies=no_cookies,
        )
    )


def _encoded(headers: Mapping[str, str]) -> dict[bytes, bytes]:
    """Encode headers as UTF-8: httpx rejects text that is not ASCII."""
    return {name.encode(): value.encode() for name, value in headers.items()}
