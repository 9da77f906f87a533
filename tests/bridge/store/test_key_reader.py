"""A reader with a cached connection: its results, and a restart of the server."""

import pytest
from sqlalchemy import text

from bridge.store.connections import KeyReader
from bridge.store.database import Database
from bridge.store.errors import StatementRefused, StoreUnavailable
from bridge.store.statements import key_statement


@pytest.fixture
def reader(database: Database) -> KeyReader:
    """A reader of a small table."""
    with database.write() as connection:
        connection.execute(text("DROP TABLE IF EXISTS squares"))
        connection.execute(text("CREATE TABLE squares (n TEXT PRIMARY KEY)"))
        connection.execute(text("INSERT INTO squares VALUES ('a'), ('b'), ('c')"))
    return database.reader()


def test_commits_are_read_at_once(database: Database, reader: KeyReader) -> None:
    """Each query is its own transaction, so it reads all commits."""
    statement = key_statement("SELECT n FROM squares WHERE n IN :names", "names", "text")
    assert sorted(reader.rows(statement, ["a", "c", "d"])) == [("a",), ("c",)]
    with database.write() as connection:
        connection.execute(text("INSERT INTO squares VALUES ('d')"))
    assert reader.rows(statement, ["d"]) == [("d",)]


def test_a_refused_query(reader: KeyReader) -> None:
    """The error has no text of the driver, and the next query succeeds."""
    wrong = key_statement("SELECT nothing FROM squares WHERE n IN :names", "names", "text")
    with pytest.raises(StatementRefused) as refused:
        reader.rows(wrong, ["Doe"])
    assert "Doe" not in str(refused.value)
    right = key_statement("SELECT n FROM squares WHERE n IN :names", "names", "text")
    assert reader.rows(right, ["a"]) == [("a",)]


def test_a_closed_reader_stays_closed(database: Database, reader: KeyReader) -> None:
    """A closed reader raises StoreUnavailable, and leaves no connection open."""
    statement = key_statement("SELECT n FROM squares WHERE n IN :names", "names", "text")
    assert reader.rows(statement, ["a"]) == [("a",)]
    database.dispose()
    with pytest.raises(StoreUnavailable):
        reader.rows(statement, ["a"])


@pytest.mark.postgres
def test_a_lost_connection_is_replaced(postgres_url: str) -> None:
    """The next query opens a new connection."""
    database = Database(postgres_url)
    reader = database.reader()
    own = key_statement(
        "SELECT pg_backend_pid() FROM unnest(array['a']) AS n WHERE n IN :names", "names", "text"
    )
    ((pid,),) = reader.rows(own, ["a"])
    with database.write() as connection:
        connection.execute(text("SELECT pg_terminate_backend(:pid, 10000)"), {"pid": pid})
    ((another,),) = reader.rows(own, ["a"])
    assert another != pid
    database.dispose()
