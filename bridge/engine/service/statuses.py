"""
The status of many reports at once: a few statements over columns, no rows of the whole report.

Says what `reading.status_records` says of reports that are already loaded.
"""

from collections.abc import Sequence

from sqlalchemy import Connection, func, or_, select

from bridge.engine.errors import ReportNotFound
from bridge.engine.records.tables import metadata
from bridge.engine.rules.cooling import is_cooling
from bridge.engine.rules.identity import Triple
from bridge.engine.rules.status import AddendumState
from bridge.engine.service.finding import current_triples, report_keys
from bridge.engine.service.reading import StatusRecord

REPORTS = metadata.tables["engine_report"]
ORDERS = metadata.tables["engine_report_order"]
ACCOUNTS = metadata.tables["engine_account"]
ADDENDA = metadata.tables["engine_addendum"]

_BLANK = "".join(chr(code) for code in range(0x3001) if chr(code).isspace())
"""What `str.strip` takes away: a text of nothing else is no content."""


def query_status(connection: Connection, triples: Sequence[Triple], now: int) -> list[StatusRecord]:
    """
    Return one record for each report found, in the order of its first mention.

    Raise ReportNotFound when the only triple asked for is unknown.
    """
    asked = current_triples(connection, triples)
    places = report_keys(connection, set(asked.values()))
    if not places and len(asked) == 1:
        raise ReportNotFound
    keys = dict.fromkeys(places[asked[each]] for each in triples if asked[each] in places)
    records = _records(connection, list(keys), now)
    return [records[key] for key in keys if key in records]


def _records(connection: Connection, keys: Sequence[int], now: int) -> dict[int, StatusRecord]:
    groups = _groups(connection, keys)
    windows = _addendum_windows(connection, keys, now)
    written = func.ltrim(REPORTS.c.content_text, _BLANK) != ""
    query = (
        select(
            REPORTS.c.pk,
            REPORTS.c.report_id,
            REPORTS.c.status,
            REPORTS.c.cooling_until,
            or_(written, REPORTS.c.template_number.is_not(None)).label("has_content"),
            ACCOUNTS.c.email,
        )
        .join_from(REPORTS, ACCOUNTS, REPORTS.c.owner_id == ACCOUNTS.c.id, isouter=True)
        .where(REPORTS.c.pk.in_(keys))
    )
    return {
        row.pk: StatusRecord(
            report_id=row.report_id,
            status=row.status,
            user_email=row.email or "",
            unsign_until=row.cooling_until if is_cooling(row.cooling_until, now) else None,
            orders=tuple(groups[row.pk]),
            has_content=bool(row.has_content),
            addendum_unsign_until=windows.get(row.pk),
        )
        for row in connection.execute(query)
        if row.pk in groups
    }


def _groups(connection: Connection, keys: Sequence[int]) -> dict[int, list[Triple]]:
    """Return the orders of reports, each group with its anchor first."""
    query = (
        select(ORDERS.c.report_pk, ORDERS.c.site_id, ORDERS.c.mrn, ORDERS.c.accession)
        .where(ORDERS.c.report_pk.in_(keys))
        .order_by(ORDERS.c.position, ORDERS.c.pk)
    )
    groups: dict[int, list[Triple]] = {}
    for key, site_id, mrn, accession in connection.execute(query):
        groups.setdefault(key, []).append(Triple(site_id, mrn, accession))
    return groups


def _addendum_windows(connection: Connection, keys: Sequence[int], now: int) -> dict[int, int]:
    """Return until when the newest signed addendum of each report can be recalled."""
    query = (
        select(ADDENDA.c.report_pk, ADDENDA.c.cooling_until)
        .where(ADDENDA.c.report_pk.in_(keys), ADDENDA.c.state == AddendumState.SIGNED)
        .order_by(ADDENDA.c.signed_at, ADDENDA.c.pk)
    )
    newest = {row.report_pk: row.cooling_until for row in connection.execute(query)}
    return {key: until for key, until in newest.items() if until is not None and now < until}
