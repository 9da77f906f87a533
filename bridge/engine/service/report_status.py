"""
Report status: the status record of one report or of many, and lookup of a report for reading.

Nothing is locked or changed (interface reference: status, content). `status_records` is for reports
of a unit of work, `query_status` for orders of a request.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from sqlalchemy import Connection, bindparam
from sqlalchemy.orm import defer
from sqlmodel import Session, col, select

from bridge.engine.errors import ReportNotFound
from bridge.engine.records.tables import Report, ReportOrder
from bridge.engine.rules.lifecycle import AddendumState, Status
from bridge.engine.rules.order import OrderId
from bridge.engine.rules.signing import is_cooling
from bridge.engine.service.report_lookup import find_orders, find_report_keys, key_of
from bridge.store.statements import (
    BoundStatement,
    StatementResult,
    bind,
    dialect_statement,
    execute,
    execute_bound,
    execute_keys,
    key_statement,
    stored_json,
)

# Built once: building a statement costs more than executing it.
_ORDERS = (
    select(ReportOrder)
    .where(col(ReportOrder.report_pk).in_(bindparam("keys", expanding=True)))
    .order_by(col(ReportOrder.position), col(ReportOrder.pk))
)
_GROUP: Final = dialect_statement(
    """
    SELECT site_id, location, mrn, accession, tags, order_metadata FROM engine_report_order
    WHERE report_pk = :report ORDER BY position, pk
    """
)


@dataclass(frozen=True, slots=True)
class ReportStatusRecord:
    """The report status record of the interface reference, with two additional members."""

    report_id: str
    status: Status
    user_email: str
    unsign_until: int | None
    orders: tuple[OrderId, ...] = field(repr=False)
    has_content: bool
    addendum_unsign_until: int | None

    def as_json(self) -> dict[str, Any]:
        """
        Return the members as the interface reference spells them.

        `hasContent` and `addendumUnsignUntil` are additions.
        """
        return {
            "reportId": self.report_id,
            "status": self.status.value,
            "userEmail": self.user_email,
            "unsignUntil": self.unsign_until,
            "clinicalInfo": [
                {"SiteID": each.site_id, "PatientMRN": each.mrn, "Accession": each.accession}
                for each in self.orders
            ],
            "hasContent": self.has_content,
            "addendumUnsignUntil": self.addendum_unsign_until,
        }


def has_content(report: Report) -> bool:
    """True if a report has content. An applied template counts as content."""
    return bool(report.content_text.strip()) or report.template_number is not None


def status_records(
    session: Session, reports: Sequence[Report], now: int
) -> list[ReportStatusRecord]:
    session.flush()
    keys = [key_of(report) for report in reports]
    records = records_by_key(session.connection(), keys, now)
    return [records[key] for key in keys]


class GroupOrder(Protocol):
    """The members of an order that status records and the change feed contain."""

    @property
    def site_id(self) -> str:
        """The order's SiteID."""

    @property
    def location(self) -> str:
        """The order's SiteLocation, or ''."""

    @property
    def mrn(self) -> str:
        """The order's PatientMRN."""

    @property
    def accession(self) -> str:
        """The order's Accession."""

    @property
    def tags(self) -> Mapping[str, Any]:
        """The order's clinicalInfo tags that have a value."""

    @property
    def order_metadata(self) -> Mapping[str, Any]:
        """The order's Metadata."""


_SUMMARY: Final = dialect_statement(
    """
    SELECT s.sign_delay,
        (SELECT a.email FROM engine_account AS a WHERE a.id = :owner) AS email,
        EXISTS (SELECT 1 FROM engine_prelim_read AS p WHERE p.report_pk = :report) AS prelims,
        EXISTS (SELECT 1 FROM engine_addendum AS d WHERE d.report_pk = :report) AS addenda
    FROM engine_site AS s WHERE s.site_id = :site
    """
)


@dataclass(frozen=True, slots=True)
class ReportSummary:
    """
    Facts about a report from several tables, read with one statement.

    Sign delay of the site in seconds, e-mail address of the owner (or ''), and whether there are
    preliminary reads and addenda.
    """

    sign_delay: int
    user_email: str
    has_prelims: bool
    has_addenda: bool

    @classmethod
    def of(cls, connection: Connection, report: Report) -> "ReportSummary":
        return cls.read(execute(connection, _SUMMARY, **_parameters(report)))

    @classmethod
    def statement(cls, connection: Connection, report: Report) -> BoundStatement:
        """Return the statement for a batch; `read` reads its result."""
        return bind(connection, _SUMMARY, **_parameters(report))

    @classmethod
    def read(cls, result: StatementResult) -> "ReportSummary":
        """Read the result of `statement`."""
        row: Any = result.first()
        return cls(int(row.sign_delay or 0), row.email or "", bool(row.prelims), bool(row.addenda))


def _parameters(report: Report) -> dict[str, Any]:
    return {"site": report.site_id, "owner": report.owner_id, "report": report.pk}


