"""SyncLaunch between launches and windows: follow a launch, hand over the writing of a report.

That window hears of it by its event stream (`handover`), saves, and answers with
`POST session/handed-over`. The takeover waits for the answer for at most `WAIT_SECONDS`: a window
that does not answer keeps its text and may save it by hand.

A launch waits a moment for the window that stands open, so that its answer can say when that
window stays where it is.
"""

import asyncio
from dataclasses import replace
from functools import partial

from fastapi import Request
from sqlalchemy import Connection
from starlette.responses import JSONResponse, Response

from bridge.engine.http.engine_state import EngineState
from bridge.engine.http.pages import html_pages
from bridge.engine.http.pages.report_page import ReportPage
from bridge.engine.http.requests.audit_events import audit_event
from bridge.engine.launch.outcome import AwaitedWindow, LaunchOutcome, LaunchWarning
from bridge.engine.live.change_notifier import wait_notified
from bridge.engine.rules.sync_launch import FollowAnswer
from bridge.engine.service.launch.link_opening import HandoverNeeded, LinkContext, OpenedReport
from bridge.engine.service.launch.links import LinkKeys
from bridge.engine.service.live import sync_launch, window_switch
from bridge.engine.service.live.windows import handover_asked, request_handover, writing_window
from bridge.engine.service.work import Actor, Work

HANDOVER_SECONDS = 3.0
POLL_SECONDS = 0.25


async def wait_for_handover(
    engine: EngineState, report_id: str, session_pk: int | None = None
) -> None:
    """Wait until the open window that writes a report has saved, if there is another one."""
    now = engine.clock()

    def writes(connection: Connection) -> bool:
        return writing_window(connection, report_id, session_pk, now) is not None

    if not await engine.work.read(writes):
        return
    writer = await engine.work.write(lambda c: request_handover(c, report_id, session_pk, now))
    if writer is not None:
        await _answered(engine, writer)


async def _answered(engine: EngineState, writer: int) -> None:
    loop = asyncio.get_running_loop()
    deadline = loop.time() + HANDOVER_SECONDS
    while True:
        notification = engine.work.changed.notification()
        asked = await engine.work.read(lambda c: handover_asked(c, writer, engine.clock()))
        left = deadline - loop.time()
        if not asked or left <= 0 or engine.stopping:
            notification.cancel()
            return
        await wait_notified(notification, min(left, POLL_SECONDS))


WAIT_SECONDS = 5.0
"""So long a window may take to save and to follow before the launch answers without it."""


async def with_follow_outcome(engine: EngineState, outcome: LaunchOutcome) -> LaunchOutcome:
    """Return the outcome of a launch with what became of the window that was to follow it."""
    if outcome.awaited is None:
        return outcome
    answer = await _answer(engine, outcome.awaited)
    caution = {
        FollowAnswer.REFUSED: LaunchWarning.SYNC_REFUSED,
        FollowAnswer.PENDING: LaunchWarning.SYNC_PENDING,
    }
    if answer not in caution:
        return outcome
    return replace(outcome, warnings=(*outcome.warnings, caution[answer]))


async def _answer(engine: EngineState, awaited: AwaitedWindow) -> FollowAnswer:
    def read(connection: Connection) -> FollowAnswer:
        target = sync_launch.current_target(connection, awaited.site_id, awaited.account_id)
        # A newer launch stands in this one's place: nobody will answer it any more.
        superseded = target is None or target.sequence != awaited.sequence
        return FollowAnswer.FOLLOWED if superseded or target is None else target.answer

    loop = asyncio.get_running_loop()
    deadline = loop.time() + WAIT_SECONDS
    while True:
        notification = engine.work.changed.notification()
        answer = await engine.work.read(read)
        left = deadline - loop.time()
        if answer is not FollowAnswer.PENDING or left <= 0 or engine.stopping:
            notification.cancel()
            return answer
        await wait_notified(notification, min(left, POLL_SECONDS))


async def follow(page: ReportPage, request: Request, sequence: int) -> Response:
    """Open in a window the launch that it follows; the answer is the page's new boot."""
    engine, session = page.engine, page.session
    door = LinkContext(LinkKeys(engine.keys, engine.random), engine.settings.lifetimes)

    def apply(work: Work, *, handed_over: bool = False) -> OpenedReport:
        opened = window_switch.switch(work, door, session, sequence, handed_over=handed_over)
        account_id = opened.account.id
        work.note(
            audit_event(request, "follow", opened.site_id, opened.report_id, account_id=account_id)
        )
        return opened

    actor = Actor(session.account_id, session_pk=session.pk)
    try:
        opened = await engine.work.change(actor, engine.clock(), apply)
    except HandoverNeeded as needed:
        await wait_for_handover(engine, needed.report_id, session.pk)
        again = partial(apply, handed_over=True)
        opened = await engine.work.change(actor, engine.clock(), again)
    answer = JSONResponse(html_pages.report_boot(opened))
    framed = bool(session.details.get("in_frame"))
    cookie = html_pages.session_cookie(opened.secret, secure=engine.addresses.secure, framed=framed)
    answer.headers.append("Set-Cookie", cookie)
    return answer
