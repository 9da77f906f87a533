"""The console's queries use indexes."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text

from bridge.admin.lists.deliveries import DeliveryList
from bridge.admin.lists.listing import UNLIMITED, Access, ListRequest
from bridge.admin.lists.messages import MessageList
from bridge.queue import queries
from bridge.store.database import Database
from bridge.store.migration import upgrade
from tests.bridge.message_store import MessageStore
from tests.bridge.query_plans import plan_of, recorded_statements


def plans_of(store: MessageStore, query: Callable[[MessageStore], object]) -> list[str]:
    with recorded_statements(store.database) as statements:
        query(store)
    with store.database.read() as connection:
        return [plan_of(connection, statement) for statement in statements]


def _page(filters: dict[str, Any], access: Access = UNLIMITED) -> Callable[[MessageStore], object]:
    def page(store: MessageStore) -> object:
        with store.database.read() as connection:
            return MessageList().page(connection, ListRequest(filters), access)

    return page


def _parked_deliveries(store: MessageStore) -> object:
    with store.database.read() as connection:
        return DeliveryList().page(connection, ListRequest({"state": "parked"}), UNLIMITED)


PARKED: list[Callable[[MessageStore], object]] = [
    _page({"state": "parked"}),
    _page({"state": "parked"}, Access(frozenset({"odd"}))),
    _parked_deliveries,
    lambda store: queries.open_messages(store.database),
]


@pytest.fixture
def filled(tmp_path: Path) -> Iterator[MessageStore]:
    database = Database(f"sqlite:///{tmp_path / 'test.db'}")
    upgrade(database)
    store = MessageStore(database)
    store.fill(1, 3, state="parked")
    store.fill(4, 3000)
    with database.write() as connection:
        connection.execute(text("ANALYZE"))
    yield store
    database.dispose()


@pytest.mark.parametrize("query", PARKED)
def test_parked_rows_use_the_partial_index(
    filled: MessageStore, query: Callable[[MessageStore], object]
) -> None:
    """SQLite recognizes that a partial index contains all of them."""
    found = plans_of(filled, query)
    assert any(re.search("_attention|_causes", plan) for plan in found), found


@pytest.mark.parametrize(
    "query",
    [
        *PARKED,
        _page({"number": "P7", "kind": "order"}),
        _page({"text": "locked"}),
        _page({}, Access(frozenset({"odd"}))),
    ],
)
def test_no_query_scans_a_table(
    filled: MessageStore, query: Callable[[MessageStore], object]
) -> None:
    """Queries use a range of ids, a partial index, or the message index."""
    found = plans_of(filled, query)
    steps = [step for plan in found for step in plan.splitlines()]
    scans = [step for step in steps if "SCAN message" in step and "USING" not in step]
    assert found
    assert scans == []
