"""
The engine as an ASGI application: its routers, its middleware, its OpenAPI description.

The composition root calls `create_application`. It starts and stops the background work with
`application.state.engine.start()` and `.stop()`.

The examples of problems in the description are built from the errors themselves, so that they
cannot differ from the responses. `field_texts.json` describes fields, by name, that their model
does not.
"""

import json
import uuid
from collections.abc import Callable, Mapping
from importlib.resources import files
from typing import Any

from fastapi import APIRouter, FastAPI, Request, Response
from fastapi.responses import JSONResponse
from fastapi.routing import APIRoute
from pydantic.json_schema import models_json_schema
from sqlalchemy import text

from bridge import __version__
from bridge.contract import TOKEN_HEADER
from bridge.contract.errors import ErrorCode
from bridge.contract.responses import PROBLEM_TYPE, ProblemBody
from bridge.engine.errors import EngineError
from bridge.engine.http import link_pages, static_files
from bridge.engine.http.engine_state import EngineState, engine_of
from bridge.engine.http.html_pages import docs_page
from bridge.engine.http.requests import error_handlers
from bridge.engine.http.requests.error_handlers import (
    HeadRequests,
    NulRefusal,
    ResponseEnvelope,
)
from bridge.engine.http.requests.response_bodies import problem_of
from bridge.engine.http.routes.admin import administration, system_accounts, upkeep
from bridge.engine.http.routes.api import exports, launches, report_queries, reports
from bridge.engine.http.routes.app import (
    account,
    assistance,
    live,
    report,
    worklist,
)
from bridge.engine.http.sign_in import enrolment_page, password_sign_in, single_sign_on
from bridge.engine.http.sign_in.account_session import AccountRoute
from bridge.engine.service.accounts.system_accounts import ConsoleRoles
from bridge.engine.settings import EngineSettings
from bridge.store.database import Database
from bridge.store.errors import StoreError
from bridge.web.bodies import LARGE_JSON, BodyTooLarge

ACCOUNT_PREFIX = "/reporting/api/account"


def _account_administration() -> APIRouter:
    """
    Return the administrative routes for administrators who are signed in to the app.

    The handlers are those of `/api/admin` and check the role on the site. Only the authentication
    differs: the account cookie instead of a token.
    """
    router = APIRouter(include_in_schema=False)
    for route in (*administration.router.routes, *administration.texts_router.routes):
        if isinstance(route, APIRoute):
            router.add_api_route(
                ACCOUNT_PREFIX + route.path.removeprefix("/api"),
                route.endpoint,
                methods=sorted(route.methods or ()),
                status_code=route.status_code,
                route_class_override=AccountRoute,
                response_model=None,
            )
    return router


health_router = APIRouter(tags=["Health"])


@health_router.get("/healthz", response_model=dict[str, str])
async def healthz() -> Response:
    """Respond with 200 while the process runs."""
    return JSONResponse({"status": "ok"})


@health_router.get(
    "/readyz", response_model=dict[str, str], responses={503: {"description": "Not yet"}}
)
async def readyz(request: Request) -> Response:
    """Respond with 200 if the database is reachable, else with 503."""
    engine = engine_of(request)
    try:
        await engine.work.read(lambda connection: connection.execute(text("SELECT 1")).scalar())
    except StoreError:
        return JSONResponse({"status": "unavailable"}, 503)
    return JSONResponse({"status": "stopping"} if engine.stopping else {"status": "ready"})


@health_router.api_route("/docs", methods=["GET", "HEAD"], include_in_schema=False)
async def docs(request: Request) -> Response:
    """Return the page of the HTTP interface."""
    return docs_page(engine_of(request).settings)


# Frequent routes come first, because the framework tries the routes in this order.
ROUTERS = (
    reports.signing_router,
    launches.router,
    report_queries.router,
    exports.router,
    reports.router,
    reports.files,
    reports.patient_router,
    administration.router,
    system_accounts.router,
    administration.texts_router,
    administration.audit_router,
    health_router,
    link_pages.router,
    password_sign_in.router,
    enrolment_page.router,
    single_sign_on.router,
    static_files.router,
    report.router,
    live.router,
    assistance.router,
    assistance.recordings,
    account.root,
    account.page_router,
    account.router,
    worklist.router,
    _account_administration(),
)
OPERATOR_ROUTERS = (system_accounts.operator_router, upkeep.router)


