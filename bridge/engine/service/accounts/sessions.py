"""
Browser sessions, and the revocation of all access of an account.

A session belongs to one opened report, pre-warmed frame, or sign-in. The browser has the secret,
the database its hash. A session ends by idle time, at its absolute end, or by request. It also ends
when its account is disabled or leaves the site, and when a token is revoked that made its link or
the link that identified its user. `_VALID` defines this rule. Permissions are checked where a
session is used.

An account with a role in the console may sign in without being on a site, for example to create the
first one. Its session has no site then.

Revocation ends the sessions, tokens, links and shares of an account, on all sites or on one. Open
pages and event streams check their session at each change and heartbeat.
"""

import base64
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import ColumnElement, Connection, delete, exists, insert, or_, select, update

from bridge.engine.links import RandomBytes
from bridge.engine.records.tables import Report, Share, metadata
from bridge.engine.service.accounts import tokens
from bridge.engine.service.sites.site_settings import read_preferences
from bridge.engine.settings import AccessLifetimes

SITES = metadata.tables["engine_site"]
SESSIONS = metadata.tables["engine_browser_session"]
ACCOUNTS = metadata.tables["engine_account"]
MEMBERSHIPS = metadata.tables["engine_membership"]
LINKS = metadata.tables["engine_link"]
TOKENS = metadata.tables["engine_access_token"]
SECRET_BYTES = 32
SEEN_EVERY_MS = 30_000


_ACCOUNT_SESSION = SESSIONS.c.details["kind"].as_string() == "account"
_VALID = (
    SESSIONS.c.ended_at.is_(None)
    & exists().where(ACCOUNTS.c.id == SESSIONS.c.account_id, ACCOUNTS.c.disabled_at.is_(None))
    & or_(
        exists().where(
            MEMBERSHIPS.c.account_id == SESSIONS.c.account_id,
            MEMBERSHIPS.c.left_at.is_(None),
            or_(_ACCOUNT_SESSION, MEMBERSHIPS.c.site_id == SESSIONS.c.site_id),
        ),
        _ACCOUNT_SESSION
        & exists().where(ACCOUNTS.c.id == SESSIONS.c.account_id, ACCOUNTS.c.second_factor_required),
    )
    & ~exists().where(
        LINKS.c.pk.in_([SESSIONS.c.link_pk, SESSIONS.c.identity_link_pk]),
        TOKENS.c.id.in_([LINKS.c.token_id, LINKS.c.authority_token_id]),
        TOKENS.c.revoked_at.is_not(None),
    )
)
"""
The condition for a valid session, except its times. An account session is valid for all sites of
the account, and without one while the account has a role in the console.
"""


@dataclass(frozen=True, slots=True)
class NewSession:
    """
    A session to begin; `details` are stored as JSON, for example the report's id and languages.

    `site_id` is empty for an account on no site. `identity_link_pk` is the link of the session that
    identified the user, if another one did.
    """

    site_id: str
    account_id: int
    framed: bool = False
    link_pk: int | None = None
    details: Mapping[str, Any] = field(default_factory=dict)
    identity_link_pk: int | None = None
    ended: bool = False  # the session only records its details and is not valid


@dataclass(frozen=True, slots=True)
class BrowserSession:
    pk: int
    site_id: str
    account_id: int
    framed: bool
    details: Mapping[str, Any]
    last_seen_at: int
    link_pk: int | None = None
    identity_link_pk: int | None = None

    @property
    def identity(self) -> int | None:
        """The link that identified the user; None if they signed in."""
        return self.identity_link_pk or self.link_pk

    @property
    def report_id(self) -> str:
        """The report that the session was opened for; empty if for none."""
        return str(self.details.get("report_id", ""))

    @property
    def persistent(self) -> bool:
        """Whether the session's window follows launches (SyncLaunch)."""
        return bool(self.details.get("persistent"))

    @property
    def sequence(self) -> int:
        """The newest launch of the user that the session's window has seen."""
        return int(self.details.get("sync_sequence", 0))

    @property
    def languages(self) -> Mapping[str, str]:
        """The languages that the session was pre-warmed with; empty if it was not."""
        return dict(self.details.get("prewarmed", {}))

    @property
    def tab(self) -> str:
        """The browser tab of the session's page, as the page named it; empty before."""
        return str(self.details.get("tab", ""))

    @property
    def holder(self) -> str:
        """The name under which this session holds the write lease of a report."""
        return f"session {self.pk}"


def secret_hash(secret: str) -> str:
    """Return the SHA-256 of a session's or enrolment's secret in hexadecimal."""
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()


