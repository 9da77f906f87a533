"""Macros of a site for all its users; the report page manages the own macros of a user."""

from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import JSONResponse, Response

from bridge.engine.http.models.fields import MacroBody, Trigger
from bridge.engine.http.models.responses import problems
from bridge.engine.http.requests.guard import AdminRoute
from bridge.engine.http.requests.use_cases import (
    RequestSite,
    change_as_administrator,
    read_as_administrator,
)
from bridge.engine.service.sites import audit_states, macros

router = APIRouter(
    prefix="/api/admin", tags=["Administration"], route_class=AdminRoute, responses=problems()
)


@router.get("/sites/{site_id}/macros", response_model=list[dict[str, Any]])
async def list_macros(site_id: str, request: Request) -> Response:
    """Return the site's macros by trigger."""
    found = await read_as_administrator(
        request,
        "macros-read",
        [RequestSite(site_id)],
        lambda session: macros.macros_of(session.connection(), site_id, None),
    )
    return JSONResponse(found)


@router.put("/sites/{site_id}/macros/{trigger}", response_class=Response)
async def set_macro(site_id: str, trigger: Trigger, body: MacroBody, request: Request) -> Response:
    """Create or replace a macro of the site."""
    content = body.content()
    return await change_as_administrator(
        request,
        "macro-update",
        RequestSite(site_id),
        lambda work: macros.set_macro(
            work.connection, site_id, None, trigger, body.name, content, work.now
        ),
        target=("macro", trigger),
        state=audit_states.macro(site_id, None, trigger),
    )


@router.delete("/sites/{site_id}/macros/{trigger}", response_class=Response)
async def delete_macro(site_id: str, trigger: Trigger, request: Request) -> Response:
    """Remove a macro of the site."""
    return await change_as_administrator(
        request,
        "macro-delete",
        RequestSite(site_id),
        lambda work: macros.delete_macro(work.connection, site_id, None, trigger),
        target=("macro", trigger),
        state=audit_states.macro(site_id, None, trigger),
    )
