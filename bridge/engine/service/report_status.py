"""
Report status: the status record of one report or of many, and lookup of a report for reading.

Nothing is locked or changed (interface reference: status, content). `status_records` is for reports
of a unit of work, `query_status` for orders of a request.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from sqlalchemy import BindParameter, Connection, Row, bindparam, exists, func, or_
from sqlalchemy import select as select_columns
from sqlalchemy.orm import defer
from sqlmodel import Session, col, select

from bridge.contract import OrderKey
from bridge.contract.errors import ErrorCode
from bridge.contract.responses import StatusRecordBody
from bridge.engine.errors import EngineError
from bridge.engine.records.tables import (
    Account,
    Addendum,
    PrelimRead,
    Report,
    ReportOrder,
    Site,
)
from bridge.engine.rules.lifecycle import AddendumState
from bridge.engine.rules.signing import is_cooling
from bridge.engine.service.report_lookup import find_orders, find_report_keys, key_of
from bridge.store.columns import one_of

# Built once: building a statement costs more than executing it.
_ORDERS = (
    select(ReportOrder)
    .where(one_of(col(ReportOrder.report_pk), "keys"))
    .order_by(col(ReportOrder.position), col(ReportOrder.pk))
)


def has_content(report: Report) -> bool:
    """True if a report has content. An applied template counts as content."""
    return bool(report.content_text.strip()) or report.template_number is not None


def status_records(session: Session, reports: Sequence[Report], now: int) -> list[StatusRecordBody]:
    session.flush()
    keys = [key_of(report) for report in reports]
    records = records_by_key(session.connection(), keys, now)
    return [records[key] for key in keys]


_REPORT: Final[BindParameter[int]] = bindparam("report")
_CONTEXT: Final = (
    select_columns(
        col(Site.sign_delay),
        select(Account.email)
        .where(col(Account.id) == bindparam("owner"))
        .scalar_subquery()
        .label("email"),
        exists().where(col(PrelimRead.report_pk) == _REPORT).label("prelims"),
        exists().where(col(Addendum.report_pk) == _REPORT).label("addenda"),
        col(ReportOrder.site_id),
        col(ReportOrder.location),
        col(ReportOrder.mrn),
        col(ReportOrder.accession),
        col(ReportOrder.tags),
        col(ReportOrder.order_metadata),
        col(ReportOrder.elsewhere_since),
        col(ReportOrder.elsewhere),
    )
    .select_from(Site)
    .outerjoin(ReportOrder, col(ReportOrder.report_pk) == _REPORT)
    .where(col(Site.site_id) == bindparam("site"))
    .order_by(col(ReportOrder.position), col(ReportOrder.pk))
)


@dataclass(frozen=True, slots=True)
class ReportContext:
    """What belongs to a report and is not in its own row; `sign_delay` (seconds) is the site's."""

    orders: Sequence[Row[Any]] = field(repr=False)
    user_email: str
    sign_delay: int
    has_prelims: bool
    has_addenda: bool
    addendum_unsign_until: int | None

    @classmethod
    def of(cls, session: Session, report: Report, now: int) -> "ReportContext":
        session.flush()
        connection, key = session.connection(), key_of(report)
        values = {"site": report.site_id, "owner": report.owner_id, "report": key}
        rows = connection.execute(_CONTEXT, values).all()
        orders = [row for row in rows if row.accession is not None]  # one row without an order
        first = rows[0]
        ends = _addendum_cooling_ends(connection, [key], now) if first.addenda else {}
        return cls(
            orders,
            first.email or "",
            first.sign_delay or 0,
            first.prelims,
            first.addenda,
            ends.get(key),
        )

    def record(self, report: Report, now: int) -> StatusRecordBody:
        return StatusRecordBody.model_construct(
            report_id=report.report_id,
            status=report.status,
            user_email=self.user_email,
            unsign_until=report.cooling_until if is_cooling(report.cooling_until, now) else None,
            orders=tuple(map(identity_of, self.orders)),
            has_content=has_content(report),
            addendum_unsign_until=self.addendum_unsign_until,
        )


def identity_of(order: Row[Any]) -> OrderKey:
    return OrderKey(order.site_id, order.mrn, order.accession)


def orders_by_report(session: Session, keys: Sequence[int]) -> dict[int, list[ReportOrder]]:
    """Return the orders of many reports, each list with its anchor first."""
    groups: dict[int, list[ReportOrder]] = {key: [] for key in keys}
    for row in session.exec(_ORDERS, params={"keys": list(keys)}):
        groups[row.report_pk].append(row)
    return groups


