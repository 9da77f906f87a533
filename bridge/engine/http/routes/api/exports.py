"""
`export/html`, `export/json`, `export/rtf`, and `export/pdf` for the bridge.

`addenda` limits the number of addenda: one within its sign delay must not be sent with another.
"""

from collections.abc import Callable
from dataclasses import replace
from datetime import tzinfo
from functools import partial
from typing import TypeVar
from zoneinfo import ZoneInfo

from fastapi import APIRouter, Request
from sqlmodel import Session
from starlette.responses import Response

from bridge.contract.errors import ErrorCode
from bridge.contract.requests import ExportBody, PdfBody, RtfFileBody, RtfResponse
from bridge.contract.responses import ExportRecord, HtmlResponse
from bridge.engine.documents.errors import PdfUnavailable
from bridge.engine.documents.exports import file_names, html, json_record, pdf, rtf
from bridge.engine.documents.exports.model import ExportedReport
from bridge.engine.errors import EngineError
from bridge.engine.http.engine_state import engine_of
from bridge.engine.http.requests import response_bodies
from bridge.engine.http.requests.guard import ExportRoute
from bridge.engine.http.requests.response_bodies import problems
from bridge.engine.http.requests.use_cases import (
    order_id_of,
    read_as_administrator,
    site_of,
    zone_of,
)
from bridge.engine.records.tables import Report
from bridge.engine.service.report_status import read_report
from bridge.engine.service.reports.export import export_printed, export_report, read_prelim_text

router = APIRouter(prefix="/api/report/export", tags=["Export"], route_class=ExportRoute)

RTF_TYPE = "application/rtf"
PDF_TYPE = "application/pdf"
Rendered = TypeVar("Rendered")


def _named(
    render: Callable[[ExportedReport, tzinfo], bytes], kind: str
) -> Callable[[ExportedReport, tzinfo], tuple[bytes, str]]:
    """Return a function that also returns the value of `Content-Disposition`."""
    return lambda found, zone: (render(found, zone), file_names.attachment(found, kind))


async def _export(
    request: Request,
    body: ExportBody,
    render: Callable[[ExportedReport, tzinfo], Rendered],
    addenda: int | None = None,
    gather: Callable[[Session, Report], ExportedReport] = export_report,
) -> Rendered:
    """
    Load a report, render it in a worker thread, and record the export.

    `addenda` limits the number of addenda, the oldest first.
    """
    zone, identity = zone_of(body.timeZone), order_id_of(body.clinicalInfo)

    def reading(session: Session) -> tuple[ExportedReport, str]:
        report = read_report(session, identity)
        found = gather(session, report)
        if body.prelimUntil is not None:
            found = replace(found, body=read_prelim_text(session, report, body.prelimUntil))
        return found, report.report_id

    exported, _ = await read_as_administrator(
        request,
        "export",
        [site_of(body.clinicalInfo)],
        reading,
        shown=lambda found: [(identity.site, found[1])],
    )
    shown = replace(exported, addenda=exported.addenda[:addenda])
    own_zone = ZoneInfo(shown.site.time_zone or "UTC")
    return await engine_of(request).exports.run(render, shown, zone or own_zone)


@router.post("/html", response_model=HtmlResponse, responses=problems())
async def export_html(body: ExportBody, request: Request) -> Response:
    """Return the report as a self-contained HTML document."""
    return response_bodies.text_json_response(
        "html", await _export(request, body, html.render, gather=export_printed)
    )


@router.post("/json", response_model=ExportRecord, responses=problems())
async def export_json(body: ExportBody, request: Request) -> Response:
    """Return the JSON export record."""
    exported = await _export(request, body, lambda found, _: json_record.export_record(found))
    return response_bodies.json_response(exported)


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
                    "schema": {"type": "object", "properties": {"rtf": {"type": "string"}}},
                    "example": {"rtf": "e1xydGYxXGFuc2kgLi4ufQ=="},
                },
                "text/plain": {"schema": {"type": "string"}},
            },
        },
    },
)
async def export_rtf(body: RtfFileBody, request: Request) -> Response:
    """Return the report as RTF: bytes by default, or in base64."""
    render = _named(partial(rtf.render, content_only=body.contentOnly), "rtf")
    gather = export_report if body.contentOnly else export_printed
    data, disposition = await _export(request, body, render, body.addenda, gather)
    if body.responseType is RtfResponse.ARRAYBUFFER:
        headers = {"Content-Disposition": disposition}
        return response_bodies.bytes_response(data, RTF_TYPE, headers)
    if request.headers.get("accept", "").startswith("text/plain"):
        return response_bodies.base64_text_response(data)
    return response_bodies.base64_json_response("rtf", data)


@router.post("/pdf", include_in_schema=False)
async def export_pdf(body: PdfBody, request: Request) -> Response:
    """Return the report as PDF to the bridge; other callers get 404."""
    if not request.state.caller.service:
        raise EngineError(ErrorCode.NO_SUCH_PATH, "Not Found")
    try:
        render = _named(pdf.render, "pdf")
        data, disposition = await _export(request, body, render, body.addenda, export_printed)
    except PdfUnavailable as error:
        raise EngineError(ErrorCode.PDF_UNAVAILABLE, str(error)) from None
    headers = {"Content-Disposition": disposition}
    return response_bodies.bytes_response(data, PDF_TYPE, headers)
