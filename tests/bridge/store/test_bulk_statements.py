"""Bulk statements have the same effect on both databases, in the order of the rows."""

from typing import Any

import pytest
from sqlalchemy import JSON, BigInteger, Boolean, Column, LargeBinary, MetaData, Table, Text, text

from bridge.store.columns import BIG_KEY
from bridge.store.database import Database
from bridge.store.errors import Conflict
from bridge.store.statements import (
    BulkStatement,
    execute_keys,
    execute_rows,
    insert_rows,
    key_statement,
    prepare_insert,
    unnest,
)

TABLE = Table(
    "sample",
    MetaData(),
    Column("id", BIG_KEY, primary_key=True),
    Column("name", Text, unique=True),
    Column("number", BigInteger),
    Column("flag", Boolean),
    Column("octets", LargeBinary),
    Column("body", JSON),
)
INSERT = prepare_insert(TABLE, ("name", "number", "flag", "octets", "body"))
RENAME = BulkStatement(
    ("bigint", "text"),
    "UPDATE sample SET name = ?2 WHERE id = ?1",
    f"UPDATE sample AS s SET name = n.name FROM {unnest(('bigint', 'text'))} AS n (id, name)"  # noqa: S608  # our own names
    " WHERE s.id = n.id",
)
NUMBERED = key_statement(
    "SELECT name FROM sample WHERE number IN :ids AND flag = :flag ORDER BY id"
)
NAMED = key_statement("SELECT id FROM sample WHERE name IN :names ORDER BY id", "names", "text")

ROWS: list[dict[str, Any]] = [
    {
        "name": 'z "quoted" \\ {a,b}',
        "number": -(2**63),
        "flag": True,
        "octets": b"\0\xff",
        "body": 1,
    },
    {
        "name": "ü\n",
        "number": None,
        "flag": False,
        "octets": b"",
        "body": {"b": [1, None], "a": "é"},
    },
    {"name": None, "number": 2**63 - 1, "flag": True, "octets": b"x", "body": None},
]


@pytest.fixture
def filled(database: Database) -> Database:
    with database.write() as connection:
        TABLE.create(connection, checkfirst=True)
        connection.execute(TABLE.delete())
        insert_rows(connection, INSERT, ROWS)
    return database


def test_rows_come_back_as_they_were_given(filled: Database) -> None:
    """Extreme numbers, special characters, bytes and nulls are stored, with keys in order."""
    with filled.read() as connection:
        found = connection.execute(TABLE.select().order_by(TABLE.c.id)).mappings().all()
    assert [{**row, "id": 0} for row in found] == [{"id": 0, **row} for row in ROWS]
    assert [*found[1]["body"]] == ["b", "a"]


def test_a_step_changes_each_row(filled: Database) -> None:
    with filled.write() as connection:
        ids = [row.id for row in connection.execute(text("SELECT id FROM sample ORDER BY id"))]
        execute_rows(connection, RENAME, [(ids[0], "first"), (ids[2], "third")])
        assert execute_rows(connection, RENAME, []) is None
        names = connection.execute(text("SELECT name FROM sample ORDER BY id")).scalars().all()
    assert names == ["first", "ü\n", "third"]


def test_rows_are_found_among_their_keys(filled: Database) -> None:
    """Rows are found by 64-bit number, by text, with other conditions, and with no keys."""
    with filled.read() as connection:
        flag = {"flag": True}
        assert execute_keys(connection, NUMBERED, [-(2**63), 2**63 - 1, 7], **flag).scalars() == [
            ROWS[0]["name"],
            None,
        ]
        assert execute_keys(connection, NUMBERED, [], **flag).all() == []
        assert len(execute_keys(connection, NAMED, [ROWS[0]["name"], "ü\n", "nobody"]).all()) == 2


def test_all_rows_or_none(filled: Database) -> None:
    """One row that cannot be stored rolls back all others."""
    rows = [{**ROWS[0], "name": "new"}, {**ROWS[0], "name": "ü\n"}]
    with pytest.raises(Conflict), filled.write() as connection:
        insert_rows(connection, INSERT, rows)
    with filled.read() as connection:
        assert len(execute_keys(connection, NAMED, ["new"]).all()) == 0
