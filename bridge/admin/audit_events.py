"""Audit events of commands, and the relay that moves them from the outbox to the hash chain."""

import re
import time
from collections.abc import Collection, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import Any, Final, Self

from bridge.admin.lists.deliveries import DeliveryList
from bridge.admin.lists.listing import iterate
from bridge.admin.report_engine import CommandEngine, internal_engine
from bridge.audit import outbox, trail
from bridge.audit.chain import BRIDGE_CHAIN, ENGINE_CHAIN, ChainVerification
from bridge.audit.events import AuditOrigin, Outcome, command_event
from bridge.audit.fhir import AuditedPatient, AuditEntry, audit_events
from bridge.audit.trail import AuditRow, TrailQuery
from bridge.errors import BridgeError
from bridge.queue.listing_rows import DeliveryRow
from bridge.queue.states import QueueState
from bridge.store.database import Database
from bridge.store.databases import (
    engine_is_ready,
    migrate_bridge,
    migrate_engine,
    open_bridge_database,
    open_engine_database,
)
from bridge.store.errors import StoreError
from config import Settings, load

DONE: Final = "done"
"""The outcome of an action that succeeded, as the console shows it."""


@dataclass(frozen=True, slots=True)
class ConsoleEventQuery:
    """Criteria for audit events; None matches all. Times in ms; `until` and `before` exclusive."""

    sites: Collection[str] | None = None
    email: str | None = None
    action: str | None = None
    subject: str | None = None
    since: int | None = None
    until: int | None = None
    before: int | None = None
    limit: int = 100


def target_of(subject: str) -> tuple[str, str]:
    """
    Return type and id of a subject such as `message 17`.

    A subject that begins with an e-mail address or an account id has type `user`.
    """
    kind, _, identity = subject.partition(" ")
    return ("user", subject) if "@" in kind or kind.isdecimal() else (kind, identity)


class AuditRelay:
    """Moves audit events from the bridge's outbox to the chain. Blocking."""

    def __init__(self, settings: Settings, database: Database) -> None:
        internal = settings.engine.is_internal
        self._database = database
        self._chain = ENGINE_CHAIN if internal else BRIDGE_CHAIN
        self._chain_database = open_engine_database(settings) if internal else database

    def relay(self) -> int:
        """Move pending events to the chain; return their number."""
        if not outbox.pending(self._database):
            return 0
        if self._chain is ENGINE_CHAIN and not engine_is_ready(self._chain_database):
            return 0  # the engine was never started or is not migrated
        return outbox.relay(self._database, self._chain, self._chain_database)

    def close(self) -> None:
        """Close the connections to the database of the chain."""
        if self._chain_database is not self._database:
            self._chain_database.dispose()

    def newest(self, criteria: ConsoleEventQuery) -> list[dict[str, Any]]:
        """List events of the console and of commands, newest first; times in ms."""
        self.relay()
        query = TrailQuery(
            since=criteria.since,
            until=criteria.until,
            action=criteria.action,
            user=criteria.email,
            before=criteria.before,
            target=None if criteria.subject is None else target_of(criteria.subject),
            origins=(AuditOrigin.CONSOLE, AuditOrigin.CLI),
            sites=criteria.sites,
        )
        with self._chain_database.read() as connection:
            rows = trail.read_newest(connection, query, criteria.limit, self._chain)
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
    """Record a command in the transaction of its change. A refusal has its own transaction."""
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


_PAGE = 500
_HEAD = re.compile(r"(?:([0-9]{1,18})[ :]+)?([0-9a-f]{64})")


@dataclass(frozen=True, slots=True)
class TrailVerification:
    """
    Result of a verification.

    `pending` events are not in the chain yet. `has_head`: the chain contains the given head, or
    none was given.
    """

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


