"""A bridge for the tests of intake."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from bridge.store.database import Database
from tests.bridge.delivery.whole_bridge import Hospital, open_hospital


@pytest.fixture
async def hospital(tmp_path: Path, database: Database) -> AsyncIterator[Hospital]:
    """A bridge with a real engine and no destination."""
    async with open_hospital(tmp_path, database) as made:
        yield made
