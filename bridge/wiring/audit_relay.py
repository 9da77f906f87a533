"""The audit trail of a running process: moves the outbox to the chain, and reads the chain."""

from typing import Any

from bridge.audit import outbox
from bridge.audit.chain import BRIDGE_CHAIN, ENGINE_CHAIN
from bridge.audit.events import Origin, Outcome
from bridge.console.trail import DONE, DeedQuery, target_of
from bridge.engine.service import trail
from bridge.engine.service.trail import AuditRow, TrailQuery
from bridge.store.database import Database
from bridge.wiring.stores import engine_is_ready, open_engine_database
from config import Settings


class AuditRelay:
    """The bridge's outbox and the chain that it leads to. Blocking."""

    def __init__(self, settings: Settings, database: Database) -> None:
        internal = settings.engine.is_internal
        self._database = database
        self._chain = ENGINE_CHAIN if internal else BRIDGE_CHAIN
        self._chained = open_engine_database(settings) if internal else database

    def relay(self) -> int:
        """Move what waits to the chain; return how many events."""
        if not outbox.pending(self._database):
            return 0
        if self._chain is ENGINE_CHAIN and not engine_is_ready(self._chained):
            return 0  # the engine has not been started or migrated yet
        return outbox.relay(self._database, self._chain, self._chained)

    def close(self) -> None:
        """Close the connections to the chain's database."""
        if self._chained is not self._database:
            self._chained.dispose()

    def newest(self, wanted: DeedQuery) -> list[dict[str, Any]]:
        """List events of the console and of commands, newest first; times in ms."""
        self.relay()
        query = TrailQuery(
            since=wanted.since,
            until=wanted.until,
            action=wanted.action,
            user=wanted.email,
            before=wanted.before,
            target=None if wanted.subject is None else target_of(wanted.subject),
            origins=(Origin.CONSOLE, Origin.CLI),
            sites=wanted.sites,
        )
        with self._chained.read() as connection:
            rows = trail.newest(connection, query, wanted.limit, self._chain)
        return [_told(row) for row in rows]


def _told(row: AuditRow) -> dict[str, Any]:
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
