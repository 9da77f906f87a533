"""Write orders into the index: few statements for many orders, each database in its own way.

What is read again is in `order_index`.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from sqlalchemy import Connection

from bridge.store.records.message_time import columns
from bridge.store.records.order_index import IndexedOrder, OrderIndexKey, by_site
from bridge.store.statements import (
    BoundStatement,
    BulkStatement,
    bind_rows,
    execute_bound,
    execute_keys,
    execute_rows,
    is_postgresql,
    key_statement,
    unnest,
)

_COLUMNS: Final = (
    *((name, "text") for name in ("site", "mrn", "accession", "state", "placer", "filler")),
    *((name, "text") for name in ("tags", "echo", "report_id")),
    ("first_message", "bigint"),
    ("place", "integer"),
    *((name, "bigint") for name in ("last_message", "closed_at", "closed_by")),
    *((name, "bigint") for name in ("said_at", "said_by", "opened_at", "opened_by")),
)
_SIGNAL: Final = (("order_id", "bigint"), ("kind", "text"), ("signal", "bigint"))
_REPORT: Final = tuple((name, "text") for name in ("site", "mrn", "accession", "report_id"))

_Columns = Sequence[tuple[str, str]]


def _names(columns: _Columns) -> str:
    return ", ".join(name for name, _ in columns)


def _asked(columns: _Columns) -> str:
    return ", ".join("?" for _ in columns)


def _kinds(columns: _Columns) -> tuple[str, ...]:
    return tuple(kind for _, kind in columns)


_REPLACED = ", ".join(
    f"{name} = excluded.{name}"
    for name, _ in _COLUMNS
    if name not in {"site", "mrn", "accession", "first_message", "place"}
)
_KNOWN = f"ON CONFLICT (site, accession, mrn) DO UPDATE SET {_REPLACED}"

# What both drivers are given: our own names, and places for values.
SAVE: Final = BulkStatement(
    _kinds(_COLUMNS),
    f"INSERT INTO bridge_order ({_names(_COLUMNS)}) VALUES ({_asked(_COLUMNS)}) {_KNOWN}",  # noqa: S608  # see above
    f"INSERT INTO bridge_order ({_names(_COLUMNS)})"  # noqa: S608  # see above
    f" SELECT * FROM {unnest(_kinds(_COLUMNS))} {_KNOWN} RETURNING id, site, mrn, accession",
)
SIGNALS: Final = BulkStatement(
    _kinds(_SIGNAL),
    f"INSERT INTO order_signal ({_names(_SIGNAL)}) VALUES ({_asked(_SIGNAL)})",  # noqa: S608  # see above
    f"INSERT INTO order_signal ({_names(_SIGNAL)}) SELECT * FROM {unnest(_kinds(_SIGNAL))}",  # noqa: S608  # see above
)
REPORTS: Final = BulkStatement(
    _kinds(_REPORT),
    "UPDATE bridge_order SET report_id = ?4"
    " WHERE site = ?1 AND mrn = ?2 AND accession = ?3 AND report_id <> ?4",
    f"""
    UPDATE bridge_order AS o SET report_id = new.report_id
    FROM {unnest(_kinds(_REPORT))} AS new ({_names(_REPORT)})
    WHERE o.site = new.site AND o.mrn = new.mrn AND o.accession = new.accession
        AND o.report_id <> new.report_id
    """,  # noqa: S608  # see above
)
IDS: Final = key_statement(
    "SELECT id, site, mrn, accession FROM bridge_order WHERE site = :site AND accession IN :keys",
    "keys",
    "text",
)
FORGET_SIGNALS: Final = key_statement("DELETE FROM order_signal WHERE order_id IN :ids")


def save(connection: Connection, orders: Sequence[IndexedOrder]) -> None:
    """Insert or replace orders with their signals; of one order the last word stands."""
    if len({order.key for order in orders}) < len(orders):  # a merge brought them together
        for order in orders:
            _save(connection, [order])
    elif orders:
        _save(connection, orders)


def _save(connection: Connection, orders: Sequence[IndexedOrder]) -> None:
    stored = execute_rows(connection, SAVE, [_values(order) for order in orders])
    if is_postgresql(connection) and stored is not None:
        ids = {OrderIndexKey(row.site, row.mrn, row.accession): row.id for row in stored}
    else:
        ids = _ids(connection, [order.key for order in orders])
    numbers = [ids[order.key] for order in orders]
    execute_keys(connection, FORGET_SIGNALS, numbers)
    signals = [
        (number, each.kind, each.signal)
        for number, order in zip(numbers, orders, strict=True)
        for each in order.signals
    ]
    execute_rows(connection, SIGNALS, signals)


def set_reports(connection: Connection, reports: Mapping[OrderIndexKey, str]) -> None:
    """Note which report each order belongs to now; unknown orders are passed over."""
    for words in bind_reports(connection, reports):
        execute_bound(connection, words)


def bind_reports(
    connection: Connection, reports: Mapping[OrderIndexKey, str]
) -> list[BoundStatement]:
    """Give what `set_reports` runs, to be run with others."""
    rows = [(*key, report_id) for key, report_id in sorted(reports.items())]
    return [bind_rows(connection, REPORTS, rows)] if rows else []


def _ids(connection: Connection, keys: Sequence[OrderIndexKey]) -> dict[OrderIndexKey, int]:
    return {
        OrderIndexKey(row.site, row.mrn, row.accession): row.id
        for site, accessions in by_site(keys)
        for row in execute_keys(connection, IDS, accessions, site=site)
    }


def _values(order: IndexedOrder) -> tuple[Any, ...]:
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
        *columns(order.turned_at),
        *columns(order.said_at),
        *columns(order.opened_at),
    )
