"""Transactions behave alike on both databases, and each error is one of ours."""

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import psycopg
import pytest
from psycopg import errors
from sqlalchemy import text
from sqlalchemy.engine import make_url
from sqlalchemy.exc import DBAPIError
from sqlmodel import Session

from bridge.store.database import Database
from bridge.store.errors import (
    Busy,
    Conflict,
    StatementRefused,
    StoreError,
    StoreUnavailable,
    UnsupportedStore,
    is_connection_lost,
    translate,
)
from bridge.store.options import DatabaseOptions
from tests.conftest import ask_server


@pytest.fixture(autouse=True)
def _table(database: Database) -> Iterator[None]:
    with database.write() as connection:
        connection.execute(text("CREATE TABLE thing (id INTEGER PRIMARY KEY, name TEXT NOT NULL)"))
    yield
    with database.write() as connection:
        connection.execute(text("DROP TABLE thing"))


def _insert(database: Database, thing: int, name: str | None = "bone") -> None:
    with database.write() as connection:
        connection.execute(
            text("INSERT INTO thing VALUES (:id, :name)"), {"id": thing, "name": name}
        )


def _ids(database: Database) -> list[int]:
    with database.read() as connection:
        return [row.id for row in connection.execute(text("SELECT id FROM thing ORDER BY id"))]


def test_write_commits(database: Database) -> None:
    """A write transaction is committed when it returns."""
    _insert(database, 1)
    assert _ids(database) == [1]


def test_an_error_rolls_back(database: Database) -> None:
    """An error rolls back the transaction, and the next writer can write."""
    with pytest.raises(Conflict), database.write() as connection:  # noqa: PT012  # one unit
        connection.execute(text("INSERT INTO thing VALUES (1, 'bone')"))
        connection.execute(text("INSERT INTO thing VALUES (1, 'bone')"))
    assert _ids(database) == []
    _insert(database, 2)


def test_a_taken_key_is_a_conflict(database: Database) -> None:
    """A unique violation is a Conflict. It names the constraint, not the row."""
    _insert(database, 1)
    with pytest.raises(Conflict) as raised:
        _insert(database, 1, "SECRET")
    assert raised.value.constraint
    assert "SECRET" not in f"{raised.value} {raised.value.__cause__} {raised.value.__context__!s}"


def test_errors_have_no_values(database: Database) -> None:
    """A NOT NULL violation names the column, and no values."""
    with pytest.raises(StatementRefused, match="name") as raised:
        _insert(database, 424242, None)
    assert "424242" not in str(raised.value)
    assert raised.value.__suppress_context__


def test_session_commits(database: Database) -> None:
    """A session is flushed and committed at its end."""
    with database.session() as session:
        assert isinstance(session, Session)
        session.connection().execute(text("INSERT INTO thing VALUES (7, 'bone')"))
    assert _ids(database) == [7]


def test_readers_do_not_wait(database: Database) -> None:
    """A reader reads the last commit while a writer works."""
    _insert(database, 1)
    with database.write() as connection:
        connection.execute(text("INSERT INTO thing VALUES (2, 'bone')"))
        assert _ids(database) == [1]
    assert _ids(database) == [1, 2]


def test_serialized_appends_commit_in_order(database: Database) -> None:
    """A transaction that serializes on a name waits for the commit of the previous one."""
    ids_at_start: list[list[int]] = []

    def second() -> None:
        with database.write() as connection:
            database.serialize(connection, "feed")
            ids_at_start.append(_ids(database))

    with database.write() as connection:
        database.serialize(connection, "feed")
        thread = threading.Thread(target=second)
        thread.start()
        thread.join(0.1)
        connection.execute(text("INSERT INTO thing VALUES (1, 'bone')"))
    thread.join()
    assert ids_at_start == [[1]]


