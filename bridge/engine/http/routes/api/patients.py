"""`patient/update` and `patient/merge`; both are idempotent."""

from fastapi import APIRouter, Request
from starlette.responses import Response

from bridge.engine.http.models.reports import PatientMergeBody, PatientUpdateBody
from bridge.engine.http.models.responses import NO_BODY, problems
from bridge.engine.http.requests.guard import WriteRoute
from bridge.engine.http.requests.use_cases import RequestSite, change_as_administrator
from bridge.engine.service.reports.patients import merge_patients, update_patient

router = APIRouter(prefix="/api/patient", tags=["Patients"], route_class=WriteRoute)

DONE = {**NO_BODY, **problems()}


@router.post("/update", response_class=Response, responses=DONE)
async def update(body: PatientUpdateBody, request: Request) -> Response:
    """Correct demographics on all orders of a patient of a site; absent members are unchanged."""
    given = body.model_dump(exclude={"SiteID", "PatientMRN"}, exclude_unset=True)
    tags = {name: value for name, value in given.items() if value is not None}

    return await change_as_administrator(
        request,
        "patient-update",
        RequestSite(body.SiteID),
        lambda work: _without_body(update_patient(work, body.SiteID, body.PatientMRN, tags)),
    )


@router.post("/merge", response_class=Response, responses=DONE)
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


def _without_body(_: int) -> None:
    """Say nothing of how many reports changed."""
