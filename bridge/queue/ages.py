"""Find rows by when they came, without an index of times: ids are by age."""

from collections.abc import Sequence

from sqlalchemy import Connection, TableClause, func, select, text

from bridge.queue.tables import MESSAGE
from bridge.store.partitions import Partition, last_id, partitions

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
_PROBE = """
    (SELECT t.{column} FROM {table} AS t WHERE {within} t.id >= {middle} ORDER BY t.id LIMIT 1)
"""
# Of partitions only the one that is meant is looked into, for it is known before.
_WITHIN = "t.id >= CAST(:low AS bigint) AND t.id < CAST(:high AS bigint) AND"
_FIRST = "SELECT {low} AS low, (SELECT {came} FROM {table} ORDER BY id LIMIT 1) AS came"


def _probe(rows: TableClause, came: str, within: str, low: str, high: str) -> str:
    names = {"table": rows.name, "within": within, "middle": f"({low} + {high}) / 2"}
    return ", ".join(_PROBE.format(column=column, **names) for column in ("id", came))


def newest_id(connection: Connection, rows: TableClause) -> int:
    """Give the greatest id, 0 where there is none."""
    return connection.execute(select(func.max(rows.c.id))).scalar() or 0


def id_at(connection: Connection, rows: TableClause, came: str, moment: int, low: int = 1) -> int:
    """
    Give an id from which on all came at a time (ms) or later, and before which all came earlier.

    `low`: an id that is known to be no greater. Looks at as many rows as an id has bits.
    """
    parted = partitions(connection) if rows is MESSAGE else ()
    newest = last_id(connection) if parted else newest_id(connection, rows)
    high = max(newest + 1, low)
    if parted:
        low, high = _narrowed(connection, parted, came, moment, (low, high))
    within = _WITHIN if parted else ""
    statement = _BISECTION.format(
        first=_probe(rows, came, within, "CAST(:low AS bigint)", "CAST(:high AS bigint)"),
        next=_probe(rows, came, within, _LOW, _HIGH),
        low=_LOW,
        high=_HIGH,
    )
    values = {"low": low, "high": high, "moment": moment}
    return int(connection.execute(text(statement), values).scalar_one())


def _narrowed(
    connection: Connection,
    parted: Sequence[Partition],
    came: str,
    moment: int,
    ids: tuple[int, int],
) -> tuple[int, int]:
    """Narrow a range of ids down to the partition in which the first came at a time or later."""
    asked = " UNION ALL ".join(
        _FIRST.format(low=each.low, came=came, table=f"message_{each.name}") for each in parted
    )
    found = connection.execute(text(asked)).all()
    firsts = sorted((row.low, row.came) for row in found if row.came is not None)
    early = [first for first, at in firsts if at < moment]
    late = [first for first, _ in firsts if not early or first > early[-1]]
    low, high = ids
    return max([low, *early[-1:]]), max(low, min([high, *late[:1]]))