def test_exclusive_name(database: Database) -> None:
    """Of two concurrent transactions only one holds a name. Afterwards the name is free."""
    with database.write() as connection:
        assert database.try_lock(connection, "job")
        if database.dialect == "postgresql":
            with database.write() as other:
                assert not database.try_lock(other, "job")
                assert database.try_lock(other, "another job")
    with database.write() as connection:
        assert database.try_lock(connection, "job")


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)  # PostgreSQL has many writers
def test_writers_in_one_thread(database: Database) -> None:
    """A write inside a write would wait for itself, so SQLite reports it at once."""
    with (
        database.write(),
        pytest.raises(RuntimeError, match="already writing"),
        database.write(),
    ):
        pass


def test_unsupported_databases() -> None:
    """Databases in memory and other products are refused."""
    for url in ("sqlite://", "sqlite:///:memory:", "mysql://x/y"):
        with pytest.raises(UnsupportedStore):
            Database(url)


def test_lock_timeout(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """Waiting for the lock of another writer ends as Busy."""
    monkeypatch.setattr(database.write_lock, "timeout", 0.05, raising=False)
    failures: list[StoreError] = []

    def second() -> None:
        try:
            with database.write() as connection:
                if database.dialect == "postgresql":
                    connection.execute(text("SET LOCAL lock_timeout = '50ms'"))
                connection.execute(text("UPDATE thing SET name = 'two'"))
        except StoreError as error:
            failures.append(error)

    _insert(database, 1)
    with database.write() as connection:
        connection.execute(text("UPDATE thing SET name = 'one'"))
        thread = threading.Thread(target=second)
        thread.start()
        thread.join()
    assert isinstance(failures[0], Busy)


@pytest.mark.postgres
def test_a_read_only_server(postgres_server: str, postgres_url: str) -> None:
    """A standby or read-only server counts as unavailable, unless the URL requests it."""
    name = make_url(postgres_url).database
    ask_server(postgres_server, f"ALTER DATABASE {name} SET default_transaction_read_only = on")
    refused = Database(postgres_url)
    read_only = Database(make_url(postgres_url).update_query_dict(
        {"target_session_attrs": "any", "options": "-c work_mem=5MB"}
    ).render_as_string(hide_password=False))  # fmt: skip
    try:
        with pytest.raises(StoreUnavailable), refused.read():
            pass
        with read_only.read() as connection:
            for setting, value in (("work_mem", "5MB"), ("lock_timeout", "30s")):
                assert connection.execute(text(f"SHOW {setting}")).scalar_one() == value
    finally:
        ask_server(postgres_server, f"ALTER DATABASE {name} RESET default_transaction_read_only")
        refused.dispose()
        read_only.dispose()


@pytest.mark.postgres
def test_a_connection_that_is_in_use_at_disposal_is_closed_when_it_is_returned(
    postgres_url: str,
) -> None:
    """A thread may still read when the database is disposed of, and may read once more."""
    database = Database(postgres_url)
    with database.read() as connection:
        driver = database.driver_connection(connection)
        database.dispose()
        assert not driver.closed
    assert driver.closed
    with database.read() as connection:
        later = database.driver_connection(connection)
    assert later.closed


@pytest.mark.postgres
def test_a_pool_has_its_limits(postgres_url: str) -> None:
    """A caller beyond the limit of connections gets Busy."""
    small = Database(postgres_url, DatabaseOptions(size=1, overflow=1, timeout=0.2))
    try:
        with small.read(), small.read(), pytest.raises(Busy), small.read():
            pass
        with small.read() as connection:
            assert connection.execute(text("SELECT 1")).scalar_one() == 1
    finally:
        small.dispose()


@pytest.mark.parametrize(
    "database_url", ["sqlite"], indirect=True
)  # a server rotates its connections
def test_the_last_used_connection_is_reused(database: Database) -> None:
    """The pool returns the last used connection, which has cached pages and statements."""
    with database.read(), database.read(), database.read():
        pass
    used = set()
    for _ in range(4):
        with database.read() as connection:
            used.add(id(database.driver_connection(connection)))
    assert len(used) == 1


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
