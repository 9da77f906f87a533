"""
Known reports: the last status, release and addenda of each report, by its orders.

Within the caller's transaction. `change_processor` and `status_poll` compare news with it.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from sqlalchemy import Connection

from bridge.store.records import order_index
from bridge.store.records.order_index import Key
from bridge.store.statements import (
    Answer,
    Step,
    Words,
    among,
    ask,
    asked,
    carried,
    run_all,
    unnested,
)

NEVER = 2**62
"""When a report that needs no more asking is asked for again, in ms."""

_SEEN = among(
    """
    SELECT site, accession, mrn, report_id, status, final, addenda, changed_at, check_at
    FROM report_seen WHERE site = :site AND accession IN :accessions
    """,
    "accessions",
    "text",
)

_RELEASED = among(
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
_REMEMBER = Step(
    _KINDS,
    f"INSERT INTO report_seen ({_NAMES}) VALUES ({', '.join('?' * len(_COLUMNS))}) {_KNOWN}",  # noqa: S608  # our own names
    f"INSERT INTO report_seen ({_NAMES}) SELECT * FROM {unnested(_KINDS)} {_KNOWN}",  # noqa: S608  # our own names
)


@dataclass(frozen=True, slots=True)
class Seen:
    """What was known of an order's report when we last heard of it; times in ms."""

    key: Key
    report_id: str
    status: str
    final: bool
    addenda: int
    changed_at: int
    check_at: int = NEVER


@dataclass(frozen=True, slots=True)
class SeenAsked:
    """What was known of these orders' reports, to be asked with others."""

    keys: Collection[Key]
    words: Sequence[Words]

    def read(self, answers: Sequence[Answer]) -> dict[Key, Seen]:
        """Read the answers."""
        found = [
            Seen(
                Key(row.site, row.mrn, row.accession),
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


def seen_asked(connection: Connection, keys: Sequence[Key]) -> SeenAsked:
    """Ask what was known of these orders' reports: by site and accession, as in `order_index`."""
    wanted = frozenset(keys)
    return SeenAsked(
        wanted,
        [
            asked(connection, _SEEN, accessions, site=site)
            for site, accessions in order_index.by_site(wanted)
        ],
    )


def released_of(connection: Connection, keys: Sequence[Key]) -> frozenset[str]:
    """Name the reports of these orders whose release was learned of, under whatever MRN."""
    return frozenset(
        row.report_id
        for site, accessions in order_index.by_site(keys)
        for row in ask(connection, _RELEASED, accessions, site=site)
    )


def remember(connection: Connection, seen: Sequence[Seen]) -> None:
    """Write down what is known now."""
    run_all(connection, remembered(connection, seen))


def remembered(connection: Connection, seen: Sequence[Seen]) -> list[Words]:
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
    return [carried(connection, _REMEMBER, rows)] if rows else []
