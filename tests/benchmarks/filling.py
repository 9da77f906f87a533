"""
Fill a database: copy an existing row many times with new keys.

The copies have negative keys, so that later rows continue the existing numbers.
"""

from collections.abc import Mapping
from pathlib import Path

import sqlalchemy
from sqlalchemy import text

from bridge.store.database import Database
from config import load

CHUNK = 100_000

MESSAGES = ("message", "id", {"identity": "n.i * 7919", "digest": "n.i"})
BODIES: tuple[str, str, dict[str, str]] = ("message_body", "message_id", {})

Table = tuple[str, str, Mapping[str, str]]
"""Name, key, and the columns that differ from row to row, as expressions of the number n.i."""


def fill_inbox(home: Path, count: int) -> None:
    """Copy the first message, which must be finished."""
    _fill(Database(load(home).database_url()), (MESSAGES, BODIES), count)


def _fill(database: Database, tables: tuple[Table, ...], count: int) -> None:
    inspector = sqlalchemy.inspect(database.engine)
    for name, key, changes in tables:
        columns = [column["name"] for column in inspector.get_columns(name)]
        given = {column: f"t.{column}" for column in columns} | {key: "-n.i"} | dict(changes)
        statement = text(f"""
            WITH RECURSIVE n(i) AS
                (SELECT CAST(:first AS bigint) UNION ALL SELECT i + 1 FROM n WHERE i < :last)
            INSERT INTO {name} ({", ".join(given)}) SELECT {", ".join(given.values())}
            FROM n CROSS JOIN (SELECT * FROM {name} WHERE {key} > 0 ORDER BY {key} LIMIT 1) AS t
        """)  # noqa: S608  # our own names
        for first in range(1, count + 1, CHUNK):
            with database.write() as connection:
                last = min(first + CHUNK - 1, count)
                connection.execute(statement, {"first": first, "last": last})
    with database.write() as connection:
        connection.execute(text("ANALYZE"))
    database.dispose()