def create_application(
    settings: EngineSettings,
    database: Database,
    *,
    clock: Callable[[], int],
    roles: ConsoleRoles | None = None,
    operator: str = "",
) -> FastAPI:
    """
    Return the application; `clock` returns milliseconds since the epoch.

    `roles` are the roles of the console: its last system administrator cannot be disabled.
    `operator` is the person whose command calls the application in its own process: each request is
    theirs, needs no token, and may do what only an operator with the data directory may. Such an
    application is never served.
    """
    application = FastAPI(
        title="Clinical report service",
        summary="Launch, read, sign, link and export clinical reports.",
        description=(
            "Paths are not versioned. Changes are additive; `X-API-Version` changes with an "
            "incompatible one. A feature to be removed is marked `deprecated` here, and its "
            "responses have the headers `Deprecation` and `Sunset` at least twelve months before."
        ),
        version=__version__,
        openapi_url=None,  # `InterfaceDescription` serves it
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,  # each route has one address, and no Location repeats a Host header
        separate_input_output_schemas=False,
    )
    application.state.engine = EngineState(settings, database, clock, roles, operator)
    routers = (*ROUTERS, *OPERATOR_ROUTERS) if operator else ROUTERS
    error_handlers.install_error_handlers(
        application, [route for router in routers for route in router.routes]
    )
    for router in routers:
        application.include_router(router)
    describe = application.openapi
    application.openapi = lambda: _described(application, describe)  # type: ignore[method-assign]  # FastAPI's documented way
    description = InterfaceDescription(application)
    application.add_route("/openapi.json", description.show, include_in_schema=False)
    application.add_middleware(HeadRequests)
    application.add_middleware(NulRefusal)
    application.add_middleware(ResponseEnvelope, new_id=lambda: uuid.uuid4().hex)
    return application


