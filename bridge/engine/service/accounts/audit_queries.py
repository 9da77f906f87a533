"""
The audit trail: queries, and counts of refused anonymous requests.

Events identify reports by id. The patients are looked up only when a caller needs them.

Anybody can cause refused anonymous requests. They are therefore counted: each minute has a bounded
number of rows, independent of the number of requests and addresses, and further sources are counted
as `others`. These rows are not part of the hash chain and can be pruned.
"""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import (
    ColumnElement,
    Connection,
    FromClause,
    Select,
    String,
    and_,
    case,
    delete,
    insert,
    literal,
    or_,
    select,
    update,
)

from bridge.audit.chain import ENGINE_CHAIN, Chain
from bridge.audit.events import AuditEvent, AuditOrigin, Outcome
from bridge.engine.documents.fhir_audit_event import AuditedPatient, AuditEntry
from bridge.engine.records.tables import metadata
from bridge.engine.rules.timestamps import iso
from bridge.network_source import parse_address, source_of_parsed

ACCOUNTS = metadata.tables["engine_account"]
REPORTS = metadata.tables["engine_report"]
TOMBSTONES = metadata.tables["engine_tombstone"]
ORDERS = metadata.tables["engine_report_order"]

PAGE = 500
_PEOPLE = (AuditOrigin.API, AuditOrigin.APP, AuditOrigin.CONSOLE)


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


def iterate(
    connection: Connection, query: TrailQuery, chain: Chain = ENGINE_CHAIN
) -> Iterator[AuditRow]:
    """Yield all events of a query, oldest first; only one page is in memory at a time."""
    after = 0
    while rows := read_page(connection, query, after, chain=chain):
        yield from rows
        after = rows[-1].sequence


def patients_of(connection: Connection, report_ids: Sequence[str]) -> list[AuditedPatient]:
    """Return the patients of reports that still exist, each once."""
    found: dict[AuditedPatient, None] = {}
    for start in range(0, len(report_ids), PAGE):
        query = (
            select(ORDERS.c.site_id, ORDERS.c.mrn)
            .join_from(ORDERS, REPORTS, ORDERS.c.report_pk == REPORTS.c.pk)
            .where(REPORTS.c.report_id.in_(report_ids[start : start + PAGE]))
            .order_by(ORDERS.c.pk)
        )
        found.update(
            (AuditedPatient(row.site_id, row.mrn), None) for row in connection.execute(query)
        )
    return list(found)


def sites_of(connection: Connection, report_ids: Sequence[str]) -> dict[str, str]:
    """Return the sites of reports, including deleted ones."""
    found: dict[str, str] = {}
    for table in (TOMBSTONES, REPORTS):
        query = select(table.c.report_id, table.c.site_id).where(table.c.report_id.in_(report_ids))
        found.update((row.report_id, row.site_id) for row in connection.execute(query))
    return found


def _query(query: TrailQuery, chain: Chain) -> Select[Any]:
    """Build the query. Events of version 1 name an account only by its number."""
    events = chain.table.c
    email: ColumnElement[Any]
    if chain is ENGINE_CHAIN:
        source: FromClause = chain.table.outerjoin(ACCOUNTS, events.account_id == ACCOUNTS.c.id)
        email = ACCOUNTS.c.email
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


ROWS = metadata.tables["engine_audit_anonymous"]
LOCK: Final = "engine audit anonymous"
MAX_PER_MINUTE: Final = 16
"""Rows with their own source per minute. Each action and code has one more row, `others`."""
OTHERS: Final = "others"
_MINUTE_MS: Final = 60_000


@dataclass(frozen=True, slots=True)
class RefusalKey:
    """The refusals that are counted together; `minute` is its start in milliseconds."""

    minute: int
    action: str
    code: str
    source: str


def is_anonymous(event: AuditEvent) -> bool:
    """True if an event is a refusal of an unauthenticated caller."""
    known = event.actor or event.account_id is not None or event.token_id is not None
    return event.outcome is Outcome.REFUSED and not known


class RefusalTally:
    """Counts refusals in memory until they are written. It has the same bound as the rows."""

    def __init__(self) -> None:
        self._counts: Counter[RefusalKey] = Counter()

    def __bool__(self) -> bool:
        return bool(self._counts)

    def count(self, event: AuditEvent, at: int) -> None:
        minute = at - at % _MINUTE_MS
        code = str(event.details.get("code", ""))
        key = RefusalKey(minute, event.action, code, _source(event.source))
        if key not in self._counts and len(self._counts) >= MAX_PER_MINUTE:
            key = RefusalKey(minute, event.action, code, OTHERS)
        self._counts[key] += 1

    def take(self) -> Counter[RefusalKey]:
        taken, self._counts = self._counts, Counter()
        return taken

    def give_back(self, counts: Mapping[RefusalKey, int]) -> None:
        self._counts.update(counts)


def _source(address: str) -> str:
    """Return the network of an address; a text that is no address is counted with `others`."""
    parsed = parse_address(address)
    return OTHERS if parsed is None else source_of_parsed(parsed)


def add_counts(connection: Connection, counts: Mapping[RefusalKey, int]) -> None:
    """Add counts to the rows, in a transaction that holds `LOCK`."""
    known: dict[int, set[RefusalKey]] = {}
    for key, count in counts.items():
        if key.minute not in known:
            query = select(ROWS).where(ROWS.c.minute == key.minute)
            known[key.minute] = {
                RefusalKey(row.minute, row.action, row.code, row.source)
                for row in connection.execute(query)
            }
        rows = known[key.minute]
        if key not in rows and sum(row.source != OTHERS for row in rows) >= MAX_PER_MINUTE:
            key = RefusalKey(key.minute, key.action, key.code, OTHERS)  # noqa: PLW2901  # the row that gets the count
        if key in rows:
            same = [ROWS.c[name] == getattr(key, name) for name in RefusalKey.__slots__]
            connection.execute(update(ROWS).where(*same).values(count=ROWS.c.count + count))
        else:
            values = {name: getattr(key, name) for name in RefusalKey.__slots__}
            connection.execute(insert(ROWS).values(**values, count=count))
            rows.add(key)


def newest_anonymous(connection: Connection, since: int | None, limit: int) -> list[dict[str, Any]]:
    """Return rows as `audit list` shows them, newest first. They are not part of the chain."""
    query = select(ROWS).order_by(ROWS.c.minute.desc()).limit(limit)
    if since is not None:
        query = query.where(ROWS.c.minute >= since - _MINUTE_MS)
    return [
        {
            "sequence": None,
            "chained": False,
            "at": iso(row.minute),
            "action": row.action,
            "outcome": Outcome.REFUSED.value,
            "actor": "anonymous",
            "source": row.source,
            "target": {"type": "", "id": ""},
            "details": {"code": row.code, "count": row.count},
        }
        for row in connection.execute(query)
    ]


def purge_before(connection: Connection, moment: int) -> int:
    """Delete the rows of minutes before a moment; return their number."""
    return connection.execute(delete(ROWS).where(ROWS.c.minute < moment)).rowcount
