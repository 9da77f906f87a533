"""
Responses to exceptions: expected ones become problem responses, others a 500.

The middleware sets request ids and response headers, refuses NUL characters, serves HEAD, and
responds to exceptions that have no handler. Only the class and the place of an unexpected exception
are logged, never its message, because a message may quote patient data.
"""

import traceback
from collections.abc import Callable, Mapping, Sequence
from http import HTTPStatus
from typing import Any

import structlog
from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.routing import BaseRoute, Match
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from bridge.contract.errors import ErrorCode
from bridge.engine.errors import EngineError
from bridge.engine.http.requests.audit_events import record_refused_request
from bridge.engine.http.requests.response_bodies import problem_response
from bridge.executors import PoolFull
from bridge.store.errors import Busy, Conflict, StoreUnavailable
from bridge.web.bodies import has_nul
from bridge.workers.host import WorkerBusy

API_VERSION = "1"
HEAD_PATHS = ("/api/", "/reporting/assets/", "/reporting/host-sdk/")
"""Below these paths every GET route also serves HEAD."""
HEAD_PAGES = frozenset(
    {
        *("/healthz", "/readyz", "/reporting", "/reporting/", "/reporting/login"),
        *("/reporting/worklist", "/reporting/settings", "/reporting/administration"),
    }
)
"""Pages that change nothing, so that their GET route also serves HEAD."""
MAX_INSTANCE = 1024
"""Characters of the request path in a problem's `instance`."""
INTERNAL = EngineError(ErrorCode.INTERNAL_ERROR, "the service failed; the failure was logged")
NUL_IN_PATH = EngineError(ErrorCode.NO_SUCH_PATH, "Not Found")
NUL_IN_QUERY = EngineError(ErrorCode.INVALID_REQUEST, "the query contains a NUL character")

log = structlog.get_logger(__name__)


def serves_head(path: str) -> bool:
    return path.startswith(HEAD_PATHS) or path in HEAD_PAGES


class ResponseEnvelope:
    """Outermost middleware: sets request id and headers, and responds to exceptions with 500."""

    def __init__(self, app: ASGIApp, new_id: Callable[[], str]) -> None:
        self._app = app
        self._new_id = new_id

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
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
            response = problem_response(INTERNAL, scope["path"], request_id)
            await response(scope, receive, send_with_headers)


class HeadRequests:
    """
    Middleware that serves HEAD by the GET route; the server omits the body.

    Pages that a GET opens, like a report link, have separate HEAD routes. Event streams have none.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        is_head = scope["type"] == "http" and scope["method"] == "HEAD"
        if is_head and serves_head(scope["path"]):
            scope = {**scope, "method": "GET"}  # a copy: the server needs the method HEAD
        await self._app(scope, receive, send)


class NulRefusal:
    """Middleware that refuses a path or query with a NUL character."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not has_nul(scope):
            await self._app(scope, receive, send)
            return
        place, is_in_path, _ = scope["path"].partition("\x00")
        problem = NUL_IN_PATH if is_in_path else NUL_IN_QUERY
        request_id = scope["state"]["request_id"]
        response = problem_response(problem, place[:MAX_INSTANCE], request_id)
        await response(scope, receive, send)


def _place(error: Exception) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    return f"{frames[-1].name}:{frames[-1].lineno}" if frames else ""


UNAVAILABLE = EngineError(ErrorCode.UNAVAILABLE, headers={"Retry-After": "1"})
BUSY = EngineError(ErrorCode.BUSY, headers={"Retry-After": "2"})
CHANGED = EngineError(ErrorCode.CHANGED, "changed during processing; retry")
_PLAIN_CODES = {404: ErrorCode.NO_SUCH_PATH, 405: ErrorCode.METHOD_NOT_ALLOWED}


def install_error_handlers(application: FastAPI, routes: Sequence[BaseRoute]) -> None:
    """Register the handlers; `routes` are all routes of the application."""
    application.state.routes = tuple(routes)
    application.add_exception_handler(HTTPException, _http_exception)
    problems: Mapping[type[Exception], Callable[[Any], EngineError]] = {
        EngineError: lambda error: error,
        RequestValidationError: lambda error: validation_problem(error.errors()),
        StoreUnavailable: lambda _: UNAVAILABLE,
        Busy: lambda _: UNAVAILABLE,
        PoolFull: lambda _: UNAVAILABLE,
        Conflict: lambda _: CHANGED,
        WorkerBusy: lambda _: BUSY,
    }
    for kind, describe in problems.items():
        application.add_exception_handler(kind, _handler(describe))


def _handler(describe: Callable[[Any], EngineError]) -> Callable[[Request, Exception], Any]:
    async def handle(request: Request, error: Exception) -> Response:
        return respond(request, describe(error))

    return handle


def respond(request: Request, problem: EngineError) -> Response:
    """Return the problem response of a request, and record the refusal."""
    forbidden = problem.status == HTTPStatus.FORBIDDEN
    record_refused_request(request, problem.code, forbidden=forbidden)
    instance = request.url.path[:MAX_INSTANCE]
    return problem_response(problem, instance, request.state.request_id)


def validation_problem(errors: Sequence[Any]) -> EngineError:
    """Return the 400 for a body or query that fails validation: places and reasons, no values."""
    found = [(_pointer(mistake.get("loc", ())), _message(mistake)) for mistake in errors]
    pointer, message = found[0] if found else ("", "not valid")
    more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
    detail = f"{pointer or 'body'}: {message}{more}"
    return EngineError(ErrorCode.INVALID_REQUEST, detail, errors=found)


def _message(error: Any) -> str:
    return str(error.get("msg", "")).removeprefix("Value error, ")


def _pointer(place: object) -> str:
    """Return a JSON pointer into the body, or the name of a query parameter."""
    steps = [str(step) for step in place] if isinstance(place, tuple | list) else []
    if steps and steps[0] in ("query", "path", "header", "cookie"):
        return "/".join(steps[1:])
    return "".join(f"/{step.replace('~', '~0').replace('/', '~1')}" for step in steps[1:])


async def _http_exception(request: Request, error: Any) -> Response:
    code = _PLAIN_CODES.get(error.status_code, ErrorCode.INVALID_REQUEST)
    headers = dict(error.headers or {})
    if error.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
        methods = ", ".join(_methods(request))
        headers.update({"Allow": methods} if methods else {})
    return respond(
        request, EngineError(code, str(error.detail), headers=headers, status=error.status_code)
    )


def _methods(request: Request) -> list[str]:
    """Return all methods of a path (RFC 9110 §10.2.1); the router reports those of one route."""
    routes: Sequence[BaseRoute] = request.app.state.routes
    found = [route for route in routes if route.matches(request.scope)[0] != Match.NONE]
    methods = {method for route in found for method in getattr(route, "methods", ())}
    has_head = "GET" in methods and serves_head(request.url.path)
    return sorted(methods | {"HEAD"} if has_head else methods)