def _described(application: FastAPI, describe: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    if not application.openapi_schema:
        application.openapi_schema = complete(describe())
    return application.openapi_schema


class InterfaceDescription:
    """`/openapi.json`. A thread writes it once, because anonymous clients may request it often."""

    def __init__(self, application: FastAPI) -> None:
        self._application = application
        self._text = b""

    async def show(self, _request: Request) -> Response:
        if not self._text:
            self._text = await LARGE_JSON.run(self._write)
        return Response(self._text, media_type="application/json")

    def _write(self) -> bytes:
        return self._text or bytes(JSONResponse(self._application.openapi()).body)


_SCHEMES = {"/api/": "token", "/reporting/api/": "session"}
_REQUEST_ID = "0f1e2d3c4b5a69788796a5b4c3d2e1f0"
_REPEATABLE = frozenset({"Signing", "Orders", "Patients"})
"""Tags of the routes that accept an `Idempotency-Key`."""

IDEMPOTENCY_KEY = {
    "name": "Idempotency-Key",
    "in": "header",
    "required": False,
    "description": "Chosen by the caller. A request that repeats a key is not executed again: it "
    "gets the first response. Another request with the same key is 409 `key_reused`",
    "schema": {"type": "string", "pattern": "^[!-~]{1,255}$"},
    "example": "5f1c0a52-sign-ACC-2001",
}

_HEADERS: Mapping[str, Mapping[str, str]] = {
    "401": {"WWW-Authenticate": "How to authenticate"},
    "429": {
        "Retry-After": "Seconds until the next request is accepted",
        "RateLimit": 'The remaining quota: `"launches";r=0;t=12`',
        "RateLimit-Policy": 'The quota: `"launches";q=1200;w=60`',
    },
    "500": {"X-Error-Class": "`business`: a rule of the interface, no fault of the server"},
    "503": {"Retry-After": "Seconds"},
}

_GENERAL: tuple[EngineError, ...] = (
    EngineError(
        ErrorCode.INVALID_REQUEST,
        "/clinicalInfo: Field required",
        errors=[("/clinicalInfo", "Field required")],
    ),
    EngineError(ErrorCode.UNAUTHORIZED),
    EngineError(ErrorCode.FORBIDDEN),
    EngineError(ErrorCode.SITE_NOT_FOUND),
    EngineError(ErrorCode.REPORT_NOT_FOUND),
    EngineError(ErrorCode.CHANGED),
    EngineError(ErrorCode.TOO_LARGE, str(BodyTooLarge(67_108_864))),
    EngineError(ErrorCode.TOO_MANY_REQUESTS, "more than 1200 requests in 60 seconds"),
    EngineError(ErrorCode.UNAVAILABLE),
)

_SPECIFIC: Mapping[str, tuple[ErrorCode, ...]] = {  # by path below /api/report/
    "launch/clinical": (
        ErrorCode.PLACEHOLDER_IDENTIFIER,
        ErrorCode.UNKNOWN_LOCATION,
        ErrorCode.PATIENT_NAME_MISMATCH,
        ErrorCode.AUTH_INVALID,
    ),
    "site/prelims": (ErrorCode.PRELIM_NOT_FOUND,),
    "sign": (
        ErrorCode.REPORT_NOT_ASSIGNED,
        ErrorCode.ALREADY_SIGNED,
        ErrorCode.AUTHOR_MAY_NOT_SIGN,
    ),
    "unsign": (ErrorCode.NOT_SIGNED, ErrorCode.COOLING_ELAPSED),
    "addendum/sign": (
        ErrorCode.NO_SIGNED_ADDENDUM,
        ErrorCode.COOLING_ELAPSED,
        ErrorCode.SIGN_DELAY_DISABLED,
    ),
    "addendum/unsign": (ErrorCode.NO_SIGNED_ADDENDUM, ErrorCode.COOLING_ELAPSED),
    "prelim": (
        ErrorCode.REPORT_SIGNED,
        ErrorCode.UNKNOWN_PRELIM_GROUP,
        ErrorCode.UNKNOWN_PRELIM_TAG,
        ErrorCode.NOT_PRELIM_MEMBER,
        ErrorCode.AUTHOR_MAY_NOT_PRELIM,
    ),
    "prelim/withdraw": (ErrorCode.REPORT_SIGNED, ErrorCode.REPORT_NOT_PRELIMINARY),
    "assign": (ErrorCode.REPORT_SIGNED, ErrorCode.NOT_PRELIM_REVIEWER),
    "delete": (ErrorCode.REPORT_SIGNED,),
    "update-dicomsr": (ErrorCode.REPORT_SIGNED, ErrorCode.NO_FILES),
    "reset-order": (
        ErrorCode.REPORT_SIGNED,
        ErrorCode.REPORT_NOT_FROM_ORDER,
        ErrorCode.NOTHING_TO_RESET,
    ),
    "unassign": (ErrorCode.REPORT_SIGNED, ErrorCode.REPORT_NOT_DRAFT),
    "link-orders": (
        ErrorCode.TOO_FEW_ORDERS,
        ErrorCode.REPORT_SIGNED,
        ErrorCode.ANCHOR_IN_ANOTHER_GROUP,
        ErrorCode.ANCHOR_HAS_CONTENT,
        ErrorCode.ORDER_NOT_ORDERED,
        ErrorCode.ORDER_HAS_CONTENT,
        ErrorCode.PATIENTS_DIFFER,
        ErrorCode.GROUP_TOO_LARGE,
    ),
    "unlink-orders": (ErrorCode.GROUP_NOT_ORDERED, ErrorCode.GROUP_HAS_CONTENT),
    "changes": (ErrorCode.CURSOR_BEYOND_END, ErrorCode.CURSOR_OF_ANOTHER_FEED),
}
_POINTERS: Mapping[ErrorCode, str] = {
    ErrorCode.PATIENT_NAME_MISMATCH: "/clinicalInfo/PatientName",
    ErrorCode.AUTH_INVALID: "/userInfo/Auth",
    ErrorCode.CURSOR_BEYOND_END: "/after",
    ErrorCode.CURSOR_OF_ANOTHER_FEED: "/after",
}


def complete(description: dict[str, Any]) -> dict[str, Any]:
    """Return FastAPI's description with our problem bodies and security schemes."""
    _, problem = models_json_schema(
        [(ProblemBody, "serialization")], ref_template="#/components/schemas/{model}"
    )
    components = description.setdefault("components", {})
    schemas = components.setdefault("schemas", {})
    schemas.update(problem["$defs"])
    for unused in ("HTTPValidationError", "ValidationError"):
        schemas.pop(unused, None)
    components["securitySchemes"] = {
        "token": {"type": "apiKey", "in": "header", "name": TOKEN_HEADER},
        "session": {"type": "http", "scheme": "bearer"},
    }
    components["parameters"] = {"IdempotencyKey": IDEMPOTENCY_KEY}
    texts = json.loads((files(__package__) / "field_texts.json").read_text("utf-8"))
    for schema in schemas.values():
        for name, member in schema.get("properties", {}).items():
            _describe(member, texts.get(name))
    for path, operations in description["paths"].items():
        for operation in operations.values():
            _complete_operation(path, operation)
            for parameter in operation.get("parameters", ()):
                _describe(parameter, texts.get(parameter.get("name")))
    return description


def _describe(field: dict[str, Any], text: str | None) -> None:
    if text and not field.get("description"):
        field["description"] = text


def _complete_operation(path: str, operation: dict[str, Any]) -> None:
    operation["responses"].pop("422", None)
    scheme = next((name for start, name in _SCHEMES.items() if path.startswith(start)), "")
    if scheme:
        operation["security"] = [{scheme: []}]
    if scheme == "token" and _REPEATABLE & set(operation.get("tags", ())):
        key = {"$ref": "#/components/parameters/IdempotencyKey"}
        operation["parameters"] = [*operation.get("parameters", ()), key]
    for status, response in operation["responses"].items():
        body = response.get("content", {}).get(PROBLEM_TYPE)
        if body is not None:
            _add_examples(path, status, body)
            _add_headers(response, _HEADERS.get(status, {}))


def _add_examples(path: str, status: str, body: dict[str, Any]) -> None:
    found = {problem.code: problem for problem in _problems(path) if str(problem.status) == status}
    if found:
        body["examples"] = {
            code: {
                "summary": problem.detail,
                "value": problem_of(problem, path, _REQUEST_ID).model_dump(),
            }
            for code, problem in found.items()
        }


def _problems(path: str) -> list[EngineError]:
    """Return the known problems of a path, the specific ones first."""
    codes = _SPECIFIC.get(path.removeprefix("/api/report/"), ())
    return [*(EngineError(code, pointer=_POINTERS.get(code, "")) for code in codes), *_GENERAL]


def _add_headers(response: dict[str, Any], headers: Mapping[str, str]) -> None:
    named = {"X-Request-Id": "The request's id, as in the body", **headers}
    response["headers"] = {
        name: {"description": text, "schema": {"type": "string"}} for name, text in named.items()
    }
