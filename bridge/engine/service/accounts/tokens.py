"""
Access tokens: the secret is shown once, and only its hash is stored.

This module identifies the bearer. `service.caller` decides what the bearer may do on a site.
"""

import base64
import hashlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import (
    ColumnElement,
    Connection,
    Table,
    bindparam,
    func,
    insert,
    or_,
    select,
    true,
    update,
)

from bridge.contract.errors import ErrorCode
from bridge.engine.errors import EngineError
from bridge.engine.records.tables import metadata
from bridge.engine.rules.timestamps import iso, iso_or_none
from bridge.engine.service.caller import Caller, TokenScope

PREFIX = "rbt_"
SECRET_BYTES = 32
MAX_TOKENS = 1000
"""Valid tokens of an account; lists of tokens show all of them."""
USE_RECORDED_EVERY_MS = 60_000

TOKENS = metadata.tables["engine_access_token"]
ACCOUNTS = metadata.tables["engine_account"]

RandomBytes = Callable[[int], bytes]

# Every request runs these statements; they are built once.
_VALID: Final = (
    select(
        TOKENS.c.id,
        TOKENS.c.account_id,
        ACCOUNTS.c.email,
        TOKENS.c.service,
        TOKENS.c.scopes,
        TOKENS.c.site_id,
    )
    .outerjoin(ACCOUNTS, ACCOUNTS.c.id == TOKENS.c.account_id)
    .where(
        TOKENS.c.token_hash == bindparam("hash"),
        TOKENS.c.revoked_at.is_(None),
        or_(TOKENS.c.expires_at.is_(None), TOKENS.c.expires_at > bindparam("now")),
        ACCOUNTS.c.disabled_at.is_(None),
    )
)
_STILL_VALID: Final = (
    select(TOKENS.c.id)
    .outerjoin(ACCOUNTS, ACCOUNTS.c.id == TOKENS.c.account_id)
    .where(TOKENS.c.id == bindparam("token_id"), TOKENS.c.revoked_at.is_(None))
    .where(ACCOUNTS.c.disabled_at.is_(None))
)


@dataclass(frozen=True, slots=True)
class TokenView:
    """The members of a token that may be shown."""

    id: int
    email: str
    label: str
    service: bool
    scopes: tuple[str, ...]
    created_at: int
    expires_at: int | None
    last_used_at: int | None
    revoked_at: int | None


def token_hash(secret: str) -> str:
    """Return the SHA-256 of a token in hexadecimal, the only form that is stored."""
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()


def authenticate(connection: Connection, secret: str, now: int) -> Caller | None:
    """Return the bearer of a known, unexpired, unrevoked token of an enabled account."""
    row = connection.execute(_VALID, {"hash": token_hash(secret), "now": now}).first()
    if row is None:
        return None
    scopes = frozenset(map(TokenScope, row.scopes))
    return Caller(row.id, row.account_id, row.email or "", row.service, scopes, row.site_id)


def record_use(connection: Connection, token_id: int, now: int) -> None:
    """Record that a token was used; callers do so at most once a minute."""
    connection.execute(update(TOKENS).where(TOKENS.c.id == token_id).values(last_used_at=now))


def create_token(
    connection: Connection,
    account_id: int,
    *,
    now: int,
    random_bytes: RandomBytes,
    label: str = "",
    scopes: Iterable[TokenScope] = (),
    expires_at: int | None = None,
    site_id: str | None = None,
) -> tuple[int, str]:
    """
    Make a token for an account; return its id and the secret, which cannot be read again.

    A token with a `site_id` is valid for that site only. Raises EngineError for too many tokens.
    """
    valid = or_(TOKENS.c.expires_at.is_(None), TOKENS.c.expires_at > now)
    own = (TOKENS.c.account_id == account_id, TOKENS.c.revoked_at.is_(None), valid)
    if connection.execute(select(func.count()).where(*own)).scalar_one() >= MAX_TOKENS:
        raise EngineError(ErrorCode.TOO_MANY_TOKENS)
    secret = PREFIX + base64.urlsafe_b64encode(random_bytes(SECRET_BYTES)).rstrip(b"=").decode()
    statement = insert(TOKENS).values(
        token_hash=token_hash(secret),
        account_id=account_id,
        site_id=site_id,
        label=label,
        service=False,
        scopes=sorted(scopes),
        created_at=now,
        expires_at=expires_at,
    )
    token_id = connection.execute(statement.returning(TOKENS.c.id)).scalar_one()
    return token_id, secret


