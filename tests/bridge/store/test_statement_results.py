"""Results of statements on the driver's cursor: single, repeated, and combined."""

import pytest
from sqlalchemy import event, text

from bridge.store.database import Database
from bridge.store.errors import Conflict
from bridge.store.statements import (
    BoundStatement,
    bind,
    dialect_statement,
    execute_all,
    execute_sql,
)

_NAMED = dialect_statement("SELECT cursor AS reached FROM feed_cursor WHERE feed = :feed")
_KEEP = dialect_statement("INSERT INTO feed_cursor (feed, cursor) VALUES (:feed, :cursor)")


@pytest.mark.parametrize("with_listener", [False, True])
def test_combined_statements_run_in_order(database: Database, with_listener: bool) -> None:
    """Each statement reads the changes of those before. Rows have the names of their columns."""
    executed: list[str] = []
    if with_listener:
        event.listen(
            database.engine, "before_cursor_execute", lambda *about: executed.append(about[2])
        )
    with database.write() as connection:
        statements = [
            bind(connection, _NAMED, feed="a"),
            bind(connection, _KEEP, feed="a", cursor=7),
            bind(connection, _NAMED, feed="a"),
        ]
        none, first, found = execute_all(connection, statements)
    assert (none.first(), first.returns_rows, first.rowcount) == (None, False, 1)
    assert [row.reached for row in found] == [7]
    assert executed[-3:] == ([each.statement for each in statements] if with_listener else [])


def test_one_that_fails_undoes_the_transaction(database: Database) -> None:
    """The error is that of a single statement, and the connection stays usable."""
    with pytest.raises(Conflict), database.write() as connection:
        execute_all(connection, [bind(connection, _KEEP, feed="a", cursor=each) for each in (1, 2)])
    with database.write() as connection:
        assert execute_sql(connection, "SELECT count(*) FROM feed_cursor", ()).scalar() == 0
        assert execute_all(connection, [BoundStatement("SELECT 1", ())])[0].scalar() == 1


def test_a_repeated_statement(database: Database) -> None:
    """A repeated text returns the same names and rows, or the number of changed rows."""
    with database.write() as connection:
        connection.execute(text("CREATE TABLE numbers (n BIGINT)"))
        for _ in range(2):
            changed = execute_sql(
                connection, "INSERT INTO numbers SELECT 1 AS n UNION ALL SELECT 2", {}
            )
            assert (changed.returns_rows, changed.all(), changed.rowcount) == (False, [], 2)
        for least, found in ((1, [1, 1, 2, 2]), (2, [2, 2]), (3, [])):
            statement = f"SELECT n AS number FROM numbers WHERE n >= {least} ORDER BY n"  # noqa: S608  # ours
            for _ in range(2):
                result = execute_sql(connection, statement, {})
                assert result.returns_rows
                assert [row.number for row in result] == found
                assert result.scalar() == next(iter(found), None)


def test_a_column_without_a_name(database: Database) -> None:
    """The databases name it differently, and the names are not mixed."""
    with database.read() as connection:
        (own,) = connection.exec_driver_sql("SELECT count(*)").keys()
        for _ in range(2):
            row = execute_sql(connection, "SELECT count(*)", {}).first()
            assert row is not None
            fields = row._fields
            assert fields == (own if own.isidentifier() else "_0",)
