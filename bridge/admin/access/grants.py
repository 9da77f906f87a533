"""
Grants: the console roles of accounts, stored in the bridge's database. Blocking.

A grant belongs to an account id of the report engine. At least one system administrator must
remain. Each transaction that changes grants checks this under one lock, so that two concurrent
changes cannot remove the last two administrators.
"""

import json
from typing import Any, Final

from sqlalchemy import ColumnElement, Connection, Row, delete, select, update

from bridge.admin.access.permissions import ConsoleRole, Grant
from bridge.admin.errors import GrantRefused
from bridge.audit.outbox import describe
from bridge.contract.errors import ErrorCode
from bridge.store.database import Database
from bridge.store.databases import bridge_database_of
from bridge.store.tables import CONSOLE_GRANTS, upsert
from config import Settings

_LOCK: Final = "console grants"
_GRANT = CONSOLE_GRANTS.c


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
    Store the role of an account, replacing `before`.

    If the new grant has more rights, `granted_at` becomes `now` (ms), and older sessions are
    refused. Raises GrantRefused if the stored grant is not `before`, or if this demotes the last
    system administrator, unless `force`.
    """
    with database.write() as connection:
        stored = _lock_and_find(database, connection, grant.account_id)
        _require_savable(connection, stored, grant, before, force=force)
        granted_at = now if before is None or grant.grants_more_than(before) else before.granted_at
        row = {
            "account_id": grant.account_id,
            "email": grant.email,
            "role": grant.role.value,
            "bodies": int(grant.bodies),
            "sites": "" if grant.sites is None else json.dumps(sorted(grant.sites)),
            "granted_at": granted_at,
            "granted_by": by,
        }
        describe(before=_as_details(before), after=_as_details(grant))
        changed = [name for name in row if name != "account_id"]
        connection.execute(upsert(CONSOLE_GRANTS, *changed, key=["account_id"]), row)


def check_grant(
    database: Database, grant: Grant, *, before: Grant | None, force: bool = False
) -> None:
    """Raise GrantRefused if `save_grant` would raise it now; it is still called, and may raise."""
    with database.read() as connection:
        stored = _find(connection, grant.account_id)
        _require_savable(connection, stored, grant, before, force=force)


def remove_grant(database: Database, account_id: str, *, force: bool = False) -> bool:
    """
    Remove the role of an account; return whether it had one.

    Raises GrantRefused for the last system administrator, unless `force`.
    """
    with database.write() as connection:
        before = _lock_and_find(database, connection, account_id)
        if not force:
            _require_another(connection, before)
        describe(before=_as_details(before), after={})
        connection.execute(delete(CONSOLE_GRANTS).where(_GRANT.account_id == account_id))
    return before is not None


def suspend_grant(database: Database, account_id: str, *, force: bool = False) -> None:
    """
    Suspend the grant of an account; call it before disabling the account.

    Raises GrantRefused for the last system administrator, unless `force`. The grant may be
    suspended already.
    """
    with database.write() as connection:
        before = _lock_and_find(database, connection, account_id)
        if not force and _is_active(connection, account_id):
            _require_another(connection, before)
        _set_suspended(connection, account_id, suspended=True)


class GrantedRoles:
    """
    Suspends and restores the roles of accounts that the engine disables and enables.

    It opens the bridge's database for each call: accounts are rarely disabled, and an engine
    process may run without that database.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    def suspend(self, account_id: int) -> bool:
        """Suspend the role of an account; False if it is the last system administrator."""
        with bridge_database_of(self._settings) as database:
            try:
                suspend_grant(database, str(account_id))
            except GrantRefused:
                return False
        return True

    def resume(self, account_id: int) -> None:
        with bridge_database_of(self._settings) as database:
            resume_grant(database, str(account_id))


def resume_grant(database: Database, account_id: str) -> None:
    """End the suspension of a grant."""
    with database.write() as connection:
        _lock_and_find(database, connection, account_id)
        _set_suspended(connection, account_id, suspended=False)


def _set_suspended(connection: Connection, account_id: str, *, suspended: bool) -> None:
    own = update(CONSOLE_GRANTS).where(_GRANT.account_id == account_id)
    connection.execute(own.values(suspended=int(suspended)))


