"""The console's queries use indexes."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from sqlalchemy import text

from bridge.admin.search.message_index import NumberKind
from bridge.admin.search.queue_search import MessageQuery, search_messages
from bridge.console.dashboard import read_figures
from bridge.queue import queries
from bridge.queue.states import QueueState
from bridge.store.database import Database
from bridge.store.migration import upgrade
from tests.bridge.message_store import START, MessageStore
from tests.bridge.query_plans import plan_of, recorded_statements


def plans_of(store: MessageStore, query: Callable[[MessageStore], object]) -> list[str]:
    with recorded_statements(store.database) as statements:
        query(store)
    with store.database.read() as connection:
        return [plan_of(connection, statement) for statement in statements]


PARKED: list[Callable[[MessageStore], object]] = [
    lambda store: queries.messages(store.database, queries.Filter(state=QueueState.PARKED)),
    lambda store: queries.deliveries(store.database, queries.Filter(state=QueueState.PARKED)),
    lambda store: search_messages(store.database, MessageQuery(state=QueueState.PARKED)),
    lambda store: search_messages(
        store.database, MessageQuery(state=QueueState.PARKED, sites=frozenset({"odd"}))
    ),
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
    """SQLite recognizes that the partial index contains all of them."""
    found = plans_of(filled, query)
    assert any("_attention" in plan for plan in found), found


@pytest.mark.parametrize(
    "query",
    [
        *PARKED,
        lambda store: search_messages(
            store.database, MessageQuery(kind=NumberKind.ORDER, number="P7")
        ),
        lambda store: search_messages(store.database, MessageQuery(text="locked")),
        lambda store: search_messages(store.database, MessageQuery(sites=frozenset({"odd"}))),
        lambda store: read_figures(store.database, START + 3_000_000),
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
