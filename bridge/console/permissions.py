"""Who may do what in the console: roles, permissions, and the matrix. Pure."""

from collections.abc import Mapping
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
    OPERATE = "operate"  # replay, retry, skip, pause
    AUDIT = "audit"  # read what others did
    BODIES = "bodies"  # what messages say; granted to a person, never by a role alone


_P = Permission
MATRIX: Mapping[Role, frozenset[Permission]] = {
    Role.VIEWER: frozenset({_P.SEE}),
    Role.OPERATOR: frozenset({_P.SEE, _P.FIND, _P.OPERATE}),
    Role.MAPPING_AUTHOR: frozenset({_P.SEE}),
    Role.SITE_ADMINISTRATOR: frozenset({_P.SEE, _P.FIND}),
    Role.SYSTEM_ADMINISTRATOR: frozenset({_P.SEE, _P.FIND, _P.OPERATE, _P.AUDIT}),
}


@dataclass(frozen=True, slots=True)
class Grant:
    """What a person was given; `bodies`: may read what messages say."""

    email: str
    role: Role
    bodies: bool = False

    @property
    def permissions(self) -> frozenset[Permission]:
        """All that the person may."""
        own = {Permission.BODIES} if self.bodies else set()
        return MATRIX[self.role] | own

    def require(self, permission: Permission) -> None:
        """Raise NotPermitted unless the person may."""
        if permission not in self.permissions:
            raise NotPermitted(permission)
