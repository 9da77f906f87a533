"""
Whether a page may stand in the frame that asks for it, as far as the engine can tell before.

`frame-ancestors` is enforced by the browser, after the request. What a request of another site
would change waits until a page of ours was shown there, or the browser names an allowed host.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import Connection, select

from bridge.engine.links import Purpose
from bridge.engine.service import links
from bridge.engine.service.caller import SITES
from bridge.engine.service.opening import Door
from bridge.engine.service.sessions import NewSession, begin_session
from bridge.engine.service.work import Work


@dataclass(frozen=True, slots=True)
class Framing:
    """A frame that asks for a link: `host` is the page that the browser names, empty for none."""

    handle: str
    purpose: Purpose
    host: str


@dataclass(frozen=True, slots=True)
class Unproven:
    """A link whose site has hosts, of which the browser has yet to show one."""

    link: links.FoundLink
    hosts: Sequence[str]


def unproven(connection: Connection, door: Door, framing: Framing, now: int) -> Unproven | None:
    """
    Return what is to be proven; None for an allowed host, and where the site has named none.

    Raise `LinkGone` and its kin.
    """
    link = links.find(connection, door.vault, framing.handle, framing.purpose, now)
    query = select(SITES.c.host_origins).where(SITES.c.site_id == link.site_id)
    hosts: list[str] = connection.execute(query).scalar_one()
    if not hosts or not link.framed or framing.host in hosts:
        return None
    return Unproven(link, hosts)


def observe(work: Work, door: Door, link: links.FoundLink, host: str) -> None:
    """Keep a host for the administrators (`service.observing`): a session that ends at once."""
    details = {"host": host}
    new = NewSession(link.site_id, link.account_id or 0, True, link.pk, details, over=True)
    begin_session(work.connection, door.vault.random_bytes, new, work.now, door.lifetimes)
