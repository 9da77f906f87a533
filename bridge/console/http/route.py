"""
The route class of the console's endpoints: it authenticates the user, then reads the body.

FastAPI alone would read and parse the body of an unknown client.
"""

from collections.abc import Callable, Coroutine, Mapping
from types import MappingProxyType
from typing import Any, Final

from fastapi import Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from starlette.requests import ClientDisconnect
from starlette.responses import JSONResponse
from typing_extensions import override

from bridge.audit.events import code_of
from bridge.console.errors import ConsoleOverloaded, InvalidJson, RequestTooLarge
from bridge.console.http.guard import authenticate, record_refusal
from bridge.console.permissions import Permission
from bridge.errors import BridgeError
from bridge.executors import PoolFull
from bridge.request_body import (
    BodyTooLarge,
    BoundedRequest,
    BudgetExhausted,
    require_few_values,
)
from parsers import json
from parsers.errors import DocumentRefused

LIMIT = 2**20
"""The maximum size of a body, in bytes."""

LARGE_LIMIT = 20 * 2**20
"""The maximum size where messages, definitions or packages are sent: a message of 16 MiB."""

Handler = Callable[[Request], Coroutine[Any, Any, Response]]


class _ConsoleRequest(BoundedRequest):
    @override
    def parse(self, body: bytes) -> Any:
        require_few_values(body)
        return json.read(body)


class ConsoleRoute(APIRoute):
    """A route for users with a console role; `request.state.user` is the user."""

    large_for: frozenset[Permission] | None = None
    """The permissions that a user needs to send `LARGE_LIMIT` bytes; None: nobody may."""

    @override
    def get_route_handler(self) -> Handler:
        handler = super().get_route_handler()

        async def guarded(request: Request) -> Response:
            try:
                return await handle(request)
            except RequestValidationError:
                await record_refusal(request, "bad_request")
                raise
            except BridgeError as error:
                await record_refusal(request, code_of(error))
                raise

        async def handle(request: Request) -> Response:
            user = await authenticate(request)
            request.state.user = user
            large = self.large_for is not None and self.large_for <= user.grant.permissions
            with _ConsoleRequest(request, LARGE_LIMIT if large else LIMIT) as bounded:
                try:
                    if self.body_field is not None:
                        await _load(bounded)
                    return await handler(bounded)
                except BodyTooLarge:
                    raise RequestTooLarge from None
                except (BudgetExhausted, PoolFull):
                    raise ConsoleOverloaded from None
                except ClientDisconnect:  # there is no client to respond to
                    return Response(status_code=400)

        return guarded


async def _load(request: _ConsoleRequest) -> None:
    """Read the body here, because FastAPI turns every error while reading into a 400."""
    if await request.body():
        try:
            await request.json()
        except DocumentRefused as refusal:
            raise InvalidJson(refusal.reason) from None


class MessageRoute(ConsoleRoute):
    """A route that receives an edited message."""

    large_for = frozenset({Permission.EDIT, Permission.BODIES})


class AuthoringRoute(ConsoleRoute):
    """A route that receives definitions, samples or interface packages."""

    large_for = frozenset({Permission.AUTHOR})


HEADERS: Final = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
        "font-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'self'; "
        "frame-ancestors 'none'"
    ),
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
}


class UncachedJson(JSONResponse):
    """A JSON response that neither browsers nor proxies may store."""

    def __init__(self, content: Any, status_code: int = 200, **more: Any) -> None:
        super().__init__(content, status_code, HEADERS, **more)


def problem_response(
    status: int, code: str, detail: str, more: Mapping[str, Any] = MappingProxyType({})
) -> Response:
    """Return an error as problem details (RFC 9457)."""
    body = {**more, "type": "about:blank", "status": status, "code": code, "detail": detail}
    return JSONResponse(body, status, HEADERS, media_type="application/problem+json")
