"""
What the audit trail asks the engine: the sites and patients of reports, and anonymous refusals.

Anybody can cause refused anonymous requests. They are therefore counted: each minute has a bounded
number of rows, independent of the number of requests and addresses, and further sources are counted
as `others`. These rows are not part of the hash chain and can be pruned.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import Connection, delete, insert, select, update

from bridge.audit.events import AuditEvent, Outcome
from bridge.engine.records.tables import metadata
from bridge.engine.rules.timestamps import iso
from bridge.network_source import parse_address, source_of_parsed

REPORTS = metadata.tables["engine_report"]
TOMBSTONES = metadata.tables["engine_tombstone"]
ORDERS = metadata.tables["engine_report_order"]

_PAGE: Final = 500


def patients_of(
    connection: Connection, report_ids: Sequence[str]
) -> dict[str, list[tuple[str, str]]]:
    """Return the patients (site, MRN) of reports that still exist, in the order of linking."""
    found: dict[str, list[tuple[str, str]]] = {}
    for start in range(0, len(report_ids), _PAGE):
        query = (
            select(REPORTS.c.report_id, ORDERS.c.site_id, ORDERS.c.mrn)
            .join_from(ORDERS, REPORTS, ORDERS.c.report_pk == REPORTS.c.pk)
            .where(REPORTS.c.report_id.in_(report_ids[start : start + _PAGE]))
            .order_by(ORDERS.c.pk)
        )
        for row in connection.execute(query):
            found.setdefault(row.report_id, []).append((row.site_id, row.mrn))
    return found


def sites_of(connection: Connection, report_ids: Sequence[str]) -> dict[str, str]:
    """Return the sites of reports, including deleted ones."""
    found: dict[str, str] = {}
    for table in (TOMBSTONES, REPORTS):
        for start in range(0, len(report_ids), _PAGE):
            some = report_ids[start : start + _PAGE]
            query = select(table.c.report_id, table.c.site_id).where(table.c.report_id.in_(some))
            found.update((row.report_id, row.site_id) for row in connection.execute(query))
    return found


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
