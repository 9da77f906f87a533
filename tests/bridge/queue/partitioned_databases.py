"""Databases with small partitions."""

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count

from sqlalchemy import text

from bridge.store.database import Database
from bridge.store.postgresql.partitions import create_ahead, partitions
from tests.conftest import address_of, ask_server

FIRST = 1_000_000
"""Where the partition ends that a new database has."""

_numbers = count()


@contextmanager
def create_database(server: str, template: str) -> Iterator[Database]:
    """Make a database of our own, migrated and empty."""
    name = f"parted_{template}_{next(_numbers)}"
    ask_server(server, f"CREATE DATABASE {name} TEMPLATE {template}")
    database = Database(address_of(server, name))
    yield database
    database.dispose()
    ask_server(server, f"DROP DATABASE {name} WITH (FORCE)")


def go_on_from(database: Database, last: int, size: int) -> int:
    """Let `last` count as the newest id, with room in partitions of a size; give how many made."""
    with database.write() as connection:
        connection.execute(text("SELECT setval('message_ids', :last)"), {"last": last})
    return create_ahead(database, size)


def names(database: Database) -> list[str]:
    """Name the partitions, the oldest first."""
    with database.read() as connection:
        return [each.name for each in partitions(connection)]


def ids_in(database: Database, table: str) -> list[int]:
    """Give the messages that have a row in a table, each once."""
    beside = table.startswith(("message_body", "message_number", "message_identity"))
    key = "message_id" if beside else "id"
    with database.read() as connection:
        found = text(f"SELECT DISTINCT {key} FROM {table} ORDER BY 1")  # noqa: S608  # our own names
        return list(connection.execute(found).scalars())
