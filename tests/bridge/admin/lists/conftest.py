"""Messages of several channels, types, states and sites, all indexed."""

import pytest

from bridge.store.database import Database
from tests.bridge.admin.lists.filled_lists import FilledLists


@pytest.fixture
def lists(database: Database) -> FilledLists:
    filled = FilledLists(database)
    filled.fill()
    return filled
