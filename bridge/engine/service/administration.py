"""
What the administrators of a site do to its users and tokens.

Nobody reaches beyond their own site, or learns whether a user has another one.
"""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection

from bridge.engine.errors import EngineError, NotFound
from bridge.engine.links.handles import RandomBytes
from bridge.engine.rules.authority import Role
from bridge.engine.service import tokens, users
from bridge.engine.service.caller import Scope
from bridge.engine.service.tokens import TokenView
from bridge.engine.service.users import Person
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

    A password counts where the account has no other site, and opens this site only for good;
    where there is another one it is passed over in silence.
    """
    if not users.is_email(email):
        raise BadUser("email is not an e-mail address", pointer="/email")
    person = users.register(work.connection, site_id, email, name, work.now, role=role)
    if password is not None and users.is_only_on(work.connection, person.id, site_id):
        users.set_password(work.connection, person.id, password, site_id)
    return {"email": person.email, "name": person.name, "role": role.value}


def remove_member(work: Work, site_id: str, email: str, administrator_id: int | None) -> None:
    """Take a user off a site, but nobody themselves; raise `UserNotFound` or `BadUser`."""
    person = _member(work, site_id, email)
    if person.id == administrator_id:
        raise BadUser("nobody removes themselves", pointer="/email")
    users.leave(work.connection, site_id, person.id, work.now)


def set_signature(work: Work, site_id: str, email: str, image: str | None) -> None:
    """Set the signature of a user on this site; signed reports keep theirs."""
    person = _member(work, site_id, email)
    users.tell(work.connection, person.id, site_id, signature=image)


def _member(work: Work, site_id: str, email: str) -> Person:
    person = users.find_member(work.connection, site_id, email)
    if person is None:
        raise UserNotFound(pointer="/email")
    return person


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
    """Make a token for a user of the site that opens this site only; raise `UserNotFound`."""
    key, secret = tokens.create_token(
        work.connection,
        _member(work, site_id, email).id,
        site_id=site_id,
        now=work.now,
        random_bytes=random_bytes,
        label=label,
        scopes=scopes,
        expires_at=None if expires_days is None else work.now + expires_days * DAY_MS,
    )
    return {"id": key, "token": secret}


def tokens_of(connection: Connection, site_id: str) -> list[dict[str, Any]]:
    """Return the tokens that a site answers for, newest first: its own, and its own users'."""
    found = tokens.tokens_of_site(connection, site_id, users.accounts_at_home(connection, site_id))
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
    """Revoke a token that this site answers for; raise `NotFound` for any other."""
    account_id, made_for = tokens.owner_of(work.connection, token_id)
    if (made_for or users.home_of(work.connection, account_id)) != site_id:
        raise NotFound
    tokens.revoke_token(work.connection, token_id, work.now)
