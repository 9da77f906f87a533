"""If synchronous commits are required, the bridge writes only while the server has them."""

from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest
import sqlalchemy
from sqlalchemy import text

from bridge.store.database import Database
from bridge.store.errors import NotSynchronous, StoreUnavailable
from bridge.store.options import DatabaseOptions
from bridge.store.postgresql.connection import SynchronousCommit
from bridge.store.postgresql.requirements import server_problems

REQUIRED = DatabaseOptions(require_synchronous=True)


class Server:
    def __init__(self) -> None:
        self.now, self.queries, self.is_away = 0.0, 0, False
        self.settings = ("on", "street")
        self.autocommit = False

    def execute(self, statement: str) -> "Server":
        if self.is_away:
            raise psycopg.OperationalError
        self.queries += 1
        return self

    def fetchone(self) -> tuple[str, str]:
        return self.settings

    def close(self) -> None:
        """Do nothing."""


@pytest.fixture
def server() -> Server:
    return Server()


@pytest.fixture
def check(server: Server) -> SynchronousCommit:
    return SynchronousCommit(lambda: server, required=True, timer=lambda: server.now)


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        (("off", "street"), "synchronous_commit is off"),
        (("local", "street"), "synchronous_commit is local"),
        (("on", " "), "synchronous_standby_names is empty"),
    ],
)
def test_a_setting_that_is_changed_later(
    server: Server, check: SynchronousCommit, settings: tuple[str, str], problem: str
) -> None:
    """The check notices a change within a second in both directions, and queries once a second."""
    check.require()
    server.settings = settings
    check.require()
    assert server.queries == 1
    server.now += 1
    with pytest.raises(NotSynchronous, match=problem):
        check.require()
    server.settings = ("remote_apply", "street")
    server.now += 1
    check.require()
    assert server.queries == 3


def test_a_server_that_is_away(server: Server, check: SynchronousCommit) -> None:
    """An unreachable server does not satisfy the check. When it is back it is queried again."""
    check.require()
    server.now += 1
    server.is_away = True
    for _ in range(2):
        with pytest.raises(StoreUnavailable):
            check.require()
    server.is_away = False
    check.require()


@pytest.mark.postgres
def test_no_standby_no_write(postgres_url: str) -> None:
    database = Database(postgres_url, REQUIRED)
    writer = database.writer()
    ways: list[Callable[[], Any]] = [
        *(
            database.write,
            database.delete_without_sync,
            database.session,
            database.write_without_sync,
        ),
        *(writer.transaction, writer.single),
    ]
    try:
        for write in ways:
            with pytest.raises(NotSynchronous, match="synchronous_standby_names is empty"), write():
                pass
        with database.read() as connection:
            assert connection.execute(text("SELECT 1")).scalar() == 1
    finally:
        writer.close()
        database.dispose()


@pytest.fixture(params=["off", "local"])
def weak(request: pytest.FixtureRequest, postgres_url: str) -> Iterator[str]:
    engine = sqlalchemy.create_engine(postgres_url, isolation_level="AUTOCOMMIT")
    name = f'"{engine.url.database}"'
    with engine.connect() as connection:
        connection.execute(text(f"ALTER DATABASE {name} SET synchronous_commit = {request.param}"))
        yield request.param
        connection.execute(text(f"ALTER DATABASE {name} RESET synchronous_commit"))
    engine.dispose()


@pytest.mark.postgres
def test_weak_commits(postgres_url: str, weak: str) -> None:
    """Weak settings are refused where required, and our own connections override them."""
    required, free = Database(postgres_url, REQUIRED), Database(postgres_url)
    try:
        with pytest.raises(NotSynchronous, match=f"synchronous_commit is {weak}"), required.write():
            pass
        for database, expected in ((required, "on"), (free, "on" if weak == "off" else weak)):
            with database.read() as connection:
                found = connection.execute(text("SHOW synchronous_commit")).scalar()
                assert found == expected
        found = [
            problem.text
            for problem in server_problems(free)
            if "synchronous_commit" in problem.text
        ]
        assert [weak in item for item in found] == [True]
    finally:
        required.dispose()
        free.dispose()


def test_a_file_has_no_standby(database: Database) -> None:
    """SQLite is not queried, and nor is a server without the requirement."""
    database.synchronous_commit.require()