def ensure_service_token(connection: Connection, secret: str, now: int) -> Caller:
    """Store `secret` as a service token, which administers every site, unless it exists."""
    hashed = token_hash(secret)
    known = select(TOKENS.c.id).where(TOKENS.c.token_hash == hashed)
    token_id = connection.execute(known).scalar_one_or_none()
    if token_id is None:
        row = {"token_hash": hashed, "label": "service", "service": True, "scopes": []}
        added = insert(TOKENS).values(**row, created_at=now).returning(TOKENS.c.id)
        token_id = connection.execute(added).scalar_one()
    return Caller(token_id, None, "", service=True)


def list_tokens(
    connection: Connection, account_ids: Sequence[int], only_site: str | None = None
) -> list[TokenView]:
    """Return the tokens of these accounts, or those for one site, newest first, without secrets."""
    where = true() if only_site is None else TOKENS.c.site_id == only_site
    return _views(connection, TOKENS.c.account_id.in_(account_ids) & where)


def tokens_of_site(
    connection: Connection, site_id: str, account_ids: Sequence[int]
) -> list[TokenView]:
    """Return the tokens made for a site, and the unbound ones of these accounts, newest first."""
    unbound = TOKENS.c.site_id.is_(None) & TOKENS.c.account_id.in_(account_ids)
    return _views(connection, (TOKENS.c.site_id == site_id) | unbound)


def all_tokens(connection: Connection) -> list[TokenView]:
    """Return all tokens including service tokens, newest first, without secrets."""
    return _views(connection, true())


def _views(connection: Connection, condition: ColumnElement[bool]) -> list[TokenView]:
    rows = connection.execute(
        select(TOKENS, ACCOUNTS.c.email)
        .join_from(TOKENS, ACCOUNTS, TOKENS.c.account_id == ACCOUNTS.c.id, isouter=True)
        .where(condition)
        .order_by(TOKENS.c.id.desc())
    )
    return [
        TokenView(
            row.id,
            row.email or "",
            row.label,
            bool(row.service),
            tuple(row.scopes),
            row.created_at,
            row.expires_at,
            row.last_used_at,
            row.revoked_at,
        )
        for row in rows
    ]


def exists(connection: Connection, token_id: int) -> bool:
    query = select(TOKENS.c.id).where(TOKENS.c.id == token_id)
    return connection.execute(query).first() is not None


def still_valid(connection: Connection, caller: Caller) -> bool:
    """True if a token that was valid before is unrevoked and its account is enabled."""
    return connection.execute(_STILL_VALID, {"token_id": caller.token_id}).first() is not None


def owner_of(connection: Connection, token_id: int) -> tuple[int, str | None]:
    """Return the account of a token, and the site that it is bound to; raise `NotFound`."""
    query = select(TOKENS.c.account_id, TOKENS.c.site_id).where(TOKENS.c.id == token_id)
    row = connection.execute(query).first()
    if row is None or row.account_id is None:
        raise EngineError(ErrorCode.NOT_FOUND)
    return int(row.account_id), row.site_id


def revocation(connection: Connection, token_id: int, now: int) -> dict[str, Any]:
    """Return the change of a revocation for an audit event; call it before `revoke_token`."""
    query = select(TOKENS.c.account_id, TOKENS.c.revoked_at).where(TOKENS.c.id == token_id)
    row = connection.execute(query).one()
    ended = now if row.revoked_at is None else row.revoked_at
    before = {"account": row.account_id, "revokedAt": iso_or_none(row.revoked_at)}
    return {"before": before, "after": {**before, "revokedAt": iso(ended)}}


def revoke_token(connection: Connection, token_id: int, now: int) -> None:
    """Revoke a token, the links that it made, and their sessions."""
    connection.execute(
        update(TOKENS)
        .where(TOKENS.c.id == token_id, TOKENS.c.revoked_at.is_(None))
        .values(revoked_at=now)
    )
    links = metadata.tables["engine_link"]
    connection.execute(
        update(links)
        .where(_made_by(links, [token_id]), links.c.revoked_at.is_(None))
        .values(revoked_at=now)
    )
    end_sessions_of(connection, [token_id], now)


def end_sessions_of(connection: Connection, token_ids: Sequence[int], now: int) -> None:
    """
    End the sessions that depend on links of these tokens, so that open pages notice it at once.

    `sessions._VALID` has the same rule.
    """
    links, sessions = metadata.tables["engine_link"], metadata.tables["engine_browser_session"]
    link_ids = select(links.c.pk).where(_made_by(links, token_ids))
    depends = or_(sessions.c.link_pk.in_(link_ids), sessions.c.identity_link_pk.in_(link_ids))
    connection.execute(
        update(sessions).where(depends, sessions.c.ended_at.is_(None)).values(ended_at=now)
    )


def _made_by(links: Table, token_ids: Sequence[int]) -> ColumnElement[bool]:
    """Return the condition for links that tokens made, in the header or in `userInfo.Auth`."""
    return or_(links.c.token_id.in_(token_ids), links.c.authority_token_id.in_(token_ids))
