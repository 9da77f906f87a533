"""The audit trail of a site, for its administrators."""

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from starlette.responses import JSONResponse, Response

from bridge.audit.chain import ENGINE_CHAIN
from bridge.engine.errors import Forbidden
from bridge.engine.http.engine_state import engine_of
from bridge.engine.http.models.administration import AuditQuery
from bridge.engine.http.models.responses import problems
from bridge.engine.http.requests.guard import AdminRoute
from bridge.engine.http.requests.use_cases import RequestSite, read_as_administrator
from bridge.engine.service.accounts import audit_trail

router = APIRouter(
    prefix="/api/admin", tags=["Administration"], route_class=AdminRoute, responses=problems()
)


@router.get("/sites/{site_id}/audit", response_model=dict[str, Any])
async def read_audit(
    site_id: str, request: Request, filters: Annotated[AuditQuery, Query()]
) -> Response:
    """Return audit events of a site: the newest first, or with `after` the later ones in order."""
    query, after, limit = filters.to_query(site_id), filters.after, filters.limit
    rows = await read_as_administrator(
        request,
        "audit-read",
        [RequestSite(site_id)],
        lambda session: (
            audit_trail.read_newest(session.connection(), query, limit)
            if after is None
            else audit_trail.read_page(session.connection(), query, after, limit)
        ),
    )
    return JSONResponse({"events": [each.as_json() for each in rows]})


@router.get("/audit/verdict", response_model=dict[str, Any])
async def verify_audit(request: Request) -> Response:
    """Verify the hash chain of all sites; only with a service token. `broken`: null or place."""
    if not request.state.caller.service:
        raise Forbidden
    verdict = await engine_of(request).work.read(ENGINE_CHAIN.verify)
    return JSONResponse({"events": verdict.events, "head": verdict.head, "broken": verdict.broken})
