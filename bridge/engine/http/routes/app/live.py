"""The live side of a report page: what happens elsewhere, activity, following launches, the end."""

from typing import Annotated, Any

from fastapi import APIRouter, Header, Request
from pydantic import Field, StrictInt
from starlette.responses import Response, StreamingResponse

from bridge.engine.http.live import event_stream, sync_launch
from bridge.engine.http.models.fields import Body
from bridge.engine.http.models.responses import problems
from bridge.engine.http.pages.report_page import DeskDep
from bridge.engine.http.requests.guard import SessionRoute
from bridge.engine.rules.sync_launch import Refusal
from bridge.engine.service.live import window_switch
from bridge.engine.service.live.windows import finish_handover

router = APIRouter(
    prefix="/reporting/api/session",
    tags=["Report page"],
    route_class=SessionRoute,
    responses=problems(500),
)

Number = Annotated[StrictInt, Field(ge=1, le=2**53)]


class Following(Body):
    """The launch that a window follows, by the number that the `follow` event gave."""

    sequence: Number


class Staying(Following):
    """Why a window does not follow."""

    reason: Refusal


@router.get("/events", response_class=StreamingResponse, response_model=None)
async def events(
    desk: DeskDep,
    last_event_id: Annotated[str, Header(pattern=r"^[0-9]{0,18}$")] = "",
    *,
    once: bool = False,
) -> Response:
    """
    Send server-sent events: changes after Last-Event-ID, presence, launches to follow.

    `once` ends the stream after what there is now, for networks that let no stream through.
    """
    after = int(last_event_id) if last_event_id else None
    stream = desk.engine.random(12).hex()
    if not once:
        desk.engine.streams.require_room(str(desk.session.account_id))
    told = (
        event_stream.present(desk, after, stream)
        if once
        else event_stream.events(desk, after, stream)
    )
    return StreamingResponse(told, headers=event_stream.HEADERS)


@router.post("/activity", status_code=204, response_class=Response)
async def activity(desk: DeskDep) -> Response:
    """Note that the user is active, here or in the host: the inactivity period begins anew."""
    await desk.read(lambda work, editor: None)
    return Response(status_code=204)


@router.post("/follow", response_model=dict[str, Any])
async def follow(body: Following, desk: DeskDep, request: Request) -> Response:
    """Open the launch that this persistent window follows; answers with the page's new boot."""
    return await sync_launch.follow(desk, request, body.sequence)


@router.post("/stay", status_code=204, response_class=Response)
async def stay(body: Staying, desk: DeskDep) -> Response:
    """Refuse to follow a launch; the window says so to its user."""
    session = desk.session
    await desk.read(
        lambda work, editor: window_switch.stay(work, session, body.sequence, body.reason)
    )
    return Response(status_code=204)


@router.post("/handed-over", status_code=204, response_class=Response)
async def handed_over(desk: DeskDep) -> Response:
    """Answer the `handover` event: what was typed here is saved, or cannot be saved."""
    session = desk.session
    await desk.engine.work.write(lambda c: finish_handover(c, session))
    return Response(status_code=204)


@router.post("/end", status_code=204, response_class=Response)
async def end(desk: DeskDep) -> Response:
    """End the session: its user signs out, or has been inactive for too long."""
    session = desk.session
    return await desk.leave("sign-out", lambda work, editor: window_switch.leave(work, session))
