"""A whole engine behind HTTP for each case; on SQLite unless a module asks for both databases."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from bridge.store.database import Database
from bridge.store.migrate import upgrade
from tests.bridge.engine.http.conftest import clock, service
from tests.bridge.engine.http.house import ADMIN, Service
from tests.conformance.engine.cases import Case

__all__ = ["clock", "service"]  # as the tests of the engine's HTTP have them


@pytest.fixture(scope="session")
def empty_database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A migrated database file, to be copied."""
    path = tmp_path_factory.mktemp("conformance") / "empty.db"
    database = Database(f"sqlite:///{path}")
    upgrade(database, package="bridge.engine.records", version_table="alembic_engine")
    database.dispose()
    return path


@pytest.fixture
def database_url(empty_database: Path, tmp_path: Path) -> str:
    """Address of a database without rows."""
    shutil.copy(empty_database, tmp_path / "engine.db")
    return f"sqlite:///{tmp_path / 'engine.db'}"


@pytest.fixture
def case(service: Service) -> Case:
    """What the document's rules are tried on: one engine, and ways to bring reports to a state."""
    return Case(service)


@pytest.fixture
def uncooled(service: Service) -> Callable[[int], None]:
    """Set the sign delay of SITE1 in seconds; 0 switches cooling off."""

    def setting(seconds: int) -> None:
        body = {"name": "First", "signDelay": seconds}
        answer = service.call("PUT", "/api/admin/sites/SITE1", ADMIN, json=body)
        assert answer.status_code == 200, answer.text

    return setting
