"""
Access checks: who calls, and whether the caller may use a site.

The checks run in this order: the site exists (404), the caller's role permits the request (403),
the location exists (400). The result never depends on whether the requested object exists.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from sqlalchemy import Connection, bindparam, select

from bridge.contract.errors import ErrorCode
from bridge.engine.errors import EngineError
from bridge.engine.records.tables import metadata
from bridge.engine.rules.site_roles import SiteRole

SITES = metadata.tables["engine_site"]
MEMBERSHIPS = metadata.tables["engine_membership"]


class TokenScope(StrEnum):
    """
    A permission that a token can be limited to.

    A token without scopes has all permissions of its account.
    """

    LAUNCH = "launch"
    READ = "read"
    WRITE = "write"
    ADMIN = "admin"


@dataclass(frozen=True, slots=True)
class Caller:
    """The bearer of a valid access token. A token with a `site_id` is valid for that site only."""

    token_id: int
    account_id: int | None
    email: str
    service: bool = False
    scopes: frozenset[TokenScope] = frozenset()
    site_id: str | None = None

    def permits(self, scope: TokenScope) -> bool:
        return not self.scopes or scope in self.scopes

    def is_valid_for(self, site_id: str) -> bool:
        """True if the token is valid for a site. The role of the account is not checked."""
        return self.site_id in (None, site_id)


@dataclass(frozen=True, slots=True)
class BrowserUser:
    """
    The account that an existing browser session belongs to.

    `site_id` limits the session to one site. A session that was started by a link, or with a
    password that a site administrator issued, has this limit, because other sites have not verified
    the user. None: the session is valid for all sites of the account. `identity_link_pk` is the
    link that identified the user of such a session.
    """

    account_id: int
    site_id: str | None = None
    identity_link_pk: int | None = None

    def account_on(self, site_id: str) -> int | None:
        """Return the account id if the session is valid for the site, otherwise None."""
        return self.account_id if self.site_id in (None, site_id) else None


def role_on(connection: Connection, caller: Caller, site_id: str) -> SiteRole | None:
    """Return the caller's role on a site, or None. Service tokens administer all sites."""
    if caller.service:
        return SiteRole.ADMINISTRATOR
    if caller.account_id is None or not caller.is_valid_for(site_id):
        return None
    return account_role(connection, caller.account_id, site_id)


def account_role(connection: Connection, account_id: int, site_id: str) -> SiteRole | None:
    """Return an account's role on a site, or None."""
    found = connection.execute(
        select(MEMBERSHIPS.c.role).where(
            MEMBERSHIPS.c.site_id == site_id,
            MEMBERSHIPS.c.account_id == account_id,
            MEMBERSHIPS.c.left_at.is_(None),
        )
    ).scalar_one_or_none()
    return None if found is None else SiteRole(found)


def account_role_in(connection: Connection, account_id: int, site_id: str) -> SiteRole | None:
    """Return an account's role on a site, None if it is not a member; raise `site_not_found`."""
    known = select(SITES.c.site_id).where(SITES.c.site_id == site_id)
    if connection.execute(known).first() is None:
        raise EngineError(ErrorCode.SITE_NOT_FOUND)
    return account_role(connection, account_id, site_id)


@dataclass(frozen=True, slots=True)
class SiteAccess:
    """The caller's role and name on a site, and the site's locations and settings."""

    role: SiteRole | None
    name: str
    locations: tuple[str, ...]
    settings: Mapping[str, Any]

    def check_location(self, location: str, pointer: str = "/clinicalInfo/SiteLocation") -> None:
        """Raise `EngineError` for a location that a site with locations does not have."""
        if location and self.locations and location not in self.locations:
            raise EngineError(ErrorCode.UNKNOWN_LOCATION, pointer=pointer)


_SITE_ACCESS: Final = (
    select(SITES.c.locations, SITES.c.settings, MEMBERSHIPS.c.role, MEMBERSHIPS.c.name)
    .outerjoin(
        MEMBERSHIPS,
        (MEMBERSHIPS.c.site_id == SITES.c.site_id)
        & (MEMBERSHIPS.c.account_id == bindparam("account_id"))
        & MEMBERSHIPS.c.left_at.is_(None),
    )
    .where(SITES.c.site_id == bindparam("site_id"))
)


def read_site_access(connection: Connection, caller: Caller, site_id: str) -> SiteAccess:
    """Return the caller's role on a site, with the site's settings; raise `site_not_found`."""
    values = {"site_id": site_id, "account_id": caller.account_id}
    row = connection.execute(_SITE_ACCESS, values).first()
    if row is None:
        raise EngineError(ErrorCode.SITE_NOT_FOUND)
    role = SiteRole(row.role) if row.role is not None and caller.is_valid_for(site_id) else None
    role = SiteRole.ADMINISTRATOR if caller.service else role
    return SiteAccess(role, row.name or "", tuple(row.locations), row.settings)


def require_administrator(
    connection: Connection,
    caller: Caller,
    site_id: str,
    location: str = "",
    pointer: str = "/clinicalInfo/SiteLocation",
) -> None:
    """Raise an error unless the site exists, the caller administers it, and it has the location."""
    site_access = read_site_access(connection, caller, site_id)
    if site_access.role is not SiteRole.ADMINISTRATOR:
        raise EngineError(ErrorCode.FORBIDDEN)
    site_access.check_location(location, pointer)


def administered_sites(connection: Connection, caller: Caller) -> list[str] | None:
    """Return the sites that the caller administers; None means every site."""
    if caller.service:
        return None
    query = select(MEMBERSHIPS.c.site_id).where(
        MEMBERSHIPS.c.account_id == caller.account_id,
        MEMBERSHIPS.c.role == SiteRole.ADMINISTRATOR,
        MEMBERSHIPS.c.left_at.is_(None),
    )
    return sorted(filter(caller.is_valid_for, connection.execute(query).scalars()))
