"""
SyncLaunch: an open window follows a launch, and hands over a report to another session.

Handover: the window that writes the report receives a `handover` event, saves, and answers with
`POST session/handed-over`. The other session waits at most `HANDOVER_SECONDS` for it. A window that
does not answer keeps its text; its user can save it by hand.

Follow: a launch waits at most `FOLLOW_SECONDS` for the open window, so that its response can carry
a warning if the window refuses or does not answer.
"""

from dataclasses import replace
from functools import partial

from fastapi import Request
from sqlalchemy import Connection
from starlette.responses import JSONResponse, Response

from bridge.engine.http import html_pages
from bridge.engine.http.engine_state import EngineState
from bridge.engine.http.report_page import ReportPage
from bridge.engine.http.requests.audit_events import audit_event
from bridge.engine.launch import AwaitedWindow, LaunchOutcome, LaunchWarning
from bridge.engine.rules.sync_launch import FollowAnswer
from bridge.engine.service.launch.link_visits import HandoverNeeded, OpenedReport, follow_launch
from bridge.engine.service.live.windows import (
    current_target,
    handover_requested_at,
    request_handover,
    writing_window,
)
from bridge.engine.service.work import ActorRef, Work

HANDOVER_SECONDS = 3.0
FOLLOW_SECONDS = 5.0
POLL_SECONDS = 0.25


async def wait_for_handover(
    engine: EngineState, report_id: str, session_pk: int | None = None
) -> None:
    now = engine.clock()

    def writes(connection: Connection) -> bool:
        return writing_window(connection, report_id, session_pk, now) is not None

    if not await engine.work.read(writes):
        return
    writer = await engine.work.write(lambda c: request_handover(c, report_id, session_pk, now))
    if writer is not None:
        await engine.read_until(
            HANDOVER_SECONDS,
            POLL_SECONDS,
            lambda c: handover_requested_at(c, writer, engine.clock()),
            lambda asked_at: not asked_at,
        )


async def with_follow_outcome(engine: EngineState, outcome: LaunchOutcome) -> LaunchOutcome:
    """Return the outcome of a launch; add a warning if the open window did not follow it."""
    if outcome.awaited is None:
        return outcome
    answer = await _follow_answer(engine, outcome.awaited)
    warning_of = {
        FollowAnswer.REFUSED: LaunchWarning.SYNC_REFUSED,
        FollowAnswer.PENDING: LaunchWarning.SYNC_PENDING,
    }
    if answer not in warning_of:
        return outcome
    return replace(outcome, warnings=(*outcome.warnings, warning_of[answer]))


async def _follow_answer(engine: EngineState, awaited: AwaitedWindow) -> FollowAnswer:
    def read(connection: Connection) -> FollowAnswer:
        target = current_target(connection, awaited.site_id, awaited.account_id)
        # A newer launch has replaced this one: no window will answer it.
        superseded = target is None or target.sequence != awaited.sequence
        return FollowAnswer.FOLLOWED if superseded or target is None else target.answer

    return await engine.read_until(
        FOLLOW_SECONDS, POLL_SECONDS, read, lambda answer: answer is not FollowAnswer.PENDING
    )


async def follow(page: ReportPage, request: Request, sequence: int) -> Response:
    """Open the launch that a window follows; return the new start data of its page."""
    engine, session = page.engine, page.session
    context = engine.link_context()

    def apply(work: Work, *, handed_over: bool = False) -> OpenedReport:
        opened = follow_launch(work, context, session, sequence, handed_over=handed_over)
        account_id = opened.account.id
        work.audit(
            audit_event(request, "follow", opened.site_id, opened.report_id, account_id=account_id)
        )
        return opened

    actor = ActorRef(session.account_id, session_pk=session.pk)
    try:
        opened = await engine.work.change(actor, engine.clock(), apply)
    except HandoverNeeded as needed:
        await wait_for_handover(engine, needed.report_id, session.pk)
        again = partial(apply, handed_over=True)
        opened = await engine.work.change(actor, engine.clock(), again)
    response = JSONResponse(html_pages.report_boot(opened))
    framed = bool(session.details.get("in_frame"))
    cookie = html_pages.session_cookie(engine.addresses, opened.secret, framed=framed)
    response.headers.append("Set-Cookie", cookie)
    return response
