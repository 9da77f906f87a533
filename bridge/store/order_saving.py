"""
Write orders into the index: few statements for many orders, each database in its own way.

On PostgreSQL arrays are unnested, for it plans and runs each statement anew; SQLite runs a
prepared statement over rows. What is read again is in `order_index`.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from sqlalchemy import Connection, bindparam, text

from bridge.store.order_index import IndexedOrder, Key, by_site

_COLUMNS: Final = (
    *((name, "text") for name in ("site", "mrn", "accession", "state", "placer", "filler")),
    *((name, "text") for name in ("tags", "echo", "report_id")),
    ("first_message", "bigint"),
    ("place", "integer"),
    *((name, "bigint") for name in ("last_message", "closed_at", "said_at", "opened_at")),
)
_SIGNAL: Final = (("order_id", "bigint"), ("kind", "text"), ("signal", "bigint"))
_REPORT: Final = tuple((name, "text") for name in ("site", "mrn", "accession", "report_id"))

_Columns = Sequence[tuple[str, str]]


def _names(columns: _Columns) -> str:
    return ", ".join(name for name, _ in columns)


def _unnested(columns: _Columns) -> str:
    return f"unnest({', '.join(f'%s::{kind}[]' for _, kind in columns)})"


def _asked(columns: _Columns) -> str:
    return ", ".join("?" for _ in columns)


_REPLACED = ", ".join(
    f"{name} = excluded.{name}"
    for name, _ in _COLUMNS
    if name not in {"site", "mrn", "accession", "first_message", "place"}
)
_KNOWN = f"ON CONFLICT (site, accession, mrn) DO UPDATE SET {_REPLACED}"

# What both drivers are given: our own names, and places for values.
SQLITE_SAVE: Final = (
    f"INSERT INTO bridge_order ({_names(_COLUMNS)}) VALUES ({_asked(_COLUMNS)}) {_KNOWN}"  # noqa: S608  # see above
)
POSTGRES_SAVE: Final = (
    f"INSERT INTO bridge_order ({_names(_COLUMNS)}) SELECT * FROM {_unnested(_COLUMNS)} {_KNOWN}"  # noqa: S608  # see above
    " RETURNING id, site, mrn, accession"
)
SQLITE_SIGNALS: Final = f"INSERT INTO order_signal ({_names(_SIGNAL)}) VALUES ({_asked(_SIGNAL)})"  # noqa: S608  # see above
POSTGRES_SIGNALS: Final = (
    f"INSERT INTO order_signal ({_names(_SIGNAL)}) SELECT * FROM {_unnested(_SIGNAL)}"  # noqa: S608  # see above
)
SQLITE_REPORTS: Final = (
    "UPDATE bridge_order SET report_id = ?4"
    " WHERE site = ?1 AND mrn = ?2 AND accession = ?3 AND report_id <> ?4"
)
POSTGRES_REPORTS: Final = f"""
    UPDATE bridge_order AS o SET report_id = new.report_id
    FROM {_unnested(_REPORT)} AS new ({_names(_REPORT)})
    WHERE o.site = new.site AND o.mrn = new.mrn AND o.accession = new.accession
        AND o.report_id <> new.report_id
"""  # noqa: S608  # see above
IDS: Final = text(
    "SELECT id, site, mrn, accession FROM bridge_order WHERE site = :site AND accession IN :keys"
).bindparams(bindparam("keys", expanding=True))
FORGET_SIGNALS: Final = text("DELETE FROM order_signal WHERE order_id IN :ids").bindparams(
    bindparam("ids", expanding=True)
)

_Row = tuple[Any, ...]


def save(connection: Connection, orders: Sequence[IndexedOrder]) -> None:
    """Insert or replace orders with their signals; of one order the last word stands."""
    if len({order.key for order in orders}) < len(orders):  # a merge brought them together
        for order in orders:
            _save(connection, [order])
    elif orders:
        _save(connection, orders)


def _save(connection: Connection, orders: Sequence[IndexedOrder]) -> None:
    rows = [_values(order) for order in orders]
    if _unnests(connection):
        stored = connection.exec_driver_sql(POSTGRES_SAVE, _columns(rows))
        ids = {Key(*key): number for number, *key in stored}
    else:
        connection.exec_driver_sql(SQLITE_SAVE, rows)
        ids = _ids(connection, [order.key for order in orders])
    numbers = [ids[order.key] for order in orders]
    connection.execute(FORGET_SIGNALS, {"ids": numbers})
    _write(
        connection,
        (SQLITE_SIGNALS, POSTGRES_SIGNALS),
        [
            (number, each.kind, each.signal)
            for number, order in zip(numbers, orders, strict=True)
            for each in order.signals
        ],
    )


def set_reports(connection: Connection, reports: Mapping[Key, str]) -> None:
    """Note which report each order belongs to now; unknown orders are passed over."""
    rows = [(*key, report_id) for key, report_id in sorted(reports.items())]
    _write(connection, (SQLITE_REPORTS, POSTGRES_REPORTS), rows)


def _write(connection: Connection, statements: tuple[str, str], rows: list[_Row]) -> None:
    """Run a statement for each row, by its words for SQLite or those for PostgreSQL."""
    if rows and _unnests(connection):
        connection.exec_driver_sql(statements[1], _columns(rows))
    elif rows:
        connection.exec_driver_sql(statements[0], rows)


def _unnests(connection: Connection) -> bool:
    return connection.dialect.name == "postgresql"


def _columns(rows: Sequence[_Row]) -> _Row:
    return tuple(list(column) for column in zip(*rows, strict=True))


def _ids(connection: Connection, keys: Sequence[Key]) -> dict[Key, int]:
    return {
        Key(row.site, row.mrn, row.accession): row.id
        for site, accessions in by_site(keys)
        for row in connection.execute(IDS, {"site": site, "keys": accessions})
    }


def _values(order: IndexedOrder) -> _Row:
    return (
        *order.key,
        order.state,
        order.placer,
        order.filler,
        json.dumps(dict(order.tags)),
        json.dumps(order.echo),
        order.report_id,
        order.first_message,
        order.place,
        order.last_message,
        order.closed_at,
        order.said_at,
        order.opened_at,
    )
