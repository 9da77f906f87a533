"""Statements in the driver's form answer alike, however often and on whichever database."""

from sqlalchemy import text

from bridge.store.answers import run
from bridge.store.database import Database


def test_the_same_text_again(database: Database) -> None:
    """Names and rows are as the first time; a text that finds no rows tells how many it changed."""
    with database.write() as connection:
        connection.execute(text("CREATE TABLE numbers (n BIGINT)"))
        for _ in range(2):
            changed = run(connection, "INSERT INTO numbers SELECT 1 AS n UNION ALL SELECT 2", {})
            assert (changed.returns_rows, changed.all(), changed.rowcount) == (False, [], 2)
        for least, found in ((1, [1, 1, 2, 2]), (2, [2, 2]), (3, [])):
            asked = f"SELECT n AS number FROM numbers WHERE n >= {least} ORDER BY n"  # noqa: S608  # ours
            for _ in range(2):
                answer = run(connection, asked, {})
                assert answer.returns_rows
                assert [row.number for row in answer] == found
                assert answer.scalar() == next(iter(found), None)


def test_a_column_without_a_name(database: Database) -> None:
    """The databases name it differently: one's name is not taken for the other's."""
    with database.read() as connection:
        (own,) = connection.exec_driver_sql("SELECT count(*)").keys()
        for _ in range(2):
            row = run(connection, "SELECT count(*)", {}).first()
            assert row is not None
            fields = row._fields
            assert fields == (own if own.isidentifier() else "_0",)
