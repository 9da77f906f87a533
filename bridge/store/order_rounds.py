"""The order index gone through from end to end, to be compared with another: keys and states."""

from collections.abc import Iterable
from typing import Any

from sqlalchemy import Connection, Select, select, text

from bridge.store.order_index import ORDERS, Key, rows_of

_NEXT_SITE = text("SELECT min(site) FROM bridge_order WHERE site > :site")
_LIVE: Select[Any] = select(ORDERS.c.id, ORDERS.c.site, ORDERS.c.mrn, ORDERS.c.accession).where(
    ORDERS.c.state == "ordered"
)


def states(connection: Connection, keys: Iterable[Key]) -> dict[Key, tuple[int, str]]:
    """Read the row id and the state of the orders of these keys; unknown ones are absent."""
    return {
        Key(row.site, row.mrn, row.accession): (row.id, row.state)
        for row in rows_of(connection, keys)
    }


def sites(connection: Connection) -> list[str]:
    """List the sites that have orders, each found by the index: the table is long."""
    found: list[str] = []
    while (
        site := connection.execute(_NEXT_SITE, {"site": found[-1] if found else ""}).scalar()
    ) is not None:
        found.append(site)
    return found


def page(connection: Connection, after: int, limit: int) -> list[tuple[int, Key]]:
    """List keys of live orders by row id, to go through all of them bit by bit."""
    statement = _LIVE.where(ORDERS.c.id > after).order_by(ORDERS.c.id).limit(limit)
    return _keys(connection, statement)


def live(connection: Connection, ids: Iterable[int]) -> list[tuple[int, Key]]:
    """List keys of those of some orders that are live, by row id."""
    return _keys(connection, _LIVE.where(ORDERS.c.id.in_(list(ids))).order_by(ORDERS.c.id))


def _keys(connection: Connection, statement: Select[Any]) -> list[tuple[int, Key]]:
    return [
        (row.id, Key(row.site, row.mrn, row.accession)) for row in connection.execute(statement)
    ]
