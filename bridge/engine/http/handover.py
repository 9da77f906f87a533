"""
Before another session takes the writing of a report over, the window that writes saves its text.

That window hears of it by its event stream (`handover`), saves, and answers with
`POST session/handed-over`. The takeover waits for the answer for at most `WAIT_SECONDS`: a window
that does not answer keeps its text and may save it by hand.
"""

import asyncio

from sqlalchemy import Connection

from bridge.engine.http.state import Engine
from bridge.engine.live.wakeups import heard
from bridge.engine.service.windows import handover_asked, request_handover, writing_window

WAIT_SECONDS = 3.0
POLL_SECONDS = 0.25


async def handed_over(engine: Engine, report_id: str, session_pk: int | None = None) -> None:
    """Wait until the open window that writes a report has saved, if there is another one."""
    now = engine.clock()

    def writes(connection: Connection) -> bool:
        return writing_window(connection, report_id, session_pk, now) is not None

    if not await engine.work.read(writes):
        return
    writer = await engine.work.write(lambda c: request_handover(c, report_id, session_pk, now))
    if writer is not None:
        await _answered(engine, writer)


async def _answered(engine: Engine, writer: int) -> None:
    loop = asyncio.get_running_loop()
    deadline = loop.time() + WAIT_SECONDS
    while True:
        bell = engine.work.changed.bell()
        asked = await engine.work.read(lambda c: handover_asked(c, writer, engine.clock()))
        left = deadline - loop.time()
        if not asked or left <= 0 or engine.stopping:
            bell.cancel()
            return
        await heard(bell, min(left, POLL_SECONDS))
