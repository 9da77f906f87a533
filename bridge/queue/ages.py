"""Find rows by when they came, without an index of times: ids are by age."""

from sqlalchemy import Connection, TableClause, func, select, text

# One statement, not one for each step: a page asks for several times. `seen` and `came` are of
# the first row in the upper half of what is left: where it came too early, the lower half is out.
_BISECTION = """
    WITH RECURSIVE half(low, high, seen, came) AS (
        SELECT CAST(:low AS bigint), CAST(:high AS bigint), {first}
        UNION ALL
        SELECT {low}, {high}, {next} FROM half WHERE low < high
    )
    SELECT low FROM half WHERE low >= high
"""
_EARLY = "seen < high AND came < :moment"
_LOW = f"CASE WHEN {_EARLY} THEN seen + 1 ELSE low END"
_HIGH = f"CASE WHEN {_EARLY} THEN high ELSE (low + high) / 2 END"
_PROBE = "(SELECT t.{column} FROM {table} AS t WHERE t.id >= {middle} ORDER BY t.id LIMIT 1)"


def _probe(rows: TableClause, came: str, low: str, high: str) -> str:
    middle = f"({low} + {high}) / 2"
    columns = ("id", came)
    return ", ".join(_PROBE.format(column=c, table=rows.name, middle=middle) for c in columns)


def newest_id(connection: Connection, rows: TableClause) -> int:
    """Give the greatest id, 0 where there is none."""
    return connection.execute(select(func.max(rows.c.id))).scalar() or 0


def id_at(connection: Connection, rows: TableClause, came: str, moment: int, low: int = 1) -> int:
    """
    Give an id from which on all came at a time (ms) or later, and before which all came earlier.

    `low`: an id that is known to be no greater. Looks at as many rows as an id has bits.
    """
    high = max(newest_id(connection, rows) + 1, low)
    statement = _BISECTION.format(
        first=_probe(rows, came, "CAST(:low AS bigint)", "CAST(:high AS bigint)"),
        next=_probe(rows, came, _LOW, _HIGH),
        low=_LOW,
        high=_HIGH,
    )
    values = {"low": low, "high": high, "moment": moment}
    return int(connection.execute(text(statement), values).scalar_one())
