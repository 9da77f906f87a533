"""
Routes of the report page: its report, addenda, billing codes, shares, and its tools.

The tools are templates, macros, checks, presence, priors, files and exports. The routes require the
session of an opened report and act on that report only. Every change of the report returns the new
state of the page. Reading another report of the patient is recorded in the audit trail.
"""

# ruff: noqa: N815  # the spelling of the interface reference

from collections.abc import Callable
from dataclasses import dataclass
from datetime import tzinfo
from enum import StrEnum
from functools import partial
from typing import Annotated, Any
from zoneinfo import ZoneInfo

from fastapi import Path, Query
from pydantic import Field, StrictBool, StrictInt, StringConstraints, model_validator
from sqlmodel import Session
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from typing_extensions import override

from bridge.contract.errors import ErrorCode
from bridge.contract.requests import (
    MAX_TEMPLATE,
    Body,
    Identifier,
    OptionalIdentifier,
    RowId,
    TemplateNumber,
)
from bridge.engine.documents.errors import PdfUnavailable
from bridge.engine.documents.exports import file_names, html, pdf, rtf
from bridge.engine.documents.exports.model import ExportedReport
from bridge.engine.errors import EngineError
from bridge.engine.http.report_page import ReportPageDep
from bridge.engine.http.requests import response_bodies
from bridge.engine.http.requests.guard import session_router
from bridge.engine.http.requests.response_bodies import PAGE_LEFT
from bridge.engine.http.requests.use_cases import zone_of
from bridge.engine.http.routes.app.account import ChoicesBody
from bridge.engine.http.window_handover import wait_for_handover
from bridge.engine.links import Purpose, link_address
from bridge.engine.records.tables import Report
from bridge.engine.rules.text.document import MAX_NODES, Document, from_text, restore, to_json
from bridge.engine.rules.text.key_findings import apply_template
from bridge.engine.rules.text.plain_text import from_lines
from bridge.engine.rules.timestamps import iso
from bridge.engine.service.accounts import own_account
from bridge.engine.service.launch import link_visits
from bridge.engine.service.report_lookup import lock_report_by_id
from bridge.engine.service.reports import files, priors, shares
from bridge.engine.service.reports.export import export_printed, export_report
from bridge.engine.service.signing import page_actions
from bridge.engine.service.signing.lease import Editor
from bridge.engine.service.signing.page_actions import read_document
from bridge.engine.service.sites import audit_states, macros, site_settings
from bridge.engine.service.work import Work

router = session_router()

PageJson = dict[str, Any]


class TextBody(Body):
    """A text, as a structured document or as plain text."""

    document: dict[str, Any] | None = None
    text: str | None = Field(default=None, max_length=4_000_000)

    @model_validator(mode="after")
    def _one_of_both(self) -> "TextBody":
        if (self.document is None) == (self.text is None):
            message = "either document or text is needed"
            raise ValueError(message)
        return self

    def sent(self) -> dict[str, Any]:
        """Return the JSON of the document; not validated. Raise EngineError for too many lines."""
        if self.document is not None:
            return self.document
        text = self.text or ""
        # Counted first: a document of millions of lines needs seconds and a gigabyte.
        if text.count("\n") + text.count("\r") - text.count("\r\n") >= MAX_NODES:
            raise EngineError(ErrorCode.BAD_DOCUMENT, pointer="/document/content")
        return to_json(self.read_text(text))

    def read_text(self, text: str) -> Document:
        """Return the document of a plain text."""
        return from_text(text)

    def content(self) -> Document:
        """Return the document in either form; raise `EngineError`."""
        return read_document(self.sent())


class MacroBody(TextBody):
    """A macro: its text, and its name in lists."""

    name: OptionalIdentifier = ""

    @override
    def read_text(self, text: str) -> Document:
        """Return the document of a plain text whose brackets are fields, as in a template."""
        return from_lines(text)


Trigger = Annotated[
    str, StringConstraints(pattern=r"^[^\s\x85/]{1,32}$"), Path(description="One word, no slash")
]
"""The word that a user types for a macro."""


class MappingBody(Body):
    """Key findings to be mapped into a template."""

    findings: str = Field(default="", max_length=100_000)


class VersionedBody(Body):
    """A request that names the version of the report that the page shows."""

    version: StrictInt = 0


class SaveBody(VersionedBody, TextBody):
    """A text to save, the applied template, and whether the user leaves the page."""

    template: Annotated[StrictInt, Field(ge=1, le=MAX_TEMPLATE)] | None = None
    leaving: StrictBool = False


class SessionPrelimBody(VersionedBody):
    """A preliminary read."""

    prelimGroup: Identifier
    prelimTag: Identifier


class OpenBody(Body):
    """
    Whether to take the writing lease from another session, and the name of the page's tab.

    A reloaded page names the same tab again, and shares the lease of its session before.
    """

    takeOver: StrictBool = False
    tab: Annotated[str, Field(pattern=r"^[0-9a-f]{0,64}$")] = ""


