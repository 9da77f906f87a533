"""`sign`, `unsign`, `addendum/sign`, `addendum/unsign` and `prelim`."""

from fastapi import APIRouter, Request
from starlette.responses import Response

from bridge.contract import OrderKey
from bridge.contract.requests import AddendumSignBody, OneReport, PrelimBody, SignBody
from bridge.engine.http.requests.guard import WriteRoute
from bridge.engine.http.requests.response_bodies import NO_BODY, WARNINGS, problems
from bridge.engine.http.requests.use_cases import ReportResult, change_report, zone_of
from bridge.engine.launch import OpenBracketsWarning
from bridge.engine.rules.text.plain_text import open_brackets
from bridge.engine.service.signing import addenda, prelims, sign
from bridge.engine.service.work import Work

router = APIRouter(prefix="/api/report", tags=["Signing"], route_class=WriteRoute)

BUSINESS = {**NO_BODY, **problems(500)}


@router.post("/sign", response_class=Response, responses={**BUSINESS, **WARNINGS})
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

    return await change_report(request, "sign", body.clinicalInfo, apply, urgent=True)


@router.post("/unsign", response_class=Response, responses=BUSINESS)
async def unsign_report(body: OneReport, request: Request) -> Response:
    """Recall a report within its sign delay."""
    return await change_report(request, "unsign", body.clinicalInfo, sign.unsign)


@router.post("/addendum/sign", response_class=Response, responses=BUSINESS)
async def release_addendum(body: AddendumSignBody, request: Request) -> Response:
    """Release the most recently signed addendum now."""
    release = addenda.release_addendum
    return await change_report(request, "addendum-sign", body.clinicalInfo, release, urgent=True)


@router.post("/addendum/unsign", response_class=Response, responses=BUSINESS)
async def unsign_addendum(body: OneReport, request: Request) -> Response:
    """Recall the most recently signed addendum within its sign delay."""
    return await change_report(
        request, "addendum-unsign", body.clinicalInfo, addenda.unsign_addendum
    )


@router.post("/prelim", response_class=Response, responses={**NO_BODY, **problems()})
async def prelim_report(body: PrelimBody, request: Request) -> Response:
    """Make a report Preliminary for a group and tag."""
    return await change_report(
        request,
        "prelim",
        body.clinicalInfo,
        lambda work, identity: prelims.prelim(work, identity, body.prelimGroup, body.prelimTag),
    )


@router.post("/prelim/withdraw", response_class=Response, responses={**NO_BODY, **problems()})
async def withdraw_prelim(body: OneReport, request: Request) -> Response:
    """Withdraw the newest preliminary read: Preliminary with the one before, else Draft."""
    return await change_report(request, "prelim-withdraw", body.clinicalInfo, prelims.withdraw)
