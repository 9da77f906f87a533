"""What the console looks for is found by an index: no table is walked from end to end."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import event, text

from bridge.console.dashboard import figures
from bridge.console.message_index import NumberKind
from bridge.console.message_search import MessageQuery, search_messages
from bridge.queue import queries
from bridge.queue.states import QueueState
from bridge.store.database import Database
from bridge.store.migration import upgrade
from tests.bridge.console.conftest import START, Shelf


@contextmanager
def plans(shelf: Shelf) -> Iterator[list[str]]:
    """Collect how SQLite carries out what is asked of it."""
    found: list[str] = []
    with shelf.database.read() as connection:
        engine = connection.engine

    def explain(_: Any, cursor: Any, statement: str, parameters: Any, *__: Any) -> None:
        if statement.startswith("SELECT"):
            rows = cursor.connection.execute(f"EXPLAIN QUERY PLAN {statement}", parameters)
            found.append(" | ".join(str(row[3]) for row in rows))

    event.listen(engine, "before_cursor_execute", explain)
    yield found
    event.remove(engine, "before_cursor_execute", explain)


PARKED: list[Callable[[Shelf], object]] = [
    lambda shelf: queries.messages(shelf.database, queries.Filter(state=QueueState.PARKED)),
    lambda shelf: queries.deliveries(shelf.database, queries.Filter(state=QueueState.PARKED)),
    lambda shelf: search_messages(shelf.database, MessageQuery(state=QueueState.PARKED)),
    lambda shelf: search_messages(
        shelf.database, MessageQuery(state=QueueState.PARKED, sites=frozenset({"odd"}))
    ),
    lambda shelf: queries.open_messages(shelf.database),
]


@pytest.fixture
def filled(tmp_path: Path) -> Iterator[Shelf]:
    """Some thousand messages, a few of them parked; on SQLite, which sees less than PostgreSQL."""
    database = Database(f"sqlite:///{tmp_path / 'test.db'}")
    upgrade(database)
    shelf = Shelf(database)
    shelf.fill(1, 3, state="parked")
    shelf.fill(4, 3000)
    with database.write() as connection:
        connection.execute(text("ANALYZE"))
    yield shelf
    database.dispose()


@pytest.mark.parametrize("asking", PARKED)
def test_what_is_parked_is_found_by_its_own_index(
    filled: Shelf, asking: Callable[[Shelf], object]
) -> None:
    """Written so that SQLite sees that the partial index has all of it."""
    with plans(filled) as found:
        asking(filled)
    assert any("_attention" in plan for plan in found), found


@pytest.mark.parametrize(
    "asking",
    [
        *PARKED,
        lambda shelf: search_messages(
            shelf.database, MessageQuery(kind=NumberKind.ORDER, number="P7")
        ),
        lambda shelf: search_messages(shelf.database, MessageQuery(text="locked")),
        lambda shelf: search_messages(shelf.database, MessageQuery(sites=frozenset({"odd"}))),
        lambda shelf: figures(shelf.database, START + 3_000_000),
    ],
)
def test_no_table_is_walked(filled: Shelf, asking: Callable[[Shelf], object]) -> None:
    """By a range of ids, by a partial index, by the numbers."""
    with plans(filled) as found:
        asking(filled)
    walked = [plan for plan in found if "SCAN message" in plan and "USING" not in plan]
    assert found
    assert walked == []
