"""Writes of the order index: few statements for many orders."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from sqlalchemy import Connection

from bridge.store.records.message_time import columns
from bridge.store.records.order_index import IndexedOrder, OrderIndexKey, accessions_by_site
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
    *((name, "bigint") for name in ("last_message", "state_changed_at", "state_clock")),
    *((name, "bigint") for name in ("tags_sent_at", "tags_clock", "opened_at", "opened_clock")),
)
_SIGNAL_COLUMNS: Final = (("order_id", "bigint"), ("kind", "text"), ("signal", "bigint"))
_REPORT_COLUMNS: Final = tuple((name, "text") for name in ("site", "mrn", "accession", "report_id"))

_Columns = Sequence[tuple[str, str]]


def _names_of(columns: _Columns) -> str:
    return ", ".join(name for name, _ in columns)


def _parameters_of(columns: _Columns) -> str:
    return ", ".join("?" for _ in columns)


def _types_of(columns: _Columns) -> tuple[str, ...]:
    return tuple(kind for _, kind in columns)


_ORDER_NAMES, _ORDER_TYPES = _names_of(_COLUMNS), _types_of(_COLUMNS)
_SIGNAL_NAMES, _SIGNAL_TYPES = _names_of(_SIGNAL_COLUMNS), _types_of(_SIGNAL_COLUMNS)
_UPDATED_COLUMNS = ", ".join(
    f"{name} = excluded.{name}"
    for name, _ in _COLUMNS
    if name not in {"site", "mrn", "accession", "first_message", "place"}
)
_ON_CONFLICT = f"ON CONFLICT (site, accession, mrn) DO UPDATE SET {_UPDATED_COLUMNS}"

# Only our own names are formatted into the texts.
SAVE_ORDER: Final = BulkStatement(
    _ORDER_TYPES,
    f"INSERT INTO bridge_order ({_ORDER_NAMES}) VALUES ({_parameters_of(_COLUMNS)}) {_ON_CONFLICT}",  # noqa: S608  # see above
    f"INSERT INTO bridge_order ({_ORDER_NAMES})"  # noqa: S608  # see above
    f" SELECT * FROM {unnest(_ORDER_TYPES)} {_ON_CONFLICT} RETURNING id, site, mrn, accession",
)
INSERT_SIGNALS: Final = BulkStatement(
    _SIGNAL_TYPES,
    f"INSERT INTO order_signal ({_SIGNAL_NAMES}) VALUES ({_parameters_of(_SIGNAL_COLUMNS)})",  # noqa: S608  # see above
    f"INSERT INTO order_signal ({_SIGNAL_NAMES}) SELECT * FROM {unnest(_SIGNAL_TYPES)}",  # noqa: S608  # see above
)
SET_REPORT: Final = BulkStatement(
    _types_of(_REPORT_COLUMNS),
    "UPDATE bridge_order SET report_id = ?4"
    " WHERE site = ?1 AND mrn = ?2 AND accession = ?3 AND report_id <> ?4",
    f"""
    UPDATE bridge_order AS o SET report_id = new.report_id
    FROM {unnest(_types_of(_REPORT_COLUMNS))} AS new ({_names_of(_REPORT_COLUMNS)})
    WHERE o.site = new.site AND o.mrn = new.mrn AND o.accession = new.accession
        AND o.report_id <> new.report_id
    """,  # noqa: S608  # see above
)
READ_IDS: Final = key_statement(
    "SELECT id, site, mrn, accession FROM bridge_order WHERE site = :site AND accession IN :keys",
    "keys",
    "text",
)
DELETE_SIGNALS: Final = key_statement("DELETE FROM order_signal WHERE order_id IN :ids")


def save(connection: Connection, orders: Sequence[IndexedOrder]) -> None:
    """Insert or replace orders with their signals; of several with one key, the last one."""
    if len({order.key for order in orders}) < len(orders):  # a merge can give two orders one key
        for order in orders:
            _save(connection, [order])
    elif orders:
        _save(connection, orders)


def _save(connection: Connection, orders: Sequence[IndexedOrder]) -> None:
    stored = execute_rows(connection, SAVE_ORDER, [_values(order) for order in orders])
    if is_postgresql(connection) and stored is not None:
        ids = {OrderIndexKey(row.site, row.mrn, row.accession): row.id for row in stored}
    else:
        ids = _ids(connection, [order.key for order in orders])
    row_ids = [ids[order.key] for order in orders]
    execute_keys(connection, DELETE_SIGNALS, row_ids)
    signals = [
        (row_id, each.kind, each.signal)
        for row_id, order in zip(row_ids, orders, strict=True)
        for each in order.signals
    ]
    execute_rows(connection, INSERT_SIGNALS, signals)


def set_reports(connection: Connection, reports: Mapping[OrderIndexKey, str]) -> None:
    """Store the report of each order; unknown orders are ignored."""
    for bound in bind_reports(connection, reports):
        execute_bound(connection, bound)


def bind_reports(
    connection: Connection, reports: Mapping[OrderIndexKey, str]
) -> list[BoundStatement]:
    """Return the statements of `set_reports`, to execute with others."""
    rows = [(*key, report_id) for key, report_id in sorted(reports.items())]
    return [bind_rows(connection, SET_REPORT, rows)] if rows else []


def _ids(connection: Connection, keys: Sequence[OrderIndexKey]) -> dict[OrderIndexKey, int]:
    return {
        OrderIndexKey(row.site, row.mrn, row.accession): row.id
        for site, accessions in accessions_by_site(keys)
        for row in execute_keys(connection, READ_IDS, accessions, site=site)
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
        order.position,
        order.last_message,
        *columns(order.state_changed_at),
        *columns(order.tags_sent_at),
        *columns(order.opened_at),
    )
