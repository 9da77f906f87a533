"""Databases with small partitions."""

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count

from sqlalchemy import text

from bridge.store.database import Database
from bridge.store.postgresql.partitions import create_ahead, partitions
from tests.conftest import address_of, ask_server, drop_database

FIRST = 1_000_000
"""The end of the partition of a new database."""

_numbers = count()


@contextmanager
def create_database(server: str, template: str) -> Iterator[Database]:
    """Create an empty, migrated database."""
    name = f"parted_{template}_{next(_numbers)}"
    ask_server(server, f"CREATE DATABASE {name} TEMPLATE {template}")
    database = Database(address_of(server, name))
    yield database
    database.dispose()
    drop_database(server, name)


def continue_after(database: Database, last: int, size: int) -> int:
    """Make `last` the newest id, create partitions of a size after it, and return their number."""
    with database.write() as connection:
        connection.execute(text("SELECT setval('message_ids', :last)"), {"last": last})
    return create_ahead(database, size)


def names(database: Database) -> list[str]:
    """Return the names of the partitions, the oldest first."""
    with database.read() as connection:
        return [partition.name for partition in partitions(connection)]


def ids_in(database: Database, table: str) -> list[int]:
    """Return the messages that have a row in a table, each once."""
    others = ("message_body", "message_number", "message_entry", "message_identity")
    beside = table.startswith(others)
    key = "message_id" if beside else "id"
    with database.read() as connection:
        found = text(f"SELECT DISTINCT {key} FROM {table} ORDER BY 1")  # noqa: S608  # our own names
        return list(connection.execute(found).scalars())
