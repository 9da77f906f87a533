"""
The status of many reports at once: a few statements over columns, no rows of the whole report.

Says what `reading.status_records` says of reports that are already loaded.
"""

from collections.abc import Sequence
from typing import Any, Final

from sqlalchemy import BindParameter, Connection, bindparam, func, or_, select

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

_KEYS: Final[BindParameter[Any]] = bindparam("keys", expanding=True)
_REPORTS: Final = (
    select(
        REPORTS.c.pk,
        REPORTS.c.report_id,
        REPORTS.c.status,
        REPORTS.c.cooling_until,
        or_(
            func.ltrim(REPORTS.c.content_text, _BLANK) != "",
            REPORTS.c.template_number.is_not(None),
        ),
        ACCOUNTS.c.email,
    )
    .join_from(REPORTS, ACCOUNTS, REPORTS.c.owner_id == ACCOUNTS.c.id, isouter=True)
    .where(REPORTS.c.pk.in_(_KEYS))
)
_GROUPS: Final = (
    select(ORDERS.c.report_pk, ORDERS.c.site_id, ORDERS.c.mrn, ORDERS.c.accession)
    .where(ORDERS.c.report_pk.in_(_KEYS))
    .order_by(ORDERS.c.position, ORDERS.c.pk)
)
_WINDOWS: Final = (
    select(ADDENDA.c.report_pk, ADDENDA.c.cooling_until)
    .where(ADDENDA.c.report_pk.in_(_KEYS), ADDENDA.c.state == AddendumState.SIGNED)
    .order_by(ADDENDA.c.signed_at, ADDENDA.c.pk)
)


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
    # All at once, here and below: to fetch each row by itself costs as much again.
    rows = connection.execute(_REPORTS, {"keys": keys}).all()
    return {
        key: StatusRecord(
            report_id=report_id,
            status=status,
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
    for key, *identity in connection.execute(_GROUPS, {"keys": keys}).all():
        groups.setdefault(key, []).append(Triple(*identity))
    return groups


def _addendum_windows(connection: Connection, keys: Sequence[int], now: int) -> dict[int, int]:
    """Return until when the newest signed addendum of each report can be recalled."""
    newest = {
        row.report_pk: row.cooling_until
        for row in connection.execute(_WINDOWS, {"keys": keys}).all()
    }
    return {key: until for key, until in newest.items() if until is not None and now < until}
