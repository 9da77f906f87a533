"""
Live routes of the report page: events, activity, SyncLaunch, handover, end of the session.

Server-sent events (WHATWG HTML):

    change    one change of the report; the event id is the cursor
    presence  the other windows that show the report
    follow    the launch that this persistent window should follow
    handover  another session wants to write: save, then POST session/handed-over
    ended     the session has ended, `{reason: inactivity | ended}`; the last event

A page that reconnects with Last-Event-ID receives the changes since that event.
"""

import json
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import Header, Request
from pydantic import Field, StrictInt
from sqlmodel import Session
from starlette.responses import Response, StreamingResponse

from bridge.contract.requests import Body
from bridge.engine.errors import EngineError
from bridge.engine.http import window_handover
from bridge.engine.http.report_page import ReportPage, ReportPageDep
from bridge.engine.http.requests.guard import session_router
from bridge.engine.rules.sync_launch import FollowRefusal
from bridge.engine.service.accounts.sessions import ends_at
from bridge.engine.service.launch import link_visits
from bridge.engine.service.live.page_events import LIMIT, PageEvent, latest_cursor, read_page_events
from bridge.engine.service.live.windows import (
    LaunchTarget,
    OtherWindow,
    finish_handover,
    handover_requested_at,
    open_window,
    other_windows,
    pending_target,
)

router = session_router()

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

    `once` ends the stream after the current events, for networks that block streams.
    """
    after = int(last_event_id) if last_event_id else None
    stream = page.engine.random(12).hex()
    if not once:
        page.engine.streams.require_room(str(page.session.account_id))
    messages = current_events(page, after, stream) if once else stream_events(page, after, stream)
    return StreamingResponse(messages, headers=HEADERS)


@router.post("/activity", status_code=204, response_class=Response)
async def activity(page: ReportPageDep) -> Response:
    """Record activity of the user, here or in the host: the inactivity period restarts."""
    await page.read(lambda work, editor, _: None)
    return Response(status_code=204)


@router.post("/follow", response_model=dict[str, Any])
async def follow(body: FollowBody, page: ReportPageDep, request: Request) -> Response:
    """Open the launch that this window follows; return new start data for the page."""
    return await window_handover.follow(page, request, body.sequence)


@router.post("/stay", status_code=204, response_class=Response)
async def stay(body: StayBody, page: ReportPageDep) -> Response:
    """Refuse to follow a launch; the window informs its user."""
    session = page.session
    await page.read(
        lambda work, editor, _: link_visits.refuse_launch(work, session, body.sequence, body.reason)
    )
    return Response(status_code=204)


@router.post("/handed-over", status_code=204, response_class=Response)
async def handed_over(page: ReportPageDep) -> Response:
    """Respond to the `handover` event: the text of this window is saved, or cannot be saved."""
    session = page.session
    await page.engine.work.write(lambda c: finish_handover(c, session))
    return Response(status_code=204)


@router.post("/end", status_code=204, response_class=Response)
async def end(page: ReportPageDep) -> Response:
    """End the session: its user signs out, or has been inactive for too long."""
    session = page.session
    return await page.change_without_page(
        "sign-out", lambda work, editor, _: link_visits.leave_report(work, session)
    )


HEARTBEAT_SECONDS = 10.0
"""Seconds between heartbeats, by which both sides notice a dead connection (FHIRcast: 10 s)."""

HEADERS = {
    "Content-Type": "text/event-stream; charset=utf-8",
    "Cache-Control": "no-store",
    "X-Accel-Buffering": "no",  # nginx buffers responses by default
}


@dataclass(frozen=True, slots=True)
class StreamState:
    """The state of the session and its report at one moment."""

    changed: Sequence[PageEvent]
    other_windows: Sequence[OtherWindow]
    target: LaunchTarget | None
    handover: int  # when another session requested the writing lease, in ms; 0: never
    end_reason: str  # why the session has ended; empty while it is open


async def stream_events(page: ReportPage, after: int | None, stream: str) -> AsyncIterator[str]:
    """Yield the events of a page after a cursor (None: from now) until the session ends."""
    engine, session = page.engine, page.session
    try:  # other streams may have begun since the route checked the limit
        engine.streams.require_room(str(session.account_id))
    except EngineError:
        yield "retry: 5000\n\n"
        return
    counted = engine.streams.counted(str(session.account_id))
    with counted, engine.hub.watching(session, stream) as watch:
        await _open_window(page, stream)
        cursor = await _latest_cursor(page) if after is None else after
        yield "retry: 1000\n: listening\n\n"
        writer = EventWriter(cursor)
        while not engine.stopping:
            watch.changed.clear()
            state = await engine.work.read_session(lambda db: _read(db, page, writer.cursor))
            for message in writer.events_for(state):
                yield message
            if state.end_reason:
                return
            if len(state.changed) < LIMIT and not await watch.wait(HEARTBEAT_SECONDS):
                yield ": beat\n\n"


async def current_events(page: ReportPage, after: int | None, stream: str) -> AsyncIterator[str]:
    """Yield the current events of a page after a cursor, and end; the page polls."""
    await _open_window(page, stream)
    writer = EventWriter(await _latest_cursor(page) if after is None else after)
    state = await page.engine.work.read_session(lambda db: _read(db, page, writer.cursor))
    yield ": this moment\n\n"
    for message in writer.events_for(state):
        yield message


async def _open_window(page: ReportPage, stream: str) -> None:
    now, session = page.engine.clock(), page.session
    await page.engine.work.write(lambda c: open_window(c, session, stream, now))


async def _latest_cursor(page: ReportPage) -> int:
    report_id = page.session.report_id
    return await page.engine.work.read_session(lambda db: latest_cursor(db, report_id))


def _read(db: Session, page: ReportPage, cursor: int) -> StreamState:
    session, now = page.session, page.engine.clock()
    connection = db.connection()
    idle_at, expires_at = ends_at(connection, session, page.engine.settings.lifetimes)
    end_reason = "ended" if expires_at <= now else "inactivity" if idle_at <= now else ""
    return StreamState(
        read_page_events(db, session, cursor),
        other_windows(connection, session, now),
        pending_target(connection, session, now),
        handover_requested_at(connection, session.pk, now),
        end_reason,
    )


class EventWriter:
    """Remembers which events a page has received, and writes the missing ones."""

    def __init__(self, cursor: int) -> None:
        self.cursor = cursor
        self._other_windows: Sequence[OtherWindow] | None = None
        self._sequence = 0
        self._handover = 0

    def events_for(self, state: StreamState) -> list[str]:
        """Return the events that the page has not received yet."""
        messages = [format_event("change", change.data, change.cursor) for change in state.changed]
        if state.changed:
            self.cursor = state.changed[-1].cursor
        if state.other_windows != self._other_windows:
            self._other_windows = state.other_windows
            others = [window.as_json() for window in state.other_windows]
            messages.append(format_event("presence", {"others": others}))
        if state.target is not None and state.target.sequence != self._sequence:
            self._sequence = state.target.sequence
            messages.append(format_event("follow", state.target.as_json()))
        if state.handover not in (0, self._handover):
            self._handover = state.handover
            messages.append(format_event("handover", {}))
        if state.end_reason:
            messages.append(format_event("ended", {"reason": state.end_reason}))
        return messages


def format_event(kind: str, data: Mapping[str, Any], cursor: int | None = None) -> str:
    """Return one event as text. JSON has no line ends, so the data fits into one line."""
    identity = "" if cursor is None else f"id: {cursor}\n"
    return f"{identity}event: {kind}\ndata: {json.dumps(data, ensure_ascii=False)}\n\n"
