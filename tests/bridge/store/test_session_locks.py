"""Locks that a process holds across transactions."""

import threading
from collections.abc import Iterator

import pytest

from bridge.store.database import Database
from bridge.store.postgresql.dedicated_connections import SessionLocks
from tests.eventually import eventually

pytestmark = pytest.mark.postgres

WAITING = """
    SELECT 1 FROM pg_locks WHERE NOT granted
    AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
"""


@pytest.fixture
def nodes(postgres_url: str) -> Iterator[tuple[SessionLocks, SessionLocks]]:
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


def test_a_connection_in_use_is_not_closed(nodes: tuple[SessionLocks, SessionLocks]) -> None:
    """A statement on another thread ends first: psycopg would free the memory that it uses."""
    locks, driver, other = nodes[0], *(each.take({"a"}).driver for each in nodes)
    results: list[object] = []

    def wait_for_lock() -> None:
        results.append(driver.execute("SELECT 'got', pg_advisory_lock(1)").fetchone())

    waiting, closing = threading.Thread(target=wait_for_lock), threading.Thread(target=locks.close)
    other.execute("SELECT pg_advisory_lock(1)")
    waiting.start()
    eventually(lambda: other.execute(WAITING).fetchone())
    closing.start()
    closing.join(0.2)  # longer than an unprotected close takes
    assert not driver.closed
    other.execute("SELECT pg_advisory_unlock(1)")
    waiting.join()
    closing.join()
    assert results == [("got", "")]
    assert driver.closed
