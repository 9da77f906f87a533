"""
Tools of the report page: templates, macros, checks, presence, priors, files, exports.

These routes do not change the report; `bridge.engine.http.routes.app.report` does. Reading another
report of the patient is recorded in the audit trail.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import tzinfo
from enum import StrEnum
from functools import partial
from typing import Annotated, Any
from zoneinfo import ZoneInfo

from fastapi import Path, Query
from sqlmodel import Session
from starlette.responses import JSONResponse, Response

from bridge.contract.errors import ErrorCode
from bridge.engine.documents.errors import PdfUnavailable
from bridge.engine.documents.exports import file_names, html, pdf, rtf
from bridge.engine.documents.exports.model import ExportedReport
from bridge.engine.errors import EngineError
from bridge.engine.http.app_bodies import MacroBody, MappingBody, Trigger
from bridge.engine.http.report_page import ReportPageDep
from bridge.engine.http.requests import response_bodies
from bridge.engine.http.requests.guard import session_router
from bridge.engine.http.requests.use_cases import zone_of
from bridge.engine.records.tables import Report
from bridge.engine.rules.text.document import restore, to_json
from bridge.engine.rules.text.key_findings import apply_template
from bridge.engine.service.report_lookup import lock_report_by_id
from bridge.engine.service.reports import files, priors
from bridge.engine.service.reports.export import export_printed, export_report
from bridge.engine.service.signing import page_actions
from bridge.engine.service.sites import audit_states, macros, site_settings
from bridge.executors import Threads

router = session_router()

PageJson = dict[str, Any]


@router.get("/templates", response_model=PageJson)
async def list_templates(page: ReportPageDep) -> Response:
    """Return the site's templates by number."""
    site_id = page.session.site_id
    found = await page.read(lambda work, *_: site_settings.list_templates(work.connection, site_id))
    return JSONResponse({"templates": found})


@router.post("/templates/{number}/map", response_model=PageJson)
async def map_findings(
    number: Annotated[int, Path(ge=1, le=999_999_999)], body: MappingBody, page: ReportPageDep
) -> Response:
    """Return the template with the findings in place, marked as suggestions; saves nothing."""
    site_id = page.session.site_id
    found = await page.read(lambda work, *_: site_settings.list_templates(work.connection, site_id))
    template = next((each for each in found if each["number"] == number), None)
    if template is None:
        raise EngineError(ErrorCode.NOT_FOUND, "the site has no such template")
    groups = await page.read(files.groups_of_page)
    document = await Threads.DOCUMENTS.run(
        lambda: to_json(apply_template(restore(template["document"]), body.findings, groups=groups))
    )
    return JSONResponse({"number": number, "document": document})


@router.get("/macros", response_model=PageJson)
async def list_macros(page: ReportPageDep) -> Response:
    """Return the site's macros and the user's own."""
    site_id = page.session.site_id
    found = await page.read(
        lambda work, editor, _: macros.macros_of(work.connection, site_id, editor.account_id)
    )
    return JSONResponse({"macros": found})


@router.put("/macros/{trigger}", status_code=204, response_class=Response)
async def set_macro(trigger: Trigger, body: MacroBody, page: ReportPageDep) -> Response:
    """Create or replace a macro of the user."""
    session, content = page.session, body.content()
    site_id = session.site_id
    return await page.change_without_page(
        "macro-update",
        lambda work, editor, _: macros.set_macro(
            work.connection, site_id, editor.account_id, trigger, body.name, content, work.now
        ),
        state=audit_states.macro(site_id, session.account_id, trigger),
        target=("macro", trigger),
    )


@router.delete("/macros/{trigger}", status_code=204, response_class=Response)
async def delete_macro(trigger: Trigger, page: ReportPageDep) -> Response:
    """Remove a macro of the user."""
    session = page.session
    site_id = session.site_id
    return await page.change_without_page(
        "macro-delete",
        lambda work, editor, _: macros.delete_macro(
            work.connection, site_id, editor.account_id, trigger
        ),
        state=audit_states.macro(site_id, session.account_id, trigger),
        target=("macro", trigger),
    )


@router.get("/checks", response_model=PageJson)
async def check(
    page: ReportPageDep,
    addendum: Annotated[bool, Query(description="Check the open addendum")] = False,
) -> Response:
    """Return the findings of the checks before signing, for the saved text."""
    check_text = page_actions.check_addendum if addendum else page_actions.check_report
    found = await page.read(check_text)
    return JSONResponse({"findings": found})


