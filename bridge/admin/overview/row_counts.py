"""
How many messages and results each channel had in the last minute, and how many failed in an hour.

They are counted in the tables of the lists, with the time limits of the lists: a number of the
overview is the number of rows that its link shows. Only the newest rows of a time are counted.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import Connection, text

from bridge.admin.lists.deliveries import DeliveryList
from bridge.admin.lists.listing import ListDefinition
from bridge.admin.lists.messages import MessageList
from bridge.admin.lists.states import STATE_GROUPS, in_state
from bridge.monitoring.baseline import MINUTE
from bridge.monitoring.statistics import DESTINATION, HOUR, LISTENER, ChannelKey

MOST_ROWS: Final = 100_000
"""Rows of one state and time that are counted; a burst does not make the overview slow."""


@dataclass(slots=True)
class RowCounts:
    """`rate`: rows of the last 60 seconds; `failed`: of the last hour, parked or refused now."""

    rate: int = 0
    failed: int = 0


def count_rows(connection: Connection, now: int) -> dict[ChannelKey, RowCounts]:
    """Count the rows of all channels."""
    found: dict[ChannelKey, RowCounts] = {}
    _count(connection, MessageList(), LISTENER, "listener", now, found)
    _count(connection, DeliveryList(), DESTINATION, "destination", now, found)
    return found


def _count(
    connection: Connection,
    listed: ListDefinition[Any],
    kind: str,
    column: str,
    now: int,
    found: dict[ChannelKey, RowCounts],
) -> None:
    minute = listed.id_at(connection, now - MINUTE)
    hour = listed.id_at(connection, now - HOUR)
    for name, number in _by_channel(connection, listed.table, column, "id >= :low", minute):
        found.setdefault((kind, name), RowCounts()).rate = number
    for state in STATE_GROUPS["failed"]:
        condition = f"{in_state(state)} AND id >= :low"
        for name, number in _by_channel(connection, listed.table, column, condition, hour):
            found.setdefault((kind, name), RowCounts()).failed += number


def _by_channel(
    connection: Connection, table: str, column: str, condition: str, low: int
) -> list[tuple[str, int]]:
    newest = f"SELECT {column} AS name FROM {table} WHERE {condition} ORDER BY id DESC LIMIT :most"  # noqa: S608  # our own names
    statement = f"SELECT name, count(*) AS number FROM ({newest}) AS c GROUP BY name"  # noqa: S608  # our own names
    values: Mapping[str, int] = {"low": low, "most": MOST_ROWS}
    return [(row.name, row.number) for row in connection.execute(text(statement), values)]
