"""
Saved views: filters, columns and sorting of a list, by name.

A view is its owner's; a shared one is offered to all users. It contains no patient data, because
other users and the database would see it.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import Connection, Row, delete, func, insert, or_, select, update

from bridge.admin.access.permissions import Grant, Permission
from bridge.admin.errors import InvalidContent, InvalidState, NoSuchItem
from bridge.store.database import Database
from bridge.store.tables import SAVED_VIEWS

LISTS: Final = ("messages", "deliveries", "orders", "attention", "audit")
PRIVATE: Final = frozenset({"number", "name", "text", "control_id", "hashes"})
"""Filters whose values may be patient data."""
MAX_OWN: Final = 50
MAX_SHARED: Final = 100
MAX_BYTES: Final = 8192
_VIEW: Final = SAVED_VIEWS.c


class PrivateFilter(InvalidContent):
    """A view must not contain the value of a private filter."""

    status = 400
    code = "private_filter"


@dataclass(frozen=True, slots=True)
class SavedView:
    """`body` has `filters`, `columns` and `sort`; `own`: the user is its owner."""

    id: int
    list: str
    name: str
    shared: bool
    owner: str
    own: bool
    body: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ViewChange:
    """A view to save. `id` None adds one."""

    list: str
    name: str
    shared: bool
    body: Mapping[str, Any]
    id: int | None = None


def list_views(database: Database, grant: Grant, list_name: str = "") -> "list[SavedView]":
    """Return the user's own views and the shared ones, by name."""
    visible = or_(_VIEW.account_id == grant.account_id, _VIEW.shared == 1)
    statement = select(SAVED_VIEWS).where(visible).order_by(_VIEW.name, _VIEW.id)
    if list_name:
        statement = statement.where(_VIEW.list_name == list_name)
    with database.read() as connection:
        return [_view(row, grant) for row in connection.execute(statement)]


def save_view(database: Database, change: ViewChange, grant: Grant, now: int) -> SavedView:
    """
    Add or change a view; return it. A new view replaces the user's own one of the same name.

    A shared view needs OPERATE, and is changed by its owner or with GRANT. Raises PrivateFilter,
    InvalidState, NoSuchItem, PermissionDenied.
    """
    body = _checked(change)
    if change.shared:
        grant.require(Permission.OPERATE)
    row = {
        "list_name": change.list,
        "name": change.name,
        "shared": int(change.shared),
        "body": body,
        "changed_at": now,
    }
    with database.write() as connection:
        database.serialize(connection, "saved views")
        known_id = change.id or _named(connection, grant.account_id, change)
        if known_id is None:
            _require_space(connection, grant, shared=change.shared)
            row |= {"account_id": grant.account_id, "email": grant.email}
            added = insert(SAVED_VIEWS).values(row).returning(_VIEW.id)
            view_id = connection.execute(added).scalar_one()
        else:
            known = _changeable(connection, known_id, grant)
            if _named(connection, known.account_id, change) not in (None, known_id):
                raise InvalidState("a view of this list has this name")
            if change.shared and not known.shared:
                _require_space(connection, grant, shared=True)
            view_id = known_id
            connection.execute(update(SAVED_VIEWS).where(_VIEW.id == view_id).values(row))
        stored = connection.execute(select(SAVED_VIEWS).where(_VIEW.id == view_id)).one()
    return _view(stored, grant)


def delete_view(database: Database, view_id: int, grant: Grant) -> None:
    """Delete a view. Raises NoSuchItem, PermissionDenied."""
    with database.write() as connection:
        _changeable(connection, view_id, grant)
        connection.execute(delete(SAVED_VIEWS).where(_VIEW.id == view_id))


def is_shared(database: Database, view_id: int) -> bool:
    with database.read() as connection:
        statement = select(_VIEW.shared).where(_VIEW.id == view_id)
        return bool(connection.execute(statement).scalar())


def _checked(change: ViewChange) -> str:
    if change.list not in LISTS:
        raise InvalidContent("there is no such list")
    filters = change.body.get("filters", {})
    if private := PRIVATE & set(filters):
        raise PrivateFilter(f"a view does not store the filter {min(private)}")
    body = json.dumps(change.body, ensure_ascii=False, sort_keys=True)
    if len(body.encode()) > MAX_BYTES:
        raise InvalidContent("this view is too large")
    return body


def _changeable(connection: Connection, view_id: int, grant: Grant) -> Row[Any]:
    """Return a view that the user may change. Raises NoSuchItem, PermissionDenied."""
    row = connection.execute(select(SAVED_VIEWS).where(_VIEW.id == view_id)).first()
    if row is None or (row.account_id != grant.account_id and not row.shared):
        raise NoSuchItem
    if row.account_id != grant.account_id:
        grant.require(Permission.GRANT)
    return row


def _require_space(connection: Connection, grant: Grant, *, shared: bool) -> None:
    mine = _VIEW.account_id == grant.account_id
    own = select(func.count()).select_from(SAVED_VIEWS).where(mine)
    if not shared and connection.execute(own).scalar_one() >= MAX_OWN:
        raise InvalidState(f"you have {MAX_OWN} views; delete one")
    every = select(func.count()).select_from(SAVED_VIEWS).where(_VIEW.shared == 1)
    if shared and connection.execute(every).scalar_one() >= MAX_SHARED:
        raise InvalidState(f"there are {MAX_SHARED} shared views; delete one")


def _named(connection: Connection, account_id: str, change: ViewChange) -> int | None:
    """Return the id of the owner's view with this name, None if there is none."""
    same = select(_VIEW.id).where(
        _VIEW.account_id == account_id,
        _VIEW.list_name == change.list,
        _VIEW.name == change.name,
    )
    found: int | None = connection.execute(same).scalar()
    return found


def _view(row: Row[Any], grant: Grant) -> SavedView:
    return SavedView(
        row.id,
        row.list_name,
        row.name,
        bool(row.shared),
        row.email,
        row.account_id == grant.account_id,
        json.loads(row.body),
    )
