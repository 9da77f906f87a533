"""Audit events of commands that change the engine's database."""

from collections.abc import Mapping
from typing import Any

from sqlalchemy import Connection

from bridge.audit.chain import ENGINE_CHAIN
from bridge.audit.events import command_event, operator
from bridge.store.database import Database

__all__ = ["note", "operator"]


def note(
    connection: Connection,
    database: Database,
    now: int,
    action: str,
    site_id: str | None = None,
    details: Mapping[str, Any] | None = None,
    **members: Any,
) -> None:
    """
    Append an event of a command to the engine's chain, in the command's transaction.

    `members` are further members of `AuditEvent`, such as its target, `before` and `after`.
    """
    event = command_event(action, site_id=site_id, details=details or {}, **members)
    ENGINE_CHAIN.record(connection, database.serialize, [event], now)
