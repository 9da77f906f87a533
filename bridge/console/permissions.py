"""Who may do what in the console, and which sessions open it. Pure."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from bridge.authority import Rights
from bridge.console.errors import PermissionDenied, ReauthRequired, SessionRefused

FRESH_MS: Final = 10 * 60 * 1000
"""How long a proof of identity counts for the actions that need a fresh one."""
_CLOCK_SKEW_MS: Final = 60 * 1000


class ConsoleRole(StrEnum):
    """What a person is in the console."""

    VIEWER = "viewer"
    OPERATOR = "operator"
    MAPPING_AUTHOR = "mapping-author"
    SITE_ADMINISTRATOR = "site-administrator"
    SYSTEM_ADMINISTRATOR = "system-administrator"


class Permission(StrEnum):
    """What a request may need."""

    SEE = "see"  # states, counts, codes: nothing about a patient
    FIND = "find"  # by the numbers of orders and patients
    OPERATE = "operate"  # replay, retry, skip, pause, test
    EDIT = "edit"  # edit a message and send it again; needs bodies too
    ADMINISTER = "administer"  # sites, users, tokens, prelim groups, templates
    GRANT = "grant"  # who may do what here
    AUTHOR = "author"  # definitions: draft, try on what is pasted, activate, roll back
    CONNECT = "connect"  # listeners and destinations: it opens ports, and says who gets results
    CODE = "code"  # Python of definitions: it runs with the service's rights
    AUDIT = "audit"  # read what others did
    BODIES = "bodies"  # what messages say; granted to a person, never by a role alone


_P = Permission
ROLE_PERMISSIONS: Mapping[ConsoleRole, frozenset[Permission]] = {
    ConsoleRole.VIEWER: frozenset({_P.SEE}),
    ConsoleRole.OPERATOR: frozenset({_P.SEE, _P.FIND, _P.OPERATE, _P.EDIT}),
    ConsoleRole.MAPPING_AUTHOR: frozenset({_P.SEE, _P.AUTHOR}),
    ConsoleRole.SITE_ADMINISTRATOR: frozenset({_P.SEE, _P.FIND, _P.AUDIT, _P.ADMINISTER}),
    ConsoleRole.SYSTEM_ADMINISTRATOR: frozenset(
        {_P.SEE, _P.FIND, _P.OPERATE, _P.EDIT, _P.AUDIT, _P.ADMINISTER, _P.GRANT}
        | {_P.AUTHOR, _P.CODE, _P.CONNECT}
    ),
}
ALL_SITES_ROLES = frozenset({ConsoleRole.MAPPING_AUTHOR, ConsoleRole.SYSTEM_ADMINISTRATOR})
"""Roles that no site limits: definitions and settings serve all sites."""


@dataclass(frozen=True, slots=True)
class Grant:
    """
    What a person was given; `bodies`: may read what messages say.

    `sites` are all that the person sees and changes; None: no site limits them. A site
    administrator without sites sees none. The grant belongs to `account_id`, '' while it is not
    stored; `email` is for display. `granted_at` in ms.
    """

    email: str
    role: ConsoleRole
    bodies: bool = False
    sites: frozenset[str] | None = None
    account_id: str = ""
    granted_at: int = 0

    @property
    def permissions(self) -> frozenset[Permission]:
        """All that the person may."""
        own = {Permission.BODIES} if self.bodies else set()
        return ROLE_PERMISSIONS[self.role] | own

    @property
    def reach(self) -> frozenset[str] | None:
        """The sites that the person is limited to; None: all there are."""
        if self.role is ConsoleRole.SITE_ADMINISTRATOR:
            return self.sites or frozenset()
        return None if self.role in ALL_SITES_ROLES else self.sites

    @property
    def rights(self) -> Rights:
        """The rights as `bridge.authority` compares them."""
        held = frozenset(each.value for each in self.permissions)
        system = self.role is ConsoleRole.SYSTEM_ADMINISTRATOR
        lacks = frozenset(each.value for each in Permission) - held if system else frozenset()
        return Rights(system, held, self.reach, lacks)

    def reaches(self, sites: Collection[str]) -> bool:
        """Tell whether all of these sites are the person's; what is of no site is nobody's own."""
        reach = self.reach
        return reach is None or (bool(sites) and reach.issuperset(sites))

    def covers(self, other: "Grant") -> bool:
        """Tell whether another person may nothing, and nowhere, that this one may not."""
        return self.rights.cover(other.rights)

    def widens(self, before: "Grant | None") -> bool:
        """Tell whether this grant gives anything, anywhere, that the one before did not."""
        return before is None or not before.covers(self)

    def require(self, permission: Permission) -> None:
        """Raise NotPermitted unless the person may."""
        if permission not in self.permissions:
            raise PermissionDenied(permission)


@dataclass(frozen=True, slots=True)
class ConsoleSession:
    """
    What the report service says of a session; `authenticated_at` in ms.

    `site` is the one site that the session is good for; None: all sites of the account.
    `second_factor`: a one-time code or an identity provider opened it.
    """

    site: str | None
    authenticated_at: int
    second_factor: bool


def admit(grant: Grant, session: ConsoleSession, *, second_factor: bool) -> Grant:
    """
    Give the rights of a session: those of the grant, within the session's site.

    `second_factor`: the installation requires one. Raises SessionRefused.
    """
    if second_factor and not session.second_factor:
        detail = "the console needs a second factor: set one up with an enrolment link"
        raise SessionRefused("second_factor_required", detail)
    if session.authenticated_at < grant.granted_at:
        detail = "this session is older than your role: sign out, and sign in again"
        raise SessionRefused("session_before_grant", detail)
    if session.site is None:
        return grant
    if grant.role in ALL_SITES_ROLES or not (grant.reach is None or session.site in grant.reach):
        raise SessionRefused("session_of_one_site", "this session is limited to one site")
    return replace(grant, sites=frozenset({session.site}))


def require_fresh(authenticated_at: int, now: int) -> None:
    """Raise ReauthRequired unless the person proved who they are in the last ten minutes."""
    if not -_CLOCK_SKEW_MS <= now - authenticated_at <= FRESH_MS:
        raise ReauthRequired
