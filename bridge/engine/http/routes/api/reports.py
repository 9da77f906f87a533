"""
Changes of reports, orders and patients.

Reports: `sign`, `unsign`, `addendum/sign`, `addendum/unsign`, `prelim` and `prelim/withdraw`.
Orders: `delete`, `elsewhere`, `outside`, `update-dicomsr`, `reset-order`, `unassign`, `assign`,
`link-orders` and `unlink-orders`. Patients: `patient/update`, `patient/merge` and
`patient/unmerge`; all are idempotent.
"""

from collections.abc import Callable, Sequence

from fastapi import APIRouter, Request
from starlette.responses import Response

from bridge.contract import OrderKey
from bridge.contract.errors import ErrorCode
from bridge.contract.requests import (
    AddendumSignBody,
    AssignOrderBody,
    DeleteBody,
    FlatIdentity,
    LinkBody,
    OneReport,
    OutsideReportBody,
    PatientMergeBody,
    PatientUnmergeBody,
    PatientUpdateBody,
    PrelimBody,
    ReportedElsewhereBody,
    SignBody,
    UpdateStructuredReports,
)
from bridge.contract.responses import StatusRecordBody, UndoneMergeBody
from bridge.engine.errors import EngineError
from bridge.engine.http.engine_state import engine_of
from bridge.engine.http.requests.guard import FileRoute, WriteRoute
from bridge.engine.http.requests.response_bodies import (
    NO_BODY,
    WARNINGS,
    problems,
)
from bridge.engine.http.requests.use_cases import (
    CommittedRefusal,
    ReportResult,
    RequestSite,
    change_as_administrator,
    change_report,
    require_site_administrator,
    site_of,
    zone_of,
)
from bridge.engine.launch import OpenBracketsWarning
from bridge.engine.launch_parser import read_structured_reports
from bridge.engine.rules.text.plain_text import open_brackets
from bridge.engine.service.launch.report_updates import unassign
from bridge.engine.service.report_status import status_records
from bridge.engine.service.reports.deletion import delete_report, reset_order
from bridge.engine.service.reports.elsewhere import mark_order, unmark_order
from bridge.engine.service.reports.files import update_structured_reports
from bridge.engine.service.reports.order_links import link_orders, unlink_orders
from bridge.engine.service.reports.outside import add_version, read_document
from bridge.engine.service.reports.patients import merge_patients, undo_merge, update_patient
from bridge.engine.service.signing import addenda, prelims, sign
from bridge.engine.service.work import Work
from bridge.engine.service.worklist import assign_order

signing_router = APIRouter(prefix="/api/report", tags=["Signing"], route_class=WriteRoute)

BUSINESS = {**NO_BODY, **problems(500)}
DONE = {**NO_BODY, **problems()}


@signing_router.post("/sign", response_class=Response, responses={**BUSINESS, **WARNINGS})
async def sign_report(body: SignBody, request: Request) -> Response:
    """Sign in the name of the owner, or end the sign delay with `ignoreSignDelay`.

    `X-Warnings` says how many brackets the signed text has: nobody has answered these requests.
    """
    zone = zone_of(body.timeZone)

    def apply(work: Work, identity: OrderKey) -> ReportResult:
        zone_name = zone.key if zone else None
        report = sign.sign(work, identity, ignore_delay=body.ignoreSignDelay, time_zone=zone_name)
        count = open_brackets(report.content_text)
        return ReportResult(report, warnings=(OpenBracketsWarning(count),) if count else ())

    return await change_report(request, "sign", body.clinicalInfo, apply)


@signing_router.post("/unsign", response_class=Response, responses=BUSINESS)
async def unsign_report(body: OneReport, request: Request) -> Response:
    """Recall a report within its sign delay."""
    return await change_report(request, "unsign", body.clinicalInfo, sign.unsign)


@signing_router.post("/addendum/sign", response_class=Response, responses=BUSINESS)
async def release_addendum(body: AddendumSignBody, request: Request) -> Response:
    """Release the most recently signed addendum now."""
    release = addenda.release_addendum
    return await change_report(request, "addendum-sign", body.clinicalInfo, release)


