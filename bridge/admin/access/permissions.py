"""Roles, permissions and grants of the console, and the rules for its sessions. Pure."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from bridge.admin.errors import PermissionDenied, ReauthRequired, SessionRefused
from bridge.authority import Rights, is_fresh
from bridge.errors import BridgeError


class ConsoleRole(StrEnum):
    VIEWER = "viewer"
    OPERATOR = "operator"
    MAPPING_AUTHOR = "mapping-author"
    SITE_ADMINISTRATOR = "site-administrator"
    SYSTEM_ADMINISTRATOR = "system-administrator"


class Permission(StrEnum):
    """A right that an endpoint requires."""

    SEE = "see"  # states, counts and codes; no patient data
    FIND = "find"  # search by order number and patient id
    OPERATE = "operate"  # replay, retry, skip, pause, test
    EDIT = "edit"  # edit and resend a message or a result; also requires BODIES
    ADMINISTER = "administer"  # sites, users, tokens, prelim groups, templates
    GRANT = "grant"  # roles and accounts
    AUTHOR = "author"  # definitions: draft, try, activate, roll back
    CONNECT = "connect"  # settings of listeners and destinations
    CODE = "code"  # Python hooks, which run with the service's privileges
    AUDIT = "audit"  # read the audit trail
    BODIES = "bodies"  # read message content; granted separately from the role


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
"""Roles for all sites, because definitions and settings serve all sites."""


class InvalidGrant(BridgeError):
    """A role that does not exist, or sites that do not fit the role."""


@dataclass(frozen=True, slots=True)
class Grant:
    """
    The role of an account; `bodies`: the account may read message content.

    `sites` are the sites that the user sees and changes; None permits all. A site administrator
    without sites sees nothing. `account_id` is '' until the grant is stored; `email` is for
    display. `granted_at` in ms.
    """

    email: str
    role: ConsoleRole
    bodies: bool = False
    sites: frozenset[str] | None = None
    account_id: str = ""
    granted_at: int = 0

    @classmethod
    def of(
        cls, email: str, role: str, sites: Collection[str] | None, *, bodies: bool = False
    ) -> "Grant":
        """Return the grant of a command's options. Raises InvalidGrant."""
        if role not in set(ConsoleRole):
            raise InvalidGrant(f"--role must be one of {', '.join(ConsoleRole)}")
        if role == ConsoleRole.SITE_ADMINISTRATOR and not sites:
            raise InvalidGrant("a site administrator needs --site")
        if role in ALL_SITES_ROLES and sites:
            raise InvalidGrant(f"--site does not apply to {role}, a role for all sites")
        return cls(email, ConsoleRole(role), bodies, frozenset(sites) if sites else None)

    @property
    def permissions(self) -> frozenset[Permission]:
        """The permissions of the role, and BODIES if granted."""
        own = {Permission.BODIES} if self.bodies else set()
        return ROLE_PERMISSIONS[self.role] | own

    @property
    def visible_sites(self) -> frozenset[str] | None:
        """The sites that the user is limited to; None permits all."""
        if self.role is ConsoleRole.SITE_ADMINISTRATOR:
            return self.sites or frozenset()
        return None if self.role in ALL_SITES_ROLES else self.sites

    @property
    def rights(self) -> Rights:
        """The rights in the form that `bridge.authority` compares."""
        held = frozenset(permission.value for permission in self.permissions)
        system = self.role is ConsoleRole.SYSTEM_ADMINISTRATOR
        lacks = frozenset(right.value for right in Permission) - held if system else frozenset()
        return Rights(system, held, self.visible_sites, lacks)

    def sees(self, sites: Collection[str]) -> bool:
        """
        True if the user may see an item of these sites.

        Only a user who is not limited to sites may see an item without sites.
        """
        visible = self.visible_sites
        return visible is None or (bool(sites) and visible.issuperset(sites))

    def covers(self, other: "Grant") -> bool:
        """True if this grant includes all rights of another one, on all its sites."""
        return self.rights.cover(other.rights)

    def grants_more_than(self, before: "Grant | None") -> bool:
        """True if this grant includes a right, on any site, that `before` does not."""
        return before is None or not before.covers(self)

    def require(self, permission: Permission) -> None:
        """Raise PermissionDenied unless the grant includes the permission."""
        if permission not in self.permissions:
            raise PermissionDenied(permission)


@dataclass(frozen=True, slots=True)
class ConsoleSession:
    """
    A session of the report engine; `authenticated_at` in ms.

    `site` is the only site that the session is valid for; None: all sites of the account.
    `second_factor`: the user signed in with a one-time code or an identity provider.
    """

    site: str | None
    authenticated_at: int
    second_factor: bool


def admit(grant: Grant, session: ConsoleSession, *, second_factor: bool) -> Grant:
    """
    Return the grant of a session, limited to the session's site.

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
    if grant.role in ALL_SITES_ROLES or not (
        grant.visible_sites is None or session.site in grant.visible_sites
    ):
        raise SessionRefused("session_of_one_site", "this session is limited to one site")
    return replace(grant, sites=frozenset({session.site}))


def require_fresh(authenticated_at: int, now: int) -> None:
    """Raise ReauthRequired unless the user confirmed the password in the last ten minutes."""
    if not is_fresh(authenticated_at, now):
        raise ReauthRequired
