"""
Revocation: end the sessions, tokens, links and shares of an account, on all sites or on one.

Open pages and event streams check their session (`service.accounts.sessions`) at each change and
heartbeat.
"""

from sqlalchemy import ColumnElement, Connection, or_, select, update

from bridge.engine.records.tables import Report, Share, metadata
from bridge.engine.service.accounts import tokens
from bridge.engine.service.accounts.sessions import ACCOUNTS, SESSIONS

LINKS = metadata.tables["engine_link"]
TOKENS = metadata.tables["engine_access_token"]
ENROLMENTS = metadata.tables["engine_enrolment"]
SHARES = metadata.tables[str(Share.__tablename__)]
REPORTS = metadata.tables[str(Report.__tablename__)]


def disable(connection: Connection, account_id: int, now: int) -> None:
    """Disable an account: it cannot sign in, and its sessions, tokens and links end permanently."""
    first = (ACCOUNTS.c.id == account_id) & ACCOUNTS.c.disabled_at.is_(None)
    connection.execute(update(ACCOUNTS).where(first).values(disabled_at=now))
    end_sessions(connection, account_id, now)
    end_tokens(connection, account_id, now)
    end_links(connection, account_id, now)
    end_enrolments(connection, account_id, now)


def enable(connection: Connection, account_id: int) -> None:
    """Enable an account. What ended when it was disabled stays ended."""
    connection.execute(update(ACCOUNTS).where(ACCOUNTS.c.id == account_id).values(disabled_at=None))


def leave_site(connection: Connection, account_id: int, site_id: str, now: int) -> None:
    """End the sessions, tokens and links of an account that are for one site."""
    here = (SESSIONS.c.site_id == site_id) & (SESSIONS.c.details["kind"].as_string().is_(None))
    _end_sessions(connection, (SESSIONS.c.account_id == account_id) & here, now)
    end_tokens(connection, account_id, now, site_id)
    end_links(connection, account_id, now, site_id)


def end_sessions(connection: Connection, account_id: int, now: int, but: int | None = None) -> None:
    """End all sessions of an account, except the session with the key `but`."""
    where = SESSIONS.c.account_id == account_id
    if but is not None:
        where &= SESSIONS.c.pk != but
    _end_sessions(connection, where, now)


def end_tokens(
    connection: Connection, account_id: int, now: int, site_id: str | None = None
) -> None:
    """Revoke all tokens of an account, or only those bound to one site."""
    where = (TOKENS.c.account_id == account_id) & TOKENS.c.revoked_at.is_(None)
    if site_id is not None:
        where &= TOKENS.c.site_id == site_id
    ended = connection.execute(
        update(TOKENS).where(where).values(revoked_at=now).returning(TOKENS.c.id)
    )
    tokens.end_sessions_of(connection, list(ended.scalars()), now)


def end_links(
    connection: Connection, account_id: int, now: int, site_id: str | None = None
) -> None:
    """Expire the links that act as an account or that its tokens made, and revoke its shares."""
    made = select(TOKENS.c.id).where(TOKENS.c.account_id == account_id)
    where = or_(LINKS.c.account_id == account_id, LINKS.c.token_id.in_(made))
    where &= LINKS.c.expires_at > now
    shares = (SHARES.c.created_by_id == account_id) & SHARES.c.revoked_at.is_(None)
    if site_id is not None:
        where &= LINKS.c.site_id == site_id
        reports = select(REPORTS.c.pk).where(REPORTS.c.site_id == site_id)
        shares &= SHARES.c.report_pk.in_(reports)
    connection.execute(update(LINKS).where(where).values(expires_at=now))
    connection.execute(update(SHARES).where(shares).values(revoked_at=now))


def end_enrolments(connection: Connection, account_id: int, now: int) -> None:
    """Invalidate the enrolment links of an account."""
    open_ones = (ENROLMENTS.c.account_id == account_id) & ENROLMENTS.c.used_at.is_(None)
    open_ones &= ENROLMENTS.c.ended_at.is_(None)
    connection.execute(update(ENROLMENTS).where(open_ones).values(ended_at=now))


def _end_sessions(connection: Connection, where: ColumnElement[bool], now: int) -> None:
    running = where & SESSIONS.c.ended_at.is_(None)
    connection.execute(update(SESSIONS).where(running).values(ended_at=now))
