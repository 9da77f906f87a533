"""
Refusals of callers that nobody knows, counted by minute, action, code and source.

Anybody can cause them, so each minute has a bounded number of rows, whatever the number of
requests and of addresses: further sources are counted as `others`. The rows are outside of the
hash chain and can be pruned.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import Connection, delete, insert, select, update

from bridge.audit.events import AuditEvent, Outcome
from bridge.engine.records.tables import metadata
from bridge.engine.rules.moments import iso
from bridge.network_source import parse_address, source_of_parsed

ROWS = metadata.tables["engine_audit_anonymous"]
LOCK: Final = "engine audit anonymous"
MOST_A_MINUTE: Final = 16
"""Rows with a source of their own; beside these, one row `others` for each action and code."""
OTHERS: Final = "others"
_MINUTE_MS: Final = 60_000


@dataclass(frozen=True, slots=True)
class Key:
    """What is counted together; `minute` is its begin in milliseconds."""

    minute: int
    action: str
    code: str
    source: str


def is_anonymous(event: AuditEvent) -> bool:
    """Tell whether an event is a refusal of a caller that nobody knows."""
    known = event.actor or event.account_id is not None or event.token_id is not None
    return event.outcome is Outcome.REFUSED and not known


class Tally:
    """Counts in memory until they are written; bounded as the rows are."""

    def __init__(self) -> None:
        self._counts: Counter[Key] = Counter()

    def __bool__(self) -> bool:
        return bool(self._counts)

    def count(self, event: AuditEvent, at: int) -> None:
        """Count one refusal."""
        minute = at - at % _MINUTE_MS
        code = str(event.details.get("code", ""))
        key = Key(minute, event.action, code, _source(event.source))
        if key not in self._counts and len(self._counts) >= MOST_A_MINUTE:
            key = Key(minute, event.action, code, OTHERS)
        self._counts[key] += 1

    def take(self) -> Counter[Key]:
        """Return what was counted, and begin anew."""
        taken, self._counts = self._counts, Counter()
        return taken

    def give_back(self, counts: Mapping[Key, int]) -> None:
        """Count again what could not be written."""
        self._counts.update(counts)


def _source(address: str) -> str:
    """Return the source of an address; a text that is no address is counted with the others."""
    parsed = parse_address(address)
    return OTHERS if parsed is None else source_of_parsed(parsed)


def add(connection: Connection, counts: Mapping[Key, int]) -> None:
    """Add counts to the rows, in a transaction that holds `LOCK`."""
    known: dict[int, set[Key]] = {}
    for key, count in counts.items():
        if key.minute not in known:
            query = select(ROWS).where(ROWS.c.minute == key.minute)
            known[key.minute] = {
                Key(row.minute, row.action, row.code, row.source)
                for row in connection.execute(query)
            }
        rows = known[key.minute]
        if key not in rows and sum(row.source != OTHERS for row in rows) >= MOST_A_MINUTE:
            key = Key(key.minute, key.action, key.code, OTHERS)  # noqa: PLW2901  # the row it is counted in
        if key in rows:
            same = [ROWS.c[name] == getattr(key, name) for name in Key.__slots__]
            connection.execute(update(ROWS).where(*same).values(count=ROWS.c.count + count))
        else:
            values = {name: getattr(key, name) for name in Key.__slots__}
            connection.execute(insert(ROWS).values(**values, count=count))
            rows.add(key)


def newest(connection: Connection, since: int | None, limit: int) -> list[dict[str, Any]]:
    """Return rows as `audit list` shows them, the newest first: they are no part of the chain."""
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
    """Remove the rows of minutes before a moment; return how many."""
    return connection.execute(delete(ROWS).where(ROWS.c.minute < moment)).rowcount
