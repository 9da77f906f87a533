"""
Macros: texts with a short trigger, of a site or of one user there.

A user's macro takes precedence over the site's with the same trigger. The editor expands them.
"""

from typing import Any

from sqlalchemy import Connection, Row, delete, insert, or_, select, update

from bridge.contract.errors import ErrorCode
from bridge.engine.errors import EngineError
from bridge.engine.records.tables import Macro, metadata
from bridge.engine.rules.text.document import Document, restore, to_json, with_defaults
from bridge.engine.rules.text.plain_text import outline
from bridge.engine.service.sites.site_settings import lock_site
from bridge.engine.service.stored_texts import require_room

MACROS = metadata.tables[str(Macro.__tablename__)]
MAX_MACROS = 2000
"""The maximum per site, and per user."""


def macros_of(
    connection: Connection, site_id: str, account_id: int | None = None
) -> list[dict[str, Any]]:
    """Return a site's macros and this user's own; without an account the site's only."""
    owners = or_(MACROS.c.account_id.is_(None), MACROS.c.account_id == account_id)
    rows = connection.execute(
        select(MACROS).where(MACROS.c.site_id == site_id, owners).order_by(MACROS.c.trigger)
    ).all()
    own = {row.trigger for row in rows if row.account_id is not None}
    return [_json(row) for row in rows if row.account_id is not None or row.trigger not in own]


def set_macro(
    connection: Connection,
    site_id: str,
    account_id: int | None,
    trigger: str,
    name: str,
    document: Document,
    now: int,
) -> None:
    """Create or replace a macro of a site (no account) or of a user there."""
    if account_id is None:
        lock_site(connection, site_id)  # the unique key does not cover macros without an account
    values = {"name": name, "document": with_defaults(to_json(document)), "updated_at": now}
    own = _own(site_id, account_id)
    require_room(connection, MACROS.c.document, *own, MACROS.c.trigger != trigger)
    statement = update(MACROS).where(*own, MACROS.c.trigger == trigger).values(**values)
    if connection.execute(statement).rowcount:
        return
    if len(connection.execute(select(MACROS.c.id).where(*own)).all()) >= MAX_MACROS:
        raise EngineError(ErrorCode.TOO_MANY_MACROS)
    connection.execute(
        insert(MACROS).values(site_id=site_id, account_id=account_id, trigger=trigger, **values)
    )


def delete_macro(
    connection: Connection, site_id: str, account_id: int | None, trigger: str
) -> None:
    """Delete a macro; raise `NotFound`."""
    own = (*_own(site_id, account_id), MACROS.c.trigger == trigger)
    if connection.execute(delete(MACROS).where(*own)).rowcount == 0:
        raise EngineError(ErrorCode.NOT_FOUND, "there is no such macro")


def _own(site_id: str, account_id: int | None) -> tuple[Any, ...]:
    owner = (
        MACROS.c.account_id.is_(None) if account_id is None else MACROS.c.account_id == account_id
    )
    return MACROS.c.site_id == site_id, owner


def _json(row: Row[Any]) -> dict[str, Any]:
    document = with_defaults(row.document)  # an earlier release stored no defaults
    return {
        "trigger": row.trigger,
        "name": row.name,
        "document": document,
        "text": outline(restore(document)),
        "own": row.account_id is not None,
    }
