"""
The list of orders, newest first by their first message.

Ids ascend with the first message, so times become ids by bisection. Each row has the sentence of
the order's page, as far as the bridge knows without asking the report engine. The list needs FIND;
numbers of patients and names need BODIES.
"""

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Final

from sqlalchemy import BigInteger, Connection, column, select, table, text
from typing_extensions import override

from bridge.admin.access.permissions import Permission
from bridge.admin.errors import InvalidContent
from bridge.admin.lists.columns import ColumnValues, shown_name
from bridge.admin.lists.deliveries import WAITS_FOR, visible_deliveries
from bridge.admin.lists.listing import (
    MAX_BRANCHES,
    NOTHING,
    SORTABLE,
    Access,
    Branch,
    Criterion,
    Driver,
    Filters,
    ListDefinition,
    Parameters,
    choices_of,
    exists,
    number_of,
    text_of,
    texts_of,
)
from bridge.admin.lists.states import has_few, in_state
from bridge.admin.messages.message_index import NumberKind, spellings
from bridge.admin.orders.sentence import (
    DeliveryFacts,
    MessageFacts,
    OrderFacts,
    ReportFacts,
    sentence,
)
from bridge.contract import ReportStatus
from bridge.queue.retention.rows import id_at
from bridge.queue.statements import MESSAGE
from bridge.queue.states import QueueState
from bridge.store.database import Database
from bridge.store.records import order_index
from bridge.store.records.exceptions import ExceptionSubject
from bridge.store.statements import is_postgresql
from bridge.store.tables import EXCEPTIONS, ORDERS
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
LONG_WAIT: Final = 86_400_000
"""After this time (ms) without a reader, an order has waited long."""
_LONG: Final = "long"
_STATUS: Final = _UNINDEXED["report_status"]
_NOT_ACCEPTED: Final = {
    QueueState.PARKED: "",
    QueueState.QUEUED: " AND code <> ''",
    QueueState.CLAIMED: " AND code <> ''",
}
"""The states of a result that a receiver has not accepted after an attempt."""
_IS_NOT_ACCEPTED: Final = " OR ".join(
    f"({in_state(state.value)}{more})" for state, more in _NOT_ACCEPTED.items()
)
_UNREAD: Final = f"{_STATUS} IN ('Ordered', 'Draft') AND m.state = 'ordered'"
_WAITING: Final[Mapping[str, str]] = {
    "reader": _UNREAD,
    _LONG: f"({_UNREAD} OR {_STATUS} = 'Preliminary')",
    "reviewer": f"{_STATUS} = 'Preliminary'",
    "sender": f"{_STATUS} NOT IN ('Final', 'Addendum') AND m.state IN ('held', 'awaited')",
    "receiver": exists(
        "SELECT 1 FROM delivery AS d WHERE d.report_id <> ''"  # noqa: S608  # our own names
        " AND d.report_id IN (m.report_id, coalesce(k.report_id, ''))"
        f" AND ({_IS_NOT_ACCEPTED.replace('state', 'd.state').replace('code', 'd.code')})"
    ),
}
"""
The conditions of the filter `waiting`; `long`: for a reader or a reviewer since `LONG_WAIT`,
`receiver`: a result was not accepted.
"""
WAITING_CHOICES: Final = tuple(_WAITING)
_MAX_DELIVERIES: Final = 2_000
"""Deliveries that the sentences of a page are made of, the newest."""


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
    sentence: str = ""
    waits_for: str = ""
    tone: str = ""


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
    filters = frozenset({"site", "state", "report_status", "report", "number", "kind", "waiting"})
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
        if "waiting" in filters:
            found.append(self._waiting(connection, choices_of(filters, "waiting", WAITING_CHOICES)))
        for name, place in _UNINDEXED.items():
            if name in filters:
                found.append(Criterion(parameters.among(place, texts_of(filters, name))))
        if "report" in filters:
            found.append(_of_reports(parameters, texts_of(filters, "report")))
        if "number" in filters:
            found.append(_with_number(connection, parameters, filters, access))
        return found

    def _waiting(self, connection: Connection, chosen: Sequence[str]) -> Criterion:
        conditions = []
        for name in chosen:
            condition = _WAITING[name]
            if name == _LONG:
                condition += f" AND m.id < {self.id_at(connection, _now() - LONG_WAIT)}"
            conditions.append(f"({condition})")
        driver = None
        if set(chosen) == {"receiver"} and all(
            has_few(connection, "delivery", state.value) for state in _NOT_ACCEPTED
        ):
            driver = Driver(tuple(branch for state in _NOT_ACCEPTED for branch in _results(state)))
        return Criterion(f"({' OR '.join(conditions)})", driver)

    @override
    def with_times(self, filters: Filters) -> Filters:
        """Newer orders than those that have waited long are not examined."""
        if "waiting" not in filters or texts_of(filters, "waiting") != [_LONG]:
            return filters
        until = _now() - LONG_WAIT
        return {**filters, "until": min(number_of({"until": until, **filters}, "until"), until)}

    @override
    def completed(
        self, connection: Connection, rows: Sequence[OrderRow], access: Access
    ) -> list[OrderRow]:
        """Add the sentences."""
        results = _read_deliveries(connection, rows, access)
        messages, notes = _read_messages(connection, rows), _read_notes(connection, rows)
        return [
            _with_sentence(
                row,
                results.get(row.report.id if row.report else "", ()),
                [messages[of] for of in {row.first_message, row.last_message} if of in messages],
                notes.get(row.id, ()),
            )
            for row in rows
        ]