@signing_router.post("/addendum/unsign", response_class=Response, responses=BUSINESS)
async def unsign_addendum(body: OneReport, request: Request) -> Response:
    """Recall the most recently signed addendum within its sign delay."""
    return await change_report(
        request, "addendum-unsign", body.clinicalInfo, addenda.unsign_addendum
    )


@signing_router.post("/prelim", response_class=Response, responses=DONE)
async def prelim_report(body: PrelimBody, request: Request) -> Response:
    """Make a report Preliminary for a group and tag."""
    return await change_report(
        request,
        "prelim",
        body.clinicalInfo,
        lambda work, identity: prelims.prelim(work, identity, body.prelimGroup, body.prelimTag),
    )


@signing_router.post(
    "/prelim/withdraw", response_class=Response, responses={**NO_BODY, **problems()}
)
async def withdraw_prelim(body: OneReport, request: Request) -> Response:
    """Withdraw the newest preliminary read: Preliminary with the one before, else Draft."""
    return await change_report(request, "prelim-withdraw", body.clinicalInfo, prelims.withdraw)


router = APIRouter(prefix="/api/report", tags=["Orders"], route_class=WriteRoute)
files = APIRouter(prefix="/api/report", tags=["Orders"], route_class=FileRoute)

Regroup = Callable[[Work, Sequence[OrderKey]], Sequence[StatusRecordBody]]


@router.post("/delete", response_class=Response, responses=DONE)
async def delete(body: DeleteBody, request: Request) -> Response:
    """Delete an unsigned report with all its orders."""

    def apply(work: Work, identity: OrderKey) -> CommittedRefusal | None:
        deleted = delete_report(
            work, identity, only_ordered=body.onlyWhenOrdered, set_aside=body.setAside
        )
        # Links of an order without a report are revoked although the response is 404.
        return None if deleted else CommittedRefusal(EngineError(ErrorCode.REPORT_NOT_FOUND))

    return await change_report(request, "delete", body.clinicalInfo, apply)


@router.post("/elsewhere", response_model=list[StatusRecordBody], responses=problems())
async def elsewhere(body: ReportedElsewhereBody, request: Request) -> Response:
    """
    Mark an order as reported elsewhere, or remove the mark; return the status record.

    An empty Ordered report leaves the list of unread reports. A report that was begun is kept as it
    is, and its page shows the mark.
    """

    def apply(work: Work, identity: OrderKey) -> ReportResult:
        at = work.now if body.reportedAt is None else body.reportedAt
        message = {"at": at, "sender": body.sender, "status": body.resultStatus}
        if body.reported:
            report = mark_order(work, identity, message)
        else:
            report = unmark_order(work, identity)
        (record,) = status_records(work.session, [report], work.now)
        return ReportResult(report, [record.model_dump(mode="json")])

    return await change_report(request, "elsewhere", body.clinicalInfo, apply)


@files.post(
    "/update-dicomsr",
    response_class=Response,
    responses={**WARNINGS, **problems()},
)
async def update_dicomsr(body: UpdateStructuredReports, request: Request) -> Response:
    """Replace or extend the DICOM SR files of an unsigned report."""
    engine = engine_of(request)
    await require_site_administrator(request, site_of(body.clinicalInfo))
    texts = [file.fileData for file in body.dicomSR]
    parsed = await engine.documents.run(read_structured_reports, texts, engine.settings.sizes)

    def update(work: Work, identity: OrderKey) -> ReportResult:
        done = update_structured_reports(work, identity, parsed, body.mode)
        return ReportResult(done.report, warnings=done.warnings)

    return await change_report(request, "update-dicomsr", body.clinicalInfo, update)


@files.post("/outside", response_class=Response, responses=DONE)
async def outside(body: OutsideReportBody, request: Request) -> Response:
    """
    Store a version of a report that was not made here; the same content again changes nothing.

    It is a prior of the patient, also of one who has no order yet. Without `PatientMRN` it belongs
    to the patient of the order with its `Accession`.
    """
    engine = engine_of(request)
    site = RequestSite(body.SiteID)
    await require_site_administrator(request, site)
    document = await engine.documents.run(read_document, body)
    return await change_as_administrator(
        request, "outside", site, lambda work: add_version(work, document)
    )


