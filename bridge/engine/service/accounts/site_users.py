"""
Actions of site administrators on the users and tokens of their site.

An administrator cannot act on other sites, and cannot learn whether a user is on another site.
"""

from collections.abc import Sequence
from typing import Any, Final

from sqlalchemy import Connection, select

from bridge import authority
from bridge.authority import AccountAction
from bridge.contract.errors import ErrorCode
from bridge.email import is_email
from bridge.engine.errors import EngineError
from bridge.engine.links import RandomBytes
from bridge.engine.rules.site_roles import SiteRole
from bridge.engine.rules.timestamps import iso, iso_or_none
from bridge.engine.service.accounts import enrolment, passwords, sessions, tokens, users
from bridge.engine.service.accounts.enrolment import IssuedEnrolment
from bridge.engine.service.accounts.tokens import TokenView
from bridge.engine.service.accounts.users import SiteUser
from bridge.engine.service.caller import Caller, TokenScope, administered_sites
from bridge.engine.service.work import Work

DAY_MS = 24 * 3600 * 1000
CONSOLE_ROLE: Final = "console"
"""The right that represents any role in the console."""


def require_allowed(
    work: Work, caller: Caller, action: AccountAction, site_id: str, account_id: int | None
) -> None:
    """Raise `EngineError` unless the caller may do this to an account on a site."""
    found = administered_sites(work.connection, caller)
    administers = frozenset([site_id] if found is None else found)
    rights = authority.Rights(system=caller.service)
    actor = authority.AccountActor(caller.account_id, rights, administers)
    target = target_of(work.connection, account_id)
    refusal = authority.decide(actor, target, authority.AccountRequest(action, site_id))
    if refusal is not None:
        raise EngineError(refusal)


def target_of(connection: Connection, account_id: int | None) -> authority.AccountTarget:
    """Return the facts about an account that decide whether an action on it is allowed."""
    if account_id is None:
        return authority.AccountTarget(None)
    query = select(users.ACCOUNTS).where(users.ACCOUNTS.c.id == account_id)
    row = connection.execute(query).one()
    # The engine knows which accounts have a console role, but not which role.
    role = frozenset({CONSOLE_ROLE} if row.second_factor_required else ())
    rights = authority.Rights(console=role, sites=None if role else frozenset())
    return authority.AccountTarget(account_id, rights, enrolled=row.enrolled_at is not None)


def add_member(
    work: Work, caller: Caller, site_id: str, email: str, name: str, role: SiteRole
) -> dict[str, Any]:
    """
    Invite a user to a site, or change their name and role there.

    An account that exists on other sites becomes a member of this one. The action issues no
    password and no link: system administrators issue links (`service.accounts.enrolment`).
    """
    if not is_email(email):
        raise EngineError(
            ErrorCode.BAD_USER, "email is not a valid e-mail address", pointer="/email"
        )
    member = users.find_member(work.connection, site_id, email)
    if member is None:
        known = users.find_account(work.connection, email)
        require_allowed(
            work, caller, AccountAction.INVITE, site_id, None if known is None else known.id
        )
    else:
        require_allowed(work, caller, AccountAction.CHANGE_ROLE, site_id, member.id)
    before = users.membership(work.connection, site_id, email)
    person = users.register(work.connection, site_id, email, name, work.now, role=role)
    after = users.membership(work.connection, site_id, email)
    work.audit_members = {"before": before, "after": after}
    return {"email": person.email, "name": person.name, "role": role.value}


def give_access(
    work: Work,
    caller: Caller,
    site_id: str,
    email: str,
    password_hash: str | None,
    random_bytes: RandomBytes,
    link_seconds: int | None,
) -> IssuedEnrolment | None:
    """
    Store the first password of a user, or issue an enrolment link; for operators only.

    No link is issued if the user has enrolled, or if passwords are off (`link_seconds` None).
    """
    account_id = _member(work, site_id, email).id
    if password_hash is not None:
        require_allowed(work, caller, AccountAction.SET_PASSWORD, site_id, account_id)
        sessions.end_enrolments(work.connection, account_id, work.now)
        passwords.store_hash(work.connection, account_id, password_hash, work.now)
        return None
    if link_seconds is None or target_of(work.connection, account_id).enrolled:
        return None
    return enrolment.issue(work.connection, account_id, random_bytes, work.now, link_seconds)


