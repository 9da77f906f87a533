"""
The list of deliveries.

A delivery belongs to the sites of its orders. Rows of earlier releases have no hash of their sites
until a periodic job has added it; until then only users of all sites see them.
"""

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from sqlalchemy import Connection, bindparam, select, text, update
from typing_extensions import override

from bridge.admin.access.permissions import Permission
from bridge.admin.errors import InvalidContent
from bridge.admin.lists.columns import ColumnValues, shown_name
from bridge.admin.lists.listing import (
    MAX_BRANCHES,
    Access,
    Branch,
    Criterion,
    Driver,
    Filters,
    ListDefinition,
    Parameters,
    number_of,
    text_of,
    texts_of,
    words_probe,
)
from bridge.admin.lists.states import found_by_job, states_and_causes
from bridge.index_key import keyed64
from bridge.queue.listing_rows import DeliveryRow
from bridge.queue.queries import listed_delivery
from bridge.queue.retention.rows import id_at
from bridge.queue.sites import delivery_sites, sites_hash, visible_sites_hashes
from bridge.queue.statements import DELIVERY
from bridge.store.database import Database
from mappings.language.rules import TAGS

_TEXT_COLUMNS: Final = ("m.detail", "m.code", "m.failure")
_DRIVING_SITES: Final = 4
_OWN: Final = ", ".join(f"m.{name}" for name in DeliveryRow.__slots__)
WAITS_FOR: Final = (
    "CASE WHEN m.state = 'queued' THEN (SELECT l.delivery_id FROM delivery_lane AS l"
    " WHERE l.lane = m.lane AND l.delivery_id < m.id ORDER BY l.delivery_id LIMIT 1) END"
)
"""The earlier delivery of the lane that must be finished before the delivery `m`."""


@dataclass(frozen=True, slots=True)
class ListedDelivery:
    """
    A delivery in a list.

    `waits_for` is an earlier delivery of its lane, None if it waits for none.
    """

    row: DeliveryRow
    waits_for: int | None

    @property
    def id(self) -> int:
        return self.row.id

    @property
    def latency(self) -> int | None:
        """The ms between sending and acceptance, None if it was not accepted."""
        if self.row.acknowledged_at is None or self.row.sent_at is None:
            return None
        return max(0, self.row.acknowledged_at - self.row.sent_at)


class DeliveryList(ListDefinition[ListedDelivery]):
    name = "deliveries"
    table = "delivery"
    select = f"{_OWN}, {WAITS_FOR} AS waits_for"
    sorts: ClassVar[Mapping[str, str]] = {
        "destination": "m.destination",
        "event": "m.event",
        "state": "m.state",
        "cause": "m.code",
        "attempts": "m.attempts",
    }
    filters = frozenset(
        {"destination", "state", "event", "cause", "report", "control_id", "text", "job"}
        | {"accepted_since", "accepted_until"}
    )

    @override
    def id_at(self, connection: Connection, moment: int) -> int:
        return id_at(connection, DELIVERY, "created_at", moment)

    @override
    def time_at(self, connection: Connection, row_id: int) -> int | None:
        statement = "SELECT created_at FROM delivery WHERE id >= :id ORDER BY id LIMIT 1"
        found: int | None = connection.execute(text(statement), {"id": row_id}).scalar()
        return found

    @override
    def convert(self, row: Mapping[Any, Any]) -> ListedDelivery:
        columns = dict(row)
        waits_for = columns.pop("waits_for")
        return ListedDelivery(listed_delivery(columns), waits_for)

    @override
    def criteria(
        self, connection: Connection, parameters: Parameters, filters: Filters, access: Access
    ) -> list[Criterion]:
        found = _of_sites(parameters, access)
        found += states_and_causes(connection, parameters, filters, self.table, "destination")
        for name, build in _BUILDERS.items():
            if name in filters:
                found += build(parameters, filters)
        return found


def visible_deliveries(parameters: Parameters, sites: Collection[str]) -> str:
    """Return the condition that a user of these sites may see the delivery `m`."""
    hashes = list(map(keyed64, visible_sites_hashes(sites)))
    return parameters.among("m.sites_hash", hashes) if hashes else "1 = 0"


def _of_sites(parameters: Parameters, access: Access) -> list[Criterion]:
    if access.sites is None:
        return []
    probe = visible_deliveries(parameters, access.sites)
    if not 0 < len(access.sites) <= _DRIVING_SITES:
        return [Criterion(probe)]
    hashes = list(map(keyed64, visible_sites_hashes(access.sites)))
    return [Criterion(probe, _branches(parameters, "sites_hash", hashes))]


