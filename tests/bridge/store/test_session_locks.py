"""Locks that a process holds across transactions."""

from collections.abc import Iterator

import pytest

from bridge.store.database import Database
from bridge.store.postgresql.dedicated_connections import SessionLocks
from tests.eventually import eventually

pytestmark = pytest.mark.postgres


@pytest.fixture
def nodes(postgres_url: str) -> Iterator[tuple[SessionLocks, SessionLocks]]:
    """Two nodes."""
    databases = Database(postgres_url), Database(postgres_url)
    one, two = (SessionLocks(each) for each in databases)
    yield one, two
    for each in databases:
        each.dispose()


def test_locks_of_two_nodes(nodes: tuple[SessionLocks, SessionLocks]) -> None:
    """A lock attempt does not wait. A lock is free when all its holders released it."""
    one, two = nodes
    first, second = one.take({"a", "b"}), one.take({"b"})
    assert [set(first.names), set(second.names)] == [{"a", "b"}, {"b"}]
    assert two.take({"b", "c"}).names == {"c"}
    one.release(first)
    eventually(lambda: two.take({"a"}).names == {"a"})
    assert two.take({"b"}).names == set()
    one.release(second)
    eventually(lambda: two.take({"b"}).names == {"b"})


def test_a_connection_that_ends_loses_its_locks(nodes: tuple[SessionLocks, SessionLocks]) -> None:
    """A lost lock cannot release the lock of the next connection."""
    one, two = nodes
    lost = one.take({"a"})
    one.close()
    eventually(lambda: two.take({"a"}).names == {"a"})
    two.close()
    held = one.take({"a", "b"})
    one.release(lost)
    one.release(one.take({"c"}))
    eventually(lambda: two.take({"c"}).names == {"c"})
    assert held.names == {"a", "b"}
    assert two.take({"a"}).names == set()
