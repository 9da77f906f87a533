"""
Calls by httpx: to any service, over TLS or not.

The only file here that touches httpx.
"""

import httpx
from typing_extensions import override

from bridge.engine_client.calling import (
    Answer,
    Caller,
    Request,
    bad_address,
    no_answer,
    unreachable,
)

NOT_SENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)
NEVER_VALID = (httpx.UnsupportedProtocol, httpx.InvalidURL, httpx.TooManyRedirects)


class OverHttpx(Caller):
    """Asks with a client whose base address is the service's."""

    def __init__(self, http: httpx.AsyncClient) -> None:
        self._http = http

    @override
    async def ask(self, request: Request) -> Answer:
        made = self._http.build_request(
            request.method,
            request.path,
            params=request.query,
            content=request.content,
            headers=request.headers,
        )
        if request.wait:
            made.extensions["timeout"]["read"] = request.wait
        try:
            answer = await self._http.send(made)
        except NOT_SENT:
            raise unreachable(request.path) from None
        except NEVER_VALID:
            raise bad_address(request.path) from None
        except httpx.HTTPError:
            raise no_answer(request.path) from None
        return Answer(answer.status_code, answer.headers, answer.content)

    @override
    async def aclose(self) -> None:
        await self._http.aclose()
