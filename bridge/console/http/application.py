"""
The console as an ASGI application, mounted at `/console`: JSON endpoints, and the app's page.

Its pages hold no data at all; everything comes from the endpoints, to whom it may.
"""

import html
import json
from collections.abc import Mapping
from typing import Any, Final

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.responses import HTMLResponse, RedirectResponse, Response

from bridge.console.context import ConsoleContext, PageAssets
from bridge.console.errors import ConsoleError, SignInRequired
from bridge.console.http import (
    audit_trail,
    channels,
    code_entries,
    connections,
    dashboard,
    deliveries,
    exceptions,
    mappings,
    message_edits,
    messages,
    orders,
    packages,
    people,
    sites,
)
from bridge.console.http.guard import authenticate, context_of
from bridge.console.http.route import HEADERS, UncachedJson, problem

PLACE: Final = "/console"
_PARTS: Final = (
    *(messages, message_edits, deliveries, orders, exceptions, channels, connections, dashboard),
    # before `sites`, whose `/sites/{site}/{what}` also matches `/sites/{site}/audit`
    audit_trail,
    *(sites, people, mappings, code_entries, packages),
)


def create_application(context: ConsoleContext) -> FastAPI:
    """Return the console; the caller mounts it at `PLACE`."""
    application = FastAPI(
        title="Console",
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
        redirect_slashes=False,
        default_response_class=UncachedJson,
    )
    application.state.context = context
    for module in _PARTS:
        application.include_router(module.router)
    application.add_api_route("/", _page, include_in_schema=False)
    application.add_api_route("/{place:path}", _page, include_in_schema=False)
    application.add_exception_handler(ConsoleError, _refuse)
    application.add_exception_handler(RequestValidationError, _bad_request)
    return application


async def _page(request: Request) -> Response:
    """Return the app, or lead to the login and back."""
    place = request.path_params.get("place", "")
    if place.startswith("api/"):
        return problem(404, "unknown", "there is no such endpoint")
    try:
        user = await authenticate(request)
    except SignInRequired:
        return RedirectResponse(f"/reporting/login?next={PLACE}", 303, HEADERS)
    except ConsoleError as refusal:
        return _shown(context_of(request).files(), {"refusal": refusal.code}, refusal.status)
    return _shown(context_of(request).files(), {"theme": user.theme or "dark"})


def _shown(files: PageAssets, boot: Mapping[str, Any], status: int = 200) -> Response:
    links = [f'<link rel="modulepreload" href="{each}">' for each in files.preloads]
    links += [f'<link rel="stylesheet" href="{each}">' for each in files.styles]
    theme = html.escape(str(boot.get("theme", "dark")), quote=True)
    data = json.dumps(boot).replace("<", "\\u003c")
    page = (
        f'<!doctype html><html lang="en" data-theme="{theme}"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<title>Console</title><link rel="icon" href="data:,">{"".join(links)}'
        f'<script type="application/json" id="boot">{data}</script>'
        f'<script type="module" src="{files.script}"></script></head>'
        "<body><noscript>This page needs JavaScript.</noscript></body></html>"
    )
    return HTMLResponse(page, status, headers=HEADERS)


async def _refuse(_: Request, error: Exception) -> Response:
    if not isinstance(error, ConsoleError):
        raise error
    return problem(error.status, error.code, error.detail, error.more)


async def _bad_request(_: Request, error: Exception) -> Response:
    """Name the members that are wrong, and never what stood in them."""
    if not isinstance(error, RequestValidationError):
        raise error
    places = sorted({".".join(map(str, each["loc"])) for each in error.errors()})
    return problem(400, "bad_request", f"wrong: {', '.join(places)}")
