"""Results of statements on the driver's cursor: alone, repeated, and several at once."""

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


@pytest.mark.parametrize("heard", [False, True])
def test_each_sees_what_those_before_it_did(database: Database, heard: bool) -> None:
    """Answers come in the order of the statements, and rows with the names of their columns."""
    told: list[str] = []
    if heard:
        event.listen(database.engine, "before_cursor_execute", lambda *about: told.append(about[2]))
    with database.write() as connection:
        words = [
            bind(connection, _NAMED, feed="a"),
            bind(connection, _KEEP, feed="a", cursor=7),
            bind(connection, _NAMED, feed="a"),
        ]
        none, kept, found = execute_all(connection, words)
    assert (none.first(), kept.returns_rows, kept.rowcount) == (None, False, 1)
    assert [row.reached for row in found] == [7]
    assert told[-3:] == ([each.statement for each in words] if heard else [])


def test_one_that_fails_undoes_the_transaction(database: Database) -> None:
    """The error is told as that of a single statement, and the connection serves on."""
    with pytest.raises(Conflict), database.write() as connection:
        execute_all(connection, [bind(connection, _KEEP, feed="a", cursor=each) for each in (1, 2)])
    with database.write() as connection:
        assert execute_sql(connection, "SELECT count(*) FROM feed_cursor", ()).scalar() == 0
        assert execute_all(connection, [BoundStatement("SELECT 1", ())])[0].scalar() == 1


def test_the_same_text_again(database: Database) -> None:
    """Names and rows are as the first time; a text that finds no rows tells how many it changed."""
    with database.write() as connection:
        connection.execute(text("CREATE TABLE numbers (n BIGINT)"))
        for _ in range(2):
            changed = execute_sql(
                connection, "INSERT INTO numbers SELECT 1 AS n UNION ALL SELECT 2", {}
            )
            assert (changed.returns_rows, changed.all(), changed.rowcount) == (False, [], 2)
        for least, found in ((1, [1, 1, 2, 2]), (2, [2, 2]), (3, [])):
            asked = f"SELECT n AS number FROM numbers WHERE n >= {least} ORDER BY n"  # noqa: S608  # ours
            for _ in range(2):
                answer = execute_sql(connection, asked, {})
                assert answer.returns_rows
                assert [row.number for row in answer] == found
                assert answer.scalar() == next(iter(found), None)


def test_a_column_without_a_name(database: Database) -> None:
    """The databases name it differently: one's name is not taken for the other's."""
    with database.read() as connection:
        (own,) = connection.exec_driver_sql("SELECT count(*)").keys()
        for _ in range(2):
            row = execute_sql(connection, "SELECT count(*)", {}).first()
            assert row is not None
            fields = row._fields
            assert fields == (own if own.isidentifier() else "_0",)
