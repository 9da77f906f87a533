"""
Known reports: the last status, release and addenda of each report, by its orders.

Within the caller's transaction. `change_processor` and `status_poll` compare news with it.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from sqlalchemy import Connection

from bridge.store.records import order_index
from bridge.store.records.order_index import OrderIndexKey
from bridge.store.statements import (
    BoundStatement,
    BulkStatement,
    StatementResult,
    bind_keys,
    bind_rows,
    execute_all,
    execute_keys,
    key_statement,
    unnest,
)

NEVER = 2**62
"""When a report that needs no more asking is asked for again, in ms."""

_SEEN = key_statement(
    """
    SELECT site, accession, mrn, report_id, status, final, addenda, changed_at, check_at
    FROM report_seen WHERE site = :site AND accession IN :accessions
    """,
    "accessions",
    "text",
)

_RELEASED = key_statement(
    """
    SELECT report_id FROM report_seen
    WHERE site = :site AND accession IN :accessions AND final = 1
    """,
    "accessions",
    "text",
)

_COLUMNS = (
    *((name, "text") for name in ("site", "mrn", "accession", "report_id", "status")),
    *((name, "bigint") for name in ("final", "addenda", "changed_at", "check_at")),
)
_NAMES = ", ".join(name for name, _ in _COLUMNS)
_KINDS = tuple(kind for _, kind in _COLUMNS)
_KNOWN = """
    ON CONFLICT (site, accession, mrn) DO UPDATE SET
        report_id = excluded.report_id, status = excluded.status, final = excluded.final,
        addenda = excluded.addenda, changed_at = excluded.changed_at,
        check_at = excluded.check_at
"""
_REMEMBER = BulkStatement(
    _KINDS,
    f"INSERT INTO report_seen ({_NAMES}) VALUES ({', '.join('?' * len(_COLUMNS))}) {_KNOWN}",  # noqa: S608  # our own names
    f"INSERT INTO report_seen ({_NAMES}) SELECT * FROM {unnest(_KINDS)} {_KNOWN}",  # noqa: S608  # our own names
)


@dataclass(frozen=True, slots=True)
class Seen:
    """What was known of an order's report when we last heard of it; times in ms."""

    key: OrderIndexKey
    report_id: str
    status: str
    final: bool
    addenda: int
    changed_at: int
    check_at: int = NEVER


@dataclass(frozen=True, slots=True)
class SeenAsked:
    """What was known of these orders' reports, to be asked with others."""

    keys: Collection[OrderIndexKey]
    words: Sequence[BoundStatement]

    def read(self, answers: Sequence[StatementResult]) -> dict[OrderIndexKey, Seen]:
        """Read the answers."""
        found = [
            Seen(
                OrderIndexKey(row.site, row.mrn, row.accession),
                row.report_id,
                row.status,
                bool(row.final),
                row.addenda,
                row.changed_at,
                row.check_at,
            )
            for answer in answers
            for row in answer
        ]
        return {each.key: each for each in found if each.key in self.keys}


def seen_asked(connection: Connection, keys: Sequence[OrderIndexKey]) -> SeenAsked:
    """Ask what was known of these orders' reports: by site and accession, as in `order_index`."""
    wanted = frozenset(keys)
    return SeenAsked(
        wanted,
        [
            bind_keys(connection, _SEEN, accessions, site=site)
            for site, accessions in order_index.by_site(wanted)
        ],
    )


def released_of(connection: Connection, keys: Sequence[OrderIndexKey]) -> frozenset[str]:
    """Name the reports of these orders whose release was learned of, under whatever MRN."""
    return frozenset(
        row.report_id
        for site, accessions in order_index.by_site(keys)
        for row in execute_keys(connection, _RELEASED, accessions, site=site)
    )


def remember(connection: Connection, seen: Sequence[Seen]) -> None:
    """Write down what is known now."""
    execute_all(connection, remembered(connection, seen))


def remembered(connection: Connection, seen: Sequence[Seen]) -> list[BoundStatement]:
    """Give what `remember` writes, to be run with others; of one order the last is kept."""
    last = {each.key: each for each in seen}
    rows = [
        (
            *each.key,
            each.report_id,
            each.status,
            int(each.final),
            each.addenda,
            each.changed_at,
            each.check_at,
        )
        for each in last.values()
    ]
    return [bind_rows(connection, _REMEMBER, rows)] if rows else []
