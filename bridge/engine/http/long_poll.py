"""
Long polls of the change feed, without holding a thread.

A write of this process wakes the reader; on PostgreSQL a write of any process does. The reader also
polls from time to time.
"""

import asyncio
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from fastapi import Request
from sqlalchemy import Connection

from bridge.contract.errors import ErrorCode
from bridge.engine.errors import EngineError
from bridge.engine.http.engine_state import EngineState, engine_of
from bridge.engine.http.requests.audit_events import access_events
from bridge.engine.http.requests.guard import QuotaName, consume_quota
from bridge.engine.http.requests.response_bodies import unauthorized
from bridge.engine.service import released_texts
from bridge.engine.service.accounts.tokens import still_valid
from bridge.engine.service.caller import Caller, administered_sites, require_administrator
from bridge.engine.service.change_feed import FeedPage, cursor_at, read_changes, require_cursor

INLINE_LIMIT = 20
"""At most so many changes are read on the event loop after a wake-up."""


async def wait_for_changes(
    request: Request,
    after: int,
    limit: int,
    seconds: float,
    site_id: str,
    without: Collection[str] = (),
    *,
    texts: bool = False,
) -> FeedPage:
    """
    Return the changes after a cursor; wait at most `seconds` for the first one.

    `without` names the events to leave out. With `texts` a release carries its text; it counts as
    an export in the quota and in the audit trail. Raise EngineError if the
    cursor belongs to another database.
    """
    engine, caller = engine_of(request), request.state.caller
    sites = None
    if site_id or not caller.service:
        sites = await engine.work.read(lambda connection: _sites(connection, caller, site_id))
    with _counted(engine, caller):
        page, texts_by_report = await _read_when_changed(
            engine, sites, after, limit, seconds, without, texts=texts
        )
    if seconds > 0:
        await engine.work.read_inline(lambda c: _require_still_permitted(c, caller, site_id, sites))
    if page.changes and not caller.service:
        shown = [(_site_of(change), str(change["reportId"])) for change in page.changes]
        engine.audit_buffer.add(
            access_events(request, "changes", (site for site, _ in shown), shown)
        )
    return _with_texts(request, page, texts_by_report) if texts_by_report else page


@contextmanager
def _counted(engine: EngineState, caller: Caller) -> Iterator[None]:
    """Count a reader that may wait; readers with the service token are not limited."""
    if caller.service:
        yield
        return
    name = f"token {caller.token_id}"
    engine.polls.require_room(name)
    with engine.polls.counted(name):
        yield


async def _read_when_changed(
    engine: EngineState,
    sites: Collection[str] | None,
    after: int,
    limit: int,
    seconds: float,
    without: Collection[str],
    *,
    texts: bool,
) -> tuple[FeedPage, Mapping[str, Any]]:
    loop = asyncio.get_running_loop()
    deadline = loop.time() + seconds
    read = engine.work.read
    cursor = after
    while True:
        notification = engine.work.changed.notification(without)
        change_mark = engine.work.change_mark()
        page, texts_by_report = await read(
            lambda c: _read(c, sites, cursor, limit, without, texts=texts)  # noqa: B023  # awaited before they change
        )
        cursor = page.cursor
        left = deadline - loop.time()
        if page.changes or left <= 0 or engine.stopping:
            notification.cancel()
            return page, texts_by_report
        await engine.work.wait_for_change(notification, change_mark, left)
        read, limit = engine.work.read_inline, min(limit, INLINE_LIMIT)


def _read(
    connection: Connection,
    sites: Collection[str] | None,
    cursor: int,
    limit: int,
    without: Collection[str],
    *,
    texts: bool,
) -> tuple[FeedPage, Mapping[str, Any]]:
    after = require_cursor(connection, cursor)
    if texts:
        page, found = released_texts.read_with_texts(connection, sites, after, limit, without)
    else:
        page, found = read_changes(connection, sites, after, limit, without), {}
    reached = cursor if page.cursor == after else cursor_at(connection, page.cursor)
    return replace(page, cursor=reached), found


def _with_texts(request: Request, page: FeedPage, texts_by_report: Mapping[str, Any]) -> FeedPage:
    """Add the texts, unless the export quota is exhausted: then the reader exports each report."""
    if not consume_quota(request, QuotaName.EXPORTS, len(texts_by_report)):
        return page
    shown = [
        (_site_of(change), change["reportId"])
        for change in page.changes
        if change["reportId"] in texts_by_report
    ]
    audit_events = access_events(request, "export", (site for site, _ in shown), shown)
    engine_of(request).audit_buffer.add(audit_events)
    return replace(page, changes=released_texts.with_texts(page.changes, texts_by_report))


def _site_of(change: Mapping[str, Any]) -> str:
    return str(change["orders"][0]["SiteID"]) if change.get("orders") else ""


def _require_still_permitted(
    connection: Connection, caller: Caller, site_id: str, sites: Collection[str] | None
) -> None:
    """Raise 401 or 403 if the token was revoked during the wait, or the caller has lost a site."""
    if not still_valid(connection, caller):
        raise unauthorized()
    if sites is not None and not set(sites) <= set(_sites(connection, caller, site_id) or ()):
        raise EngineError(ErrorCode.FORBIDDEN)


def _sites(connection: Connection, caller: Caller, site_id: str) -> list[str] | None:
    """Return the sites that the caller may read, None for all; raise 403 for none."""
    if site_id:
        require_administrator(connection, caller, site_id)
        return [site_id]
    sites = administered_sites(connection, caller)
    if sites == []:
        raise EngineError(ErrorCode.FORBIDDEN)
    return sites
