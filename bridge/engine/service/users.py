"""
Accounts and their roles on sites.

A user not yet known is registered when first seen (interface document, Authentication 6).
Passwords are optional: whoever has none comes in by links and tokens only.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError
from sqlalchemy import Connection, delete, func, insert, select, update

from bridge.engine.errors import NotFound
from bridge.engine.records.tables import metadata
from bridge.engine.rules.authority import Role
from bridge.engine.service.caller import account_role

ACCOUNTS = metadata.tables["engine_account"]
MEMBERSHIPS = metadata.tables["engine_membership"]
_FIRST = (MEMBERSHIPS.c.created_at, MEMBERSHIPS.c.site_id)

_EMAIL = re.compile(r"[^@\s<>\x00-\x1f]{1,64}@[^@\s<>\x00-\x1f]{1,190}")
_HASHER = PasswordHasher()


@dataclass(frozen=True, slots=True)
class Account:
    """A person as the rest of the engine needs to know them."""

    id: int
    email: str
    name: str


@dataclass(frozen=True, slots=True)
class Member:
    """A person on a site."""

    email: str
    name: str
    role: Role
    disabled: bool


def canonical_email(text: str) -> str:
    """Return the lower-case form that accounts are known by."""
    return text.strip().lower()


def is_email(text: str) -> bool:
    """Tell whether `text` looks like an e-mail address."""
    return _EMAIL.fullmatch(text.strip()) is not None


def find_account(connection: Connection, email: str) -> Account | None:
    """Return the account of an e-mail address, or None."""
    query = select(ACCOUNTS.c.id, ACCOUNTS.c.email, ACCOUNTS.c.name).where(
        ACCOUNTS.c.email == canonical_email(email)
    )
    row = connection.execute(query).first()
    return None if row is None else Account(row.id, row.email, row.name)


def get_account(connection: Connection, account_id: int) -> Account:
    """Return an account by its key; raise `NotFound`."""
    query = select(ACCOUNTS.c.id, ACCOUNTS.c.email, ACCOUNTS.c.name).where(
        ACCOUNTS.c.id == account_id
    )
    row = connection.execute(query).first()
    if row is None:
        raise NotFound
    return Account(row.id, row.email, row.name)


def register(
    connection: Connection,
    site_id: str,
    email: str,
    name: str,
    now: int,
    *,
    role: Role | None = None,
    operator: bool = False,
) -> Account:
    """
    Return the account of `email` as a member of the site, made where it is missing.

    A given name replaces the stored one, if this site was the first to know the account (no other
    site's signatures change by it), or if the `operator` of all sites gives it. Without `role` a
    stranger becomes a user and a member keeps their role.
    """
    account = find_account(connection, email)
    if account is None:
        statement = insert(ACCOUNTS).values(
            email=canonical_email(email), name=name, settings={}, created_at=now
        )
        key = connection.execute(statement.returning(ACCOUNTS.c.id)).scalar_one()
        account = Account(key, canonical_email(email), name)
    elif (
        name
        and name != account.name
        and (operator or home_of(connection, account.id) in (None, site_id))
    ):
        connection.execute(update(ACCOUNTS).where(ACCOUNTS.c.id == account.id).values(name=name))
        account = Account(account.id, account.email, name)
    _join(connection, site_id, account.id, role, now)
    return account


def _join(
    connection: Connection, site_id: str, account_id: int, role: Role | None, now: int
) -> None:
    present = account_role(connection, account_id, site_id)
    if present is None:
        connection.execute(
            insert(MEMBERSHIPS).values(
                site_id=site_id, account_id=account_id, role=role or Role.USER, created_at=now
            )
        )
    elif role is not None and role is not present:
        connection.execute(
            update(MEMBERSHIPS)
            .where(MEMBERSHIPS.c.site_id == site_id, MEMBERSHIPS.c.account_id == account_id)
            .values(role=role)
        )


def set_password(connection: Connection, account_id: int, password: str) -> None:
    """Store the Argon2 hash of a password."""
    connection.execute(
        update(ACCOUNTS)
        .where(ACCOUNTS.c.id == account_id)
        .values(password_hash=_HASHER.hash(password))
    )


def set_signature(connection: Connection, account_id: int, image: str | None) -> None:
    """Store the image, a data URI, that an account's reports are signed with from now on."""
    statement = update(ACCOUNTS).where(ACCOUNTS.c.id == account_id).values(signature=image)
    connection.execute(statement)


def home_of(connection: Connection, account_id: int) -> str | None:
    """Return the site that knew an account first: its administrators answer for it."""
    query = select(MEMBERSHIPS.c.site_id).where(MEMBERSHIPS.c.account_id == account_id)
    return connection.execute(query.order_by(*_FIRST).limit(1)).scalar_one_or_none()


def accounts_at_home(connection: Connection, site_id: str) -> list[int]:
    """Return the accounts that this site knew first."""
    rank = func.row_number().over(partition_by=MEMBERSHIPS.c.account_id, order_by=_FIRST)
    ranked = select(MEMBERSHIPS.c.account_id, MEMBERSHIPS.c.site_id, rank.label("rank")).subquery()
    query = select(ranked.c.account_id).where(ranked.c.site_id == site_id, ranked.c.rank == 1)
    return list(connection.execute(query).scalars())


def check_password(connection: Connection, email: str, password: str) -> Account | None:
    """Return the account when the password is right; as slow for a stranger as for a user."""
    row = connection.execute(
        select(ACCOUNTS.c.id, ACCOUNTS.c.email, ACCOUNTS.c.name, ACCOUNTS.c.password_hash).where(
            ACCOUNTS.c.email == canonical_email(email), ACCOUNTS.c.disabled_at.is_(None)
        )
    ).first()
    known = row is not None and bool(row.password_hash)
    stored = row.password_hash if row is not None and known else _nobody()
    try:
        _HASHER.verify(stored, password)
    except (VerificationError, InvalidHashError):
        return None
    return Account(row.id, row.email, row.name) if row is not None and known else None


def leave(connection: Connection, site_id: str, account_id: int) -> None:
    """Take an account off a site; what it wrote there stays."""
    connection.execute(
        delete(MEMBERSHIPS).where(
            MEMBERSHIPS.c.site_id == site_id, MEMBERSHIPS.c.account_id == account_id
        )
    )


def members(connection: Connection, site_id: str) -> list[Member]:
    """Return everybody on a site, by e-mail address."""
    rows = connection.execute(
        select(ACCOUNTS.c.email, ACCOUNTS.c.name, ACCOUNTS.c.disabled_at, MEMBERSHIPS.c.role)
        .join_from(MEMBERSHIPS, ACCOUNTS, MEMBERSHIPS.c.account_id == ACCOUNTS.c.id)
        .where(MEMBERSHIPS.c.site_id == site_id)
        .order_by(ACCOUNTS.c.email)
    )
    return [
        Member(row.email, row.name, Role(row.role), row.disabled_at is not None) for row in rows
    ]


def settings_of(connection: Connection, account_id: int) -> Mapping[str, object]:
    """Return what a user has chosen in their settings."""
    query = select(ACCOUNTS.c.settings).where(ACCOUNTS.c.id == account_id)
    found = connection.execute(query).scalar_one_or_none()
    return found or {}


@cache
def _nobody() -> str:
    """Return a hash to compare with where there is no account, so that it takes as long."""
    return _HASHER.hash("nobody has this password")
