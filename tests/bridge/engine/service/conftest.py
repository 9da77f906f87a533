"""The ward on either database."""

import pytest

from bridge.store.database import Database
from tests.bridge.engine.service.ward import Ward


@pytest.fixture
def ward(database: Database) -> Ward:
    """An engine's database with one site, two users and an administrator."""
    return Ward(database)
