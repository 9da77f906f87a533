"""
Read the audit trail back: for a site's administrators, for commands, for an export.

The trail knows reports by their ids; the patients behind them are looked up only when asked for.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, select

from bridge.engine.documents.audit_event import AuditEntry, Subject
from bridge.engine.records.tables import metadata
from bridge.engine.service.audit import EVENTS, Outcome

ACCOUNTS = metadata.tables["engine_account"]
REPORTS = metadata.tables["engine_report"]
TOMBSTONES = metadata.tables["engine_tombstone"]
ORDERS = metadata.tables["engine_report_order"]

PAGE = 500


@dataclass(frozen=True, slots=True)
class TrailQuery:
    """Which events: None leaves a thing open; times in milliseconds, `until` excluded."""

    site_id: str | None = None
    since: int | None = None
    until: int | None = None
    report_id: str | None = None
    action: str | None = None
    user: str | None = None
    before: int | None = None
    """A sequence number: only events that came before it."""


@dataclass(frozen=True, slots=True)
class AuditRow:
    """One event of the trail; `user` is an e-mail address, empty for the clock and for programs."""

    sequence: int
    at: int
    site_id: str
    action: str
    outcome: str
    user: str
    token_id: int | None
    report_id: str
    details: dict[str, Any]
    hash: str

    def as_json(self) -> dict[str, Any]:
        """Return the event as the API shows it."""
        return {
            "sequence": self.sequence,
            "at": self.at,
            "SiteID": self.site_id,
            "action": self.action,
            "outcome": self.outcome,
            "userEmail": self.user,
            "tokenId": self.token_id,
            "reportId": self.report_id or None,
            "details": self.details,
            "hash": self.hash,
        }

    @property
    def reports(self) -> tuple[str, ...]:
        """The ids of all reports that the event is about."""
        more = self.details.get("reports", ())
        return (self.report_id, *more) if self.report_id else tuple(more)

    def entry(self) -> AuditEntry:
        """Return the event as the FHIR export takes it."""
        return AuditEntry(
            str(self.sequence),
            self.at,
            self.action,
            self.outcome == Outcome.SUCCESS,
            self.site_id,
            self.user,
            self.token_id,
            self.reports,
            self.details,
        )


def page(
    connection: Connection, query: TrailQuery, after: int = 0, limit: int = PAGE
) -> list[AuditRow]:
    """Return at most `limit` events behind the sequence number `after`, oldest first."""
    statement = (
        select(EVENTS, ACCOUNTS.c.email)
        .join_from(EVENTS, ACCOUNTS, EVENTS.c.account_id == ACCOUNTS.c.id, isouter=True)
        .where(EVENTS.c.sequence > after, *_conditions(query))
        .order_by(EVENTS.c.sequence)
        .limit(limit)
    )
    return [_row(row) for row in connection.execute(statement)]


def newest(connection: Connection, query: TrailQuery, limit: int = PAGE) -> list[AuditRow]:
    """Return the newest events, the newest first."""
    statement = (
        select(EVENTS, ACCOUNTS.c.email)
        .join_from(EVENTS, ACCOUNTS, EVENTS.c.account_id == ACCOUNTS.c.id, isouter=True)
        .where(*_conditions(query))
        .order_by(EVENTS.c.sequence.desc())
        .limit(limit)
    )
    return [_row(row) for row in connection.execute(statement)]


def walk(connection: Connection, query: TrailQuery) -> Iterator[AuditRow]:
    """Give all events of a query, oldest first, a page in memory at a time."""
    after = 0
    while rows := page(connection, query, after):
        yield from rows
        after = rows[-1].sequence


def patients_of(connection: Connection, report_ids: Sequence[str]) -> list[Subject]:
    """Return the patients of reports that still exist, each once."""
    found: dict[Subject, None] = {}
    for start in range(0, len(report_ids), PAGE):
        query = (
            select(ORDERS.c.site_id, ORDERS.c.mrn)
            .join_from(ORDERS, REPORTS, ORDERS.c.report_pk == REPORTS.c.pk)
            .where(REPORTS.c.report_id.in_(report_ids[start : start + PAGE]))
            .order_by(ORDERS.c.pk)
        )
        found.update((Subject(row.site_id, row.mrn), None) for row in connection.execute(query))
    return list(found)


def sites_of(connection: Connection, report_ids: Sequence[str]) -> dict[str, str]:
    """Return the sites of reports, of deleted ones too."""
    found: dict[str, str] = {}
    for table in (TOMBSTONES, REPORTS):
        query = select(table.c.report_id, table.c.site_id).where(table.c.report_id.in_(report_ids))
        found.update((row.report_id, row.site_id) for row in connection.execute(query))
    return found


def _conditions(query: TrailQuery) -> list[Any]:
    wanted = (
        (EVENTS.c.site_id, query.site_id),
        (EVENTS.c.report_id, query.report_id),
        (EVENTS.c.action, query.action),
        (ACCOUNTS.c.email, query.user and query.user.strip().lower()),
    )
    conditions = [column == value for column, value in wanted if value is not None]
    if query.before is not None:
        conditions.append(EVENTS.c.sequence < query.before)
    if query.since is not None:
        conditions.append(EVENTS.c.at >= query.since)
    if query.until is not None:
        conditions.append(EVENTS.c.at < query.until)
    return conditions


def _row(row: Any) -> AuditRow:
    return AuditRow(
        row.sequence,
        row.at,
        row.site_id or "",
        row.action,
        row.outcome,
        row.email or "",
        row.token_id,
        row.report_id or "",
        dict(row.details),
        row.hash,
    )
