"""Who works at the command line, for the audit trail."""

import getpass
from collections.abc import Mapping
from typing import Any

from sqlalchemy import Connection

from bridge.engine.service import audit
from bridge.store.database import Database


def note(
    connection: Connection,
    database: Database,
    now: int,
    action: str,
    site_id: str | None = None,
    details: Mapping[str, Any] | None = None,
) -> None:
    """Record what a command did, in its transaction; `details` are codes and counts."""
    deed = audit.Deed(action, site_id, details={**(details or {}), "command": operator()})
    audit.record(connection, database.serialize, [deed], now)


def operator() -> str:
    """Name the operating system's user, the only name that a command knows."""
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return "unknown"
