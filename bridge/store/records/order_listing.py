"""
Listing of the order index: the sites, and the open orders in pages.

The reconciler compares them with the orders of the report service.
"""

from collections.abc import Iterable
from typing import Any

from sqlalchemy import Connection, Select, select, text

from bridge.store.records.order_index import ORDERS, OrderIndexKey, rows_of

_NEXT_SITE = text("SELECT min(site) FROM bridge_order WHERE site > :site")
_ORDERED: Select[Any] = select(ORDERS.c.id, ORDERS.c.site, ORDERS.c.mrn, ORDERS.c.accession).where(
    ORDERS.c.state == "ordered"
)


def states(
    connection: Connection, keys: Iterable[OrderIndexKey]
) -> dict[OrderIndexKey, tuple[int, str]]:
    """Return the row id and state of the orders of these keys; unknown ones are absent."""
    return {
        OrderIndexKey(row.site, row.mrn, row.accession): (row.id, row.state)
        for row in rows_of(connection, keys)
    }


def sites(connection: Connection) -> list[str]:
    """List the sites that have orders, with one index look-up for each."""
    found: list[str] = []
    while (
        site := connection.execute(_NEXT_SITE, {"site": found[-1] if found else ""}).scalar()
    ) is not None:
        found.append(site)
    return found


def ordered_page(connection: Connection, after: int, limit: int) -> list[tuple[int, OrderIndexKey]]:
    """Return keys in state `ordered` by row id, for reading all of them in pages."""
    statement = _ORDERED.where(ORDERS.c.id > after).order_by(ORDERS.c.id).limit(limit)
    return _keys(connection, statement)


def ordered_keys(connection: Connection, ids: Iterable[int]) -> list[tuple[int, OrderIndexKey]]:
    """Return the keys of these rows; rows in another state than `ordered` are left out."""
    return _keys(connection, _ORDERED.where(ORDERS.c.id.in_(list(ids))).order_by(ORDERS.c.id))


def _keys(connection: Connection, statement: Select[Any]) -> list[tuple[int, OrderIndexKey]]:
    return [
        (row.id, OrderIndexKey(row.site, row.mrn, row.accession))
        for row in connection.execute(statement)
    ]
