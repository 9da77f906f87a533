"""Audit events of commands."""

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from sqlalchemy import Connection

from bridge.audit import outbox
from bridge.audit.chain import ENGINE_CHAIN
from bridge.audit.events import command_event, operator
from bridge.store.database import Database
from bridge.store.errors import StoreError
from bridge.wiring.audit_relay import AuditRelay
from config import load

__all__ = ["audited", "note", "operator", "recorded", "relayed"]


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
    ENGINE_CHAIN.record(connection, database, [event], now)


@contextmanager
def audited(
    home: Path, database: Database, action: str, target: tuple[str, str], **details: Any
) -> Iterator[None]:
    """Record a command as `recorded`, and move its event to the chain at the end."""
    with relayed(home, database), recorded(database, action, target, **details):
        yield


@contextmanager
def recorded(
    database: Database, action: str, target: tuple[str, str], **details: Any
) -> Iterator[None]:
    """Record a command's action: in the transaction of its change, or as a refusal."""
    event = command_event(action, target=target, details=details)
    with outbox.recorded(database, event, time.time_ns() // 1_000_000):
        yield


@contextmanager
def relayed(home: Path, database: Database) -> Iterator[None]:
    """
    Move the events of a command to the chain at its end.

    Where this is not possible now, the service or the next `bridge audit` command does it.
    """
    try:
        yield
    finally:
        relay = AuditRelay(load(home), database)
        with suppress(StoreError):
            relay.relay()
        relay.close()
