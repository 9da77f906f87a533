"""
Known reports: the last known status, release and addenda of each report, by its orders.

`change_feed` and `status_poll` compare changes with it, in their own transactions.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from sqlalchemy import Connection

from bridge.contract import OrderKey
from bridge.store.records import order_index
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
"""`check_at` of a report that needs no further status poll, in ms."""

_SELECT_KNOWN = key_statement(
    """
    SELECT site, accession, mrn, report_id, status, final, addenda, changed_at, check_at
    FROM known_report WHERE site = :site AND accession IN :accessions
    """,
    "accessions",
    "text",
)

_RELEASED = key_statement(
    """
    SELECT report_id FROM known_report
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
_UPSERT = """
    ON CONFLICT (site, accession, mrn) DO UPDATE SET
        report_id = excluded.report_id, status = excluded.status, final = excluded.final,
        addenda = excluded.addenda, changed_at = excluded.changed_at,
        check_at = excluded.check_at
"""
_SAVE = BulkStatement(
    _KINDS,
    f"INSERT INTO known_report ({_NAMES}) VALUES ({', '.join('?' * len(_COLUMNS))}) {_UPSERT}",  # noqa: S608  # our own names
    f"INSERT INTO known_report ({_NAMES}) SELECT * FROM {unnest(_KINDS)} {_UPSERT}",  # noqa: S608  # our own names
)


@dataclass(frozen=True, slots=True)
class KnownReport:
    """
    The last known state of the report of one order; times in ms.

    `final` tells whether its text is released, `addenda` how many addenda are.
    """

    key: OrderKey
    report_id: str
    status: str
    final: bool
    addenda: int
    changed_at: int
    check_at: int = NEVER


@dataclass(frozen=True, slots=True)
class KnownReportQuery:
    """The statements that read the known reports of orders, and the reader of their results."""

    keys: Collection[OrderKey]
    statements: Sequence[BoundStatement]

    def read(self, answers: Sequence[StatementResult]) -> dict[OrderKey, KnownReport]:
        found = [
            KnownReport(
                OrderKey(row.site, row.mrn, row.accession),
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


def query_known_reports(connection: Connection, keys: Sequence[OrderKey]) -> KnownReportQuery:
    """Make the query for the known reports of orders; it reads by site and accession."""
    wanted = frozenset(keys)
    return KnownReportQuery(
        wanted,
        [
            bind_keys(connection, _SELECT_KNOWN, accessions, site=site)
            for site, accessions in order_index.accessions_by_site(wanted)
        ],
    )


def known_reports(connection: Connection, keys: Sequence[OrderKey]) -> dict[OrderKey, KnownReport]:
    """Read the known reports of orders; unknown ones are absent."""
    query = query_known_reports(connection, keys)
    return query.read(execute_all(connection, query.statements))


def released_reports(connection: Connection, keys: Sequence[OrderKey]) -> frozenset[str]:
    """Return the ids of these orders' reports whose release is known; the MRN may differ."""
    return frozenset(
        row.report_id
        for site, accessions in order_index.accessions_by_site(keys)
        for row in execute_keys(connection, _RELEASED, accessions, site=site)
    )


def save(connection: Connection, reports: Sequence[KnownReport]) -> None:
    execute_all(connection, save_statements(connection, reports))


def save_statements(connection: Connection, reports: Sequence[KnownReport]) -> list[BoundStatement]:
    """
    Return the statements of `save`, to run with others; of several states of an order the last is
    stored.
    """
    last = {each.key: each for each in reports}
    rows = [
        (
            each.key.site,
            each.key.mrn,
            each.key.accession,
            each.report_id,
            each.status,
            int(each.final),
            each.addenda,
            each.changed_at,
            each.check_at,
        )
        for each in last.values()
    ]
    return [bind_rows(connection, _SAVE, rows)] if rows else []
