"""The harness on both databases."""

import pytest

from bridge.store.database import Database
from tests.bridge.engine.service.harness import ServiceHarness


@pytest.fixture
def harness(database: Database) -> ServiceHarness:
    return ServiceHarness(database)
