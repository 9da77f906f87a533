"""
One deed over many rows: a statement for each database, in the way that costs it least.

SQLite runs a prepared statement for each row. A server is asked once for all of them: PostgreSQL
unnests arrays. The statements are their owners'.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, CursorResult

from bridge.store.arrays import packed


@dataclass(frozen=True, slots=True)
class Step:
    """
    `each` has a `?` for every value of a row, `together` a `%s` for every column of all rows.

    `kinds` are the SQL types of the columns, in their order.
    """

    kinds: tuple[str, ...]
    each: str
    together: str


def unnested(kinds: Sequence[str]) -> str:
    """Give the table that PostgreSQL makes of a step's arrays."""
    return f"unnest({', '.join(f'%s::{kind}[]' for kind in kinds)})"


def is_asked_once(connection: Connection) -> bool:
    """Tell whether a step is one statement for all rows."""
    return connection.dialect.name == "postgresql"


def carry_out(
    connection: Connection, step: Step, rows: Sequence[tuple[Any, ...]]
) -> CursorResult[Any] | None:
    """Run a step over rows; what PostgreSQL returns can be read, None is without rows."""
    if not rows:
        return None
    if is_asked_once(connection):
        return connection.exec_driver_sql(step.together, packed(step.kinds, rows))
    return connection.exec_driver_sql(step.each, list(rows))