@router.post("/presence", response_model=PageJson)
async def presence(page: ReportPageDep) -> Response:
    """Renew the writing lease; return the versions by which the page detects changes."""
    return JSONResponse(await page.read(page_actions.presence))


@router.post("/leave", status_code=204, response_class=Response)
async def leave(page: ReportPageDep) -> Response:
    """Release the writing lease: the user leaves the page."""
    await page.read(page_actions.leave)
    return Response(status_code=204)


_NO_STORE = {"Cache-Control": "no-store"}


class ExportFormat(StrEnum):
    """The export formats of the report page."""

    PDF = "pdf"
    DOCX = "docx"
    RTF = "rtf"
    HTML = "html"


@dataclass(frozen=True, slots=True)
class _Writer:
    media_type: str
    render: Callable[[ExportedReport, tzinfo], bytes]
    gather: Callable[[Session, Report], ExportedReport] = export_report


def _html_bytes(exported: ExportedReport, zone: tzinfo) -> bytes:
    return html.render(exported, zone).encode("utf-8")


def _docx(exported: ExportedReport, zone: tzinfo) -> bytes:
    from bridge.engine.documents.exports import docx  # noqa: PLC0415  # slow to load, rarely wanted

    return docx.render(exported, zone)


WRITERS = {
    ExportFormat.PDF: _Writer("application/pdf", pdf.render, export_printed),
    ExportFormat.DOCX: _Writer(
        "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
        _docx,
        export_printed,
    ),
    ExportFormat.RTF: _Writer("application/rtf", rtf.render, export_printed),
    ExportFormat.HTML: _Writer("text/html; charset=utf-8", _html_bytes, export_printed),
}


@router.get("/priors", response_model=PageJson)
async def list_priors(page: ReportPageDep) -> Response:
    """Return the earlier signed reports of the patient, the best comparison first."""
    return JSONResponse({"priors": await page.read(priors.list_priors)})


@router.get("/priors/{prior_id}", response_model=PageJson)
async def read_prior(
    prior_id: Annotated[str, Path(min_length=1, max_length=64)], page: ReportPageDep
) -> Response:
    """Return the text of a prior report."""
    found = await page.read_and_record(
        "prior-view",
        prior_id,
        lambda work, editor, report_id: priors.read_prior(work, editor, report_id, prior_id),
    )
    return JSONResponse(found)


@router.get("/history", response_model=PageJson)
async def read_history(page: ReportPageDep) -> Response:
    """Return the preliminary reads and the signings of the report, with their texts."""
    return JSONResponse(await page.read(priors.read_history))


@router.get("/files", response_model=PageJson)
async def list_files(page: ReportPageDep) -> Response:
    """Return the measurements of the DICOM SR files and the list of key images."""
    return JSONResponse({"files": await page.read(files.list_files)})


@router.get("/files/{file_id}", response_class=Response)
async def read_image(
    file_id: Annotated[int, Path(ge=1, lt=2**63)], page: ReportPageDep
) -> Response:
    """Return a key image."""
    media_type, data = await page.read(partial(files.read_image, pk=file_id))
    return Response(data, headers=_NO_STORE, media_type=media_type)


@router.get("/export/{kind}", response_class=Response)
async def export(
    kind: ExportFormat,
    page: ReportPageDep,
    time_zone: Annotated[str | None, Query(alias="timeZone")] = None,
) -> Response:
    """Return the report as a file; the page prints the HTML."""
    zone, report_id, writer = zone_of(time_zone), page.session.report_id, WRITERS[kind]
    exported = await page.read_and_record(
        "export",
        report_id,
        lambda work, *_: writer.gather(work.session, lock_report_by_id(work, report_id)),
    )
    chosen = zone or ZoneInfo(exported.site.time_zone or "UTC")
    try:
        data = await Threads.EXPORTS.run(writer.render, exported, chosen)
    except PdfUnavailable as error:
        raise EngineError(ErrorCode.PDF_UNAVAILABLE, str(error)) from None
    disposition = file_names.attachment(exported, kind.value)
    headers = {**_NO_STORE, "Content-Disposition": disposition}
    return response_bodies.bytes_response(data, writer.media_type, headers)
