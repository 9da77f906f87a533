"""
The engine as an ASGI application.

The composition root calls `create_application`. It starts and stops the background work with
`application.state.engine.start()` and `.stop()`.
"""

import uuid
from collections.abc import Callable
from typing import Any

from fastapi import FastAPI

from bridge import __version__
from bridge.engine.http.engine_state import EngineState
from bridge.engine.http.openapi import complete
from bridge.engine.http.requests import error_handlers
from bridge.engine.http.requests.middleware import HeadRequests, ResponseEnvelope
from bridge.engine.http.routes import health, host_sdk
from bridge.engine.http.routes.admin import (
    account_administration,
    administration,
    audit,
    macros,
    site_files,
    system_accounts,
)
from bridge.engine.http.routes.api import exports, launch, orders, patients, reports, signing
from bridge.engine.http.routes.app import (
    account,
    account_pages,
    assistance,
    editor,
    live,
    public_pages,
    report,
    report_context,
    shares,
    worklist,
)
from bridge.engine.service.accounts.system_accounts import ConsoleRoles
from bridge.engine.settings import EngineSettings
from bridge.store.database import Database

# Frequent routes come first, because the framework tries the routes in this order.
ROUTERS = (
    signing.router,
    launch.router,
    reports.router,
    exports.router,
    orders.router,
    orders.files,
    patients.router,
    administration.router,
    system_accounts.router,
    site_files.router,
    macros.router,
    audit.router,
    health.router,
    public_pages.router,
    host_sdk.router,
    report.router,
    live.router,
    editor.router,
    assistance.router,
    assistance.recordings,
    report_context.router,
    shares.router,
    account_pages.root,
    account_pages.router,
    account.router,
    worklist.router,
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
    Return the application; `clock` returns milliseconds since the epoch.

    `roles` are the roles of the console: its last system administrator cannot be disabled.
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
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,  # each route has one address, and no Location repeats a Host header
        separate_input_output_schemas=False,
    )
    application.state.engine = EngineState(settings, database, clock, roles)
    error_handlers.install_error_handlers(
        application, [route for router in ROUTERS for route in router.routes]
    )
    for router in ROUTERS:
        application.include_router(router)
    describe = application.openapi
    application.openapi = lambda: _described(application, describe)  # type: ignore[method-assign]  # FastAPI's documented way
    application.add_middleware(HeadRequests)
    application.add_middleware(ResponseEnvelope, new_id=lambda: uuid.uuid4().hex)
    return application


def _described(application: FastAPI, describe: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    if not application.openapi_schema:
        application.openapi_schema = complete(describe())
    return application.openapi_schema
