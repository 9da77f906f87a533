"""`export/html`, `export/json` and `export/rtf`."""

import base64
from collections.abc import Callable
from datetime import tzinfo
from functools import partial
from typing import Any, TypeVar
from zoneinfo import ZoneInfo

from fastapi import APIRouter, Request
from starlette.responses import JSONResponse, PlainTextResponse, Response

from bridge.engine.documents import html, record, rtf
from bridge.engine.documents.model import Exported
from bridge.engine.http.acting import actor_of, look, place_of, triple_of, zone_of
from bridge.engine.http.guard import ExportRoute
from bridge.engine.http.models.reports import ExportBody, RtfBody, RtfResponse
from bridge.engine.http.models.responses import HtmlResponse, problems
from bridge.engine.http.state import engine_of
from bridge.engine.service import audit
from bridge.engine.service.export import gather
from bridge.engine.service.work import Work

router = APIRouter(prefix="/api/report/export", tags=["Export"], route_class=ExportRoute)

RTF_TYPE = "application/rtf"
Rendered = TypeVar("Rendered")


async def _export(
    request: Request, body: ExportBody, render: Callable[[Exported, tzinfo], Rendered]
) -> Rendered:
    """Gather a report, render it off the loop, and note in the audit trail who took it."""
    zone, triple = zone_of(body.timeZone), triple_of(body.clinicalInfo)
    exported = await look(
        request, [place_of(body.clinicalInfo)], lambda session: gather(session, triple)
    )
    engine, caller = engine_of(request), request.state.caller
    rendered = await engine.work.run(lambda: render(exported, zone or _zone(exported)))
    deed = audit.Deed(
        "export", triple.site_id, account_id=caller.account_id, token_id=caller.token_id
    )

    def note(work: Work) -> None:
        audit.record(work.connection, engine.work.database.serialize, [deed], work.now)

    await engine.work.change(actor_of(caller), engine.clock(), note)
    return rendered


def _zone(exported: Exported) -> tzinfo:
    return ZoneInfo(exported.site.time_zone or "UTC")


@router.post("/html", response_model=HtmlResponse, responses=problems())
async def export_html(body: ExportBody, request: Request) -> Response:
    """Return the report as a self-contained HTML document."""
    return JSONResponse({"html": await _export(request, body, html.render)})


@router.post("/json", response_model=dict[str, Any], responses=problems())
async def export_json(body: ExportBody, request: Request) -> Response:
    """Return the JSON export record."""
    return JSONResponse(
        await _export(request, body, lambda exported, _: record.export_record(exported))
    )


@router.post(
    "/rtf",
    response_class=Response,
    responses={
        **problems(),
        200: {
            "description": "The RTF itself, or for `base64` a JSON object with `rtf`",
            "content": {
                RTF_TYPE: {"schema": {"type": "string", "format": "binary"}},
                "application/json": {
                    "schema": {"type": "object", "properties": {"rtf": {"type": "string"}}}
                },
                "text/plain": {"schema": {"type": "string"}},
            },
        },
    },
)
async def export_rtf(body: RtfBody, request: Request) -> Response:
    """Return the report as RTF: bytes by default, or in base64."""
    render = partial(rtf.render, content_only=body.contentOnly)
    data = await _export(request, body, render)
    if body.responseType is RtfResponse.ARRAYBUFFER:
        headers = {"Content-Disposition": 'attachment; filename="report.rtf"'}
        return Response(data, headers=headers, media_type=RTF_TYPE)
    encoded = base64.b64encode(data).decode("ascii")
    if request.headers.get("accept", "").startswith("text/plain"):
        return PlainTextResponse(encoded)
    return JSONResponse({"rtf": encoded})
