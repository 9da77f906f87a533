"""Transactions mean the same on both dialects, and every refusal is one of ours."""

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import text
from sqlalchemy.engine import make_url
from sqlmodel import Session

from bridge.store.database import Database
from bridge.store.errors import (
    Busy,
    Conflict,
    StatementRefused,
    StoreError,
    StoreUnavailable,
    UnsupportedStore,
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
    """What a write transaction did is there when it returns."""
    _insert(database, 1)
    assert _ids(database) == [1]


def test_an_error_rolls_back(database: Database) -> None:
    """An error inside keeps nothing, and the next writer has its turn."""
    with pytest.raises(Conflict), database.write() as connection:  # noqa: PT012  # one unit
        connection.execute(text("INSERT INTO thing VALUES (1, 'bone')"))
        connection.execute(text("INSERT INTO thing VALUES (1, 'bone')"))
    assert _ids(database) == []
    _insert(database, 2)


def test_a_taken_key_is_a_conflict(database: Database) -> None:
    """A unique violation is a Conflict and names the constraint, not the row."""
    _insert(database, 1)
    with pytest.raises(Conflict) as raised:
        _insert(database, 1, "SECRET")
    assert raised.value.constraint
    assert "SECRET" not in f"{raised.value} {raised.value.__cause__} {raised.value.__context__!s}"


def test_refused_statements_bear_no_values(database: Database) -> None:
    """A violated NOT NULL tells the column, and never the row it would have been."""
    with pytest.raises(StatementRefused, match="name") as raised:
        _insert(database, 424242, None)
    assert "424242" not in str(raised.value)
    assert raised.value.__suppress_context__


def test_session_commits(database: Database) -> None:
    """A session's work is flushed and committed at its end."""
    with database.session() as session:
        assert isinstance(session, Session)
        session.connection().execute(text("INSERT INTO thing VALUES (7, 'bone')"))
    assert _ids(database) == [7]


def test_readers_are_not_held_up(database: Database) -> None:
    """A reader sees the last commit while a writer is at work."""
    _insert(database, 1)
    with database.write() as connection:
        connection.execute(text("INSERT INTO thing VALUES (2, 'bone')"))
        assert _ids(database) == [1]
    assert _ids(database) == [1, 2]


def test_serialized_appends_commit_in_order(database: Database) -> None:
    """Whoever serializes on a name waits for the one before it to commit."""
    seen: list[list[int]] = []

    def second() -> None:
        with database.write() as connection:
            database.serialize(connection, "feed")
            seen.append(_ids(database))

    with database.write() as connection:
        database.serialize(connection, "feed")
        thread = threading.Thread(target=second)
        thread.start()
        thread.join(0.1)
        connection.execute(text("INSERT INTO thing VALUES (1, 'bone')"))
    thread.join()
    assert seen == [[1]]


def test_alone(database: Database) -> None:
    """Of two transactions at once only one holds a name; afterwards it is free again."""
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
    """Writing inside a write would wait for itself: on SQLite that is told at once."""
    with (
        database.write(),
        pytest.raises(RuntimeError, match="already writing"),
        database.write(),
    ):
        pass


def test_two_objects_of_one_file_take_turns(tmp_path: Path) -> None:
    """The turn belongs to the file, whatever it is called and however often it is opened."""
    (tmp_path / "a").mkdir()
    one = Database(f"sqlite:///{tmp_path / 'a' / 'x.db'}")
    two = Database(f"sqlite:///{tmp_path / 'a' / '..' / 'a' / 'x.db'}")
    with one.write(), pytest.raises(RuntimeError), two.write():
        pass
    one.dispose()
    two.dispose()


def test_what_cannot_be_kept_safely_is_refused() -> None:
    """Memory and other products are no place for messages."""
    for url in ("sqlite://", "sqlite:///:memory:", "mysql://x/y"):
        with pytest.raises(UnsupportedStore):
            Database(url)


def test_a_lock_that_does_not_come_is_busy(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Waiting for another's lock ends, as Busy."""
    monkeypatch.setattr(database.write_lock, "timeout", 0.05)
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
def test_a_server_that_keeps_nothing_is_not_ours(postgres_server: str, postgres_url: str) -> None:
    """A standby, or what is made read-only, is as good as away, unless the address wants it."""
    name = make_url(postgres_url).database
    ask_server(postgres_server, f"ALTER DATABASE {name} SET default_transaction_read_only = on")
    refused = Database(postgres_url)
    heard = Database(make_url(postgres_url).update_query_dict(
        {"target_session_attrs": "any", "options": "-c work_mem=5MB"}
    ).render_as_string(hide_password=False))  # fmt: skip
    try:
        with pytest.raises(StoreUnavailable), refused.read():
            pass
        with heard.read() as connection:
            for setting, value in (("work_mem", "5MB"), ("lock_timeout", "30s")):
                assert connection.execute(text(f"SHOW {setting}")).scalar_one() == value
    finally:
        ask_server(postgres_server, f"ALTER DATABASE {name} RESET default_transaction_read_only")
        refused.dispose()
        heard.dispose()


@pytest.mark.postgres
def test_a_pool_has_its_limits(postgres_url: str) -> None:
    """As many connections as were allowed, and whoever comes then is told that it is busy."""
    small = Database(postgres_url, DatabaseOptions(size=1, overflow=1, timeout=0.2))
    try:
        with small.read(), small.read(), pytest.raises(Busy), small.read():
            pass
        with small.read() as connection:
            assert connection.execute(text("SELECT 1")).scalar_one() == 1
    finally:
        small.dispose()


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)  # a server's come in turn
def test_who_comes_next_gets_the_connection_used_last(database: Database) -> None:
    """It knows its pages and its statements; the others would be strangers one after the other."""
    with database.read(), database.read(), database.read():
        pass
    used = set()
    for _ in range(4):
        with database.read() as connection:
            used.add(id(database.driver_connection(connection)))
    assert len(used) == 1
