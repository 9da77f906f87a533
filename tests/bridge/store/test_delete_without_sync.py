"""Deletions of retention do not wait for the disk. All other commits do."""

import pytest
from sqlalchemy import Connection, text

from bridge.store.database import Database

_ASKED = {"sqlite": "PRAGMA synchronous", "postgresql": "SHOW synchronous_commit"}
_LAZY = {"sqlite": 1, "postgresql": "off"}
_DURABLE = {"sqlite": 2, "postgresql": "on"}


def _how(database: Database, connection: Connection) -> object:
    return connection.execute(text(_ASKED[database.dialect])).scalar_one()


def _count(database: Database) -> int:
    with database.read() as connection:
        return int(connection.execute(text("SELECT count(*) FROM alert")).scalar_one())


def _fail(database: Database) -> None:
    with database.delete_without_sync() as connection:
        connection.execute(text("DELETE FROM alert"))
        raise RuntimeError


def test_only_deletions_skip_the_sync(database: Database) -> None:
    """The same connection syncs again when it returns from the pool."""
    with database.delete_without_sync() as connection:
        assert _how(database, connection) == _LAZY[database.dialect]
    for _ in range(3):
        with database.write() as connection:
            assert _how(database, connection) == _DURABLE[database.dialect]


def test_sync_after_a_failed_deletion(database: Database) -> None:
    """After a failed deletion the rows stay, and the connection syncs again."""
    with database.write() as connection:
        connection.execute(
            text(
                "INSERT INTO alert (key, severity, text, raised_at, seen_at)"
                " VALUES ('k', 's', 't', 0, 0)"
            )
        )
    with pytest.raises(RuntimeError):
        _fail(database)
    assert _count(database) == 1
    with database.write() as connection:
        assert _how(database, connection) == _DURABLE[database.dialect]
    with database.delete_without_sync() as connection:
        connection.execute(text("DELETE FROM alert"))
    assert _count(database) == 0
