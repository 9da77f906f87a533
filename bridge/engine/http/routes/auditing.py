"""The audit trail of a site (ours), for its administrators."""

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from starlette.responses import JSONResponse, Response

from bridge.engine.http.acting import Place, look
from bridge.engine.http.guard import AdminRoute
from bridge.engine.http.models.responses import problems
from bridge.engine.service import trail

router = APIRouter(
    prefix="/api/admin", tags=["Administration"], route_class=AdminRoute, responses=problems()
)

Number = Annotated[int | None, Query(ge=0, lt=2**63)]
Word = Annotated[str | None, Query(min_length=1, max_length=128)]


@router.get("/sites/{site_id}/audit", response_model=dict[str, Any])
async def read_audit(
    site_id: str,
    request: Request,
    after: Number = None,
    since: Number = None,
    until: Number = None,
    action: Word = None,
    report_id: Annotated[str | None, Query(alias="reportId", max_length=128)] = None,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
) -> Response:
    """
    Return a site's audit events: the newest first, or with `after` those behind it, oldest first.

    `since` and `until` are milliseconds since the epoch.
    """
    query = trail.TrailQuery(site_id, since, until, report_id, action)
    rows = await look(
        request,
        "audit-read",
        [Place(site_id)],
        lambda session: (
            trail.newest(session.connection(), query, limit)
            if after is None
            else trail.page(session.connection(), query, after, limit)
        ),
    )
    return JSONResponse({"events": [each.as_json() for each in rows]})
