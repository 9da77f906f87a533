"""Audit events of commands, and the relay that moves them from the outbox to the hash chain."""

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from sqlalchemy import Connection

from bridge.audit import outbox
from bridge.audit.chain import BRIDGE_CHAIN, ENGINE_CHAIN
from bridge.audit.events import AuditOrigin, Outcome, command_event
from bridge.console.audit_trail import DONE, ConsoleEventQuery, target_of
from bridge.engine.service.accounts import audit_queries
from bridge.engine.service.accounts.audit_queries import AuditRow, TrailQuery
from bridge.store.database import Database
from bridge.store.errors import StoreError
from bridge.wiring.stores import engine_is_ready, open_engine_database
from config import Settings, load


class AuditRelay:
    """Moves audit events from the bridge's outbox to the chain. Blocking."""

    def __init__(self, settings: Settings, database: Database) -> None:
        internal = settings.engine.is_internal
        self._database = database
        self._chain = ENGINE_CHAIN if internal else BRIDGE_CHAIN
        self._chained = open_engine_database(settings) if internal else database

    def relay(self) -> int:
        """Move pending events to the chain; return their number."""
        if not outbox.pending(self._database):
            return 0
        if self._chain is ENGINE_CHAIN and not engine_is_ready(self._chained):
            return 0  # the engine was never started or is not migrated
        return outbox.relay(self._database, self._chain, self._chained)

    def close(self) -> None:
        """Close the connections to the database of the chain."""
        if self._chained is not self._database:
            self._chained.dispose()

    def newest(self, wanted: ConsoleEventQuery) -> list[dict[str, Any]]:
        """List events of the console and of commands, newest first; times in ms."""
        self.relay()
        query = TrailQuery(
            since=wanted.since,
            until=wanted.until,
            action=wanted.action,
            user=wanted.email,
            before=wanted.before,
            target=None if wanted.subject is None else target_of(wanted.subject),
            origins=(AuditOrigin.CONSOLE, AuditOrigin.CLI),
            sites=wanted.sites,
        )
        with self._chained.read() as connection:
            rows = audit_queries.read_newest(connection, query, wanted.limit, self._chain)
        return [_as_json(row) for row in rows]


def _as_json(row: AuditRow) -> dict[str, Any]:
    done = row.outcome == Outcome.SUCCESS
    kind, identity = row.target_type, row.target_id
    return {
        "id": row.sequence,
        "at": row.at,
        "email": row.actor,
        "action": row.action,
        "subject": identity if kind == "user" else f"{kind} {identity}".strip(),
        "outcome": DONE if done else str(row.details.get("code", row.outcome)),
        "site": row.site_id,
        "reason": str(row.details.get("reason", "")),
    }


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
    Append an event of a command to the engine's chain, in the transaction of the command.

    `members` are further members of `AuditEvent`, such as its target, `before` and `after`.
    """
    event = command_event(action, site_id=site_id, details=details or {}, **members)
    ENGINE_CHAIN.record(connection, database, [event], now)


@contextmanager
def audited(
    home: Path, database: Database, action: str, target: tuple[str, str], **details: Any
) -> Iterator[None]:
    """Record a command as `recorded` does, then move its event to the chain."""
    with relayed(home, database), recorded(database, action, target, **details):
        yield


@contextmanager
def recorded(
    database: Database, action: str, target: tuple[str, str], **details: Any
) -> Iterator[None]:
    """Record a command in the transaction of its change, a refusal in a separate one."""
    event = command_event(action, target=target, details=details)
    with outbox.recorded(database, event, time.time_ns() // 1_000_000):
        yield


@contextmanager
def relayed(home: Path, database: Database) -> Iterator[None]:
    """
    Move the events of a command to the chain at its end.

    If this fails, the service or the next `bridge audit` command moves them.
    """
    try:
        yield
    finally:
        relay = AuditRelay(load(home), database)
        with suppress(StoreError):
            relay.relay()
        relay.close()
