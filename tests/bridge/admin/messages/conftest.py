"""A migrated database for messages, on each dialect."""

import pytest

from bridge.store.database import Database
from tests.bridge.message_store import MessageStore


@pytest.fixture
def store(database: Database) -> MessageStore:
    return MessageStore(database)
