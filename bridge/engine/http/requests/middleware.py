"""
ASGI middleware: request ids, response headers, answers to unexpected exceptions, HEAD requests.

Only the class and the place of an unexpected exception are logged, never its message, because a
message may quote patient data.
"""

import traceback
from collections.abc import Callable

import structlog
from starlette.datastructures import MutableHeaders
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from bridge.engine.http.requests.problems import Problem

API_VERSION = "1"
HEAD_PATHS = ("/api/", "/reporting/assets/")
"""Below these paths every GET route also serves HEAD."""
INTERNAL = Problem(500, "internal_error", "the service failed; the failure was logged")

log = structlog.get_logger(__name__)


class ResponseEnvelope:
    """Outermost middleware: sets request id and headers, and answers exceptions with 500."""

    def __init__(self, app: ASGIApp, new_id: Callable[[], str]) -> None:
        self._app = app
        self._new_id = new_id

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        state = scope.setdefault("state", {})
        state["request_id"] = request_id = self._new_id()
        started = False

        async def send_with_headers(message: Message) -> None:
            nonlocal started
            if message["type"] == "http.response.start":
                started = True
                headers = MutableHeaders(scope=message)
                headers["X-Request-Id"] = request_id
                headers["X-API-Version"] = API_VERSION
                headers.setdefault("X-Content-Type-Options", "nosniff")
                headers.setdefault("Cache-Control", "no-store")
                for name, value in state.get("headers", {}).items():
                    headers.setdefault(name, value)
            await send(message)

        try:
            await self._app(scope, receive, send_with_headers)
        except ClientDisconnect:  # the client has closed the connection
            return
        except Exception as error:  # a defect
            log.error(  # noqa: TRY400  # a traceback would quote the request
                "request_failed",
                request_id=request_id,
                failure=type(error).__name__,
                place=_place(error),
            )
            if started:
                raise
            answer = INTERNAL.response(instance=scope["path"], request_id=request_id)
            await answer(scope, receive, send_with_headers)


class HeadRequests:
    """
    Middleware that serves HEAD below `HEAD_PATHS` by the GET route; the server omits the body.

    Pages that browsers open have separate HEAD routes. Event streams have none.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        is_head = scope["type"] == "http" and scope["method"] == "HEAD"
        if is_head and scope["path"].startswith(HEAD_PATHS):
            scope = {**scope, "method": "GET"}  # a copy: the server needs the method HEAD
        await self._app(scope, receive, send)


def _place(error: Exception) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    return f"{frames[-1].name}:{frames[-1].lineno}" if frames else ""
