"""`sign`, `unsign`, `addendum/sign`, `addendum/unsign` and `prelim`."""

from fastapi import APIRouter, Request
from starlette.responses import Response

from bridge.engine.http.acting import act, place_of, triple_of, zone_of
from bridge.engine.http.guard import WriteRoute
from bridge.engine.http.models.reports import AddendumSignBody, OneReport, PrelimBody, SignBody
from bridge.engine.http.models.responses import NO_BODY, problems
from bridge.engine.service import addenda, prelim, sign, unsign

router = APIRouter(prefix="/api/report", tags=["Signing"], route_class=WriteRoute)

BUSINESS = {**NO_BODY, **problems(500)}


@router.post("/sign", response_class=Response, responses=BUSINESS)
async def sign_report(body: SignBody, request: Request) -> Response:
    """Sign in the name of the owner, or with `ignoreSignDelay` end the cooling period."""
    triple, zone = triple_of(body.clinicalInfo), zone_of(body.timeZone)
    return await act(
        request,
        "sign",
        place_of(body.clinicalInfo),
        lambda work: sign.sign(
            work,
            triple,
            ignore_delay=body.ignoreSignDelay,
            time_zone=zone.key if zone else None,
        ),
        urgent=True,
    )


@router.post("/unsign", response_class=Response, responses=BUSINESS)
async def unsign_report(body: OneReport, request: Request) -> Response:
    """Recall a report within its cooling period."""
    triple = triple_of(body.clinicalInfo)
    return await act(
        request, "unsign", place_of(body.clinicalInfo), lambda work: unsign.unsign(work, triple)
    )


@router.post("/addendum/sign", response_class=Response, responses=BUSINESS)
async def release_addendum(body: AddendumSignBody, request: Request) -> Response:
    """Release the most recently signed addendum now."""
    triple = triple_of(body.clinicalInfo)
    return await act(
        request,
        "addendum-sign",
        place_of(body.clinicalInfo),
        lambda work: addenda.release_addendum(work, triple),
        urgent=True,
    )


@router.post("/addendum/unsign", response_class=Response, responses=BUSINESS)
async def unsign_addendum(body: OneReport, request: Request) -> Response:
    """Recall the most recently signed addendum within its cooling period."""
    triple = triple_of(body.clinicalInfo)
    return await act(
        request,
        "addendum-unsign",
        place_of(body.clinicalInfo),
        lambda work: addenda.unsign_addendum(work, triple),
    )


@router.post("/prelim", response_class=Response, responses={**NO_BODY, **problems()})
async def prelim_report(body: PrelimBody, request: Request) -> Response:
    """Make a report Preliminary for a group and tag."""
    triple = triple_of(body.clinicalInfo)
    return await act(
        request,
        "prelim",
        place_of(body.clinicalInfo),
        lambda work: prelim.prelim(work, triple, body.prelimGroup, body.prelimTag),
    )


@router.post("/prelim/withdraw", response_class=Response, responses={**NO_BODY, **problems()})
async def withdraw_prelim(body: OneReport, request: Request) -> Response:
    """Withdraw the newest preliminary read: Preliminary with the one before, else Draft."""
    triple = triple_of(body.clinicalInfo)
    return await act(
        request,
        "prelim-withdraw",
        place_of(body.clinicalInfo),
        lambda work: prelim.withdraw(work, triple),
    )
