"""
Who may do what to whose account: the complete table, for the engine, the console and the commands.

Pure. A caller states facts about the actor and the target; `decide` returns the refusal, or None.
One principle holds in every row: nobody obtains a right that they do not hold.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class AccountAction(StrEnum):
    """What can be done to an account."""

    SET_PASSWORD = "set-password"  # noqa: S105  # the name of an action
    ENROL = "enrol"  # end the password, give a one-time link to set a new one
    CHANGE_EMAIL = "change-email"
    INVITE = "invite"  # make it a member of a site
    CHANGE_ROLE = "change-role"  # name and role on a site
    REMOVE = "remove"  # from a site
    CREATE_TOKEN = "create-token"  # noqa: S105  # the name of an action
    REVOKE_TOKEN = "revoke-token"  # noqa: S105  # the name of an action
    DISABLE = "disable"
    ENABLE = "enable"
    GRANT = "grant"  # a console role
    REVOKE_GRANT = "revoke-grant"


class AccountRefusal(StrEnum):
    """Why not; the code that callers receive."""

    NOT_PERMITTED = "not_permitted"
    OWN_ACCOUNT = "own_account"
    OWNER_ONLY = "owner_only"
    TARGET_MAY_MORE = "target_may_more"
    UNKNOWN_ACCOUNT = "unknown_account"
    UNKNOWN_SITE = "unknown_site"
    LAST_ADMINISTRATOR = "last_administrator"


TEXTS: Final[Mapping[AccountRefusal, str]] = {
    AccountRefusal.NOT_PERMITTED: "the caller may not do this to this account",
    AccountRefusal.OWN_ACCOUNT: "nobody does this to their own account",
    AccountRefusal.OWNER_ONLY: "only the owner of an account sets its password",
    AccountRefusal.TARGET_MAY_MORE: "the account has rights that the caller does not have",
    AccountRefusal.UNKNOWN_ACCOUNT: "there is no such account",
    AccountRefusal.UNKNOWN_SITE: "there is no such site",
    AccountRefusal.LAST_ADMINISTRATOR: "this is the last system administrator",
}


@dataclass(frozen=True, slots=True)
class Rights:
    """
    What somebody may do outside of their own account.

    `system`: a system administrator (the operator with the data directory, the service token, a
    console system administrator). `console`: the permissions of a console role, with `bodies` if
    it shows message bodies. `sites`: the sites of the console role, None for all of them.
    `lacks`: the permissions that a system administrator of the console does not have.
    """

    system: bool = False
    console: frozenset[str] = frozenset()
    sites: frozenset[str] | None = frozenset()
    lacks: frozenset[str] = frozenset()

    def cover(self, other: "Rights") -> bool:
        """Tell whether these rights include all of the other ones."""
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
    Who asks. `account_id`, a number or its text, is None for the service token and the operator
    at the command line.

    `administers` are the sites that the actor administers in the session or token at hand; a
    session or token that is limited to one site has at most that one.
    """

    account_id: int | str | None = None
    rights: Rights = NO_RIGHTS
    administers: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class AccountTarget:
    """
    The account that is acted on: None as `account_id` where none has the address.

    `enrolled`: its owner has set a password or signed in through the provider at some time.
    """

    account_id: int | str | None
    rights: Rights = NO_RIGHTS
    enrolled: bool = False
    last_administrator: bool = False


@dataclass(frozen=True, slots=True)
class AccountRequest:
    """An action, the site that it is about, and the console rights that it would give."""

    action: AccountAction
    site: str | None = None
    site_exists: bool = True
    grants: Rights = NO_RIGHTS


_Rule = Callable[[AccountActor, AccountTarget, AccountRequest], AccountRefusal | None]


def decide(
    actor: AccountActor, target: AccountTarget, request: AccountRequest, *, force: bool = False
) -> AccountRefusal | None:
    """Return why an actor may not do this to a target, None where they may."""
    if not request.site_exists:
        return AccountRefusal.UNKNOWN_SITE
    if target.account_id is None and request.action is not AccountAction.INVITE:
        return AccountRefusal.UNKNOWN_ACCOUNT
    refusal = TABLE[request.action](actor, target, request)
    if refusal is None and request.action in _ENDING and target.last_administrator and not force:
        return AccountRefusal.LAST_ADMINISTRATOR
    return refusal


def _owns(actor: AccountActor, target: AccountTarget) -> bool:
    return actor.account_id is not None and str(actor.account_id) == str(target.account_id)


def _owner(actor: AccountActor, target: AccountTarget, _: AccountRequest) -> AccountRefusal | None:
    """Permit the owner, and a system administrator while nobody has enrolled."""
    if _owns(actor, target):
        return None
    first = actor.rights.system and not target.enrolled
    return None if first else AccountRefusal.OWNER_ONLY


def _system(actor: AccountActor, target: AccountTarget, _: AccountRequest) -> AccountRefusal | None:
    """Permit a system administrator, on the account of somebody else who may do no more."""
    if _owns(actor, target):
        return AccountRefusal.OWN_ACCOUNT
    if not actor.rights.system:
        return AccountRefusal.NOT_PERMITTED
    return None if actor.rights.cover(target.rights) else AccountRefusal.TARGET_MAY_MORE


def _site(
    actor: AccountActor, target: AccountTarget, request: AccountRequest
) -> AccountRefusal | None:
    """Permit an administrator of the site, on an account without rights that they lack."""
    if not actor.rights.system and request.site not in actor.administers:
        return AccountRefusal.NOT_PERMITTED
    if _owns(actor, target) or actor.rights.cover(target.rights):
        return None
    return AccountRefusal.TARGET_MAY_MORE


def _site_of_others(
    actor: AccountActor, target: AccountTarget, request: AccountRequest
) -> AccountRefusal | None:
    """Decide as `_site`, and never on the own account."""
    return AccountRefusal.OWN_ACCOUNT if _owns(actor, target) else _site(actor, target, request)


def _invitation(
    actor: AccountActor, _: AccountTarget, request: AccountRequest
) -> AccountRefusal | None:
    """Permit an administrator of the site: a membership gives nothing over the account."""
    permitted = actor.rights.system or request.site in actor.administers
    return None if permitted else AccountRefusal.NOT_PERMITTED


def _owner_or_site(
    actor: AccountActor, target: AccountTarget, request: AccountRequest
) -> AccountRefusal | None:
    """Permit the owner, or an administrator of the site that the token is bound to."""
    return None if _owns(actor, target) else _site(actor, target, request)


def _console(
    actor: AccountActor, target: AccountTarget, request: AccountRequest
) -> AccountRefusal | None:
    """Permit a system administrator who holds all that is given, as `_system` does."""
    refusal = _system(actor, target, request)
    if refusal is not None:
        return refusal
    return None if actor.rights.cover(request.grants) else AccountRefusal.NOT_PERMITTED


TABLE: Final[Mapping[AccountAction, _Rule]] = {
    AccountAction.SET_PASSWORD: _owner,
    AccountAction.ENROL: _system,
    # An owner could take the address of somebody whom another site is about to invite.
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

_ENDING: Final = frozenset({AccountAction.DISABLE, AccountAction.GRANT, AccountAction.REVOKE_GRANT})
"""After these a system administrator may be none any more; a wider grant names no last one."""
