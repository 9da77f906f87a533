"""
The list of orders, newest first by their first message.

Ids ascend with the first message, so times become ids by bisection. The list needs FIND; numbers of
patients and names need BODIES.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from sqlalchemy import BigInteger, Connection, column, select, table, text
from typing_extensions import override

from bridge.admin.access.permissions import Permission
from bridge.admin.errors import InvalidContent
from bridge.admin.lists.columns import ColumnValues, shown_name
from bridge.admin.lists.listing import (
    MAX_BRANCHES,
    NOTHING,
    Access,
    Branch,
    Criterion,
    Driver,
    Filters,
    ListDefinition,
    Parameters,
    choices_of,
    text_of,
    texts_of,
)
from bridge.admin.search.message_index import NumberKind, spellings
from bridge.contract import ReportStatus
from bridge.queue.retention.rows import id_at
from bridge.queue.statements import MESSAGE
from bridge.store.database import Database
from bridge.store.records import order_index
from bridge.store.tables import ORDERS
from mappings.language.rules import TAGS

_ORDER_TABLE: Final = table("bridge_order", column("id", BigInteger()), column("first_message"))
_LAST_DELIVERY: Final = (
    "(SELECT {0} FROM delivery AS d WHERE d.report_id <> ''"
    " AND d.report_id = coalesce(nullif(k.report_id, ''), m.report_id){1})"
)
_FIRST_AT: Final = "(SELECT f.received_at FROM message AS f WHERE f.id = m.first_message)"
_SELECT: Final = ", ".join(
    (
        *("m.id", "m.site", "m.state", "m.first_message", "m.last_message", "k.status"),
        *("k.changed_at", "coalesce(nullif(k.report_id, ''), m.report_id) AS report_id"),
        f"{_FIRST_AT} AS first_at",
        f"{_LAST_DELIVERY.format('max(d.id)', '')} AS last_delivery",
        f"{_LAST_DELIVERY.format('d.state', ' ORDER BY d.id DESC LIMIT 1')} AS last_delivery_state",
    )
)
_FOUND: Final = ("accession", "placer", "filler")
_READ: Final = ("patient", "name")
_UNINDEXED: Final = {
    "site": "m.site",
    "state": "m.state",
    # a report that nobody has opened yet was never reported to the bridge
    "report_status": f"coalesce(k.status, '{ReportStatus.ORDERED.value}')",
}
"""What is compared for filters without an index."""


@dataclass(frozen=True, slots=True)
class ReportState:
    """The report of an order as the bridge has seen it last; `at` in ms."""

    id: str
    status: str
    at: int | None


@dataclass(frozen=True, slots=True)
class OrderRow:
    """An order without patient data; times in ms, None if unknown."""

    id: int
    site: str
    state: str
    first_at: int | None
    first_message: int
    last_message: int
    report: ReportState | None
    last_delivery: int | None
    last_delivery_state: str


class OrderList(ListDefinition[OrderRow]):
    name = "orders"
    table = "bridge_order"
    select = _SELECT
    joins = (
        " LEFT JOIN known_report AS k"
        " ON k.site = m.site AND k.accession = m.accession AND k.mrn = m.mrn"
    )
    sorts: ClassVar[Mapping[str, str]] = {
        "site": "m.site",
        "state": "m.state",
        "changed": "m.last_message",
    }
    filters = frozenset({"site", "state", "report_status", "report", "number", "kind"})
    private = frozenset({"number"})

    @override
    def id_at(self, connection: Connection, moment: int) -> int:
        first = id_at(connection, MESSAGE, "received_at", moment)
        return id_at(connection, _ORDER_TABLE, "first_message", first)

    @override
    def time_at(self, connection: Connection, row_id: int) -> int | None:
        statement = (
            "SELECT (SELECT f.received_at FROM message AS f WHERE f.id = m.first_message)"
            " FROM bridge_order AS m WHERE m.id >= :id ORDER BY m.id LIMIT 1"
        )
        found: int | None = connection.execute(text(statement), {"id": row_id}).scalar()
        return found

    @override
    def convert(self, row: Mapping[Any, Any]) -> OrderRow:
        report = None
        if row["report_id"]:
            report = ReportState(row["report_id"], row["status"] or "", row["changed_at"])
        names = ("id", "site", "state", "first_at", "first_message", "last_message")
        return OrderRow(
            **{name: row[name] for name in names},
            report=report,
            last_delivery=row["last_delivery"],
            last_delivery_state=row["last_delivery_state"] or "",
        )

    @override
    def criteria(
        self, connection: Connection, parameters: Parameters, filters: Filters, access: Access
    ) -> list[Criterion]:
        access.require(Permission.FIND)
        found = []
        if access.sites is not None:
            found.append(Criterion(parameters.among("m.site", sorted(access.sites))))
        for name, place in _UNINDEXED.items():
            if name in filters:
                found.append(Criterion(parameters.among(place, texts_of(filters, name))))
        if "report" in filters:
            found.append(_of_reports(parameters, texts_of(filters, "report")))
        if "number" in filters:
            found.append(_with_number(connection, parameters, filters, access))
        return found


def _of_reports(parameters: Parameters, reports: Sequence[str]) -> Criterion:
    probe = (
        f"({parameters.among('m.report_id', reports)} OR"
        f" {parameters.among('k.report_id', reports)})"
    )
    if len(reports) > MAX_BRANCHES // 2:
        return Criterion(probe)
    branches = []
    for report in reports:
        place = parameters.add(report)
        own = f"SELECT id FROM bridge_order WHERE report_id = {place} AND report_id <> ''"  # noqa: S608  # our own names
        known = (
            "SELECT o.id FROM known_report AS r JOIN bridge_order AS o"  # noqa: S608  # our own names
            " ON o.site = r.site AND o.accession = r.accession AND o.mrn = r.mrn"
            f" WHERE r.report_id = {place}"
        )
        branches += [Branch(own), Branch(known, "o.id")]
    return Criterion(probe, Driver(tuple(branches)))


def _with_number(
    connection: Connection, parameters: Parameters, filters: Filters, access: Access
) -> Criterion:
    """Return the criterion of an accession, or of a patient's number for users who may read it."""
    number = text_of(filters, "number").strip()
    kinds = [NumberKind.ORDER, NumberKind.PATIENT]
    if "kind" in filters:
        kinds = [NumberKind(choices_of(filters, "kind", kinds)[0])]
        if kinds == [NumberKind.PATIENT]:
            access.require(Permission.BODIES)
    if Permission.BODIES not in access.permissions:
        kinds = [NumberKind.ORDER]
    columns = {NumberKind.ORDER: "accession", NumberKind.PATIENT: "mrn"}
    sites = order_index.sites(connection) if access.sites is None else sorted(access.sites)
    if not number or not sites:
        return NOTHING
    found = [parameters.among(columns[kind], spellings(number)) for kind in kinds]
    # Both columns of an index, with values for each: without the site no index has the number.
    # The key is an expression, so that no planner reads all orders by their ids instead.
    branches = tuple(
        Branch(
            f"SELECT id FROM bridge_order WHERE {parameters.among('site', sites)} AND {condition}",  # noqa: S608  # our own names
            "+id",
        )
        for condition in found
    )
    probes = [parameters.among(f"m.{columns[kind]}", spellings(number)) for kind in kinds]
    return Criterion(f"({' OR '.join(probes)})", Driver(branches))


def column_values(
    database: Database, ids: Sequence[int], columns: Sequence[str], access: Access
) -> ColumnValues:
    """
    Return the values of columns: `accession`, `placer`, `filler`, `patient`, `name`, `tag:X`.

    Raises PermissionDenied, InvalidContent.
    """
    for name in columns:
        if name not in {*_FOUND, *_READ} and name.removeprefix("tag:") not in TAGS:
            raise InvalidContent(f"there is no column {name[:40]!r}")
        access.require(Permission.FIND if name in _FOUND else Permission.BODIES)
    with database.read() as connection:
        rows = connection.execute(select(ORDERS).where(ORDERS.c.id.in_(ids))).mappings().all()
    return ColumnValues(
        {
            row["id"]: {name: _value(name, row)[:200] for name in columns}
            for row in rows
            if access.sites is None or row["site"] in access.sites
        }
    )


def _value(name: str, row: Mapping[Any, Any]) -> str:
    if name in _FOUND:
        return str(row[name]).partition("^")[0]
    if name == "patient":
        return str(row["mrn"])
    tags = json.loads(row["tags"])
    if name == "name":
        return shown_name(str(tags.get("PatientName", "")))
    return str(tags.get(name.removeprefix("tag:"), ""))
