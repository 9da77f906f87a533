"""
The status of many reports at once: a few statements over columns, no rows of the whole report.

Says what `reading.status_records` says of reports that are already loaded.
"""

from collections.abc import Sequence
from typing import Any, Final

from sqlalchemy import Connection

from bridge.engine.errors import ReportNotFound
from bridge.engine.rules.cooling import is_cooling
from bridge.engine.rules.identity import Triple
from bridge.engine.rules.status import AddendumState, Status
from bridge.engine.service.finding import places_of
from bridge.engine.service.reading import StatusRecord
from bridge.store.steps import among, ask

_BLANK = "".join(chr(code) for code in range(0x3001) if chr(code).isspace())
"""What `str.strip` takes away: a text of nothing else is no content."""

# The text of each is the same, however many reports are asked for: it is planned once.
_REPORTS: Final = among(
    """
    SELECT r.pk, r.report_id, r.status, r.cooling_until,
        ltrim(r.content_text, :blank) != '' OR r.template_number IS NOT NULL, a.email
    FROM engine_report AS r LEFT JOIN engine_account AS a ON a.id = r.owner_id
    WHERE r.pk IN :keys
    """,
    "keys",
)
_GROUPS: Final = among(
    """
    SELECT o.report_pk, o.site_id, o.mrn, o.accession FROM engine_report_order AS o
    WHERE o.report_pk IN :keys ORDER BY o.position, o.pk
    """,
    "keys",
)
_WINDOWS: Final = among(
    """
    SELECT a.report_pk, a.cooling_until FROM engine_addendum AS a
    WHERE a.report_pk IN :keys AND a.state = :signed ORDER BY a.signed_at, a.pk
    """,
    "keys",
)


def query_status(connection: Connection, triples: Sequence[Triple], now: int) -> list[StatusRecord]:
    """
    Return one record for each report found, in the order of its first mention.

    Raise ReportNotFound when the only triple asked for is unknown.
    """
    places = places_of(connection, triples)
    if not places and len(set(triples)) == 1:
        raise ReportNotFound
    keys = dict.fromkeys(places[each] for each in triples if each in places)
    records = _records(connection, list(keys), now)
    return [records[key] for key in keys if key in records]


def _records(connection: Connection, keys: Sequence[int], now: int) -> dict[int, StatusRecord]:
    groups = _groups(connection, keys)
    windows = _addendum_windows(connection, keys, now)
    # All at once, here and below: to fetch each row by itself costs as much again.
    rows: Sequence[Any] = ask(connection, _REPORTS, keys, blank=_BLANK).all()
    return {
        key: StatusRecord(
            report_id=report_id,
            status=Status(status),
            user_email=email or "",
            unsign_until=until if is_cooling(until, now) else None,
            orders=tuple(groups[key]),
            has_content=bool(written),
            addendum_unsign_until=windows.get(key),
        )
        for key, report_id, status, until, written, email in rows
        if key in groups
    }


def _groups(connection: Connection, keys: Sequence[int]) -> dict[int, list[Triple]]:
    """Return the orders of reports, each group with its anchor first."""
    groups: dict[int, list[Triple]] = {}
    rows: Sequence[Any] = ask(connection, _GROUPS, keys).all()
    for key, *identity in rows:
        groups.setdefault(key, []).append(Triple(*identity))
    return groups


def _addendum_windows(connection: Connection, keys: Sequence[int], now: int) -> dict[int, int]:
    """Return until when the newest signed addendum of each report can be recalled."""
    rows: Sequence[Any] = ask(connection, _WINDOWS, keys, signed=AddendumState.SIGNED.value).all()
    newest = dict(map(tuple, rows))
    return {key: until for key, until in newest.items() if until is not None and now < until}
