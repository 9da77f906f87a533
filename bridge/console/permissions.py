"""Who may do what in the console: roles, permissions, and the matrix. Pure."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import StrEnum

from bridge.console.errors import NotPermitted


class Role(StrEnum):
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
MATRIX: Mapping[Role, frozenset[Permission]] = {
    Role.VIEWER: frozenset({_P.SEE}),
    Role.OPERATOR: frozenset({_P.SEE, _P.FIND, _P.OPERATE, _P.EDIT}),
    Role.MAPPING_AUTHOR: frozenset({_P.SEE, _P.AUTHOR}),
    Role.SITE_ADMINISTRATOR: frozenset({_P.SEE, _P.FIND, _P.AUDIT, _P.ADMINISTER}),
    Role.SYSTEM_ADMINISTRATOR: frozenset(
        {_P.SEE, _P.FIND, _P.OPERATE, _P.EDIT, _P.AUDIT, _P.ADMINISTER, _P.GRANT}
        | {_P.AUTHOR, _P.CODE, _P.CONNECT}
    ),
}
EVERYWHERE = frozenset({Role.MAPPING_AUTHOR, Role.SYSTEM_ADMINISTRATOR})
"""Roles that no site limits: definitions and settings serve all sites."""


@dataclass(frozen=True, slots=True)
class Grant:
    """
    What a person was given; `bodies`: may read what messages say.

    `sites` are all that the person sees and changes; None: no site limits them. A site
    administrator without sites sees none.
    """

    email: str
    role: Role
    bodies: bool = False
    sites: frozenset[str] | None = None

    @property
    def permissions(self) -> frozenset[Permission]:
        """All that the person may."""
        own = {Permission.BODIES} if self.bodies else set()
        return MATRIX[self.role] | own

    @property
    def reach(self) -> frozenset[str] | None:
        """The sites that the person is limited to; None: all there are."""
        if self.role is Role.SITE_ADMINISTRATOR:
            return self.sites or frozenset()
        return None if self.role in EVERYWHERE else self.sites

    def reaches(self, sites: Collection[str]) -> bool:
        """Tell whether all of these sites are the person's; what is of no site is nobody's own."""
        reach = self.reach
        return reach is None or (bool(sites) and reach.issuperset(sites))

    def covers(self, other: "Grant") -> bool:
        """Tell whether another person may nothing, and nowhere, that this one may not."""
        inside = self.reach is None or (other.reach is not None and other.reach <= self.reach)
        return inside and other.permissions <= self.permissions

    def require(self, permission: Permission) -> None:
        """Raise NotPermitted unless the person may."""
        if permission not in self.permissions:
            raise NotPermitted(permission)
