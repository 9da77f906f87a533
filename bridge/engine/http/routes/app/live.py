"""Live routes of the report page: events, activity, SyncLaunch, handover, end of the session."""

from typing import Annotated, Any

from fastapi import APIRouter, Header, Request
from pydantic import Field, StrictInt
from starlette.responses import Response, StreamingResponse

from bridge.engine.http.live import event_stream, sync_launch
from bridge.engine.http.models.fields import Body
from bridge.engine.http.models.responses import problems
from bridge.engine.http.pages.report_page import ReportPageDep
from bridge.engine.http.requests.guard import SessionRoute
from bridge.engine.rules.sync_launch import FollowRefusal
from bridge.engine.service.live import window_switch
from bridge.engine.service.live.windows import finish_handover

router = APIRouter(
    prefix="/reporting/api/session",
    tags=["Report page"],
    route_class=SessionRoute,
    responses=problems(500),
)

Number = Annotated[StrictInt, Field(ge=1, le=2**53)]


class FollowBody(Body):
    """The launch that a window follows, by the number of the `follow` event."""

    sequence: Number


class StayBody(FollowBody):
    """The reason why a window does not follow a launch."""

    reason: FollowRefusal


@router.get("/events", response_class=StreamingResponse, response_model=None)
async def events(
    page: ReportPageDep,
    last_event_id: Annotated[str, Header(pattern=r"^[0-9]{0,18}$")] = "",
    *,
    once: bool = False,
) -> Response:
    """
    Send server-sent events: changes after Last-Event-ID, presence, launches to follow.

    `once` ends the stream after the present events, for networks that block streams.
    """
    after = int(last_event_id) if last_event_id else None
    stream = page.engine.random(12).hex()
    if not once:
        page.engine.streams.require_room(str(page.session.account_id))
    messages = (
        event_stream.current_events(page, after, stream)
        if once
        else event_stream.stream_events(page, after, stream)
    )
    return StreamingResponse(messages, headers=event_stream.HEADERS)


@router.post("/activity", status_code=204, response_class=Response)
async def activity(page: ReportPageDep) -> Response:
    """Record activity of the user, here or in the host: the inactivity period restarts."""
    await page.read(lambda work, editor, _: None)
    return Response(status_code=204)


@router.post("/follow", response_model=dict[str, Any])
async def follow(body: FollowBody, page: ReportPageDep, request: Request) -> Response:
    """Open the launch that this window follows; answer with new start data for the page."""
    return await sync_launch.follow(page, request, body.sequence)


@router.post("/stay", status_code=204, response_class=Response)
async def stay(body: StayBody, page: ReportPageDep) -> Response:
    """Refuse to follow a launch; the window informs its user."""
    session = page.session
    await page.read(
        lambda work, editor, _: window_switch.stay(work, session, body.sequence, body.reason)
    )
    return Response(status_code=204)


@router.post("/handed-over", status_code=204, response_class=Response)
async def handed_over(page: ReportPageDep) -> Response:
    """Answer the `handover` event: the text of this window is saved, or cannot be saved."""
    session = page.session
    await page.engine.work.write(lambda c: finish_handover(c, session))
    return Response(status_code=204)


@router.post("/end", status_code=204, response_class=Response)
async def end(page: ReportPageDep) -> Response:
    """End the session: its user signs out, or has been inactive for too long."""
    session = page.session
    return await page.change_without_page(
        "sign-out", lambda work, editor, _: window_switch.leave(work, session)
    )