@router.post("/reset-order", response_class=Response, responses=DONE)
async def reset(body: FlatIdentity, request: Request) -> Response:
    """Make a Draft that was created as Ordered an empty, unassigned order again."""
    return await change_report(request, "reset-order", body, reset_order, within="/")


@router.post("/unassign", response_class=Response, responses=DONE)
async def unassign_report(body: FlatIdentity, request: Request) -> Response:
    """Return a Draft to the worklist with its content."""
    return await change_report(request, "unassign", body, unassign, within="/")


@router.post("/assign", response_class=Response, responses=DONE)
async def assign(body: AssignOrderBody, request: Request) -> Response:
    """Assign an unsigned report to a user of the site; an Ordered one becomes their Draft."""
    return await change_report(
        request,
        "assign",
        body.clinicalInfo,
        lambda work, identity: assign_order(work, identity, body.UserEmail),
    )


async def _change_group(request: Request, action: str, body: LinkBody, change: Regroup) -> Response:
    """Change which orders share a report; return the status records of all."""
    limit = engine_of(request).settings.sizes.link_list
    if len(body.clinicalInfo) > limit:
        detail = f"at most {limit} orders in one request"
        raise EngineError(ErrorCode.TOO_MANY_ORDERS, detail, pointer="/clinicalInfo")
    orders = [
        OrderKey(body.SiteID, order.PatientMRN, order.Accession) for order in body.clinicalInfo
    ]
    site = RequestSite(body.SiteID, body.SiteLocation)
    return await change_as_administrator(
        request,
        action,
        site,
        lambda work: [record.model_dump(mode="json") for record in change(work, orders)],
    )


@router.post("/link-orders", response_model=list[StatusRecordBody], responses=problems())
async def link(body: LinkBody, request: Request) -> Response:
    """Link several orders to one report; the first is the anchor. All or nothing."""
    return await _change_group(request, "link-orders", body, link_orders)


@router.post("/unlink-orders", response_model=list[StatusRecordBody], responses=problems())
async def unlink(body: LinkBody, request: Request) -> Response:
    """Remove orders from their groups. All or nothing."""
    return await _change_group(request, "unlink-orders", body, unlink_orders)


patient_router = APIRouter(prefix="/api/patient", tags=["Patients"], route_class=WriteRoute)


@patient_router.post("/update", response_class=Response, responses=DONE)
async def update(body: PatientUpdateBody, request: Request) -> Response:
    """Correct demographics on all orders of a patient of a site; absent members are unchanged."""
    values = body.model_dump(exclude={"SiteID", "PatientMRN"}, exclude_unset=True)
    tags = {name: value for name, value in values.items() if value is not None}

    return await change_as_administrator(
        request,
        "patient-update",
        RequestSite(body.SiteID),
        lambda work: _without_body(update_patient(work, body.SiteID, body.PatientMRN, tags)),
    )


@patient_router.post("/merge", response_class=Response, responses=DONE)
async def merge(body: PatientMergeBody, request: Request) -> Response:
    """Move everything of `PriorPatientMRN` to `PatientMRN`."""
    return await change_as_administrator(
        request,
        "patient-merge",
        RequestSite(body.SiteID),
        lambda work: _without_body(
            merge_patients(work, body.SiteID, body.PatientMRN, body.PriorPatientMRN)
        ),
    )


@patient_router.post("/unmerge", response_model=UndoneMergeBody, responses=problems())
async def unmerge(body: PatientUnmergeBody, request: Request) -> Response:
    """Undo a merge: `PriorPatientMRN` is a patient of its own again.

    The caller names the orders that return, with their demographics: no others do.
    """
    return await change_as_administrator(
        request,
        "patient-unmerge",
        RequestSite(body.SiteID),
        lambda work: undo_merge(
            work,
            body.SiteID,
            body.PatientMRN,
            body.PriorPatientMRN,
            body.orders,
            include_signed=body.includeSigned,
        ).model_dump(mode="json"),
    )


def _without_body(_: int) -> None:
    """Return no body, so that the number of changed reports is not sent."""