def _is_active(connection: Connection, account_id: str) -> bool:
    row = _row_of(connection, account_id)
    return row is not None and not row.suspended


def active_grant_of(database: Database, account_id: str) -> Grant | None:
    """Return the grant of an account; None if it has none or it is suspended."""
    with database.read() as connection:
        row = _row_of(connection, account_id)
    return None if row is None or row.suspended else _grant(row)


def grant_of(database: Database, account_id: str) -> Grant | None:
    with database.read() as connection:
        return _find(connection, account_id)


def all_grants(database: Database) -> list[Grant]:
    """List all grants; the account id of an unbound grant is ''."""
    with database.read() as connection:
        return [
            _grant(row) for row in connection.execute(select(CONSOLE_GRANTS).order_by(_GRANT.email))
        ]


def grants_without_account(database: Database) -> list[str]:
    """List the e-mail addresses of unbound grants, which an old version stored without account."""
    with database.read() as connection:
        unbound = select(_GRANT.email).where(_GRANT.account_id.is_(None)).order_by(_GRANT.id)
        return list(connection.scalars(unbound))


def bind_account(database: Database, email: str, account_id: str, *, suspended: bool) -> None:
    """Bind an unbound grant to an account; if the account has a grant already, keep that one."""
    with database.write() as connection:
        if _lock_and_find(database, connection, account_id) is not None:
            connection.execute(delete(CONSOLE_GRANTS).where(*_unbound(email)))
            return
        unbound = update(CONSOLE_GRANTS).where(*_unbound(email))
        connection.execute(unbound.values(account_id=account_id, suspended=int(suspended)))


def remove_unbound_grant(database: Database, email: str) -> bool:
    """Remove an unbound grant; return whether there was one."""
    with database.write() as connection:
        return connection.execute(delete(CONSOLE_GRANTS).where(*_unbound(email))).rowcount > 0


def _unbound(email: str) -> tuple[ColumnElement[bool], ColumnElement[bool]]:
    return _GRANT.account_id.is_(None), _GRANT.email == email


def _lock_and_find(database: Database, connection: Connection, account_id: str) -> Grant | None:
    """Lock all grants until the commit; return the grant of the account."""
    database.serialize(connection, _LOCK)
    return _find(connection, account_id)


def _find(connection: Connection, account_id: str) -> Grant | None:
    row = _row_of(connection, account_id)
    return None if row is None else _grant(row)


def _row_of(connection: Connection, account_id: str) -> Row[Any] | None:
    own = select(CONSOLE_GRANTS).where(_GRANT.account_id == account_id)
    return connection.execute(own).first()


def _as_details(grant: Grant | None) -> dict[str, Any]:
    """Return a grant as audit event details; {} for None."""
    if grant is None:
        return {}
    sites = None if grant.sites is None else sorted(grant.sites)
    members = {"account": grant.account_id, "role": grant.role.value}
    return {**members, "bodies": grant.bodies, "sites": sites}


def _require_savable(
    connection: Connection, stored: Grant | None, grant: Grant, before: Grant | None, *, force: bool
) -> None:
    """Raise GrantRefused unless `grant` may replace the `stored` one."""
    if stored != before:
        detail = "another administrator has changed this role: load it again"
        raise GrantRefused("changed_meanwhile", detail, 409)
    if grant.role is not ConsoleRole.SYSTEM_ADMINISTRATOR and not force:
        _require_another(connection, before)


def _require_another(connection: Connection, before: Grant | None) -> None:
    """Raise GrantRefused if `before` is the grant of the last active system administrator."""
    if before is None or before.role is not ConsoleRole.SYSTEM_ADMINISTRATOR:
        return
    others = (
        select(_GRANT.id)
        .where(_GRANT.role == ConsoleRole.SYSTEM_ADMINISTRATOR.value, _GRANT.suspended == 0)
        .where(_GRANT.account_id != before.account_id)
        .limit(1)
    )
    if connection.execute(others).first() is None:
        raise GrantRefused(ErrorCode.LAST_ADMINISTRATOR, ErrorCode.LAST_ADMINISTRATOR.text, 409)


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
