"""A migrated database for messages, on each dialect."""

import pytest

from bridge.store.database import Database
from tests.bridge.message_store import MessageStore


@pytest.fixture
def store(database: Database) -> MessageStore:
    """Return an empty store."""
    return MessageStore(database)