@dataclass(frozen=True, slots=True)
class ReportContext:
    """The parts of a status record that are not in the report's own row."""

    orders: Sequence[GroupOrder] = field(repr=False)
    user_email: str
    addendum_unsign_until: int | None

    @classmethod
    def of(
        cls, session: Session, report: Report, now: int, summary: ReportSummary | None = None
    ) -> "ReportContext":
        """Read the context of one report; `summary` must be from the same transaction."""
        session.flush()
        connection = session.connection()
        summary = summary or ReportSummary.of(connection, report)
        orders = read_orders(execute_bound(connection, orders_statement(connection, report)))
        return cls.by(connection, report, now, summary, orders)

    @classmethod
    def by(
        cls,
        connection: Connection,
        report: Report,
        now: int,
        summary: ReportSummary,
        orders: Sequence[GroupOrder],
    ) -> "ReportContext":
        """Make the context of rows that were read in this transaction."""
        key = key_of(report)
        ends = _addendum_cooling_ends(connection, [key], now) if summary.has_addenda else {}
        return cls(orders, summary.user_email, ends.get(key))

    def record(self, report: Report, now: int) -> ReportStatusRecord:
        return ReportStatusRecord(
            report_id=report.report_id,
            status=report.status,
            user_email=self.user_email,
            unsign_until=report.cooling_until if is_cooling(report.cooling_until, now) else None,
            orders=tuple(OrderId(each.site_id, each.mrn, each.accession) for each in self.orders),
            has_content=has_content(report),
            addendum_unsign_until=self.addendum_unsign_until,
        )


def orders_statement(connection: Connection, report: Report) -> BoundStatement:
    return bind(connection, _GROUP, report=report.pk)


def read_orders(result: StatementResult) -> list[GroupOrder]:
    """Read the result of `orders_statement`: the anchor first, then in linking order."""
    return [
        row._replace(tags=stored_json(row.tags), order_metadata=stored_json(row.order_metadata))
        for row in result.all()
    ]


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


def read_report(session: Session, identity: OrderId) -> Report:
    """Return the report of an order; raise ReportNotFound."""
    order = find_orders(session, [identity]).get(identity)
    report = session.get(Report, order.report_pk) if order else None
    if report is None:
        raise ReportNotFound
    return report


_BLANK = "".join(chr(code) for code in range(0x3001) if chr(code).isspace())
"""The characters that `str.strip` removes: text of these alone is no content."""

# The statement text does not depend on the number of reports, so the database plans it once.
_REPORTS: Final = key_statement(
    """
    SELECT r.pk, r.report_id, r.status, r.cooling_until,
        ltrim(r.content_text, :blank) != '' OR r.template_number IS NOT NULL, a.email
    FROM engine_report AS r LEFT JOIN engine_account AS a ON a.id = r.owner_id
    WHERE r.pk IN :keys
    """,
    "keys",
)
_GROUPS: Final = key_statement(
    """
    SELECT o.report_pk, o.site_id, o.mrn, o.accession FROM engine_report_order AS o
    WHERE o.report_pk IN :keys ORDER BY o.position, o.pk
    """,
    "keys",
)
_ADDENDUM_COOLING: Final = key_statement(
    """
    SELECT a.report_pk, a.cooling_until FROM engine_addendum AS a
    WHERE a.report_pk IN :keys AND a.state = :signed ORDER BY a.signed_at, a.pk
    """,
    "keys",
)


def query_status(
    connection: Connection, identities: Sequence[OrderId], now: int
) -> list[ReportStatusRecord]:
    """
    Return one record for each report found, in the order of its first mention.

    Raise ReportNotFound if the only requested order is unknown.
    """
    found = find_report_keys(connection, identities)
    if not found and len(set(identities)) == 1:
        raise ReportNotFound
    keys = dict.fromkeys(found[each] for each in identities if each in found)
    records = records_by_key(connection, list(keys), now)
    return [records[key] for key in keys if key in records]


def records_by_key(
    connection: Connection, keys: Sequence[int], now: int
) -> dict[int, ReportStatusRecord]:
    """Return the status records of reports by their keys; the texts of the reports are not read."""
    groups = _groups(connection, keys)
    cooling_ends = _addendum_cooling_ends(connection, keys, now)
    # `all()` here and below: fetching rows one by one doubles the cost.
    rows: Sequence[Any] = execute_keys(connection, _REPORTS, keys, blank=_BLANK).all()
    return {
        key: ReportStatusRecord(
            report_id=report_id,
            status=Status(status),
            user_email=email or "",
            unsign_until=until if is_cooling(until, now) else None,
            orders=tuple(groups[key]),
            has_content=bool(written),
            addendum_unsign_until=cooling_ends.get(key),
        )
        for key, report_id, status, until, written, email in rows
        if key in groups
    }


def _groups(connection: Connection, keys: Sequence[int]) -> dict[int, list[OrderId]]:
    """Return the orders of reports, each list with its anchor first."""
    groups: dict[int, list[OrderId]] = {}
    rows: Sequence[Any] = execute_keys(connection, _GROUPS, keys).all()
    for key, *identity in rows:
        groups.setdefault(key, []).append(OrderId(*identity))
    return groups


def _addendum_cooling_ends(connection: Connection, keys: Sequence[int], now: int) -> dict[int, int]:
    """Return until when the newest signed addendum of each report can be recalled."""
    rows: Sequence[Any] = execute_keys(
        connection, _ADDENDUM_COOLING, keys, signed=AddendumState.SIGNED.value
    ).all()
    newest = dict(map(tuple, rows))
    return {key: until for key, until in newest.items() if until is not None and now < until}