@router.get("/report", response_model=PageJson)
async def load(page: ReportPageDep) -> Response:
    """Return the state of the report page."""
    return await page.show()


@router.post("/open", response_model=PageJson)
async def open_again(body: OpenBody, page: ReportPageDep) -> Response:
    """
    Return the state of the page; with `takeOver` take the writing lease first.

    The other window has saved its text by then, or has not answered for 3 s.
    """
    if body.takeOver:
        await wait_for_handover(page.engine, page.session.report_id, page.session.pk)
    opened = await page.in_tab(body.tab)
    return await opened.show(take_over=body.takeOver)


@router.post("/transfer", response_model=PageJson)
async def transfer(page: ReportPageDep) -> Response:
    """
    Take over the Draft from its owner, after the user has confirmed.

    The other window has saved its text by then, or has not answered for 3 s.
    """
    await wait_for_handover(page.engine, page.session.report_id, page.session.pk)
    return await page.change(
        "transfer",
        lambda work, editor, report_id: link_visits.take_over(work, report_id, editor.account_id),
    )


@router.post("/unread", response_model=PageJson)
async def unread(page: ReportPageDep) -> Response:
    """Return a report whose orders are reported elsewhere to the list of unread reports."""
    return await page.change("return-to-unread", page_actions.return_to_unread)


@router.post("/save", response_model=PageJson, responses=PAGE_LEFT)
async def save(body: SaveBody, page: ReportPageDep) -> Response:
    """Save the text if it is based on the current version."""

    def apply(work: Work, editor: Editor, report_id: str, *, leaving: bool = False) -> None:
        page_actions.save(
            work,
            editor,
            report_id,
            body.version,
            body.sent(),
            template=body.template,
            leaving=leaving,
        )

    if not body.leaving:
        return await page.change("save", apply)

    def save_and_leave(work: Work, editor: Editor, report_id: str) -> None:
        apply(work, editor, report_id, leaving=True)
        page_actions.leave(work, editor, report_id)

    return await page.change_without_page("save", save_and_leave)


@router.post("/sign", response_model=PageJson)
async def sign(body: VersionedBody, page: ReportPageDep) -> Response:
    """Sign the report."""
    return await page.change("sign", partial(page_actions.sign, version=body.version))


@router.post("/sign-now", response_model=PageJson)
async def sign_now(body: VersionedBody, page: ReportPageDep) -> Response:
    """End the sign delay of a signed report, or sign without a delay."""
    sign_without_delay = partial(page_actions.sign, version=body.version, ignore_delay=True)
    return await page.change("sign", sign_without_delay)


@router.post("/unsign", response_model=PageJson)
async def unsign(page: ReportPageDep) -> Response:
    """Recall the report."""
    return await page.change("unsign", page_actions.unsign)


@router.post("/prelim", response_model=PageJson)
async def prelim(body: SessionPrelimBody, page: ReportPageDep) -> Response:
    """Make the report Preliminary."""
    return await page.change(
        "prelim",
        partial(
            page_actions.prelim, version=body.version, group=body.prelimGroup, tag=body.prelimTag
        ),
    )


@router.put("/choices", status_code=204, response_class=Response)
async def choose(body: ChoicesBody, page: ReportPageDep) -> Response:
    """Save the user's display preferences for this site."""
    session = page.session
    return await page.change_without_page(
        "profile-update",
        lambda work, editor, _: own_account.save_page_choices(
            work.connection, session, body.choices()
        ),
        state=audit_states.profile(session.account_id, session.site_id),
        target=("account", str(session.account_id)),
    )


@router.post("/discard", status_code=204, response_class=Response)
async def discard(page: ReportPageDep) -> Response:
    """Discard the Draft."""
    return await page.change_without_page("discard", page_actions.discard_report)


@router.post("/addendum/create", response_model=PageJson)
async def create_addendum(page: ReportPageDep) -> Response:
    """Create an addendum."""
    return await page.change("addendum-create", page_actions.create_addendum)


@router.post("/addendum/save", response_model=PageJson)
async def save_addendum(body: SaveBody, page: ReportPageDep) -> Response:
    """Save the text of the addendum; `version` is the version of the addendum."""
    apply = partial(page_actions.save_addendum, version=body.version, document=body.sent())
    return await page.change("addendum-save", apply)


@router.post("/addendum/sign", response_model=PageJson)
async def sign_addendum(body: VersionedBody, page: ReportPageDep) -> Response:
    """Sign the addendum; `version` is the version of the addendum."""
    apply = partial(page_actions.sign_addendum, version=body.version)
    return await page.change("addendum-sign", apply)


@router.post("/addendum/sign-now", response_model=PageJson)
async def release_addendum(page: ReportPageDep) -> Response:
    """Release the newest signed addendum before its sign delay ends."""
    return await page.change("addendum-release", page_actions.release_addendum)