def begin_session(
    connection: Connection,
    random_bytes: RandomBytes,
    new: NewSession,
    now: int,
    life: AccessLifetimes,
) -> str:
    """Begin a session and return its secret, which is stored nowhere."""
    secret = base64.urlsafe_b64encode(random_bytes(SECRET_BYTES)).rstrip(b"=").decode("ascii")
    connection.execute(
        insert(SESSIONS).values(
            secret_hash=secret_hash(secret),
            site_id=new.site_id or None,
            account_id=new.account_id,
            link_pk=new.link_pk,
            identity_link_pk=new.identity_link_pk,
            framed=new.framed,
            details=dict(new.details),
            created_at=now,
            last_seen_at=now,
            expires_at=now + life.session * 1000,
            ended_at=now if new.ended else None,
        )
    )
    return secret


def find_session(
    connection: Connection, secret: str, now: int, life: AccessLifetimes
) -> BrowserSession | None:
    """Return the valid session of a secret, or None."""
    row = connection.execute(
        select(SESSIONS, SITES.c.settings)
        .outerjoin_from(SESSIONS, SITES, SESSIONS.c.site_id == SITES.c.site_id)
        .where(SESSIONS.c.secret_hash == secret_hash(secret), SESSIONS.c.expires_at > now, _VALID)
    ).first()
    if row is None:
        return None
    if row.last_seen_at <= now - idle_seconds(row.settings or {}, life) * 1000:
        return None
    return BrowserSession(
        row.pk,
        row.site_id or "",
        row.account_id,
        bool(row.framed),
        row.details,
        row.last_seen_at,
        row.link_pk,
        row.identity_link_pk,
    )


def ends_at(
    connection: Connection, session: BrowserSession, life: AccessLifetimes
) -> tuple[int, int]:
    """Return when a session ends by idle time, and its absolute end; (0, 0) if it has ended."""
    row = connection.execute(
        select(SESSIONS.c.last_seen_at, SESSIONS.c.expires_at, SITES.c.settings)
        .outerjoin_from(SESSIONS, SITES, SESSIONS.c.site_id == SITES.c.site_id)
        .where(SESSIONS.c.pk == session.pk, _VALID)
    ).first()
    if row is None:
        return 0, 0
    return row.last_seen_at + idle_seconds(row.settings or {}, life) * 1000, row.expires_at


def idle_seconds(settings: Mapping[str, Any], life: AccessLifetimes) -> int:
    """Return after how many seconds without activity a site's sessions end."""
    return read_preferences(settings).sessionIdleSeconds or life.session_idle


def keep_alive(connection: Connection, session: BrowserSession, now: int) -> None:
    """Record that a session is in use; callers do so at most twice a minute."""
    connection.execute(update(SESSIONS).where(SESSIONS.c.pk == session.pk).values(last_seen_at=now))


def add_details(
    connection: Connection, session: BrowserSession, details: Mapping[str, Any]
) -> None:
    values = {"details": {**session.details, **details}}
    connection.execute(update(SESSIONS).where(SESSIONS.c.pk == session.pk).values(**values))


def is_valid(
    connection: Connection, session: BrowserSession, now: int, life: AccessLifetimes
) -> bool:
    return min(ends_at(connection, session, life)) > now


def end_session(connection: Connection, session: BrowserSession, now: int) -> None:
    connection.execute(update(SESSIONS).where(SESSIONS.c.pk == session.pk).values(ended_at=now))


def purge_sessions(connection: Connection, now: int, limit: int = 1000) -> int:
    """Delete sessions past their absolute end, at most `limit`; return their number."""
    old = select(SESSIONS.c.pk).where(SESSIONS.c.expires_at < now).limit(limit)
    keys = list(connection.execute(old).scalars())
    if keys:
        connection.execute(delete(SESSIONS).where(SESSIONS.c.pk.in_(keys)))
    return len(keys)


ENROLMENTS = metadata.tables["engine_enrolment"]
SHARES = metadata.tables[str(Share.__tablename__)]
REPORTS = metadata.tables[str(Report.__tablename__)]


def disable(connection: Connection, account_id: int, now: int) -> None:
    """Disable an account: it cannot sign in, and its sessions, tokens and links end permanently."""
    enabled = (ACCOUNTS.c.id == account_id) & ACCOUNTS.c.disabled_at.is_(None)
    connection.execute(update(ACCOUNTS).where(enabled).values(disabled_at=now))
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
    token_ids = select(TOKENS.c.id).where(TOKENS.c.account_id == account_id)
    by_tokens = or_(LINKS.c.token_id.in_(token_ids), LINKS.c.authority_token_id.in_(token_ids))
    where = or_(LINKS.c.account_id == account_id, by_tokens)
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
