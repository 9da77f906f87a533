"""
Who was given which role in the console, kept in the bridge's database. Blocking.

A grant belongs to an account id of the report engine. The rule that one system administrator
always remains is enforced here, inside the transaction that would break it: writers of grants
take one lock, so that two of them cannot each remove the other's last colleague.
"""

import json
from typing import Any, Final

from sqlalchemy import Connection, Row, text

from bridge.audit.outbox import describe
from bridge.authority import TEXTS, Refusal
from bridge.console.errors import GrantRefused
from bridge.console.permissions import ConsoleRole, Grant
from bridge.store.database import Database

_LOCK: Final = "console grants"
_MEMBERS: Final = "account_id, email, role, bodies, sites, granted_at, suspended"
_GIVE = text("""
    INSERT INTO console_grant (account_id, email, role, bodies, sites, granted_at, granted_by)
    VALUES (:account, :email, :role, :bodies, :sites, :now, :by)
    ON CONFLICT (account_id) DO UPDATE SET email = :email, role = :role, bodies = :bodies,
        sites = :sites, granted_at = :now, granted_by = :by
""")
_TAKE = text("DELETE FROM console_grant WHERE account_id = :account")
_ONE = text(f"SELECT {_MEMBERS} FROM console_grant WHERE account_id = :account")  # noqa: S608
_ALL = text(f"SELECT {_MEMBERS} FROM console_grant ORDER BY email")  # noqa: S608
_OTHERS = text("""
    SELECT 1 FROM console_grant WHERE role = :role AND suspended = 0 AND account_id <> :account
    LIMIT 1
""")
_SUSPEND = text("UPDATE console_grant SET suspended = :suspended WHERE account_id = :account")
_OLD = text("SELECT email FROM console_grant WHERE account_id IS NULL ORDER BY id")
_CLAIM = text("""
    UPDATE console_grant SET account_id = :account, suspended = :suspended
    WHERE account_id IS NULL AND email = :email
""")
_FORGET = text("DELETE FROM console_grant WHERE account_id IS NULL AND email = :email")


def save_grant(
    database: Database,
    grant: Grant,
    now: int,
    by: str,
    *,
    before: Grant | None = None,
    force: bool = False,
) -> None:
    """
    Give an account a role, in the place of `before`, which it must still have.

    `granted_at` becomes `now` where the grant widens; sessions from before it are refused then.
    Raises GrantRefused where this demotes the last system administrator, unless `force`.
    """
    with database.write() as connection:
        if _locked(database, connection, grant.account_id) != before:
            detail = "somebody else changed this role meanwhile: look again"
            raise GrantRefused("changed_meanwhile", detail, 409)
        if grant.role is not ConsoleRole.SYSTEM_ADMINISTRATOR and not force:
            _require_another(connection, before)
        kept = now if before is None or grant.widens(before) else before.granted_at
        row = {
            "account": grant.account_id,
            "email": grant.email,
            "role": grant.role.value,
            "bodies": int(grant.bodies),
            "sites": "" if grant.sites is None else json.dumps(sorted(grant.sites)),
        }
        describe(before=_audited(before), after=_audited(grant))
        connection.execute(_GIVE, {**row, "now": kept, "by": by})


def remove_grant(database: Database, account_id: str, *, force: bool = False) -> bool:
    """
    Take an account's role away; tell whether it had one.

    Raises GrantRefused for the last system administrator, unless `force`.
    """
    with database.write() as connection:
        before = _locked(database, connection, account_id)
        if not force:
            _require_another(connection, before)
        describe(before=_audited(before), after={})
        connection.execute(_TAKE, {"account": account_id})
    return before is not None


def suspend_grant(database: Database, account_id: str, *, force: bool = False) -> None:
    """
    Let a grant open nothing while its account is disabled; call it before the account is.

    Raises GrantRefused for the last system administrator, unless `force`.
    """
    with database.write() as connection:
        before = _locked(database, connection, account_id)
        if not force:
            _require_another(connection, before)
        connection.execute(_SUSPEND, {"account": account_id, "suspended": 1})


def resume_grant(database: Database, account_id: str) -> None:
    """Let a suspended grant count again."""
    with database.write() as connection:
        _locked(database, connection, account_id)
        connection.execute(_SUSPEND, {"account": account_id, "suspended": 0})


def active_grant_of(database: Database, account_id: str) -> Grant | None:
    """Give what an account may; None: nothing, or it is suspended."""
    with database.read() as connection:
        row = connection.execute(_ONE, {"account": account_id}).first()
    return None if row is None or row.suspended else _grant(row)


def grant_of(database: Database, account_id: str) -> Grant | None:
    """Give the grant of an account, also while it is suspended."""
    with database.read() as connection:
        row = connection.execute(_ONE, {"account": account_id}).first()
    return None if row is None else _grant(row)


def all_grants(database: Database) -> list[Grant]:
    """List all grants; one from before account ids has '' as its account."""
    with database.read() as connection:
        return [_grant(row) for row in connection.execute(_ALL)]


def grants_without_account(database: Database) -> list[str]:
    """List the addresses of grants that have no account id yet."""
    with database.read() as connection:
        return [str(each) for each in connection.execute(_OLD).scalars()]


def bind_account(database: Database, email: str, account_id: str, *, suspended: bool) -> None:
    """Bind a grant from before account ids; where the account has a grant, that one counts."""
    with database.write() as connection:
        if _locked(database, connection, account_id) is not None:
            connection.execute(_FORGET, {"email": email})
            return
        found = {"email": email, "account": account_id, "suspended": int(suspended)}
        connection.execute(_CLAIM, found)


def remove_unbound_grant(database: Database, email: str) -> bool:
    """Remove a grant that never got an account id; tell whether there was one."""
    with database.write() as connection:
        return connection.execute(_FORGET, {"email": email}).rowcount > 0


def _locked(database: Database, connection: Connection, account_id: str) -> Grant | None:
    """Take the lock of all grants until the commit; give the account's own."""
    database.serialize(connection, _LOCK)
    row = connection.execute(_ONE, {"account": account_id}).first()
    return None if row is None else _grant(row)


def _audited(grant: Grant | None) -> dict[str, Any]:
    """Return the members of a grant for an audit event; none for no grant."""
    if grant is None:
        return {}
    sites = None if grant.sites is None else sorted(grant.sites)
    members = {"account": grant.account_id, "role": grant.role.value}
    return {**members, "bodies": grant.bodies, "sites": sites}


def _require_another(connection: Connection, before: Grant | None) -> None:
    if before is None or before.role is not ConsoleRole.SYSTEM_ADMINISTRATOR:
        return
    asked = {"role": ConsoleRole.SYSTEM_ADMINISTRATOR.value, "account": before.account_id}
    if connection.execute(_OTHERS, asked).first() is None:
        raise GrantRefused(Refusal.LAST_ADMINISTRATOR.value, TEXTS[Refusal.LAST_ADMINISTRATOR], 409)


def _grant(row: Row[Any]) -> Grant:
    sites = frozenset(json.loads(row.sites)) if row.sites else None
    return Grant(
        row.email,
        ConsoleRole(row.role),
        bool(row.bodies),
        sites,
        row.account_id or "",
        row.granted_at,
    )
