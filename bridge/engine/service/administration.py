"""
What the administrators of a site do to its users and tokens.

Nobody reaches beyond their own site: a token is the site's that knew its user first.
"""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, select

from bridge.engine.errors import EngineError, NotFound
from bridge.engine.links.handles import RandomBytes
from bridge.engine.rules.authority import Role
from bridge.engine.service import tokens, users
from bridge.engine.service.caller import MEMBERSHIPS, Scope, account_role
from bridge.engine.service.tokens import TokenView
from bridge.engine.service.work import Work

DAY_MS = 24 * 3600 * 1000


class BadUser(EngineError):  # noqa: N818  # named for what was sent
    """Something about a user makes no sense."""

    status = 400
    code = "bad_user"


class UserNotFound(NotFound):
    """No such user on the site."""

    code = "user_not_found"
    text = "the site has no such user"


def add_member(
    work: Work, site_id: str, email: str, name: str, role: Role, password: str | None
) -> dict[str, Any]:
    """
    Add a user to a site, or change their name and role there.

    A password is set only for an account that is new or has no other site: it opens them all.
    """
    if not users.is_email(email):
        raise BadUser("email is not an e-mail address", pointer="/email")
    known = users.find_account(work.connection, email)
    if password is not None and known is not None and _elsewhere(work, known.id, site_id):
        raise BadUser("the user belongs to other sites too", pointer="/password")
    account = users.register(work.connection, site_id, email, name, work.now, role=role)
    if password is not None:
        users.set_password(work.connection, account.id, password)
    return {"email": account.email, "name": account.name, "role": role.value}


def remove_member(work: Work, site_id: str, email: str, administrator_id: int | None) -> None:
    """Take a user off a site, but nobody themselves; raise `UserNotFound` or `BadUser`."""
    account = users.find_account(work.connection, email)
    if account is None or account_role(work.connection, account.id, site_id) is None:
        raise UserNotFound(pointer="/email")
    if account.id == administrator_id:
        raise BadUser("nobody removes themselves", pointer="/email")
    users.leave(work.connection, site_id, account.id)


def set_signature(work: Work, site_id: str, email: str, image: str | None) -> None:
    """Set the signature of a user who belongs to this site only; signed reports keep theirs."""
    account = users.find_account(work.connection, email)
    if account is None or account_role(work.connection, account.id, site_id) is None:
        raise UserNotFound(pointer="/email")
    if _elsewhere(work, account.id, site_id):
        raise BadUser("the user belongs to other sites too", pointer="/email")
    users.set_signature(work.connection, account.id, image)


def _elsewhere(work: Work, account_id: int, site_id: str) -> bool:
    query = select(MEMBERSHIPS.c.site_id).where(
        MEMBERSHIPS.c.account_id == account_id, MEMBERSHIPS.c.site_id != site_id
    )
    return work.connection.execute(query).first() is not None


def make_token(
    work: Work,
    site_id: str,
    email: str,
    random_bytes: RandomBytes,
    *,
    label: str = "",
    scopes: Sequence[Scope] = (),
    expires_days: int | None = None,
) -> dict[str, Any]:
    """Make a token for a user who belongs to this site only; raise `UserNotFound`."""
    account = users.find_account(work.connection, email)
    if account is None or account_role(work.connection, account.id, site_id) is None:
        raise UserNotFound(pointer="/email")
    if _elsewhere(work, account.id, site_id):
        raise BadUser("the user belongs to other sites too", pointer="/email")
    key, secret = tokens.create_token(
        work.connection,
        account.id,
        now=work.now,
        random_bytes=random_bytes,
        label=label,
        scopes=scopes,
        expires_at=None if expires_days is None else work.now + expires_days * DAY_MS,
    )
    return {"id": key, "token": secret}


def tokens_of(connection: Connection, site_id: str) -> list[dict[str, Any]]:
    """Return the tokens of the users whom this site knew first, newest first."""
    found = tokens.list_tokens(connection, users.accounts_at_home(connection, site_id))
    return [{"email": each.email, **token_json(each)} for each in found]


def token_json(token: TokenView) -> dict[str, Any]:
    """Return a token as it is listed, without its owner."""
    return {
        "id": token.id,
        "label": token.label,
        "scopes": list(token.scopes),
        "createdAt": token.created_at,
        "expiresAt": token.expires_at,
        "lastUsedAt": token.last_used_at,
        "revokedAt": token.revoked_at,
    }


def revoke(work: Work, site_id: str, token_id: int) -> None:
    """Revoke a token of a user whom this site knew first; raise `NotFound` for any other."""
    account_id = tokens.owner_of(work.connection, token_id)
    if users.home_of(work.connection, account_id) != site_id:
        raise NotFound
    tokens.revoke_token(work.connection, token_id, work.now)
