"""
Who asks, and whether they may ask it of a site.

Order of the checks: the site exists (404), the caller's role fits (403), the location
exists (400). The answer never depends on whether the object asked for exists.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from sqlalchemy import Connection, select

from bridge.engine.errors import Forbidden, RuleBroken, SiteNotFound
from bridge.engine.records.tables import metadata
from bridge.engine.rules.reasons import Reason
from bridge.engine.rules.site_roles import SiteRole
from bridge.store.statements import dialect_statement, execute, stored_json

SITES = metadata.tables["engine_site"]
MEMBERSHIPS = metadata.tables["engine_membership"]


class TokenScope(StrEnum):
    """What a token may be limited to; a token without scopes may do all that its account may."""

    LAUNCH = "launch"
    READ = "read"
    WRITE = "write"
    ADMIN = "admin"


@dataclass(frozen=True, slots=True)
class Caller:
    """The bearer of a valid access token; one with a `site_id` opens no other site."""

    token_id: int
    account_id: int | None
    email: str
    service: bool = False
    scopes: frozenset[TokenScope] = frozenset()
    site_id: str | None = None

    def permits(self, scope: TokenScope) -> bool:
        """Tell whether the token's scopes include this one."""
        return not self.scopes or scope in self.scopes

    def enters(self, site_id: str) -> bool:
        """Tell whether the token is good for a site, whatever its account is there."""
        return self.site_id in (None, site_id)


@dataclass(frozen=True, slots=True)
class BrowserUser:
    """
    Who sits at the browser, by a session that was already there.

    `site_id` bounds what the session proves: one that a link began, or a password of a site's
    administrator, proves nothing on other sites, which have not vouched for it. None: it is good
    for all of the account's sites.
    """

    account_id: int
    site_id: str | None = None

    def on(self, site_id: str) -> int | None:
        """Return whom a site may take them for; None: nobody."""
        return self.account_id if self.site_id in (None, site_id) else None


def role_on(connection: Connection, caller: Caller, site_id: str) -> SiteRole | None:
    """Return the caller's role on a site, None for strangers; service tokens administer all."""
    if caller.service:
        return SiteRole.ADMINISTRATOR
    if caller.account_id is None or not caller.enters(site_id):
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
    """Return an account's role on a site that must exist, None for strangers."""
    known = select(SITES.c.site_id).where(SITES.c.site_id == site_id)
    if connection.execute(known).first() is None:
        raise SiteNotFound
    return account_role(connection, account_id, site_id)


@dataclass(frozen=True, slots=True)
class SiteAccess:
    """A caller on a site, by which name, and what of the site decides about requests."""

    role: SiteRole | None
    name: str
    locations: tuple[str, ...]
    settings: Mapping[str, Any]

    def check_location(self, location: str, pointer: str = "/clinicalInfo/SiteLocation") -> None:
        """Raise `RuleBroken` for a location that a site with locations does not have."""
        if location and self.locations and location not in self.locations:
            raise RuleBroken(Reason.UNKNOWN_LOCATION, pointer=pointer)


# Asked by every request, so in the driver's form.
_STANDING: Final = dialect_statement(
    """
    SELECT s.locations, s.settings, m.role, m.name FROM engine_site AS s
    LEFT JOIN engine_membership AS m
        ON m.site_id = s.site_id AND m.account_id = :account_id AND m.left_at IS NULL
    WHERE s.site_id = :site_id
    """
)


def read_site_access(connection: Connection, caller: Caller, site_id: str) -> SiteAccess:
    """Return the caller's standing on a site that must exist; raise `SiteNotFound`."""
    row = execute(connection, _STANDING, site_id=site_id, account_id=caller.account_id).first()
    if row is None:
        raise SiteNotFound
    role = SiteRole(row.role) if row.role is not None and caller.enters(site_id) else None
    role = SiteRole.ADMINISTRATOR if caller.service else role
    settings = stored_json(row.settings)
    return SiteAccess(role, row.name or "", tuple(stored_json(row.locations)), settings)


def require_administrator(
    connection: Connection,
    caller: Caller,
    site_id: str,
    location: str = "",
    pointer: str = "/clinicalInfo/SiteLocation",
) -> None:
    """Raise unless the site exists, the caller administers it, and the location is known."""
    site_access = read_site_access(connection, caller, site_id)
    if site_access.role is not SiteRole.ADMINISTRATOR:
        raise Forbidden
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
    return sorted(filter(caller.enters, connection.execute(query).scalars()))