def remove_member(work: Work, caller: Caller, site_id: str, email: str) -> None:
    """Remove a user from a site and end their access there. Nobody can remove themselves."""
    person = _member(work, site_id, email)
    if person.id == caller.account_id:
        raise EngineError(
            ErrorCode.BAD_USER, "administrators cannot remove themselves", pointer="/email"
        )
    require_allowed(work, caller, AccountAction.REMOVE, site_id, person.id)
    before = users.membership(work.connection, site_id, email)
    work.audit_members = {"before": before, "after": {}}
    users.leave(work.connection, site_id, person.id, work.now)
    sessions.leave_site(work.connection, person.id, site_id, work.now)


def set_signature(work: Work, site_id: str, email: str, image: str | None) -> None:
    """Set a user's signature on this site. Signed reports keep the old one."""
    person = _member(work, site_id, email)
    users.update_membership(work.connection, person.id, site_id, signature=image)


def _member(work: Work, site_id: str, email: str) -> SiteUser:
    person = users.find_member(work.connection, site_id, email)
    if person is None:
        raise EngineError(ErrorCode.USER_NOT_FOUND, status=404, pointer="/email")
    return person


def make_token(
    work: Work,
    caller: Caller,
    site_id: str,
    email: str,
    random_bytes: RandomBytes,
    *,
    label: str = "",
    scopes: Sequence[TokenScope] = (),
    expires_days: int | None = None,
) -> dict[str, Any]:
    """Make a token of a user that is valid for this site only; raise `EngineError`."""
    person = _member(work, site_id, email)
    if users.is_disabled(work.connection, person.id):
        raise EngineError(ErrorCode.ACCOUNT_DISABLED)
    require_allowed(work, caller, AccountAction.CREATE_TOKEN, site_id, person.id)
    key, secret = tokens.create_token(
        work.connection,
        person.id,
        site_id=site_id,
        now=work.now,
        random_bytes=random_bytes,
        label=label,
        scopes=scopes,
        expires_at=None if expires_days is None else work.now + expires_days * DAY_MS,
    )
    members = {"user": person.email, "label": label, "scopes": list(scopes), "days": expires_days}
    work.audit_members = {"target": ("token", str(key)), "before": {}, "after": members}
    return {"id": key, "token": secret}


def tokens_of(connection: Connection, site_id: str) -> list[dict[str, Any]]:
    """Return the tokens that a site manages, newest first: its own, and those of its home users."""
    found = tokens.tokens_of_site(connection, site_id, users.accounts_at_home(connection, site_id))
    return [{"email": view.email, **token_json(view)} for view in found]


def token_json(token: TokenView) -> dict[str, Any]:
    return {
        "id": token.id,
        "label": token.label,
        "scopes": list(token.scopes),
        "createdAt": iso(token.created_at),
        "expiresAt": iso_or_none(token.expires_at),
        "lastUsedAt": iso_or_none(token.last_used_at),
        "revokedAt": iso_or_none(token.revoked_at),
    }


def revoke(work: Work, caller: Caller, site_id: str, token_id: int) -> None:
    """Revoke a token that `tokens_of` lists for a site; raise `NotFound` for other tokens."""
    account_id, made_for = tokens.owner_of(work.connection, token_id)
    if (made_for or users.home_site_of(work.connection, account_id)) != site_id:
        raise EngineError(ErrorCode.NOT_FOUND)
    require_allowed(work, caller, AccountAction.REVOKE_TOKEN, site_id, account_id)
    work.audit_members = tokens.revocation(work.connection, token_id, work.now)
    tokens.revoke_token(work.connection, token_id, work.now)
