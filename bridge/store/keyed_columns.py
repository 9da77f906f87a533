"""
Columns with keyed hashes (`bridge.index_key`), and the key with which their rows were hashed.

A database stores a fingerprint of its key. Without a fingerprint it is new or from an older
release: one transaction then replaces all hashes by keyed hashes. A node of an older release must
not run meanwhile or afterwards.
"""

from collections.abc import Callable, Iterable
from typing import Any, Final, NamedTuple

from sqlalchemy import Connection, inspect, text

from bridge import index_key
from bridge.store.database import Database
from bridge.store.errors import WrongIndexKey

_BATCH: Final = 10_000


class KeyedColumn(NamedTuple):
    """A column of hashes; only rows that meet `condition` are hashes."""

    table: str
    column: str
    key: Callable[[Any], Any] = index_key.keyed64
    type: str = "bigint"
    condition: str = "true"


BRIDGE: Final = (
    KeyedColumn("message", "lane_1"),
    KeyedColumn("message", "lane_2"),
    KeyedColumn("message_lane", "lane"),
    KeyedColumn("delivery", "lane"),
    KeyedColumn("delivery_lane", "lane"),
    KeyedColumn("message_number", "number"),
    # Two kinds store a time instead of a hash (`bridge.intake.process.link_signals`).
    KeyedColumn("order_signal", "signal", condition="kind NOT IN ('held-later', 'opened-later')"),
)
"""Columns of the bridge's database."""
ENGINE: Final = (KeyedColumn("engine_link", "target", index_key.keyed_text, "text"),)
"""Columns of the report engine's database."""
BRIDGE_TABLE, ENGINE_TABLE = "index_key", "engine_index_key"


def fingerprint_of(database: Database, table: str) -> str | None:
    """Return the stored fingerprint; None if the rows are not keyed yet."""
    with database.read() as connection:
        return _fingerprint(connection, table)


def ensure_keyed(database: Database, table: str, columns: Iterable[KeyedColumn]) -> None:
    """Key the rows of a database that has no key yet. Raises WrongIndexKey for another key."""
    if _is_own_key(fingerprint_of(database, table)):
        return
    with database.write() as connection:
        database.serialize(connection, f"index key {table}")
        if _is_own_key(_fingerprint(connection, table)):  # another process has keyed it
            return
        for each in columns:
            (_key_in_sqlite if database.dialect == "sqlite" else _key_in_postgresql)(
                connection, each
            )
        connection.execute(
            text(f"INSERT INTO {table} (id, fingerprint) VALUES (1, :own)"),  # noqa: S608
            {"own": index_key.fingerprint()},
        )


def _is_own_key(found: str | None) -> bool:
    if found is not None and found != index_key.fingerprint():
        raise WrongIndexKey
    return found is not None


def _fingerprint(connection: Connection, table: str) -> str | None:
    if not inspect(connection).has_table(table):
        return None
    found: str | None = connection.execute(text(f"SELECT fingerprint FROM {table}")).scalar()  # noqa: S608
    return found


def _key_in_sqlite(connection: Connection, keyed: KeyedColumn) -> None:
    driver: Any = connection.connection.driver_connection
    driver.create_function("bridge_keyed", 1, keyed.key)
    _, table, name, condition = keyed, keyed.table, keyed.column, keyed.condition
    connection.exec_driver_sql(
        f"UPDATE {table} SET {name} = bridge_keyed({name}) WHERE {name} IS NOT NULL AND {condition}"  # noqa: S608
    )
    driver.create_function("bridge_keyed", 1, None)


def _key_in_postgresql(connection: Connection, keyed: KeyedColumn) -> None:
    """Key by a table of old and new values: the server must not see the key."""
    table, name, condition, kind = keyed.table, keyed.column, keyed.condition, keyed.type
    connection.exec_driver_sql(
        f"CREATE TEMPORARY TABLE keyed (old {kind} PRIMARY KEY, new {kind}) ON COMMIT DROP"
    )
    found = connection.exec_driver_sql(
        f"SELECT DISTINCT {name} FROM {table} WHERE {name} IS NOT NULL AND {condition}"  # noqa: S608
    ).scalars()
    fill = f"INSERT INTO keyed SELECT * FROM unnest(%(old)s::{kind}[], %(new)s::{kind}[])"  # noqa: S608
    for some in found.partitions(_BATCH):
        connection.exec_driver_sql(fill, {"old": some, "new": [keyed.key(each) for each in some]})
    connection.exec_driver_sql("ANALYZE keyed")
    connection.exec_driver_sql(
        f"UPDATE {table} AS t SET {name} = keyed.new FROM keyed"  # noqa: S608
        f" WHERE t.{name} = keyed.old AND {condition}"
    )
    connection.exec_driver_sql("DROP TABLE keyed")
