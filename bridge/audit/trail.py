"""
Queries of the audit trail: its events by criteria, newest first or page by page.

Events identify reports by id, and name no patient.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from sqlalchemy import (
    ColumnElement,
    Connection,
    FromClause,
    Select,
    String,
    and_,
    case,
    column,
    literal,
    or_,
    select,
    table,
)

from bridge.audit.chain import ENGINE_CHAIN, Chain
from bridge.audit.events import AuditOrigin, Outcome
from bridge.audit.fhir import AuditEntry

_ACCOUNTS: Final = table("engine_account", column("id"), column("email"))
PAGE: Final = 500
_PEOPLE: Final = (AuditOrigin.API, AuditOrigin.APP, AuditOrigin.CONSOLE)


@dataclass(frozen=True, slots=True)
class TrailQuery:
    """A query of the trail. None does not restrict; times are in ms, `until` is excluded."""

    site_id: str | None = None
    since: int | None = None
    until: int | None = None
    report_id: str | None = None
    action: str | None = None
    user: str | None = None
    before: int | None = None
    """A sequence number: only events before it."""
    target: tuple[str, str] | None = None
    origins: tuple[str, ...] = ()
    sites: Collection[str] | None = None


@dataclass(frozen=True, slots=True)
class AuditRow:
    """One event of the trail; `user` is an account's address, `actor` may be a system user."""

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
            "at": _iso(self.at),
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
        """The ids of all reports of the event."""
        more = self.details.get("reports", ())
        return (self.report_id, *more) if self.report_id else tuple(more)

    def entry(self) -> AuditEntry:
        """Return the event in the form that the FHIR export needs."""
        return AuditEntry(
            str(self.sequence),
            self.at,
            self.action,
            self.outcome == Outcome.SUCCESS,
            self.site_id,
            self.user or ("" if self.origin == AuditOrigin.SERVICE else self.actor),
            self.token_id,
            self.reports,
            self.details,
            self.source,
            (self.target_type, self.target_id),
            {"before": self.changed_from, "after": self.changed_to},
        )


def read_page(
    connection: Connection,
    query: TrailQuery,
    after: int = 0,
    limit: int = PAGE,
    chain: Chain = ENGINE_CHAIN,
) -> list[AuditRow]:
    """Return at most `limit` events after the sequence number `after`, oldest first."""
    column = chain.table.c.sequence
    statement = _query(query, chain).where(column > after).order_by(column).limit(limit)
    return [_row(row) for row in connection.execute(statement)]


def read_newest(
    connection: Connection, query: TrailQuery, limit: int = PAGE, chain: Chain = ENGINE_CHAIN
) -> list[AuditRow]:
    """Return the newest events, newest first."""
    statement = _query(query, chain).order_by(chain.table.c.sequence.desc()).limit(limit)
    return [_row(row) for row in connection.execute(statement)]


def pages(
    connection: Connection, query: TrailQuery, chain: Chain = ENGINE_CHAIN
) -> Iterator[list[AuditRow]]:
    """Yield all events of a query, oldest first; only one page is in memory at a time."""
    after = 0
    while rows := read_page(connection, query, after, chain=chain):
        yield rows
        after = rows[-1].sequence


def _query(query: TrailQuery, chain: Chain) -> Select[Any]:
    """Build the query. Events of version 1 name an account only by its number."""
    events = chain.table.c
    email: ColumnElement[Any]
    if chain is ENGINE_CHAIN:
        source: FromClause = chain.table.outerjoin(_ACCOUNTS, events.account_id == _ACCOUNTS.c.id)
        email = _ACCOUNTS.c.email
    else:
        source, email = chain.table, literal(None, String)
    # A person's address at the time of the event takes precedence over the account's current one.
    email = case(
        (and_(events.origin.in_(_PEOPLE), events.actor.like("%@%")), events.actor), else_=email
    )
    statement = select(chain.table, email.label("email")).select_from(source)
    exact = (
        (events.site_id, query.site_id),
        (events.report_id, query.report_id),
        (events.action, query.action),
    )
    conditions = [column == value for column, value in exact if value is not None]
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


def _iso(milliseconds: int) -> str:
    moment = datetime.fromtimestamp(milliseconds / 1000, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


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
