"""The route class of every console endpoint: identify the person, read the body, answer problems.

FastAPI itself reads and parses the body before it asks who sent it.
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
from bridge.executors import Full
from bridge.request_body import (
    BodyTooLarge,
    BoundedRequest,
    BudgetExhausted,
    require_few_values,
)
from parsers import json
from parsers.errors import DocumentRefused

LIMIT = 2**20
"""Bytes of a request to most endpoints."""

LARGE_LIMIT = 20 * 2**20
"""Bytes where messages, definitions or interface packages are sent: an edited message of 16 MiB."""

Handler = Callable[[Request], Coroutine[Any, Any, Response]]


class _ConsoleRequest(BoundedRequest):
    @override
    def parse(self, body: bytes) -> Any:
        require_few_values(body)
        return json.read(body)


class ConsoleRoute(APIRoute):
    """A route for people with a console role; the person is `request.state.person`."""

    large_for: frozenset[Permission] | None = None
    """The permissions with which a person may send `LARGE_LIMIT` bytes; None: nobody may."""

    @override
    def get_route_handler(self) -> Handler:
        handler = super().get_route_handler()

        async def guarded(request: Request) -> Response:
            try:
                return await admitted(request)
            except RequestValidationError:
                await record_refusal(request, "bad_request")
                raise
            except BridgeError as error:
                await record_refusal(request, code_of(error))
                raise

        async def admitted(request: Request) -> Response:
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
                except (BudgetExhausted, Full):
                    raise ConsoleOverloaded from None
                except ClientDisconnect:  # nobody reads the response
                    return Response(status_code=400)

        return guarded


async def _load(request: _ConsoleRequest) -> None:
    """Read the body here: FastAPI answers 400 to whatever is raised while it reads one."""
    if await request.body():
        try:
            await request.json()
        except DocumentRefused as refusal:
            raise InvalidJson(refusal.reason) from None


class MessageRoute(ConsoleRoute):
    """A route to which an edited message is sent."""

    large_for = frozenset({Permission.EDIT, Permission.BODIES})


class AuthoringRoute(ConsoleRoute):
    """A route to which definitions, samples or interface packages are sent."""

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
    """An answer that no browser and no proxy keeps."""

    def __init__(self, content: Any, status_code: int = 200, **more: Any) -> None:
        super().__init__(content, status_code, HEADERS, **more)


def problem(
    status: int, code: str, detail: str, more: Mapping[str, Any] = MappingProxyType({})
) -> Response:
    """Make a refusal's answer."""
    body = {**more, "type": "about:blank", "status": status, "code": code, "detail": detail}
    return JSONResponse(body, status, HEADERS, media_type="application/problem+json")
