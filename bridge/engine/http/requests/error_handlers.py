"""The one place where refusals become HTTP statuses; HEAD for every GET.

The server leaves the body out. Links that browsers open have a HEAD of their own, and a page's
live stream has none.

Every exception that is a refusal is listed here; anything else is a defect and is
answered by `bridge.engine.http.requests.middleware`.
"""

from collections.abc import Sequence
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.routing import BaseRoute, Match
from starlette.types import ASGIApp, Receive, Scope, Send

from bridge.engine.errors import EngineError
from bridge.engine.http.requests.audit_events import record_refused_change
from bridge.engine.http.requests.problems import FieldError, HttpProblem, Problem
from bridge.executors import Full
from bridge.store.errors import Busy, Conflict, StoreUnavailable
from bridge.workers.errors import WorkerBusy

PLACES = ("/api/", "/reporting/assets/")


class HeadRequests:
    """ASGI middleware that lets the routes below `PLACES` see GET where HEAD was asked."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        asked = scope["type"] == "http" and scope["method"] == "HEAD"
        if asked and scope["path"].startswith(PLACES):
            scope = {**scope, "method": "GET"}  # a copy: the server still knows of HEAD
        await self._app(scope, receive, send)


UNAVAILABLE = Problem(
    503,
    "unavailable",
    "the service is not available at the moment",
    headers={"Retry-After": "1"},
    retryable=True,
)
BUSY = Problem(
    503,
    "busy",
    "too many documents are being read at the moment",
    headers={"Retry-After": "2"},
    retryable=True,
)
LONGEST_PATH = 1024
"""Characters of the request's path that an answer gives back."""

_PLAIN_CODES = {404: "no_such_path", 405: "method_not_allowed"}


def install_error_handlers(application: FastAPI, routes: Sequence[BaseRoute]) -> None:
    """Answer every refusal of the engine with a problem body; `routes` are all there are."""
    application.state.routes = tuple(routes)
    application.add_exception_handler(HttpProblem, _refused)
    application.add_exception_handler(EngineError, _engine_error)
    application.add_exception_handler(RequestValidationError, _bad_shape)
    application.add_exception_handler(HTTPException, _plain)
    for failure in (StoreUnavailable, Busy, Full):
        application.add_exception_handler(failure, _unavailable)
    application.add_exception_handler(Conflict, _changed)
    application.add_exception_handler(WorkerBusy, _busy)


def answer(request: Request, problem: Problem) -> Response:
    """Return a problem as the response to this request, and note a change that was refused."""
    record_refused_change(request, problem.code)
    instance = request.url.path[:LONGEST_PATH]
    return problem.response(instance=instance, request_id=request.state.request_id)


def problem_of(error: EngineError) -> Problem:
    """Return the problem that an engine's refusal is."""
    guilty = [(error.pointer, error.detail)] if error.pointer else []
    errors = tuple(FieldError(*each) for each in (*guilty, *error.more))
    return Problem(error.status, error.code, error.detail, errors, retryable=error.retryable)


async def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, HttpProblem)  # noqa: S101  # narrows for the type checker
    return answer(request, error.problem)


async def _engine_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, EngineError)  # noqa: S101  # narrows for the type checker
    return answer(request, problem_of(error))


async def _bad_shape(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)  # noqa: S101  # narrows for the type checker
    return answer(request, validation_problem(error.errors()))


def validation_problem(errors: Sequence[Any]) -> Problem:
    """Return the 400 for a request of the wrong shape: places and reasons, never values."""
    found = [FieldError(_pointer(each.get("loc", ())), _said(each)) for each in errors]
    first = found[0] if found else FieldError("", "wrong shape")
    more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
    detail = f"{first.pointer or 'body'}: {first.message}{more}"
    return Problem(400, "invalid_request", detail, tuple(found))


def _said(error: Any) -> str:
    """Return what is wrong in words, without the name of the exception that said it."""
    return str(error.get("msg", "")).removeprefix("Value error, ")


def _pointer(place: object) -> str:
    """Write a place as a JSON pointer into the body, or as the name of a query parameter."""
    steps = [str(each) for each in place] if isinstance(place, tuple | list) else []
    if steps and steps[0] in ("query", "path", "header", "cookie"):
        return "/".join(steps[1:])
    return "".join(f"/{each.replace('~', '~0').replace('/', '~1')}" for each in steps[1:])


async def _plain(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)  # noqa: S101  # narrows for the type checker
    code = _PLAIN_CODES.get(error.status_code, "invalid_request")
    headers = dict(error.headers or {})
    if error.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
        own = ", ".join(_methods(request))
        headers.update({"Allow": own} if own else {})  # the framework's routes say it themselves
    return answer(request, Problem(error.status_code, code, str(error.detail), headers=headers))


def _methods(request: Request) -> list[str]:
    """Return every method of a path (RFC 9110 §10.2.1); the router names only its first route's."""
    routes: Sequence[BaseRoute] = request.app.state.routes
    found = [each for each in routes if each.matches(request.scope)[0] != Match.NONE]
    methods = {method for each in found for method in getattr(each, "methods", ())}
    headed = "GET" in methods and request.url.path.startswith(PLACES)
    return sorted(methods | {"HEAD"} if headed else methods)


async def _unavailable(request: Request, error: Exception) -> Response:
    return answer(request, UNAVAILABLE)


async def _busy(request: Request, error: Exception) -> Response:
    return answer(request, BUSY)


async def _changed(request: Request, error: Exception) -> Response:
    return answer(
        request, Problem(409, "changed", "changed during processing; retry", retryable=True)
    )
