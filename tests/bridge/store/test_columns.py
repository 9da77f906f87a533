"""Columns mean the same on both dialects."""

from datetime import UTC, datetime, timedelta, timezone

import pytest
from sqlalchemy import Column, MetaData, Table, insert, select

from bridge.store.columns import BIG_KEY, DOCUMENT, Instant
from bridge.store.database import Database
from bridge.store.errors import StoreError

TABLE = Table(
    "sample",
    MetaData(),
    Column("id", BIG_KEY, primary_key=True),
    Column("at", Instant),
    Column("body", DOCUMENT),
)
NOON = datetime(2026, 3, 1, 12, 0, 0, 123456, tzinfo=timezone(timedelta(hours=1)))


def test_round_trip(database: Database) -> None:
    """Keys count up, times return aware and in UTC, documents return unchanged."""
    with database.write() as connection:
        TABLE.create(connection)
        for body in ({"a": [1, "ü", None]}, None):
            connection.execute(insert(TABLE).values(at=NOON, body=body))
    with database.read() as connection:
        rows = connection.execute(select(TABLE).order_by(TABLE.c.id)).all()
    assert [row.id for row in rows] == [1, 2]
    assert rows[0].at == NOON
    assert rows[0].at.tzinfo == UTC
    assert [row.body for row in rows] == [{"a": [1, "ü", None]}, None]
    with database.write() as connection:
        TABLE.drop(connection)


def test_an_instant_without_zone(database: Database) -> None:
    """A time without a zone is refused."""
    with database.write() as connection:
        TABLE.create(connection)
    naive = NOON.replace(tzinfo=None)
    with pytest.raises(StoreError), database.write() as connection:
        connection.execute(insert(TABLE).values(at=naive))
    with database.write() as connection:
        TABLE.drop(connection)