def _branches(
    parameters: Parameters, column: str, values: Sequence[Any], more: str = ""
) -> Driver | None:
    if len(values) > MAX_BRANCHES:
        return None
    return Driver(
        tuple(
            Branch(f"SELECT id FROM delivery WHERE {column} = {parameters.add(value)}{more}")  # noqa: S608  # our own names
            for value in values
        )
    )


def _indexed(column: str, name: str, more: str = "") -> Callable[..., list[Criterion]]:
    def build(parameters: Parameters, filters: Filters) -> list[Criterion]:
        values = texts_of(filters, name)
        probe = parameters.among(f"m.{column}", values)
        return [Criterion(probe, _branches(parameters, column, values, more))]

    return build


_BUILDERS: Final[Mapping[str, Callable[[Parameters, Filters], list[Criterion]]]] = {
    "destination": _indexed("destination", "destination"),
    "report": _indexed("report_id", "report"),
    "control_id": _indexed("control_id", "control_id", " AND control_id <> ''"),
    "event": lambda parameters, filters: [
        Criterion(parameters.among("m.event", texts_of(filters, "event")))
    ],
    "text": lambda parameters, filters: words_probe(
        parameters, _TEXT_COLUMNS, text_of(filters, "text")
    ),
    "accepted_since": lambda parameters, filters: [
        Criterion(f"m.acknowledged_at >= {parameters.add(number_of(filters, 'accepted_since'))}")
    ],
    "accepted_until": lambda parameters, filters: [
        Criterion(f"m.acknowledged_at < {parameters.add(number_of(filters, 'accepted_until'))}")
    ],
    "job": lambda parameters, filters: [found_by_job(parameters, number_of(filters, "job"))],
}

_FOUND: Final = ("accession",)
_READ: Final = ("patient", "name")


def permission_of(column: str) -> Permission:
    """Return the permission that a column needs. Raises InvalidContent for an unknown one."""
    known = column in _FOUND or column in _READ
    if not known and column.removeprefix("tag:") not in TAGS:
        raise InvalidContent(f"there is no column {column[:40]!r}")
    return Permission.FIND if column in _FOUND else Permission.BODIES


def column_values(
    database: Database, ids: Sequence[int], columns: Sequence[str], access: Access
) -> ColumnValues:
    """
    Return the values of columns: `accession`, `patient`, `name`, `tag:X` of the delivery's orders.

    Raises PermissionDenied, InvalidContent.
    """
    for column in columns:
        access.require(permission_of(column))
    statement = select(DELIVERY.c.id, DELIVERY.c.orders).where(DELIVERY.c.id.in_(ids))
    with database.read() as connection:
        rows = connection.execute(statement).all()
    found: dict[int, dict[str, str]] = {}
    for row in rows:
        content = json.loads(row.orders)
        sites = delivery_sites(content)
        if access.sites is None or (sites and sites <= access.sites):
            orders = content.get("orders", ()) if isinstance(content, dict) else ()
            found[row.id] = {column: _value(column, orders) for column in columns}
    return ColumnValues(found)


def _value(column: str, orders: Sequence[Mapping[str, Any]]) -> str:
    tags = {"accession": "Accession", "patient": "PatientMRN", "name": "PatientName"}
    tag = tags.get(column, column.removeprefix("tag:"))
    values = [str(order.get(tag, "")) for order in orders]
    if column == "name":
        values = list(map(shown_name, values))
    return ", ".join(dict.fromkeys(filter(None, values)))[:200]


SITES_AT_ONCE: Final = 500
_WITHOUT: Final = (
    select(DELIVERY.c.id, DELIVERY.c.orders)
    .where(DELIVERY.c.sites_hash.is_(None))
    .order_by(DELIVERY.c.id.desc())
    .limit(SITES_AT_ONCE)
)
_SET: Final = (
    update(DELIVERY)
    .where(DELIVERY.c.id == bindparam("row_id"))
    .values(sites_hash=bindparam("hash"))
)


def add_sites(database: Database) -> int:
    """Add the hash of their sites to the newest deliveries without one; return how many."""
    with database.read() as connection:
        rows = connection.execute(_WITHOUT).all()
    if not rows:
        return 0
    changes = [
        {"row_id": row.id, "hash": keyed64(sites_hash(_sites_in(row.orders)))}
        for row in sorted(rows, key=lambda row: int(row.id))
    ]
    with database.write_without_sync() as connection:
        connection.execute(_SET, changes)
    return len(rows)


def _sites_in(orders: str) -> frozenset[str]:
    try:
        return delivery_sites(json.loads(orders))
    except ValueError:  # a damaged row belongs to no site
        return frozenset()
