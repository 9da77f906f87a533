"""
How often messages of a site were settled: the sum changes with each transaction that settles some.

The newest id of a message cannot tell this, because messages are applied in another order than they
are received, and again after a replay. Each owner of claims has rows of its own, so that nodes do
not wait for each other.
"""

from collections.abc import Collection
from typing import Final

from sqlalchemy import Connection, func, select
from sqlalchemy.dialects.postgresql import insert

from bridge.store.columns import one_of
from bridge.store.tables import APPLIED_COUNTS

_ROW: Final = APPLIED_COUNTS.c
_INCREASE: Final = insert(APPLIED_COUNTS).on_conflict_do_update(
    index_elements=[_ROW.owner, _ROW.site], set_={"count": _ROW.count + 1}
)
_SUM: Final = select(func.coalesce(func.sum(_ROW.count), 0))
_SUM_OF_SITES: Final = _SUM.where(one_of(_ROW.site, "sites"))


def increase(connection: Connection, owner: str, sites: Collection[str]) -> None:
    """
    Count a transaction that settles messages of these sites; '' is an unknown one.

    It must be the last statement: on PostgreSQL other transactions of the owner wait for the rows.
    """
    rows = [{"owner": owner, "site": site, "count": 1} for site in sorted(sites)]
    if rows:
        connection.execute(_INCREASE, rows)


def read(connection: Connection, sites: Collection[str] | None) -> int:
    """Return the sum for these sites; None are all."""
    if sites is None:
        return int(connection.execute(_SUM).scalar_one())
    return int(connection.execute(_SUM_OF_SITES, {"sites": sorted(sites)}).scalar_one())
