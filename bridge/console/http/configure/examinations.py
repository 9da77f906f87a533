"""
Examinations of partners: begin one, follow it, and its report for the partner.

Only users who may change connections begin and read them: the service connects to the address, or
opens the port, that they name.
"""

from functools import partial
from typing import Annotated, Any, Final

from fastapi import APIRouter, Query, Response

from bridge.admin.access.permissions import Permission
from bridge.admin.background.jobs import Requester
from bridge.admin.errors import InvalidState
from bridge.admin.examination import job as examinations
from bridge.admin.examination.job import LOWEST_PORT, Role, probes_of
from bridge.admin.examination.receiver import MOST_MESSAGES
from bridge.admin.examination.report import document_of
from bridge.admin.specification.document import as_html, as_pdf, as_text
from bridge.admin.specification.use_case import SpecificationFormat
from bridge.console.http.guard import (
    HEADERS,
    AuditedAction,
    CallDep,
    ConsoleRoute,
    always_fresh,
    run_audited,
)
from bridge.console.http.models.background import BackgroundJobResponse
from bridge.console.http.models.examinations import (
    ExaminationBody,
    ExaminationResponse,
    ExaminationsResponse,
    ProbesResponse,
)
from bridge.contract.requests import RowId
from bridge.executors import CONSOLE_THREADS
from bridge.report_engine import PdfWriterMissing

router = APIRouter(prefix="/api/examinations", route_class=ConsoleRoute)
_CONNECT: Final = (Permission.CONNECT,)
_LISTED: Final = 50
ReportFormat = Annotated[str, Query(alias="format", pattern="^(html|pdf|text)$")]


@router.post("", responses={200: {"model": BackgroundJobResponse}})
async def examine(body: ExaminationBody, call: CallDep) -> dict[str, Any]:
    """
    Begin an examination in the background.

    Requires a password that was confirmed within the last ten minutes, and who at the partner
    agreed. An account has one examination at a time, and a limited number in an hour.
    """
    request, grant, context = body.request(), call.user.grant, call.context
    requester = Requester(grant.email, grant.account_id, grant.visible_sites)
    action = AuditedAction(
        _CONNECT, "examine", request.subject, reason=request.agreed.strip(), fresh=always_fresh
    )
    settings, database, now = context.settings, context.database, context.clock()
    work = partial(examinations.start, settings, database, request, requester, now)
    return (await run_audited(call, action, work)).as_json()


@router.get("", responses={200: {"model": ExaminationsResponse}})
async def list_examinations(
    call: CallDep, subject: Annotated[str, Query(max_length=300)] = ""
) -> dict[str, Any]:
    """List examinations, newest first; `subject`: those of one, such as `destination ris`."""
    call.user.grant.require(Permission.CONNECT)
    found = await CONSOLE_THREADS.run(examinations.newest, call.context.database, subject, _LISTED)
    return {"rows": [examinations.as_json(job) for job in found]}


@router.get("/probes", responses={200: {"model": ProbesResponse}})
async def probes(call: CallDep) -> dict[str, Any]:
    """List the probes of receivers and of senders."""
    call.user.grant.require(Permission.CONNECT)
    listed = {
        role.value: [{"name": name, "title": title} for name, title in probes_of(role).items()]
        for role in Role
    }
    return {**listed, "most_messages": MOST_MESSAGES, "lowest_port": LOWEST_PORT}


@router.get("/{job_id}", responses={200: {"model": ExaminationResponse}})
async def read(job_id: RowId, call: CallDep) -> dict[str, Any]:
    """Return an examination with the results so far, and the settings that fit."""
    call.user.grant.require(Permission.CONNECT)
    context = call.context

    def work() -> dict[str, Any]:
        job = examinations.find(context.database, job_id)
        proposal = examinations.proposal_of(context.settings, context.database, job)
        return examinations.as_json(job, proposal)

    return await CONSOLE_THREADS.run(work)


@router.get("/{job_id}/report")
async def report(job_id: RowId, call: CallDep, wanted: ReportFormat) -> Response:
    """Return the report for the partner as a file; that it was written is in the audit trail."""
    context = call.context

    def work() -> bytes:
        job = examinations.find(context.database, job_id)
        found = examinations.proposal_of(context.settings, context.database, job)
        changes = found.proposal.changes if found else ()
        document = document_of(examinations.examination_of(job), changes, job.options["agreed"])
        if wanted == SpecificationFormat.PDF:
            try:
                return as_pdf(document)
            except PdfWriterMissing as error:
                raise InvalidState(str(error)) from None
        text = as_html(document) if wanted == SpecificationFormat.HTML else as_text(document)
        return text.encode()

    action = AuditedAction(_CONNECT, "export", f"examination {job_id}")
    async with context.gate.entered():
        found = await run_audited(call, action, work)
    suffix, kind = _FILES[wanted]
    disposition = f'attachment; filename="examination-{job_id}.{suffix}"'
    return Response(found, media_type=kind, headers={**HEADERS, "Content-Disposition": disposition})


_FILES: Final = {
    "html": ("html", "text/html; charset=utf-8"),
    "pdf": ("pdf", "application/pdf"),
    "text": ("txt", "text/plain; charset=utf-8"),
}
