"""Who was given which role in the console, kept in the bridge's database. Blocking."""

import json
from typing import Any

from sqlalchemy import Row, text

from bridge.console.permissions import Grant, Role
from bridge.store.database import Database

_GIVE = text("""
    INSERT INTO console_grant (email, role, bodies, sites, granted_at, granted_by)
    VALUES (:email, :role, :bodies, :sites, :now, :by)
    ON CONFLICT (email) DO UPDATE SET
        role = :role, bodies = :bodies, sites = :sites, granted_at = :now, granted_by = :by
""")
_TAKE = text("DELETE FROM console_grant WHERE email = :email RETURNING email")
_ONE = text("SELECT email, role, bodies, sites FROM console_grant WHERE email = :email")
_ALL = text("SELECT email, role, bodies, sites FROM console_grant ORDER BY email")


def give(database: Database, grant: Grant, now: int, by: str) -> None:
    """Give a person a role, in the place of the one they had."""
    sites = "" if grant.sites is None else json.dumps(sorted(grant.sites))
    row = {"email": _canonical(grant.email), "role": grant.role.value, "bodies": int(grant.bodies)}
    with database.write() as connection:
        connection.execute(_GIVE, {**row, "sites": sites, "now": now, "by": by})


def take(database: Database, email: str) -> bool:
    """Take a person's role away; tell whether they had one."""
    with database.write() as connection:
        return connection.execute(_TAKE, {"email": _canonical(email)}).first() is not None


def find(database: Database, email: str) -> Grant | None:
    """Give what a person may; None: nothing."""
    with database.read() as connection:
        row = connection.execute(_ONE, {"email": _canonical(email)}).first()
    return None if row is None else _grant(row)


def everybody(database: Database) -> list[Grant]:
    """List all who may do something."""
    with database.read() as connection:
        rows = connection.execute(_ALL).all()
    return [_grant(row) for row in rows]


def _grant(row: Row[Any]) -> Grant:
    sites = frozenset(json.loads(row.sites)) if row.sites else None
    return Grant(row.email, Role(row.role), bool(row.bodies), sites)


def _canonical(email: str) -> str:
    return email.strip().lower()
