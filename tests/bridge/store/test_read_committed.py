"""Reads outside of a transaction, on connections that writers use too."""

from collections.abc import Iterator
from typing import Any

import pytest
from sqlalchemy import Connection, text

from bridge.store.database import Database
from bridge.store.errors import StatementRefused, StoreError, StoreUnavailable
from bridge.store.options import DatabaseOptions
from bridge.store.statements import BoundStatement, execute_all, execute_sql

ONE = DatabaseOptions(size=1, overflow=0, timeout=5.0)
"""Writers use the connection of the reads."""


@pytest.fixture
def alone(postgres_url: str) -> Iterator[Database]:
    """A server with one connection at a time."""
    database = Database(postgres_url, ONE)
    with database.write() as connection:
        connection.execute(text("CREATE TABLE IF NOT EXISTS looked (id INTEGER PRIMARY KEY)"))
    yield database
    database.dispose()


def test_single_and_combined_statements(database: Database) -> None:
    statements = [BoundStatement("SELECT 1", {}), BoundStatement("SELECT 2", {})]
    with database.read_committed() as connection:
        assert [each.scalar() for each in execute_all(connection, statements)] == [1, 2]
        assert execute_sql(connection, "SELECT 3", {}).scalar() == 3


def test_read_committed_opens_no_transaction(alone: Database) -> None:
    """Each statement leaves no open transaction, and reads the latest commits."""
    with alone.read_committed() as connection:
        for _ in range(2):
            assert connection.execute(text("SELECT count(*) FROM looked")).scalar() == 0
            assert driver(connection).info.transaction_status.name == "IDLE"


@pytest.mark.parametrize("failing", [False, True])
def test_later_writers_use_transactions(alone: Database, failing: bool) -> None:
    """The connection is reset, also after a failed read."""
    with alone.read_committed() as connection:
        execute_sql(connection, "SELECT 1", {})
    if failing:
        with pytest.raises(StatementRefused), alone.read_committed() as connection:
            execute_sql(connection, "SELECT nothing", {})
    with pytest.raises(StoreError), alone.write() as connection:  # noqa: PT012  # one unit
        connection.execute(text("INSERT INTO looked VALUES (1)"))
        connection.execute(text("INSERT INTO looked VALUES (1)"))
    with alone.read_committed() as connection:
        assert execute_sql(connection, "SELECT count(*) FROM looked", {}).scalar() == 0


def test_a_lost_connection(alone: Database) -> None:
    """The read is unavailable, and the next one uses another connection."""
    with pytest.raises(StoreUnavailable), alone.read_committed() as connection:
        execute_sql(connection, "SELECT pg_terminate_backend(pg_backend_pid())", {})
    with alone.write() as connection:
        assert not driver(connection).autocommit


def driver(connection: Connection) -> Any:
    return connection.connection.driver_connection
