"""
How often messages of a site were settled: the sum changes with each transaction that settles some.

The newest id of a message cannot tell this, because messages are applied in another order than they
are received, and again after a replay. The number of rows has a bound, because a message may name
any site, and an owner of claims has another name after each restart.
"""

from collections.abc import Collection
from typing import Final
from zlib import crc32

from sqlalchemy import Connection, func, select
from sqlalchemy.dialects.postgresql import insert

from bridge.store.columns import one_of
from bridge.store.tables import APPLIED_COUNTS

_SLOTS: Final = 16
"""Owners use different rows, so that nodes seldom wait for each other."""
_SITES: Final = 256
"""Sites that share a row cost a needless hint."""
_ROW: Final = APPLIED_COUNTS.c
_INCREASE: Final = insert(APPLIED_COUNTS).on_conflict_do_update(
    index_elements=[_ROW.slot, _ROW.site], set_={"count": _ROW.count + 1}
)
_SUM: Final = select(func.coalesce(func.sum(_ROW.count), 0))
_SUM_OF_SITES: Final = _SUM.where(one_of(_ROW.site, "sites"))


def increase(connection: Connection, owner: str, sites: Collection[str]) -> None:
    """
    Count a transaction that settles messages of these sites; '' is an unknown one.

    It must be the last statement: on PostgreSQL other transactions of the slot wait for the rows.
    """
    slot = crc32(owner.encode()) % _SLOTS
    rows = [{"slot": slot, "site": number, "count": 1} for number in _numbers(sites)]
    if rows:
        connection.execute(_INCREASE, rows)


def read(connection: Connection, sites: Collection[str] | None) -> int:
    """Return the sum for these sites; None are all."""
    if sites is None:
        return int(connection.execute(_SUM).scalar_one())
    return int(connection.execute(_SUM_OF_SITES, {"sites": _numbers(sites)}).scalar_one())


def _numbers(sites: Collection[str]) -> list[int]:
    return sorted({crc32(site.encode()) % _SITES for site in sites})
