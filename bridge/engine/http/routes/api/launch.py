"""`launch/clinical`, its batch form, and `init`."""

from typing import Annotated, Any

from fastapi import APIRouter, Body, Request
from starlette.responses import Response

from bridge.engine.http import launch_requests
from bridge.engine.http.engine_state import engine_of
from bridge.engine.http.models.launch import EXAMPLE, InitBody, LaunchBody
from bridge.engine.http.models.responses import (
    InitResponse,
    LaunchResponse,
    ProblemBody,
    problems,
)
from bridge.engine.http.requests.chunked_responses import FastJsonResponse
from bridge.engine.http.requests.guard import LaunchRoute
from bridge.engine.http.requests.problems import FieldError, bad_request

router = APIRouter(prefix="/api/report", tags=["Launch"], route_class=LaunchRoute)


@router.post("/launch/clinical", response_model=LaunchResponse, responses=problems())
async def launch(body: LaunchBody, request: Request) -> Response:
    """Create or retrieve a report and return its link, QR code, or both."""
    return FastJsonResponse(await launch_requests.launch(request, body))


@router.post(
    "/launch/clinical/batch",
    response_model=list[LaunchResponse | ProblemBody],
    responses=problems(),
    openapi_extra={"x-addition": True},
)
async def launch_batch(
    request: Request,
    bodies: Annotated[
        list[Any],
        Body(
            description="Launch requests, each as for a single launch",
            min_length=1,
            examples=[[EXAMPLE]],
        ),
    ],
) -> Response:
    """Launch many reports in one transaction: a response or a problem body for each, in order."""
    limit = engine_of(request).settings.sizes.batch
    if len(bodies) > limit:
        detail = f"at most {limit} launches in one request"
        raise bad_request(detail, FieldError("", detail), code="batch_too_large")
    return FastJsonResponse(await launch_requests.launch_batch(request, bodies))


@router.post("/init", response_model=InitResponse, responses=problems(), tags=["Init"])
async def init(body: InitBody, request: Request) -> Response:
    """Issue a short-lived link that pre-warms an embedded session; creates no report."""
    return FastJsonResponse(await launch_requests.prepare_session(request, body))
