"""The outermost layer: a request id, our headers, and no exception that leaves unanswered.

Logs only the class of an unexpected failure and where it happened: never a message,
because messages may quote what was sent.
"""

import traceback
from collections.abc import Callable

import structlog
from starlette.datastructures import MutableHeaders
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from bridge.engine.http.requests.problems import Problem

API_VERSION = "1"
INTERNAL = Problem(500, "internal_error", "the service failed; the failure was logged")

log = structlog.get_logger(__name__)


class ResponseEnvelope:
    """ASGI middleware around everything else."""

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

        async def sending(message: Message) -> None:
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
            await self._app(scope, receive, sending)
        except ClientDisconnect:  # the page was closed while it sent: nobody waits for an answer
            return
        except Exception as error:  # the one place where defects become answers
            log.error(  # noqa: TRY400  # a traceback would quote the request
                "request_failed",
                request_id=request_id,
                failure=type(error).__name__,
                place=_place(error),
            )
            if started:
                raise
            answer = INTERNAL.response(instance=scope["path"], request_id=request_id)
            await answer(scope, receive, sending)


def _place(error: Exception) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    return f"{frames[-1].name}:{frames[-1].lineno}" if frames else ""
