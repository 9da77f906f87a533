"""
Accounts, and the memberships with which each site knows its users.

Name, signature and settings of a user belong to a site; nothing is copied from another site. A user
who is not yet known is registered when first seen (interface reference, Authentication 6).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Connection, func, insert, select, update

from bridge.contract.errors import ErrorCode
from bridge.email import canonical_email
from bridge.engine.errors import EngineError
from bridge.engine.records.tables import metadata
from bridge.engine.rules.site_roles import SiteRole

ACCOUNTS = metadata.tables["engine_account"]
MEMBERSHIPS = metadata.tables["engine_membership"]
_OLDEST_FIRST = (MEMBERSHIPS.c.created_at, MEMBERSHIPS.c.site_id)
_PRESENT = MEMBERSHIPS.c.left_at.is_(None)


@dataclass(frozen=True, slots=True)
class AccountRef:
    """The account of an e-mail address."""

    id: int
    email: str


@dataclass(frozen=True, slots=True)
class SiteUser:
    id: int
    email: str
    name: str

    @property
    def shown(self) -> str:
        """The display name: the name, or the address if the site knows no name."""
        return self.name or self.email


@dataclass(frozen=True, slots=True)
class SiteMember:
    email: str
    name: str
    role: SiteRole
    disabled: bool


def find_account(connection: Connection, email: str) -> AccountRef | None:
    """Return the account of an e-mail address, or None."""
    query = select(ACCOUNTS.c.id, ACCOUNTS.c.email).where(
        ACCOUNTS.c.email == canonical_email(email)
    )
    row = connection.execute(query).first()
    return None if row is None else AccountRef(row.id, row.email)


def known_account(connection: Connection, email: str) -> AccountRef | None:
    """Return the enabled account of an address that an identity provider has verified, or None."""
    query = select(ACCOUNTS.c.id, ACCOUNTS.c.email).where(
        ACCOUNTS.c.email == canonical_email(email), ACCOUNTS.c.disabled_at.is_(None)
    )
    row = connection.execute(query).first()
    return None if row is None else AccountRef(row.id, row.email)


def is_disabled(connection: Connection, account_id: int) -> bool:
    query = select(ACCOUNTS.c.disabled_at).where(ACCOUNTS.c.id == account_id)
    return connection.execute(query).scalar_one_or_none() is not None


def find_member(connection: Connection, site_id: str, email: str) -> SiteUser | None:
    """Return the present member of a site with this e-mail address, or None."""
    where = (ACCOUNTS.c.email == canonical_email(email)) & _PRESENT
    return _user(connection, site_id, where)


def find_user(connection: Connection, site_id: str, account_id: int) -> SiteUser | None:
    """Return a present or former member of a site; None if the account never was one."""
    return _user(connection, site_id, ACCOUNTS.c.id == account_id)


def get_user(connection: Connection, site_id: str, account_id: int) -> SiteUser:
    """Return a present or former member of a site; raise `NotFound`."""
    found = find_user(connection, site_id, account_id)
    if found is None:
        raise EngineError(ErrorCode.NOT_FOUND)
    return found


def _user(connection: Connection, site_id: str, where: ColumnElement[bool]) -> SiteUser | None:
    row = connection.execute(
        select(ACCOUNTS.c.id, ACCOUNTS.c.email, MEMBERSHIPS.c.name)
        .join_from(ACCOUNTS, MEMBERSHIPS, MEMBERSHIPS.c.account_id == ACCOUNTS.c.id)
        .where(MEMBERSHIPS.c.site_id == site_id, where)
    ).first()
    return None if row is None else SiteUser(row.id, row.email, row.name)


def register(
    connection: Connection,
    site_id: str,
    email: str,
    name: str,
    now: int,
    *,
    role: SiteRole | None = None,
) -> SiteUser:
    """
    Make the account of an e-mail address a member of the site, and return it.

    A given name replaces the stored one. Without `role` a new member becomes a user and an existing
    one keeps the role. Raise `account_disabled`.
    """
    account = find_account(connection, email)
    if account is not None and is_disabled(connection, account.id):
        raise EngineError(ErrorCode.ACCOUNT_DISABLED)
    if account is None:
        account = create_account(connection, email, now)
    return SiteUser(
        account.id, account.email, _join(connection, site_id, account.id, name, role, now)
    )


def create_account(connection: Connection, email: str, now: int) -> AccountRef:
    """Create the account of an address: on no site, without a password."""
    canonical = canonical_email(email)
    statement = insert(ACCOUNTS).values(email=canonical, created_at=now)
    key = connection.execute(statement.returning(ACCOUNTS.c.id)).scalar_one()
    return AccountRef(key, canonical)


def _join(
    connection: Connection,
    site_id: str,
    account_id: int,
    name: str,
    role: SiteRole | None,
    now: int,
) -> str:
    """Make an account a member of a site, for the first time or again; return its name there."""
    here = _at(account_id, site_id)
    row = connection.execute(select(MEMBERSHIPS).where(here)).first()
    if row is None:
        values = {"role": role or SiteRole.USER, "name": name, "settings": {}, "created_at": now}
        statement = insert(MEMBERSHIPS).values(site_id=site_id, account_id=account_id, **values)
        connection.execute(statement)
        return name
    rejoins = row.left_at is not None
    changed: dict[str, Any] = {"left_at": None, "created_at": now} if rejoins else {}
    wanted = role or (SiteRole.USER if rejoins else row.role)
    if wanted != row.role:
        changed["role"] = wanted
    if name and name != row.name:
        changed["name"] = name
    if changed:
        connection.execute(update(MEMBERSHIPS).where(here).values(**changed))
    return name or str(row.name)


def _at(account_id: int, site_id: str | None = None) -> ColumnElement[bool]:
    own = MEMBERSHIPS.c.account_id == account_id
    return own & (_PRESENT if site_id is None else MEMBERSHIPS.c.site_id == site_id)


def update_membership(
    connection: Connection, account_id: int, site_id: str | None = None, **known: object
) -> None:
    connection.execute(update(MEMBERSHIPS).where(_at(account_id, site_id)).values(**known))


def home_site_of(connection: Connection, account_id: int) -> str | None:
    """Return the account's home site: the one it has been on for the longest time."""
    query = select(MEMBERSHIPS.c.site_id).where(_at(account_id))
    return connection.execute(query.order_by(*_OLDEST_FIRST).limit(1)).scalar_one_or_none()


