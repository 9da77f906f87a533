"""
Between launches with SyncLaunch and the windows that follow them.

A launch waits a moment for the window that stands open, so that its answer can say when that
window stays where it is.
"""

import asyncio
from dataclasses import replace
from functools import partial

from fastapi import Request
from sqlalchemy import Connection
from starlette.responses import JSONResponse, Response

from bridge.engine.http import handover, pages
from bridge.engine.http.auditing import deed_of
from bridge.engine.http.sessions import Desk
from bridge.engine.http.state import Engine
from bridge.engine.launching.outcome import Awaited, Caution, Launched
from bridge.engine.live.wakeups import heard
from bridge.engine.rules.following import Answer
from bridge.engine.service import following, switching
from bridge.engine.service.links import Vault
from bridge.engine.service.opening import Door, HandoverNeeded, Opened
from bridge.engine.service.work import Actor, Work

WAIT_SECONDS = 5.0
"""So long a window may take to save and to follow before the launch answers without it."""

POLL_SECONDS = 0.25


async def settled(engine: Engine, outcome: Launched) -> Launched:
    """Return the outcome of a launch with what became of the window that was to follow it."""
    if outcome.awaited is None:
        return outcome
    answer = await _answer(engine, outcome.awaited)
    caution = {Answer.REFUSED: Caution.SYNC_REFUSED, Answer.PENDING: Caution.SYNC_PENDING}
    if answer not in caution:
        return outcome
    return replace(outcome, warnings=(*outcome.warnings, caution[answer]))


async def _answer(engine: Engine, awaited: Awaited) -> Answer:
    def read(connection: Connection) -> Answer:
        target = following.present(connection, awaited.site_id, awaited.account_id)
        # A newer launch stands in this one's place: nobody will answer it any more.
        superseded = target is None or target.sequence != awaited.sequence
        return Answer.FOLLOWED if superseded or target is None else target.answer

    loop = asyncio.get_running_loop()
    deadline = loop.time() + WAIT_SECONDS
    while True:
        bell = engine.work.changed.bell()
        answer = await engine.work.read(read)
        left = deadline - loop.time()
        if answer is not Answer.PENDING or left <= 0 or engine.stopping:
            bell.cancel()
            return answer
        await heard(bell, min(left, POLL_SECONDS))


async def follow(desk: Desk, request: Request, sequence: int) -> Response:
    """Open in a window the launch that it follows; the answer is the page's new boot."""
    engine, session = desk.engine, desk.session
    door = Door(Vault(engine.keys, engine.random), engine.settings.lifetimes)

    def deed(work: Work, *, handed_over: bool = False) -> Opened:
        opened = switching.switch(work, door, session, sequence, handed_over=handed_over)
        account_id = opened.account.id
        work.note(
            deed_of(request, "follow", opened.site_id, opened.report_id, account_id=account_id)
        )
        return opened

    actor = Actor(session.account_id, session_pk=session.pk)
    try:
        opened = await engine.work.change(actor, engine.clock(), deed)
    except HandoverNeeded as needed:
        await handover.handed_over(engine, needed.report_id, session.pk)
        again = partial(deed, handed_over=True)
        opened = await engine.work.change(actor, engine.clock(), again)
    answer = JSONResponse(pages.report_boot(opened))
    framed = bool(session.details.get("in_frame"))
    cookie = pages.session_cookie(opened.secret, secure=engine.addresses.secure, framed=framed)
    answer.headers.append("Set-Cookie", cookie)
    return answer
