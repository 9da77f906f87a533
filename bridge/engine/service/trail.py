"""
Read the audit trail back: for a site's administrators, for commands, for an export.

The trail knows reports by their ids; the patients behind them are looked up only when asked for.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    FromClause,
    Select,
    String,
    and_,
    case,
    literal,
    or_,
    select,
)

from bridge.audit.chain import ENGINE_CHAIN, Chain
from bridge.audit.events import Origin, Outcome
from bridge.engine.documents.audit_event import AuditEntry, Subject
from bridge.engine.records.tables import metadata
from bridge.engine.rules.moments import iso

ACCOUNTS = metadata.tables["engine_account"]
REPORTS = metadata.tables["engine_report"]
TOMBSTONES = metadata.tables["engine_tombstone"]
ORDERS = metadata.tables["engine_report_order"]

PAGE = 500
_PEOPLE = (Origin.API, Origin.APP, Origin.CONSOLE)


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
    target: tuple[str, str] | None = None
    origins: tuple[str, ...] = ()
    sites: Collection[str] | None = None


@dataclass(frozen=True, slots=True)
class AuditRow:
    """One event of the trail; `user` is an account's address, `actor` also a command's user."""

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
    account_id: int | None = None
    actor: str = ""
    origin: str = ""
    source: str = ""
    node: str = ""
    target_type: str = ""
    target_id: str = ""
    changed_from: dict[str, Any] | None = None
    changed_to: dict[str, Any] | None = None
    previous_hash: str = ""

    def as_json(self) -> dict[str, Any]:
        """Return the event as the API shows it."""
        return {
            "sequence": self.sequence,
            "at": iso(self.at),
            "SiteID": self.site_id,
            "action": self.action,
            "outcome": self.outcome,
            "userEmail": self.user,
            "tokenId": self.token_id,
            "reportId": self.report_id or None,
            "details": self.details,
            "accountId": self.account_id,
            "actor": self.actor,
            "origin": self.origin,
            "source": self.source,
            "node": self.node,
            "target": {"type": self.target_type, "id": self.target_id},
            "before": self.changed_from,
            "after": self.changed_to,
            "previousHash": self.previous_hash,
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
            self.user or ("" if self.origin == Origin.SERVICE else self.actor),
            self.token_id,
            self.reports,
            self.details,
            self.source,
            (self.target_type, self.target_id),
            {"before": self.changed_from, "after": self.changed_to},
        )


def page(
    connection: Connection,
    query: TrailQuery,
    after: int = 0,
    limit: int = PAGE,
    chain: Chain = ENGINE_CHAIN,
) -> list[AuditRow]:
    """Return at most `limit` events behind the sequence number `after`, oldest first."""
    column = chain.table.c.sequence
    statement = _wanted(query, chain).where(column > after).order_by(column).limit(limit)
    return [_row(row) for row in connection.execute(statement)]


def newest(
    connection: Connection, query: TrailQuery, limit: int = PAGE, chain: Chain = ENGINE_CHAIN
) -> list[AuditRow]:
    """Return the newest events, the newest first."""
    statement = _wanted(query, chain).order_by(chain.table.c.sequence.desc()).limit(limit)
    return [_row(row) for row in connection.execute(statement)]


def walk(
    connection: Connection, query: TrailQuery, chain: Chain = ENGINE_CHAIN
) -> Iterator[AuditRow]:
    """Give all events of a query, oldest first, a page in memory at a time."""
    after = 0
    while rows := page(connection, query, after, chain=chain):
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


def _wanted(query: TrailQuery, chain: Chain) -> Select[Any]:
    """Select events; those of the first form name an account by its number alone."""
    events = chain.table.c
    email: ColumnElement[Any]
    if chain is ENGINE_CHAIN:
        source: FromClause = chain.table.outerjoin(ACCOUNTS, events.account_id == ACCOUNTS.c.id)
        email = ACCOUNTS.c.email
    else:
        source, email = chain.table, literal(None, String)
    email = case(
        (and_(events.origin.in_(_PEOPLE), events.actor.like("%@%")), events.actor), else_=email
    )
    statement = select(chain.table, email.label("email")).select_from(source)
    wanted = (
        (events.site_id, query.site_id),
        (events.report_id, query.report_id),
        (events.action, query.action),
    )
    conditions = [column == value for column, value in wanted if value is not None]
    if query.user is not None:
        user = query.user.strip().lower()
        conditions.append(or_(email == user, events.actor == user))
    if query.target is not None:
        conditions += [events.target_type == query.target[0], events.target_id == query.target[1]]
    if query.origins:
        conditions.append(events.origin.in_(query.origins))
    if query.sites is not None:
        conditions.append(events.site_id.in_(sorted(query.sites)))
    if query.before is not None:
        conditions.append(events.sequence < query.before)
    if query.since is not None:
        conditions.append(events.at >= query.since)
    if query.until is not None:
        conditions.append(events.at < query.until)
    return statement.where(*conditions)


def _row(row: Any) -> AuditRow:
    email = row.email or ""
    return AuditRow(
        row.sequence,
        row.at,
        row.site_id or "",
        row.action,
        row.outcome,
        email,
        row.token_id,
        row.report_id or "",
        dict(row.details),
        row.hash,
        row.account_id,
        row.actor or email,
        row.origin or "",
        row.source or str(row.details.get("client", "")),
        row.node or "",
        row.target_type or "",
        row.target_id or "",
        row.before,
        row.after,
        row.previous_hash,
    )