def sites_of(connection: Connection, account_id: int) -> list[str]:
    query = select(MEMBERSHIPS.c.site_id).where(_at(account_id)).order_by(MEMBERSHIPS.c.site_id)
    return list(connection.execute(query).scalars())


def accounts_at_home(connection: Connection, site_id: str) -> list[int]:
    """Return the accounts whose home site this is: the site lists and revokes their tokens."""
    rank = func.row_number().over(partition_by=MEMBERSHIPS.c.account_id, order_by=_OLDEST_FIRST)
    ranked = select(MEMBERSHIPS.c.account_id, MEMBERSHIPS.c.site_id, rank.label("rank"))
    found = ranked.where(_PRESENT).subquery()
    query = select(found.c.account_id).where(found.c.site_id == site_id, found.c.rank == 1)
    return list(connection.execute(query).scalars())


def leave(connection: Connection, site_id: str, account_id: int, now: int) -> None:
    """Remove an account from a site. Its reports there keep its name."""
    update_membership(connection, account_id, site_id, left_at=now)


def members(connection: Connection, site_id: str) -> list[SiteMember]:
    """Return the present members of a site, by e-mail address."""
    rows = connection.execute(
        select(ACCOUNTS.c.email, MEMBERSHIPS.c.name, ACCOUNTS.c.disabled_at, MEMBERSHIPS.c.role)
        .join_from(MEMBERSHIPS, ACCOUNTS, MEMBERSHIPS.c.account_id == ACCOUNTS.c.id)
        .where(MEMBERSHIPS.c.site_id == site_id, _PRESENT)
        .order_by(ACCOUNTS.c.email)
    )
    return [
        SiteMember(row.email, row.name, SiteRole(row.role), row.disabled_at is not None)
        for row in rows
    ]


def membership(connection: Connection, site_id: str, email: str) -> dict[str, str]:
    """Return a user's name and role on a site for an audit event; empty if not a member."""
    query = (
        select(MEMBERSHIPS.c.name, MEMBERSHIPS.c.role)
        .join_from(MEMBERSHIPS, ACCOUNTS, MEMBERSHIPS.c.account_id == ACCOUNTS.c.id)
        .where(MEMBERSHIPS.c.site_id == site_id, _PRESENT)
        .where(ACCOUNTS.c.email == canonical_email(email))
    )
    row = connection.execute(query).first()
    return {} if row is None else {"name": row.name, "role": row.role}


def settings_of(connection: Connection, site_id: str, account_id: int) -> Mapping[str, object]:
    query = select(MEMBERSHIPS.c.settings).where(_at(account_id, site_id))
    return connection.execute(query).scalar_one_or_none() or {}