@router.post("/addendum/unsign", response_model=PageJson)
async def unsign_addendum(page: ReportPageDep) -> Response:
    """Recall the newest signed addendum."""
    return await page.change("addendum-unsign", page_actions.unsign_addendum)


@router.post("/addendum/cancel", response_model=PageJson)
async def cancel_addendum(page: ReportPageDep) -> Response:
    """Discard the open addendum."""
    return await page.change("addendum-cancel", page_actions.cancel_addendum)


class ShareBody(Body):
    """The lifetime of a share; the site's maximum is also the default."""

    expiresSeconds: Annotated[StrictInt, Field(ge=60)] | None = None


@router.post("/billing", response_model=PageJson)
async def generate_billing(page: ReportPageDep) -> Response:
    """Derive billing codes from the site's code map, store and return them as `billingCode`."""
    return await page.change("billing", page_actions.generate_billing, result="billingCode")


@router.get("/billing", response_model=PageJson)
async def read_billing(page: ReportPageDep) -> Response:
    """Return the last generated billing codes, null if there are none."""
    codes = await page.read(page_actions.read_billing)
    return JSONResponse({"billingCode": codes})


@router.get("/shares", response_model=PageJson)
async def list_shares(page: ReportPageDep) -> Response:
    """Return the valid shares of the report, without their addresses."""
    listed = await page.read(shares.list_shares)
    return JSONResponse({"shares": listed})


@router.post("/shares", response_model=PageJson)
async def share(body: ShareBody, page: ReportPageDep, request: Request) -> Response:
    """Create a read-only link to the report; only this response contains its address."""
    engine, base = page.engine, page.engine.base_url(request)

    def apply(work: Work, editor: Editor, report_id: str) -> dict[str, Any]:
        created = shares.create_share(work, editor, report_id, engine.random, body.expiresSeconds)
        address = link_address(base, Purpose.SHARE, created.handle)
        return {"id": created.pk, "link": address, "expiresAt": iso(created.expires_at)}

    return await page.change("share-create", apply, result="share")


@router.post("/shares/{share_id}/revoke", response_model=PageJson)
async def revoke(share_id: RowId, page: ReportPageDep) -> Response:
    """Revoke a share."""
    return await page.change("share-revoke", partial(shares.revoke, pk=share_id))


@router.get("/templates", response_model=PageJson)
async def list_templates(page: ReportPageDep) -> Response:
    """Return the site's templates by number."""
    site_id = page.session.site_id
    found = await page.read(lambda work, *_: site_settings.list_templates(work.connection, site_id))
    return JSONResponse({"templates": found})


@router.post("/templates/{number}/map", response_model=PageJson)
async def map_findings(number: TemplateNumber, body: MappingBody, page: ReportPageDep) -> Response:
    """Return the template with the findings in place, marked as suggestions; saves nothing."""
    site_id = page.session.site_id
    found = await page.read(lambda work, *_: site_settings.list_templates(work.connection, site_id))
    template = next((row for row in found if row["number"] == number), None)
    if template is None:
        raise EngineError(ErrorCode.NOT_FOUND, "the site has no such template")
    groups = await page.read(files.groups_of_page)
    document = await page.engine.documents.run(
        lambda: to_json(
            apply_template(restore(template["document"]), body.findings, groups=groups)
        ),
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
    """Return the earlier reports of the patient, the best comparison first."""
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


@router.get("/priors/{prior_id}/versions/{version}/pdf/{number}", response_class=Response)
async def read_prior_pdf(
    prior_id: Annotated[str, Path(min_length=1, max_length=64)],
    version: RowId,
    number: RowId,
    page: ReportPageDep,
) -> Response:
    """Return a PDF file of a version of a report that was not made here, counted from 1."""
    data = await page.read_and_record(
        "prior-view",
        prior_id,
        lambda work, editor, report_id: priors.read_prior_pdf(
            work, editor, report_id, prior_id, version, number
        ),
    )
    headers = {**_NO_STORE, "Content-Disposition": 'attachment; filename="report.pdf"'}
    return response_bodies.bytes_response(data, "application/pdf", headers)


@router.get("/history", response_model=PageJson)
async def read_history(page: ReportPageDep) -> Response:
    """Return the preliminary reads and the signings of the report, with their texts."""
    return JSONResponse(await page.read(priors.read_history))


@router.get("/files", response_model=PageJson)
async def list_files(page: ReportPageDep) -> Response:
    """Return the measurements of the DICOM SR files and the list of key images."""
    return JSONResponse({"files": await page.read(files.list_files)})


@router.get("/files/{file_id}", response_class=Response)
async def read_image(file_id: RowId, page: ReportPageDep) -> Response:
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
        data = await page.engine.exports.run(writer.render, exported, chosen)
    except PdfUnavailable as error:
        raise EngineError(ErrorCode.PDF_UNAVAILABLE, str(error)) from None
    disposition = file_names.attachment(exported, kind.value)
    headers = {**_NO_STORE, "Content-Disposition": disposition}
    return response_bodies.bytes_response(data, writer.media_type, headers)
