"""
The rules for changes of accounts, used by the engine, the console and the commands.

Pure. A caller describes the actor and the target; `decide` returns the refusal, or None. No rule
lets anybody obtain a right that they do not have.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from bridge.contract.errors import ErrorCode

FRESH_MS: Final = 10 * 60 * 1000
"""How long a proof of identity is valid for sensitive actions."""
_CLOCK_SKEW_MS: Final = 60 * 1000


def is_fresh(authenticated_at: int, now: int) -> bool:
    """True if a proof of identity is recent enough for a sensitive action; times in ms."""
    return -_CLOCK_SKEW_MS <= now - authenticated_at <= FRESH_MS


class AccountAction(StrEnum):
    SET_PASSWORD = "set-password"  # noqa: S105  # the name of an action
    ENROL = "enrol"  # invalidates the password and issues a one-time link to set a new one
    CHANGE_EMAIL = "change-email"
    INVITE = "invite"  # adds a membership of a site
    CHANGE_ROLE = "change-role"  # changes name and role on a site
    REMOVE = "remove"  # removes the membership of a site
    CREATE_TOKEN = "create-token"  # noqa: S105  # the name of an action
    REVOKE_TOKEN = "revoke-token"  # noqa: S105  # the name of an action
    DISABLE = "disable"
    ENABLE = "enable"
    GRANT = "grant"  # a console role
    REVOKE_GRANT = "revoke-grant"


@dataclass(frozen=True, slots=True)
class Rights:
    """
    Rights beyond those over one's own account.

    `system`: a system administrator (the operator with the data directory, the service token, a
    console system administrator). `console`: the permissions of a console role, with `bodies` if it
    shows message bodies. `sites`: the sites of the console role, None for all of them. `lacks`: the
    permissions that a system administrator of the console does not have.
    """

    system: bool = False
    console: frozenset[str] = frozenset()
    sites: frozenset[str] | None = frozenset()
    lacks: frozenset[str] = frozenset()

    def cover(self, other: "Rights") -> bool:
        """True if these rights include all rights of `other`."""
        if self.system:
            own = not self.lacks & other.console
            return own and (not other.system or self.lacks <= other.lacks)
        if other.system or not other.console <= self.console:
            return False
        if self.sites is None or not other.console:
            return True
        return other.sites is not None and other.sites <= self.sites


NO_RIGHTS: Final = Rights()


@dataclass(frozen=True, slots=True)
class AccountActor:
    """
    The person who makes a change.

    `account_id`, a number or its text, is None for the service token and the operator at the
    command line. `administers` are the sites that the actor administers in the current session or
    token. A session or token that is limited to a site has at most that site.
    """

    account_id: int | str | None = None
    rights: Rights = NO_RIGHTS
    administers: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class AccountTarget:
    """
    The account to be changed; `account_id` is None if no account has the address.

    `enrolled`: its owner has set a password or signed in through the provider.
    """

    account_id: int | str | None
    rights: Rights = NO_RIGHTS
    enrolled: bool = False
    last_administrator: bool = False


@dataclass(frozen=True, slots=True)
class AccountRequest:
    """A change, its site, and the console rights that it grants."""

    action: AccountAction
    site: str | None = None
    site_exists: bool = True
    grants: Rights = NO_RIGHTS


_Rule = Callable[[AccountActor, AccountTarget, AccountRequest], ErrorCode | None]


def decide(
    actor: AccountActor, target: AccountTarget, request: AccountRequest, *, force: bool = False
) -> ErrorCode | None:
    """Return why an actor may not make a change, or None if they may."""
    if not request.site_exists:
        return ErrorCode.UNKNOWN_SITE
    if target.account_id is None and request.action is not AccountAction.INVITE:
        return ErrorCode.UNKNOWN_ACCOUNT
    refusal = TABLE[request.action](actor, target, request)
    if refusal is None and request.action in _DEMOTING and target.last_administrator and not force:
        return ErrorCode.LAST_ADMINISTRATOR
    return refusal


def _owns(actor: AccountActor, target: AccountTarget) -> bool:
    return actor.account_id is not None and str(actor.account_id) == str(target.account_id)


def _owner(actor: AccountActor, target: AccountTarget, _: AccountRequest) -> ErrorCode | None:
    """Permit the owner, and a system administrator until the owner has enrolled."""
    if _owns(actor, target):
        return None
    sets_first = actor.rights.system and not target.enrolled
    return None if sets_first else ErrorCode.OWNER_ONLY


def _system(actor: AccountActor, target: AccountTarget, _: AccountRequest) -> ErrorCode | None:
    """Permit a system administrator on another account that has no further rights."""
    if _owns(actor, target):
        return ErrorCode.OWN_ACCOUNT
    if not actor.rights.system:
        return ErrorCode.NOT_PERMITTED
    return None if actor.rights.cover(target.rights) else ErrorCode.TARGET_MAY_MORE


def _site(actor: AccountActor, target: AccountTarget, request: AccountRequest) -> ErrorCode | None:
    """Permit an administrator of the site on an account that has no further rights."""
    if not actor.rights.system and request.site not in actor.administers:
        return ErrorCode.NOT_PERMITTED
    if _owns(actor, target) or actor.rights.cover(target.rights):
        return None
    return ErrorCode.TARGET_MAY_MORE


def _site_of_others(
    actor: AccountActor, target: AccountTarget, request: AccountRequest
) -> ErrorCode | None:
    """Decide as `_site`, but refuse the actor's own account."""
    return ErrorCode.OWN_ACCOUNT if _owns(actor, target) else _site(actor, target, request)


def _invitation(actor: AccountActor, _: AccountTarget, request: AccountRequest) -> ErrorCode | None:
    """Permit an administrator of the site: a membership gives no rights over the account."""
    permitted = actor.rights.system or request.site in actor.administers
    return None if permitted else ErrorCode.NOT_PERMITTED


def _owner_or_site(
    actor: AccountActor, target: AccountTarget, request: AccountRequest
) -> ErrorCode | None:
    """Permit the owner, or an administrator of the site that the token is bound to."""
    return None if _owns(actor, target) else _site(actor, target, request)


def _console(
    actor: AccountActor, target: AccountTarget, request: AccountRequest
) -> ErrorCode | None:
    """Permit a system administrator who has all granted rights, as `_system` does."""
    refusal = _system(actor, target, request)
    if refusal is not None:
        return refusal
    return None if actor.rights.cover(request.grants) else ErrorCode.NOT_PERMITTED


TABLE: Final[Mapping[AccountAction, _Rule]] = {
    AccountAction.SET_PASSWORD: _owner,
    AccountAction.ENROL: _system,
    # An owner could take the address of a person whom another site is about to invite.
    AccountAction.CHANGE_EMAIL: _system,
    AccountAction.INVITE: _invitation,
    AccountAction.CHANGE_ROLE: _site,
    AccountAction.REMOVE: _site_of_others,
    AccountAction.CREATE_TOKEN: _owner_or_site,
    AccountAction.REVOKE_TOKEN: _owner_or_site,
    AccountAction.DISABLE: _system,
    AccountAction.ENABLE: _system,
    AccountAction.GRANT: _console,
    AccountAction.REVOKE_GRANT: _console,
}
"""The rule of each action."""

_DEMOTING: Final = frozenset(
    {AccountAction.DISABLE, AccountAction.GRANT, AccountAction.REVOKE_GRANT}
)
"""Changes after which the target may no longer be a system administrator."""
