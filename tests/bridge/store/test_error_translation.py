"""Driver errors are translated by their code, without the text about the row."""

import sqlite3
from contextlib import closing
from pathlib import Path

import psycopg
import pytest
from psycopg import errors
from sqlalchemy.exc import DBAPIError

from bridge.store.database import Database
from bridge.store.errors import (
    Busy,
    Conflict,
    StatementRefused,
    StoreError,
    StoreUnavailable,
    is_connection_lost,
    translate,
)

POSTGRES = {
    "23505": Conflict,  # unique_violation
    "40001": Busy,  # serialization_failure
    "40P01": Busy,  # deadlock_detected
    "55P03": Busy,  # lock_not_available
    "53100": StoreUnavailable,  # disk_full
    "53300": StoreUnavailable,  # too_many_connections
    "57P01": StoreUnavailable,  # admin_shutdown
    "57P03": StoreUnavailable,  # cannot_connect_now
    "58030": StoreUnavailable,  # io_error
    "25006": StoreUnavailable,  # read_only_sql_transaction: a standby
    "25P03": Busy,  # idle_in_transaction_session_timeout
    "25P04": Busy,  # transaction_timeout
    "23502": StatementRefused,  # not_null_violation
    "42601": StatementRefused,  # syntax_error
}


@pytest.mark.parametrize(("state", "expected"), list(POSTGRES.items()))
def test_postgres(state: str, expected: type[StoreError]) -> None:
    """Each class of PostgreSQL codes, from the driver and wrapped by SQLAlchemy."""
    error = errors.lookup(state)("Key (mrn)=(SECRET) is no good")
    assert type(translate(error)) is expected
    assert type(translate(DBAPIError("SELECT", {}, error))) is expected
    assert "SECRET" not in str(translate(error))


def test_a_lost_connection() -> None:
    gone = psycopg.OperationalError("server closed the connection unexpectedly")
    assert isinstance(translate(gone), StoreUnavailable)
    assert is_connection_lost(gone)
    assert is_connection_lost(errors.AdminShutdown())
    assert is_connection_lost(errors.IdleInTransactionSessionTimeout())
    assert not is_connection_lost(errors.ReadOnlySqlTransaction())
    assert not is_connection_lost(errors.DiskFull())
    assert not is_connection_lost(errors.UniqueViolation())


def test_invalid_text() -> None:
    """Invalid bytes in a text column are reported as damage, without the text."""
    error = sqlite3.OperationalError("Could not decode to UTF-8 column 'x' with text 'SECRET'")
    assert str(translate(error)) == (
        "the database is unavailable (SQLITE_CORRUPT: its file is damaged)"
    )


def test_a_damaged_schema_that_is_not_utf8(tmp_path: Path) -> None:
    """SQLite's error message quotes bytes that Python cannot decode."""
    file = tmp_path / "bridge.db"
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("CREATE TABLE patient (mrn TEXT)")
    content = file.read_bytes().replace(b"patient", b"patien\xd5")
    file.write_bytes(content.replace(b"CREATE", b"CREATX"))
    database = Database(f"sqlite:///{file}")
    with pytest.raises(StoreUnavailable, match="SQLITE_CORRUPT"), database.read() as connection:
        connection.exec_driver_sql("SELECT 1")
    database.dispose()