def _now() -> int:
    return time.time_ns() // 1_000_000


def _with_sentence(
    row: OrderRow,
    deliveries: Sequence[DeliveryFacts],
    messages: Sequence[MessageFacts],
    notes: Sequence[str],
) -> OrderRow:
    report = None
    if row.report is not None:
        report = ReportFacts(row.report.status, changed_at=row.report.at or None)
    facts = OrderFacts(row.state, row.first_at, report, messages, deliveries, notes)
    found = sentence(facts, _now())
    return replace(row, sentence=found.text, waits_for=found.waits_for.value, tone=found.tone.value)


def _read_deliveries(
    connection: Connection, rows: Sequence[OrderRow], access: Access
) -> dict[str, list[DeliveryFacts]]:
    """Return the results of the reports of orders that the user may see, by report."""
    reports = sorted({row.report.id for row in rows if row.report is not None})
    if not reports:
        return {}
    parameters = Parameters(postgresql=is_postgresql(connection))
    own = parameters.among("m.report_id", reports)
    seen = "" if access.sites is None else f" AND {visible_deliveries(parameters, access.sites)}"
    statement = (
        f"SELECT {', '.join(f'm.{name}' for name in _DELIVERY)}, {WAITS_FOR} AS waits_for"  # noqa: S608  # our own names
        f" FROM delivery AS m WHERE {own} AND m.report_id <> ''{seen}"
        f" ORDER BY m.id DESC LIMIT {_MAX_DELIVERIES}"
    )
    found: dict[str, list[DeliveryFacts]] = {}
    for row in connection.execute(text(statement), parameters.values).mappings():
        values = dict(row)
        values["state"] = QueueState(values["state"])
        found.setdefault(values.pop("report_id"), []).append(DeliveryFacts(**values))
    return found


_DELIVERY: Final = (
    *("report_id", "id", "destination", "event", "state", "code", "detail", "attempts"),
    *("created_at", "not_before"),
)
_UNAPPLIED: Final = "m.state IN ('parked', 'refused', 'queued', 'claimed')"


def _read_messages(connection: Connection, rows: Sequence[OrderRow]) -> dict[int, MessageFacts]:
    """Return those first and last messages of orders that are not applied."""
    parameters = Parameters(postgresql=is_postgresql(connection))
    ids = sorted({number for row in rows for number in (row.first_message, row.last_message)})
    statement = (
        "SELECT m.id, m.state, m.code, m.error_code, m.error_place AS place, m.detail,"  # noqa: S608  # our own names
        f" m.not_before FROM message AS m WHERE {parameters.among('m.id', ids)} AND {_UNAPPLIED}"
    )
    found = {}
    for row in connection.execute(text(statement), parameters.values).mappings():
        values = dict(row)
        values["state"] = QueueState(values["state"])
        values["code"] = values["code"] or values["error_code"]
        del values["error_code"]
        found[values["id"]] = MessageFacts(**values)
    return found


def _read_notes(connection: Connection, rows: Sequence[OrderRow]) -> dict[int, list[str]]:
    """Return the codes of open attention items about orders."""
    item, found = EXCEPTIONS.c, dict[int, list[str]]()
    own = (item.kind == ExceptionSubject.ORDER.value, item.seen_at.is_(None))
    ids = [row.id for row in rows]
    for row in connection.execute(select(item.row_id, item.code).where(*own, item.row_id.in_(ids))):
        found.setdefault(row.row_id, []).append(row.code)
    return found


def _results(state: QueueState) -> tuple[Branch, Branch]:
    """
    Return the orders of results in a state that were not accepted.

    Few results are read first. The keys are expressions, so that no planner reads all orders.
    """
    results = (
        "(SELECT report_id FROM delivery WHERE report_id <> ''"  # noqa: S608  # our own names
        f" AND {in_state(state.value)}{_NOT_ACCEPTED[state]} LIMIT {SORTABLE} OFFSET 0) AS d"
    )
    of_report = (
        f"SELECT o.id + 0 AS id FROM {results} CROSS JOIN bridge_order AS o"  # noqa: S608  # our own names
        " WHERE o.report_id = d.report_id AND o.report_id <> ''"
    )
    of_known = (
        f"SELECT o.id + 0 AS id FROM {results} CROSS JOIN known_report AS r"  # noqa: S608  # our own names
        " CROSS JOIN bridge_order AS o WHERE r.report_id = d.report_id AND o.site = r.site"
        " AND o.accession = r.accession AND o.mrn = r.mrn"
    )
    return Branch(of_report, "o.id + 0"), Branch(of_known, "o.id + 0")


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
