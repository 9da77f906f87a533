"""
The audit trail for commands: verify, list and export it.

The chain has an event for each read and each change. The outbox has the results that were sent,
until `bridge prune` removes them. An export contains both.
"""

import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from sqlalchemy import Connection

from bridge.audit import outbox
from bridge.audit.chain import BRIDGE_CHAIN, ENGINE_CHAIN, ChainVerification
from bridge.audit.events import command_event
from bridge.engine.documents.fhir_audit_event import AuditEntry, audit_events
from bridge.engine.service.accounts import audit_queries
from bridge.engine.service.accounts.audit_queries import TrailQuery
from bridge.errors import BridgeError
from bridge.queue import queries
from bridge.queue.listing_rows import DeliveryRow
from bridge.queue.states import QueueState
from bridge.wiring.stores import (
    bridge_database,
    migrate_bridge,
    migrate_engine,
    open_bridge_database,
    open_engine_database,
)
from config import Settings, load

_PAGE = 500
_HEAD = re.compile(r"(?:([0-9]{1,18})[ :]+)?([0-9a-f]{64})")


@dataclass(frozen=True, slots=True)
class TrailVerification:
    """Result of a verification; `pending` events are not in the chain yet."""

    verdict: ChainVerification
    pending: int
    has_head: bool


def verify(home: Path, head: str | None = None) -> TrailVerification:
    """
    Verify the whole chain; `head` is a stored head that the chain must contain.

    Raises BadHead if `head` is neither a hash nor a number and a hash.
    """
    sequence, stored = _parse_head(head)
    with _Trail(load(home)) as opened, opened.database.read() as connection:
        verdict = opened.chain.verify(connection)
        found = stored is None or opened.chain.contains(connection, stored, sequence)
        return TrailVerification(verdict, outbox.pending(opened.bridge), found)


def head(home: Path) -> tuple[int, str]:
    """Return the number and the hash of the newest event."""
    with _Trail(load(home)) as opened, opened.database.read() as connection:
        return opened.chain.head(connection)


class BadHead(BridgeError):  # noqa: N818  # named for what happened
    """The given head is neither a hash nor a number and a hash."""

    def __init__(self) -> None:
        super().__init__("write a head as `bridge audit head` prints it: SEQUENCE HASH, or HASH")


def _parse_head(text: str | None) -> tuple[int | None, str | None]:
    if text is None:
        return None, None
    found = _HEAD.fullmatch(text.strip().lower())
    if found is None:
        raise BadHead
    return None if found[1] is None else int(found[1]), found[2]


def make_query(
    site_id: str | None, since: int | None, action: str | None, report_id: str | None
) -> TrailQuery:
    """Return the query for the options of a command."""
    return TrailQuery(site_id, since, None, report_id, action)


def list_events(home: Path, query: TrailQuery, limit: int) -> list[dict[str, Any]]:
    """Return events, newest first; the listing itself is audited."""
    with _Trail(load(home)) as opened:
        with opened.database.read() as connection:
            rows = audit_queries.read_newest(connection, query, limit, opened.chain)
            unfiltered = query.site_id is None and query.report_id is None
            refusals = (
                audit_queries.newest_anonymous(connection, query.since, limit)
                if unfiltered and opened.chain is ENGINE_CHAIN
                else []
            )
        opened.record_read("audit-read", query)
    found = [{**each.as_json(), "chained": True} for each in rows]
    found += [each for each in refusals if query.action in (None, each["action"])]
    return sorted(found, key=lambda each: each["at"], reverse=True)[:limit]


def export(home: Path, query: TrailQuery, *, patients: bool) -> Iterator[dict[str, Any]]:
    """Yield FHIR AuditEvents: the events of the chain, then the sent results."""
    settings = load(home)
    server = settings.http.public_url
    with _Trail(settings) as opened:
        opened.record_read("audit-export", query)
        with opened.database.read() as connection:
            # A slow reader of the export must not end the transaction.
            opened.database.disable_idle_timeout(connection)
            has_reports = opened.chain is ENGINE_CHAIN
            for row in audit_queries.iterate(connection, query, opened.chain):
                named = patients and has_reports
                subjects = audit_queries.patients_of(connection, row.reports) if named else ()
                yield from audit_events(row.entry(), server, subjects)
            for entry in _sent(home, connection, query) if has_reports else ():
                subjects = audit_queries.patients_of(connection, entry.reports) if patients else ()
                yield from audit_events(entry, server, subjects)


class _Trail:
    """The chain and the outbox, opened for one command after relaying the outbox."""

    def __init__(self, settings: Settings) -> None:
        internal = settings.engine.is_internal
        self.bridge = open_bridge_database(settings)
        self.chain = ENGINE_CHAIN if internal else BRIDGE_CHAIN
        self.database = open_engine_database(settings) if internal else self.bridge

    def __enter__(self) -> Self:
        migrate_bridge(self.bridge)
        if self.chain is ENGINE_CHAIN:
            migrate_engine(self.database)
        outbox.relay(self.bridge, self.chain, self.database)
        return self

    def __exit__(self, *_: object) -> None:
        self.database.dispose()
        self.bridge.dispose()

    def record_read(self, action: str, query: TrailQuery) -> None:
        """Record that the audit trail was read."""
        now = time.time_ns() // 1_000_000
        event = command_event(action, site_id=query.site_id, target=("audit trail", ""))
        with self.database.write() as connection:
            self.chain.record(connection, self.database, [event], now)


def _sent(home: Path, engine: Connection, query: TrailQuery) -> Iterator[AuditEntry]:
    """Yield the delivered results that match the query, newest first."""
    if query.action not in (None, "sent"):
        return
    before = None
    with bridge_database(home) as database:
        while True:
            wanted = queries.Filter(
                QueueState.DONE, None, query.report_id, query.since, before, _PAGE
            )
            rows = queries.deliveries(database, wanted)
            sites = audit_queries.sites_of(engine, [each.report_id for each in rows])
            for row in rows:
                site_id = sites.get(row.report_id, "")
                if _matches(query, row, site_id):
                    yield _entry(row, site_id)
            if len(rows) < _PAGE:
                return
            before = rows[-1].id


def _matches(query: TrailQuery, row: DeliveryRow, site_id: str) -> bool:
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
