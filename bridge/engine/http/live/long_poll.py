"""Wait for the change feed without holding a thread.

A reader is woken by any write of this process, and on PostgreSQL by those of others; it also
looks by itself from time to time.
"""

import asyncio
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from fastapi import Request
from sqlalchemy import Connection

from bridge.engine.errors import Forbidden
from bridge.engine.http.engine_state import EngineState, engine_of
from bridge.engine.http.requests.audit_events import access_events
from bridge.engine.http.requests.guard import QuotaName, consume_quota
from bridge.engine.http.requests.problems import unauthorized
from bridge.engine.service import change_feed
from bridge.engine.service.accounts.tokens import still_valid
from bridge.engine.service.caller import Caller, administered_sites, require_administrator
from bridge.engine.service.change_feed import FeedPage, cursor_at, read_changes, require_cursor

AT_ONCE = 20
"""So many changes are read without a thread, where the database is at hand."""


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
    Return the changes after a cursor, but for some events, at the latest after `seconds`.

    Raise CursorBeyondEnd or CursorOfAnotherFeed where the cursor is of another database.
    With `texts`, what they release is there to read, which the quota and the audit trail take for
    exports of these reports.
    """
    engine, caller = engine_of(request), request.state.caller
    sites = None
    if site_id or not caller.service:
        sites = await engine.work.read(lambda connection: _sites(connection, caller, site_id))
    with _counted(engine, caller):
        page, said = await _awaited(engine, sites, after, limit, seconds, without, texts=texts)
    # Again after the wait: the token may have been revoked meanwhile.
    if seconds > 0 and not await engine.work.read_inline(lambda c: still_valid(c, caller)):
        raise unauthorized()
    if page.changes and not caller.service:
        shown = [(_site_of(each), str(each["reportId"])) for each in page.changes]
        engine.journal.note(access_events(request, "changes", (site for site, _ in shown), shown))
    return _told(request, page, said) if said else page


@contextmanager
def _counted(engine: EngineState, caller: Caller) -> Iterator[None]:
    """Count a reader that may wait; the bridge's own, with the service token, are few."""
    if caller.service:
        yield
        return
    name = f"token {caller.token_id}"
    engine.polls.require_room(name)
    with engine.polls.counted(name):
        yield


async def _awaited(
    engine: EngineState,
    sites: Collection[str] | None,
    after: int,
    limit: int,
    seconds: float,
    without: Collection[str],
    *,
    texts: bool,
) -> tuple[FeedPage, Mapping[str, Any]]:
    """Read changes, and again when something was written, until there are some."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + seconds
    look = engine.work.read
    cursor = after
    while True:
        notification = engine.work.changed.notification(without)
        mark = engine.work.mark()
        page, said = await look(
            lambda c: _read(c, sites, cursor, limit, without, texts=texts)  # noqa: B023  # awaited before they change
        )
        cursor = page.cursor
        left = deadline - loop.time()
        if page.changes or left <= 0 or engine.stopping:
            notification.cancel()
            return page, said
        await engine.work.wait_for_change(notification, mark, left)
        look, limit = engine.work.read_inline, min(limit, AT_ONCE)  # what came since then is little


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
        page, said = change_feed.read_with_texts(connection, sites, after, limit, without)
    else:
        page, said = read_changes(connection, sites, after, limit, without), {}
    reached = cursor if page.cursor == after else cursor_at(connection, page.cursor)
    return replace(page, cursor=reached), said


def _told(request: Request, page: FeedPage, said: Mapping[str, Any]) -> FeedPage:
    """Add the texts, unless the quota of exports is used up: then each is to be exported."""
    if not consume_quota(request, QuotaName.EXPORTS, len(said)):
        return page
    shown = [
        (_site_of(each), each["reportId"]) for each in page.changes if each["reportId"] in said
    ]
    audit_events = access_events(request, "export", (site for site, _ in shown), shown)
    engine_of(request).journal.note(audit_events)
    return replace(page, changes=change_feed.with_texts(page.changes, said))


def _site_of(change: Mapping[str, Any]) -> str:
    return str(change["orders"][0]["SiteID"]) if change.get("orders") else ""


def _sites(connection: Connection, caller: Caller, site_id: str) -> list[str] | None:
    """Return the sites whose changes the caller sees, None for all; raise 403 for none."""
    if site_id:
        require_administrator(connection, caller, site_id)
        return [site_id]
    sites = administered_sites(connection, caller)
    if sites == []:
        raise Forbidden
    return sites
