"""Accounts, and what each site knows of the people on it.

A site knows what it was told there, or by the person: nothing comes from another site.
A user not yet known is registered when first seen (interface document, Authentication 6).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Connection, func, insert, select, update

from bridge.email import canonical_email, is_email
from bridge.engine.errors import Forbidden, NotFound
from bridge.engine.records.tables import metadata
from bridge.engine.rules.site_roles import SiteRole

ACCOUNTS = metadata.tables["engine_account"]
MEMBERSHIPS = metadata.tables["engine_membership"]
_FIRST = (MEMBERSHIPS.c.created_at, MEMBERSHIPS.c.site_id)
_PRESENT = MEMBERSHIPS.c.left_at.is_(None)

__all__ = ["canonical_email", "is_email"]


class AccountDisabled(Forbidden):
    """The account is disabled: nothing is launched or made for it."""

    code = "account_disabled"
    text = "the account is disabled"


@dataclass(frozen=True, slots=True)
class AccountRef:
    """Whom an e-mail address belongs to, on the whole installation."""

    id: int
    email: str


@dataclass(frozen=True, slots=True)
class SiteUser:
    """An account as one site knows it."""

    id: int
    email: str
    name: str

    @property
    def shown(self) -> str:
        """What to call them: their name, or their address while the site knows no name."""
        return self.name or self.email


@dataclass(frozen=True, slots=True)
class SiteMember:
    """A person on a site, with their role."""

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
    """Return the account of an address that somebody else vouches for, if it may come in."""
    query = select(ACCOUNTS.c.id, ACCOUNTS.c.email).where(
        ACCOUNTS.c.email == canonical_email(email), ACCOUNTS.c.disabled_at.is_(None)
    )
    row = connection.execute(query).first()
    return None if row is None else AccountRef(row.id, row.email)


def is_disabled(connection: Connection, account_id: int) -> bool:
    """Tell whether an account is disabled."""
    query = select(ACCOUNTS.c.disabled_at).where(ACCOUNTS.c.id == account_id)
    return connection.execute(query).scalar_one_or_none() is not None


def find_member(connection: Connection, site_id: str, email: str) -> SiteUser | None:
    """Return who has this e-mail address on a site, or None."""
    where = (ACCOUNTS.c.email == canonical_email(email)) & _PRESENT
    return _person(connection, site_id, where)


def find_person(connection: Connection, site_id: str, account_id: int) -> SiteUser | None:
    """Return an account as a site knows it, or knew it; None where it never was there."""
    return _person(connection, site_id, ACCOUNTS.c.id == account_id)


def get_person(connection: Connection, site_id: str, account_id: int) -> SiteUser:
    """Return an account as a site knows it; raise `NotFound` where it never was there."""
    found = find_person(connection, site_id, account_id)
    if found is None:
        raise NotFound
    return found


def _person(connection: Connection, site_id: str, where: ColumnElement[bool]) -> SiteUser | None:
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
    Return who has this e-mail address as a member of the site, made where they are missing.

    A given name replaces the one that the site knows. Without `role` a stranger becomes a user
    and a member keeps their role. Raise `AccountDisabled`.
    """
    account = find_account(connection, email)
    if account is not None and is_disabled(connection, account.id):
        raise AccountDisabled
    if account is None:
        account = create_account(connection, email, now)
    return SiteUser(
        account.id, account.email, _join(connection, site_id, account.id, name, role, now)
    )


def create_account(connection: Connection, email: str, now: int) -> AccountRef:
    """Make the account of an address that has none: on no site, without a password."""
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
    """Make an account a member of a site, again or for the first time; return its name there."""
    here = _at(account_id, site_id)
    present = connection.execute(select(MEMBERSHIPS).where(here)).first()
    if present is None:
        values = {"role": role or SiteRole.USER, "name": name, "settings": {}, "created_at": now}
        statement = insert(MEMBERSHIPS).values(site_id=site_id, account_id=account_id, **values)
        connection.execute(statement)
        return name
    again = present.left_at is not None
    changed: dict[str, Any] = {"left_at": None, "created_at": now} if again else {}
    wanted = role or (SiteRole.USER if again else present.role)
    if wanted != present.role:
        changed["role"] = wanted
    if name and name != present.name:
        changed["name"] = name
    if changed:
        connection.execute(update(MEMBERSHIPS).where(here).values(**changed))
    return name or str(present.name)


def _at(account_id: int, site_id: str | None = None) -> ColumnElement[bool]:
    """Choose an account's place on one site, or on all that it is on."""
    own = MEMBERSHIPS.c.account_id == account_id
    return own & (_PRESENT if site_id is None else MEMBERSHIPS.c.site_id == site_id)


def update_membership(
    connection: Connection, account_id: int, site_id: str | None = None, **known: object
) -> None:
    """Change what one site knows of a person (name, signature, settings), or all their sites."""
    connection.execute(update(MEMBERSHIPS).where(_at(account_id, site_id)).values(**known))


def home_site_of(connection: Connection, account_id: int) -> str | None:
    """Return the site that an account has been on for the longest time: its pages begin there."""
    query = select(MEMBERSHIPS.c.site_id).where(_at(account_id))
    return connection.execute(query.order_by(*_FIRST).limit(1)).scalar_one_or_none()


def sites_of(connection: Connection, account_id: int) -> list[str]:
    """Return the sites that an account is on."""
    query = select(MEMBERSHIPS.c.site_id).where(_at(account_id)).order_by(MEMBERSHIPS.c.site_id)
    return list(connection.execute(query).scalars())


def accounts_at_home(connection: Connection, site_id: str) -> list[int]:
    """Return the accounts that this site knew first: it lists and revokes their tokens."""
    rank = func.row_number().over(partition_by=MEMBERSHIPS.c.account_id, order_by=_FIRST)
    ranked = select(MEMBERSHIPS.c.account_id, MEMBERSHIPS.c.site_id, rank.label("rank"))
    found = ranked.where(_PRESENT).subquery()
    query = select(found.c.account_id).where(found.c.site_id == site_id, found.c.rank == 1)
    return list(connection.execute(query).scalars())


def leave(connection: Connection, site_id: str, account_id: int, now: int) -> None:
    """Take an account off a site; what it wrote there stays, with its name."""
    update_membership(connection, account_id, site_id, left_at=now)


def members(connection: Connection, site_id: str) -> list[SiteMember]:
    """Return everybody on a site, by e-mail address."""
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
    """Return a user's name and role on a site, for an audit event; nothing for a stranger."""
    query = (
        select(MEMBERSHIPS.c.name, MEMBERSHIPS.c.role)
        .join_from(MEMBERSHIPS, ACCOUNTS, MEMBERSHIPS.c.account_id == ACCOUNTS.c.id)
        .where(MEMBERSHIPS.c.site_id == site_id, _PRESENT)
        .where(ACCOUNTS.c.email == canonical_email(email))
    )
    row = connection.execute(query).first()
    return {} if row is None else {"name": row.name, "role": row.role}


def settings_of(connection: Connection, site_id: str, account_id: int) -> Mapping[str, object]:
    """Return what a user of a site has chosen in their settings."""
    query = select(MEMBERSHIPS.c.settings).where(_at(account_id, site_id))
    return connection.execute(query).scalar_one_or_none() or {}
