"""
Host origins: whether a page may be framed, and which origins have embedded reports.

The browser enforces `frame-ancestors` after the request. Therefore a request from a foreign frame
changes nothing until a page of ours was shown there, or the browser names an allowed host.

Observed hosts help administrators to set up host origins. If origins are configured, the browser
has refused the others; if none are, every listed host embeds reports.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, func, select

from bridge.engine.links import Purpose
from bridge.engine.service.accounts.sessions import SESSIONS, NewSession, begin_session
from bridge.engine.service.caller import SITES
from bridge.engine.service.launch import links
from bridge.engine.service.launch.link_visits import LinkContext
from bridge.engine.service.live.page_events import event_time
from bridge.engine.service.sites.site_settings import get_site
from bridge.engine.service.work import Work


@dataclass(frozen=True, slots=True)
class FrameRequest:
    """A frame that requests a link: `host` is the embedding page, if the browser names it."""

    handle: str
    purpose: Purpose
    host: str


@dataclass(frozen=True, slots=True)
class UnprovenLink:
    """A link of a site with host origins, before the browser has named one of them."""

    link: links.FoundLink
    hosts: Sequence[str]


def find_unproven(
    connection: Connection, context: LinkContext, framing: FrameRequest, now: int
) -> UnprovenLink | None:
    """
    Return the link if its host is still to be proven; None for an allowed host or a site without
    host origins.

    Raise `LinkGone` and its subclasses.
    """
    link = links.find(connection, context.link_keys, framing.handle, framing.purpose, now)
    query = select(SITES.c.host_origins).where(SITES.c.site_id == link.site_id)
    hosts: list[str] = connection.execute(query).scalar_one()
    if not hosts or not link.framed or framing.host in hosts:
        return None
    return UnprovenLink(link, hosts)


def record_host(work: Work, context: LinkContext, link: links.FoundLink, host: str) -> None:
    """Record a host for `observed_hosts`, as a session that has already ended."""
    details = {"host": host}
    new = NewSession(link.site_id, link.account_id or 0, True, link.pk, details, ended=True)
    begin_session(work.connection, context.link_keys.random_bytes, new, work.now, context.lifetimes)


def observed_hosts(connection: Connection, site_id: str) -> list[dict[str, Any]]:
    """Return {origin, lastSeenAt, configured} of each host, newest first; raise `SiteNotFound`."""
    configured = get_site(connection, site_id).host_origins
    host = SESSIONS.c.details["host"].as_string()
    newest = func.max(SESSIONS.c.created_at)
    query = (
        select(host.label("origin"), newest.label("at"))
        .where(SESSIONS.c.site_id == site_id, host.is_not(None), host != "")
        .group_by(host)
        .order_by(newest.desc())
        .limit(100)
    )
    return [
        {
            "origin": row.origin,
            "lastSeenAt": event_time(row.at),
            "configured": row.origin in configured,
        }
        for row in connection.execute(query)
    ]
