"""An engine behind HTTP for each test; on SQLite unless a module requests both databases."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.bridge.engine.http.conftest import clock, service
from tests.bridge.engine.http.engine_service import ADMIN, Service
from tests.conformance.engine.cases import Case
from tests.databases import fresh_file

__all__ = ["clock", "service"]  # the fixtures of the HTTP tests


@pytest.fixture
def database_url(tmp_path: Path) -> str:
    """Address of an empty database."""
    return fresh_file(tmp_path / "engine.db")


@pytest.fixture
def case(service: Service) -> Case:
    return Case(service)


@pytest.fixture
def set_delay(service: Service) -> Callable[[int], None]:
    """Set the sign delay of SITE1 in seconds; 0 switches cooling off."""

    def set_seconds(seconds: int) -> None:
        body = {"name": "First", "signDelay": seconds}
        response = service.call("PUT", "/api/admin/sites/SITE1", ADMIN, json=body)
        assert response.status_code == 200, response.text

    return set_seconds
