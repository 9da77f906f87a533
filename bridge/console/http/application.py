"""
The console as an ASGI application, mounted at `/console`: JSON endpoints and one HTML page.

The page contains no data. It loads all data from the endpoints, which check permissions.
"""

import html
import json
from collections.abc import Mapping, Sequence
from typing import Any, Final
from urllib.parse import quote

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.responses import HTMLResponse, RedirectResponse, Response

from bridge import banner
from bridge.admin.errors import OperatorError, PermissionDenied
from bridge.console.context import ConsoleContext
from bridge.console.http.administer import audit_trail, me, site_administration
from bridge.console.http.configure import (
    connections,
    dicom_peers,
    examinations,
    examples,
    first_steps,
    mappings,
    mirth,
    shadow,
    specifications,
)
from bridge.console.http.guard import (
    HEADERS,
    SignInRequired,
    UncachedJson,
    authenticate,
    context_of,
    problem_response,
)
from bridge.console.http.operate import (
    attention,
    background,
    deliveries,
    edits,
    find,
    lists,
    live,
    merges,
    messages,
    orders,
    overview,
    trace,
    views,
)
from bridge.report_engine import page_assets

MOUNT_PATH: Final = "/console"
ROUTERS: Final = (
    *(
        messages.router,
        edits.message_router,
        edits.delivery_router,
        trace.router,
        deliveries.router,
        orders.router,
        attention.router,
        merges.router,
    ),
    *(find.router, lists.router, views.router, live.router),
    background.router,
    specifications.router,
    examinations.router,
    *(connections.channel_router, connections.router, dicom_peers.router),
    *(me.router, overview.router),
    first_steps.router,
    # before `sites`, whose route `/sites/{site}/{what}` also matches `/sites/{site}/audit`
    audit_trail.router,
    *(
        site_administration.router,
        site_administration.people_router,
        mappings.router,
        shadow.router,
        examples.router,
        mappings.code_router,
        connections.package_router,
        mirth.router,
    ),
)


def create_application(context: ConsoleContext) -> FastAPI:
    """Return the console, to be mounted at `MOUNT_PATH`."""
    application = FastAPI(
        title="Console",
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
        redirect_slashes=False,
        default_response_class=UncachedJson,
    )
    application.state.context = context
    for router in ROUTERS:
        application.include_router(router)
    for path in ("/", "/{place:path}"):
        application.add_api_route(path, _page, methods=["GET", "HEAD"], include_in_schema=False)
    application.add_exception_handler(OperatorError, _operator_error)
    application.add_exception_handler(RequestValidationError, _bad_request)
    return application


OLD_ADDRESSES: Final[Mapping[str, str]] = {
    "dashboard": "overview",
    "parked": "attention",
    "concerns": "attention",
    "find": "orders",
    "worklist": "orders?list=unread",
    "channels": "connections",
    "deeds": "audit",
}
"""The addresses of earlier releases, below /console, and the present ones."""


async def _page(request: Request) -> Response:
    """Return the page of the app, or redirect to the sign-in page."""
    place = request.url.path.removeprefix(MOUNT_PATH).strip("/")
    if place.startswith("api/"):
        return problem_response(404, "unknown", "there is no such endpoint")
    if (present := OLD_ADDRESSES.get(place)) is not None:
        return RedirectResponse(f"{MOUNT_PATH}/{present}", 308, HEADERS)
    try:
        user = await authenticate(request)
    except SignInRequired:
        return RedirectResponse(f"/reporting/login?next={_next(request, place)}", 303, HEADERS)
    except OperatorError as refusal:
        return _refused(refusal, place)
    if place:
        return _html({"theme": user.theme or "system"})
    page = await me.home(context_of(request), user)
    return RedirectResponse(f"{MOUNT_PATH}/{page}", 303, HEADERS)


def _refused(refusal: OperatorError, place: str) -> Response:
    """Say why an account has no console; who came by the entrance reads in the reporting app."""
    if isinstance(refusal, PermissionDenied) and not place:
        return RedirectResponse("/reporting/", 303, HEADERS)
    return _html({"refusal": refusal.code}, refusal.status)


def _next(request: Request, place: str) -> str:
    """Return the address that the sign-in leads back to, for a query."""
    path = f"{MOUNT_PATH}/{place}" if place else MOUNT_PATH
    query = f"?{request.url.query}" if request.url.query else ""
    return quote(f"{path}{query}", safe="/")


def _html(boot: Mapping[str, Any], status: int = 200) -> Response:
    assets = page_assets(live.APP)
    links = [f'<link rel="modulepreload" href="{preload}">' for preload in assets.preloads]
    links += [f'<link rel="stylesheet" href="{style}">' for style in assets.styles]
    links += assets.fonts
    theme = str(boot.get("theme", "system"))
    shown = "" if theme == "system" else f' data-theme="{html.escape(theme, quote=True)}"'
    data = json.dumps(boot).replace("<", "\\u003c")
    page = (
        f'<!doctype html><html lang="en"{shown}><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<title>Console</title><link rel="icon" href="data:,">{"".join(links)}'
        f'<script type="application/json" id="boot">{data}</script>'
        f'<script type="module" src="{assets.script}"></script></head>'
        f"<body>{banner.markup()}<noscript>This page needs JavaScript.</noscript></body></html>"
    )
    return HTMLResponse(page, status, headers=HEADERS)


async def _operator_error(_: Request, error: Any) -> Response:
    return problem_response(error.status, error.code, error.detail, error.more)


async def _bad_request(_: Request, error: Any) -> Response:
    """Name the invalid members and the rule that each breaks, but not their values."""
    mistakes = sorted({_mistake(found["loc"], found["msg"]) for found in error.errors()})
    return problem_response(400, "bad_request", "; ".join(mistakes))


def _mistake(place: Sequence[int | str], rule: str) -> str:
    """Return `last: should be at most 1000`; pydantic's texts contain limits and no input."""
    name = ".".join(map(str, place[1:] or place))  # without `body` or `query`
    return f"{name}: {rule.removeprefix('Value error, ').removeprefix('Input ')}"
