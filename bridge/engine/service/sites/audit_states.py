"""
States of a site's templates, macros, prelim groups, code map and signatures, and of user profiles,
for audit events.

Each function returns a reader of the state before or after a change; the state is empty if the
object does not exist. Texts and images are represented by a hash.
"""

import hashlib
import json
from collections.abc import Callable
from typing import Any

from sqlalchemy import Connection, Select, select

from bridge.engine.service.accounts import users
from bridge.engine.service.accounts.users import MEMBERSHIPS
from bridge.engine.service.sites.billing import CODES
from bridge.engine.service.sites.macros import MACROS
from bridge.engine.service.sites.site_settings import GROUPS, TEMPLATES

State = dict[str, Any]
StateReader = Callable[[Connection], State]
"""Reads the state of one object in the transaction that changes it."""


def template(site_id: str, number: int) -> StateReader:
    here = (TEMPLATES.c.site_id == site_id, TEMPLATES.c.number == number)
    return _row_reader(select(TEMPLATES).where(*here), _text_state)


def macro(site_id: str, account_id: int | None, trigger: str) -> StateReader:
    own = MACROS.c.account_id.is_not_distinct_from(account_id)
    here = (MACROS.c.site_id == site_id, MACROS.c.trigger == trigger, own)
    return _row_reader(select(MACROS).where(*here), _text_state)


def prelim_group(site_id: str, name: str) -> StateReader:
    here = (GROUPS.c.site_id == site_id, GROUPS.c.name == name)
    return _row_reader(
        select(GROUPS).where(*here),
        lambda row: {"tags": row.tags, "members": row.members, "reviewers": row.reviewers},
    )


def _text_state(row: Any) -> State:
    return {"name": row.name, "document": _hash(row.document)}


def _row_reader(query: Select[Any], state_of: Callable[[Any], State]) -> StateReader:
    def read_state(connection: Connection) -> State:
        row = connection.execute(query).first()
        return {} if row is None else state_of(row)

    return read_state


def code_map(site_id: str) -> StateReader:
    def read_state(connection: Connection) -> State:
        columns = (CODES.c.system, CODES.c.match, CODES.c.code, CODES.c.description)
        query = select(*columns).where(CODES.c.site_id == site_id).order_by(CODES.c.id)
        rows = [list(row) for row in connection.execute(query)]
        return {"rows": len(rows), "content": _hash(rows)} if rows else {}

    return read_state


def signature(email: str, site_id: str | None = None) -> StateReader:
    def read_state(connection: Connection) -> State:
        account = users.find_account(connection, email)
        if account is None:
            return {}
        query = select(MEMBERSHIPS.c.site_id, MEMBERSHIPS.c.signature).where(
            MEMBERSHIPS.c.account_id == account.id, MEMBERSHIPS.c.signature.is_not(None)
        )
        if site_id is not None:
            query = query.where(MEMBERSHIPS.c.site_id == site_id)
        return {row.site_id: _hash(row.signature) for row in connection.execute(query)}

    return read_state


def profile(account_id: int, site_id: str | None = None) -> StateReader:
    """Return the reader of a user's own settings, on one site or on their home site."""

    def read_state(connection: Connection) -> State:
        place = site_id or users.home_site_of(connection, account_id)
        row = connection.execute(
            select(MEMBERSHIPS.c.name, MEMBERSHIPS.c.signature, MEMBERSHIPS.c.settings).where(
                MEMBERSHIPS.c.account_id == account_id, MEMBERSHIPS.c.site_id == place
            )
        ).first()
        if row is None:
            return {}
        image = {"signature": _hash(row.signature)} if row.signature else {}
        return {"name": row.name, **image, **(row.settings or {})}

    return read_state


def difference(before: State, after: State) -> dict[str, Any]:
    """Return the members that changed, before and after; absent members are left out."""
    missing = object()
    names = [n for n in {**before, **after} if before.get(n, missing) != after.get(n, missing)]
    return {
        name: {member: state[member] for member in names if member in state}
        for name, state in (("before", before), ("after", after))
    }


def _hash(content: Any) -> str:
    text = content if isinstance(content, str) else json.dumps(content, sort_keys=True)
    return f"sha256 {hashlib.sha256(text.encode()).hexdigest()[:16]}"
