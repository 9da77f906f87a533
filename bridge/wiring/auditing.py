"""
The audit trail for commands: verify it, list it, export it.

The engine's chain says who read and changed what. What was sent to which destination stands in
the outbox, which nothing but `bridge prune` removes; an export has both.
"""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

from sqlalchemy import Connection

from bridge.engine.documents.audit_event import AuditEntry, audit_events
from bridge.engine.service import audit, trail
from bridge.engine.service.audit import Verdict
from bridge.engine.service.trail import TrailQuery
from bridge.errors import BridgeError
from bridge.queue import browse
from bridge.queue.rows import DeliveryRow
from bridge.queue.states import State
from bridge.store.database import Database
from bridge.wiring.commanding import note
from bridge.wiring.stores import (
    bridge_database,
    migrate_engine,
    open_engine_database,
)
from config import Settings, load

_PAGE = 500


class NoTrail(BridgeError):  # noqa: N818  # named for what is missing
    """The audit trail is somebody else's."""

    def __init__(self) -> None:
        super().__init__("the audit trail belongs to the service at engine.base_url")


def verify(home: Path) -> Verdict:
    """Walk the whole chain."""
    with _Trail(load(home)) as opened, opened.database.read() as connection:
        return audit.verify(connection)


def has_head(home: Path, head: str) -> bool:
    """Tell whether a hash that was noted earlier is still in the chain: nothing was cut off."""
    with _Trail(load(home)) as opened, opened.database.read() as connection:
        return audit.contains(connection, head)


def asked(
    site_id: str | None, since: int | None, action: str | None, report_id: str | None
) -> TrailQuery:
    """Return the query of a command's options."""
    return TrailQuery(site_id, since, None, report_id, action)


def newest(home: Path, query: TrailQuery, limit: int) -> list[dict[str, Any]]:
    """Return the newest events, the newest first."""
    with _Trail(load(home)) as opened:
        with opened.database.read() as connection:
            rows = trail.newest(connection, query, limit)
        opened.note("audit-read", query)
    return [each.as_json() for each in rows]


def export(home: Path, query: TrailQuery, *, patients: bool) -> Iterator[dict[str, Any]]:
    """Give the events as FHIR AuditEvents: the chain's, then what was sent."""
    settings = load(home)
    server = settings.http.public_url
    with _Trail(settings) as opened:
        opened.note("audit-export", query)
        with opened.database.read() as connection:
            for row in trail.walk(connection, query):
                named = trail.patients_of(connection, row.reports) if patients else ()
                yield from audit_events(row.entry(), server, named)
            for entry in _sent(home, connection, query):
                named = trail.patients_of(connection, entry.reports) if patients else ()
                yield from audit_events(entry, server, named)


class _Trail:
    """The engine's database, opened for one command."""

    def __init__(self, settings: Settings) -> None:
        if not settings.engine.is_internal:
            raise NoTrail
        self.database: Database = open_engine_database(settings)

    def __enter__(self) -> Self:
        migrate_engine(self.database)
        return self

    def __exit__(self, *_: object) -> None:
        self.database.dispose()

    def note(self, action: str, query: TrailQuery) -> None:
        """Record that the trail itself was read."""
        now = time.time_ns() // 1_000_000
        with self.database.write() as connection:
            note(connection, self.database, now, action, query.site_id)


def _sent(home: Path, engine: Connection, query: TrailQuery) -> Iterator[AuditEntry]:
    """Give what was delivered, the newest first, as far as the query asks for it."""
    if query.action not in (None, "sent"):
        return
    before = None
    with bridge_database(home) as database:
        while True:
            wanted = browse.Filter(State.DONE, None, query.report_id, query.since, before, _PAGE)
            rows = browse.deliveries(database, wanted)
            sites = trail.sites_of(engine, [each.report_id for each in rows])
            for row in rows:
                site_id = sites.get(row.report_id, "")
                if _asked_for(query, row, site_id):
                    yield _entry(row, site_id)
            if len(rows) < _PAGE:
                return
            before = rows[-1].id


def _asked_for(query: TrailQuery, row: DeliveryRow, site_id: str) -> bool:
    in_time = query.until is None or _sent_at(row) < query.until
    return in_time and query.site_id in (None, site_id)


def _sent_at(row: DeliveryRow) -> int:
    return row.acknowledged_at or row.sent_at or row.settled_at or row.created_at


def _entry(row: DeliveryRow, site_id: str) -> AuditEntry:
    details = {"destination": row.destination, "event": row.event, "reply": row.code}
    return AuditEntry(
        f"delivery-{row.id}",
        _sent_at(row),
        "sent",
        True,
        site_id,
        "",
        None,
        (row.report_id,),
        details,
    )
