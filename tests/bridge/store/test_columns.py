"""Columns mean the same on both dialects."""

from sqlalchemy import Column, MetaData, String, Table, insert, select

from bridge.store.columns import BIG_KEY
from bridge.store.database import Database

TABLE = Table(
    "sample",
    MetaData(),
    Column("id", BIG_KEY, primary_key=True),
    Column("body", String),
)


def test_round_trip(database: Database) -> None:
    """Keys count up."""
    with database.write() as connection:
        TABLE.create(connection)
        for _ in range(2):
            connection.execute(insert(TABLE).values(body="text"))
    with database.read() as connection:
        rows = connection.execute(select(TABLE).order_by(TABLE.c.id)).all()
    assert [row.id for row in rows] == [1, 2]
    with database.write() as connection:
        TABLE.drop(connection)