class BadHead(BridgeError):
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
    settings = load(home)
    with _Trail(settings) as opened:
        with opened.database.read() as connection:
            rows = trail.read_newest(connection, query, limit, opened.chain)
        opened.record_read("audit-read", query)
    found = [{**row.as_json(), "chained": True} for row in rows]
    if settings.engine.is_internal and query.site_id is None and query.report_id is None:
        criteria = {"limit": limit} | ({} if query.since is None else {"since": query.since})
        with internal_engine(settings) as engine:
            refusals = engine.call("GET", "operator", "anonymous-refusals", query=criteria)
        found += [row for row in refusals if query.action in (None, row["action"])]
    return sorted(found, key=lambda row: row["at"], reverse=True)[:limit]


def export(home: Path, query: TrailQuery, *, patients: bool) -> Iterator[dict[str, Any]]:
    """
    Yield FHIR AuditEvents: the events of the chain, then the delivered results.

    `patients`: name the patients of the reports. The export itself is audited.
    """
    settings = load(home)
    server = settings.http.public_url
    with ExitStack() as stack:
        opened = stack.enter_context(_Trail(settings))
        engine = None
        if settings.engine.is_internal:
            engine = stack.enter_context(internal_engine(settings))
        opened.record_read("audit-export", query)
        with opened.database.read() as connection:
            # A slow reader of the export must not end the transaction.
            opened.database.disable_idle_timeout(connection)
            for rows in trail.pages(connection, query, opened.chain):
                named = _Reports(engine if patients else None, [row.reports for row in rows])
                for row in rows:
                    yield from audit_events(row.entry(), server, named.patients_of(row.reports))
        if engine is not None:
            yield from _delivered_results(opened.bridge, engine, query, server, patients=patients)


class _Reports:
    """Sites and patients of reports, which the engine knows; without an engine there are none."""

    def __init__(self, engine: CommandEngine | None, reports: Iterable[Iterable[str]]) -> None:
        wanted = list(dict.fromkeys(chain.from_iterable(reports)))
        found: dict[str, Any] = {"sites": {}, "patients": {}}
        if engine is not None and wanted:
            found = engine.call("POST", "operator", "reports", body={"reports": wanted})
        self.sites: dict[str, str] = found["sites"]
        self._patients: dict[str, list[list[str]]] = found["patients"]

    def patients_of(self, reports: Iterable[str]) -> list[AuditedPatient]:
        """Return the patients of reports, each once."""
        rows = (row for report in reports for row in self._patients.get(report, ()))
        return list(dict.fromkeys(AuditedPatient(site, mrn) for site, mrn in rows))


class _Trail:
    """The databases of the outbox and of the chain. Entering it relays the outbox."""

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
        now = time.time_ns() // 1_000_000
        event = command_event(action, site_id=query.site_id, target=("audit trail", ""))
        with self.database.write() as connection:
            self.chain.record(connection, self.database, [event], now)


def _delivered_results(
    database: Database, engine: CommandEngine, query: TrailQuery, server: str, *, patients: bool
) -> Iterator[dict[str, Any]]:
    """Yield the delivered results that match the query, newest first."""
    if query.action not in (None, "sent"):
        return
    filters: dict[str, Any] = {"state": QueueState.DONE.value}
    if query.report_id is not None:
        filters["report"] = query.report_id
    if query.since is not None:
        filters["since"] = query.since
    delivered = (listed.row for listed in iterate(database, DeliveryList(), filters))
    while rows := list(islice(delivered, _PAGE)):
        known = _Reports(engine, [[row.report_id] for row in rows])
        for row in rows:
            site_id = known.sites.get(row.report_id, "")
            if _matches(query, row, site_id):
                entry = _delivery_entry(row, site_id)
                subjects = known.patients_of(entry.reports) if patients else ()
                yield from audit_events(entry, server, subjects)


def _matches(query: TrailQuery, row: DeliveryRow, site_id: str) -> bool:
    in_time = query.until is None or _sent_at(row) < query.until
    return in_time and query.site_id in (None, site_id)


def _sent_at(row: DeliveryRow) -> int:
    return row.acknowledged_at or row.sent_at or row.settled_at or row.created_at


def _delivery_entry(row: DeliveryRow, site_id: str) -> AuditEntry:
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
