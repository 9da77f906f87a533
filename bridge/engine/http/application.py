"""
The engine as an ASGI application.

The composition root calls `create_application` and, for the background work,
`application.state.engine.start()` and `.stop()`. Reads no settings file.
"""

import uuid
from collections.abc import Callable
from typing import Any

from fastapi import FastAPI

from bridge import __version__
from bridge.engine.http import refusals
from bridge.engine.http.describing import complete
from bridge.engine.http.envelope import Envelope
from bridge.engine.http.heads import Heads
from bridge.engine.http.routes import (
    account,
    account_administration,
    administration,
    assisting,
    auditing,
    beside,
    browser,
    exporting,
    giving,
    health,
    host_sdk,
    launching,
    live,
    macros,
    orders,
    patients,
    places,
    reading,
    rows,
    session,
    signing,
    supplying,
    system_accounts,
    writing,
)
from bridge.engine.http.state import Engine
from bridge.engine.service.system_accounts import ConsoleRoles
from bridge.engine.settings import EngineSettings
from bridge.store.database import Database

# What is asked most, or waited for, comes first: they are looked through one after the other.
ROUTERS = (
    signing.router,
    launching.router,
    reading.router,
    exporting.router,
    orders.router,
    orders.files,
    patients.router,
    administration.router,
    system_accounts.router,
    supplying.router,
    macros.router,
    auditing.router,
    health.router,
    browser.router,
    host_sdk.router,
    session.router,
    live.router,
    writing.router,
    assisting.router,
    assisting.recordings,
    beside.router,
    giving.router,
    places.root,
    places.router,
    account.router,
    rows.router,
    account_administration.router,
)


def create_application(
    settings: EngineSettings,
    database: Database,
    *,
    clock: Callable[[], int],
    roles: ConsoleRoles | None = None,
) -> FastAPI:
    """
    Return the whole engine over HTTP; `clock` gives milliseconds since the epoch.

    `roles` are those of the console, where there is one: the last system administrator stays.
    """
    application = FastAPI(
        title="Clinical report service",
        summary="Launch, read, sign, link and export clinical reports.",
        description=(
            "Paths are not versioned: changes are additive, and `X-API-Version` says when one is "
            "not. What is to go is marked `deprecated` here, and its answers bear `Deprecation` "
            "and `Sunset`, at least twelve months ahead."
        ),
        version=__version__,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,  # one address each, and no Host header in a Location
        separate_input_output_schemas=False,
    )
    application.state.engine = Engine(settings, database, clock, roles)
    refusals.install(application, [route for router in ROUTERS for route in router.routes])
    for router in ROUTERS:
        application.include_router(router)
    describe = application.openapi
    application.openapi = lambda: _described(application, describe)  # type: ignore[method-assign]  # FastAPI's documented way
    application.add_middleware(Heads)
    application.add_middleware(Envelope, new_id=lambda: uuid.uuid4().hex)
    return application


def _described(application: FastAPI, describe: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    if not application.openapi_schema:
        application.openapi_schema = complete(describe())
    return application.openapi_schema
