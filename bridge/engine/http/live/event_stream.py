"""Server-sent events to a report page (WHATWG HTML, Server-sent events).

    change    what happened to the report, each once; the id is its cursor
    presence  the other windows at the report
    follow    the launch that this persistent window is to follow
    handover  another session takes the writing: save, and answer with POST session/handed-over
    ended     the session is over: `{reason: inactivity | ended}`; nothing comes after it

A page that comes back with Last-Event-ID is told what it missed.
"""

import json
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlmodel import Session as Rows

from bridge.engine.http.pages.report_page import ReportPage
from bridge.engine.live.stream_hub import StreamWatch
from bridge.engine.service.accounts.sessions import ends_at
from bridge.engine.service.live.events import LIMIT, PageEvent, latest_cursor, read_page_events
from bridge.engine.service.live.sync_launch import LaunchTarget, pending_target
from bridge.engine.service.live.windows import (
    OtherWindow,
    handover_asked,
    open_window,
    other_windows,
)

HEARTBEAT_SECONDS = 10.0
"""So often something is sent, so that both sides notice a dead connection (FHIRcast: 10 s)."""

HEADERS = {
    "Content-Type": "text/event-stream; charset=utf-8",
    "Cache-Control": "no-store",
    "X-Accel-Buffering": "no",  # a proxy that collects answers would hold everything back
}


@dataclass(frozen=True, slots=True)
class StreamState:
    """What there is to tell at one moment."""

    news: Sequence[PageEvent]
    other_windows: Sequence[OtherWindow]
    target: LaunchTarget | None
    handover: int  # when this window was asked to hand the writing over, or 0
    over: str  # why the session is over, or empty


async def stream_events(page: ReportPage, after: int | None, stream: str) -> AsyncIterator[str]:
    """Tell a page what happens, from a cursor on (None: from now), as long as it listens."""
    engine, session = page.engine, page.session
    counted = engine.streams.counted(str(session.account_id))
    with counted, engine.hub.watching(session, stream) as watch:
        await _open(page, stream)
        cursor = await _begin(page) if after is None else after
        yield "retry: 1000\n: listening\n\n"
        told = EventWriter(cursor)
        while not engine.stopping:
            watch.news.clear()
            reading = await engine.work.read_session(lambda rows: _read(rows, page, told.cursor))
            for message in told.tell(reading):
                yield message
            if reading.over:
                return
            if len(reading.news) < LIMIT and not await _rest(watch):
                yield ": beat\n\n"


async def current_events(page: ReportPage, after: int | None, stream: str) -> AsyncIterator[str]:
    """Tell a page what there is to tell at this moment; it will ask again."""
    await _open(page, stream)
    told = EventWriter(await _begin(page) if after is None else after)
    reading = await page.engine.work.read_session(lambda rows: _read(rows, page, told.cursor))
    yield ": this moment\n\n"
    for message in told.tell(reading):
        yield message


async def _rest(watch: StreamWatch) -> bool:
    return await watch.wait(HEARTBEAT_SECONDS)


async def _open(page: ReportPage, stream: str) -> None:
    now, session = page.engine.clock(), page.session
    await page.engine.work.write(lambda c: open_window(c, session, stream, now))


async def _begin(page: ReportPage) -> int:
    report_id = page.session.report_id
    return await page.engine.work.read_session(lambda rows: latest_cursor(rows, report_id))


def _read(rows: Rows, page: ReportPage, cursor: int) -> StreamState:
    session, now = page.session, page.engine.clock()
    connection = rows.connection()
    idle_at, expires_at = ends_at(connection, session, page.engine.settings.lifetimes)
    over = "ended" if expires_at <= now else "inactivity" if idle_at <= now else ""
    return StreamState(
        read_page_events(rows, session, cursor),
        other_windows(connection, session, now),
        pending_target(connection, session, now),
        handover_asked(connection, session.pk, now),
        over,
    )


class EventWriter:
    """Knows what a page was told, and tells the rest."""

    def __init__(self, cursor: int) -> None:
        self.cursor = cursor
        self._other_windows: Sequence[OtherWindow] | None = None
        self._sequence = 0
        self._handover = 0

    def tell(self, reading: StreamState) -> list[str]:
        """Return the messages that a reading leads to."""
        messages = [message("change", each.data, each.cursor) for each in reading.news]
        if reading.news:
            self.cursor = reading.news[-1].cursor
        if reading.other_windows != self._other_windows:
            self._other_windows = reading.other_windows
            others = [each.as_json() for each in reading.other_windows]
            messages.append(message("presence", {"others": others}))
        if reading.target is not None and reading.target.sequence != self._sequence:
            self._sequence = reading.target.sequence
            messages.append(message("follow", reading.target.as_json()))
        if reading.handover not in (0, self._handover):
            self._handover = reading.handover
            messages.append(message("handover", {}))
        if reading.over:
            messages.append(message("ended", {"reason": reading.over}))
        return messages


def message(kind: str, data: Mapping[str, Any], cursor: int | None = None) -> str:
    """Write one event; JSON has no line ends, so one line of data carries it."""
    identity = "" if cursor is None else f"id: {cursor}\n"
    return f"{identity}event: {kind}\ndata: {json.dumps(data, ensure_ascii=False)}\n\n"