_TEXTS: Any = (Report.document, Report.content_text)
DEFERRED_TEXTS: Final = tuple(map(defer, _TEXTS))
"""Options of a query for many reports: their texts are loaded on access."""


def reports_by_key(session: Session, keys: Sequence[int]) -> dict[int, Report]:
    """Return reports by their keys; their texts are loaded on access."""
    query = select(Report).options(*DEFERRED_TEXTS).where(col(Report.pk).in_(keys))
    rows = session.exec(query)
    return {key_of(row): row for row in rows}


def read_report(session: Session, identity: OrderKey) -> Report:
    """Return the report of an order; raise `report_not_found`."""
    order = find_orders(session, [identity]).get(identity)
    report = session.get(Report, order.report_pk) if order else None
    if report is None:
        raise EngineError(ErrorCode.REPORT_NOT_FOUND)
    return report


_BLANK = "".join(chr(code) for code in range(0x3001) if chr(code).isspace())
"""The characters that `str.strip` removes: text of these alone is no content."""

_RECORDS: Final = (
    select_columns(
        col(Report.pk),
        col(Report.report_id),
        col(Report.status),
        col(Report.cooling_until),
        or_(
            func.ltrim(col(Report.content_text), _BLANK) != "",
            col(Report.template_number).is_not(None),
        ),
        col(Account.email),
    )
    .outerjoin(Account, col(Account.id) == col(Report.owner_id))
    .where(one_of(col(Report.pk), "keys"))
)
_GROUPS: Final = (
    select_columns(
        col(ReportOrder.report_pk),
        col(ReportOrder.site_id),
        col(ReportOrder.mrn),
        col(ReportOrder.accession),
    )
    .where(one_of(col(ReportOrder.report_pk), "keys"))
    .order_by(col(ReportOrder.position), col(ReportOrder.pk))
)
_ADDENDUM_COOLING: Final = (
    select_columns(col(Addendum.report_pk), col(Addendum.cooling_until))
    .where(one_of(col(Addendum.report_pk), "keys"), col(Addendum.state) == AddendumState.SIGNED)
    .order_by(col(Addendum.signed_at), col(Addendum.pk))
)


def query_status(
    connection: Connection, identities: Sequence[OrderKey], now: int
) -> list[StatusRecordBody]:
    """
    Return one record for each report found, in the order of its first mention.

    Raise `report_not_found` if the only requested order is unknown.
    """
    found = find_report_keys(connection, identities)
    if not found and len(set(identities)) == 1:
        raise EngineError(ErrorCode.REPORT_NOT_FOUND)
    keys = dict.fromkeys(found[order] for order in identities if order in found)
    records = records_by_key(connection, list(keys), now)
    return [records[key] for key in keys if key in records]


def records_by_key(
    connection: Connection, keys: Sequence[int], now: int
) -> dict[int, StatusRecordBody]:
    """Return the status records of reports by their keys; the texts of the reports are not read."""
    groups = _groups(connection, keys)
    cooling_ends = _addendum_cooling_ends(connection, keys, now)
    rows = connection.execute(_RECORDS, {"keys": keys})
    return {
        key: StatusRecordBody.model_construct(
            report_id=report_id,
            status=status,
            user_email=email or "",
            unsign_until=until if is_cooling(until, now) else None,
            orders=tuple(groups[key]),
            has_content=written,
            addendum_unsign_until=cooling_ends.get(key),
        )
        for key, report_id, status, until, written, email in rows
        if key in groups
    }


def _groups(connection: Connection, keys: Sequence[int]) -> dict[int, list[OrderKey]]:
    """Return the orders of reports, each list with its anchor first."""
    groups: dict[int, list[OrderKey]] = {}
    for key, *identity in connection.execute(_GROUPS, {"keys": keys}):
        groups.setdefault(key, []).append(OrderKey(*identity))
    return groups


def _addendum_cooling_ends(connection: Connection, keys: Sequence[int], now: int) -> dict[int, int]:
    """Return until when the newest signed addendum of each report can be unsigned."""
    rows = connection.execute(_ADDENDUM_COOLING, {"keys": keys})
    newest = {row.report_pk: row.cooling_until for row in rows}
    return {key: until for key, until in newest.items() if until is not None and now < until}
