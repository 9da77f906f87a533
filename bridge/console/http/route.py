"""
The route class of every console endpoint: identify the person, then read the body.

FastAPI itself reads and parses the body before it asks who sent it.
"""

from collections.abc import Callable, Coroutine
from typing import Any

from fastapi import Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from starlette.requests import ClientDisconnect
from typing_extensions import override

from bridge.audit.events import code_of
from bridge.console.errors import BadJson, Overloaded, TooLarge
from bridge.console.http.guard import note_refusal, person_of
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
                await note_refusal(request, "bad_request")
                raise
            except BridgeError as error:
                await note_refusal(request, code_of(error))
                raise

        async def admitted(request: Request) -> Response:
            person = await person_of(request)
            request.state.person = person
            large = self.large_for is not None and self.large_for <= person.grant.permissions
            with _ConsoleRequest(request, LARGE_LIMIT if large else LIMIT) as bounded:
                try:
                    if self.body_field is not None:
                        await _load(bounded)
                    return await handler(bounded)
                except BodyTooLarge:
                    raise TooLarge from None
                except (BudgetExhausted, Full):
                    raise Overloaded from None
                except ClientDisconnect:  # nobody reads the response
                    return Response(status_code=400)

        return guarded


async def _load(request: _ConsoleRequest) -> None:
    """Read the body here: FastAPI answers 400 to whatever is raised while it reads one."""
    if await request.body():
        try:
            await request.json()
        except DocumentRefused as refusal:
            raise BadJson(refusal.reason) from None


class MessageRoute(ConsoleRoute):
    """A route to which an edited message is sent."""

    large_for = frozenset({Permission.EDIT, Permission.BODIES})


class AuthoringRoute(ConsoleRoute):
    """A route to which definitions, samples or interface packages are sent."""

    large_for = frozenset({Permission.AUTHOR})
