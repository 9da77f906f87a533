"""Each node creates partitions ahead. Ids without a partition are stored too."""

import threading
from collections.abc import Iterator

import pytest
from sqlalchemy import text

from bridge.queue import queries
from bridge.queue.retention.policy import prune
from bridge.store.database import Database
from bridge.store.migration import revisions, upgrade
from bridge.store.postgresql.partitions import TABLES, Partition, create_ahead, parse_bounds
from tests.bridge.queue.partitioned_databases import (
    FIRST,
    continue_after,
    create_database,
    ids_in,
    names,
)
from tests.conftest import address_of, ask_server

pytestmark = pytest.mark.postgres

_MESSAGE = text("""
    INSERT INTO message (id, received_at, listener, identity, digest, edition, message_type,
        mapping, mapping_version, flags, ack_code, acknowledgment, error_code, error_place, state)
    SELECT n, n, 'l', n * 7919, n, 0, 'ORM^O01', 'orders', 'v', 0, 'AA', 'delivered', '', '', :state
    FROM generate_series(CAST(:first AS bigint), CAST(:last AS bigint)) AS n
""")
_BODY = text("""
    INSERT INTO message_body (message_id, payload, ack)
    SELECT id, 'MSH', 'MSA' FROM message WHERE id BETWEEN :first AND :last
""")
_NUMBER = text("""
    INSERT INTO message_number (number, message_id)
    SELECT id * 3, id FROM message WHERE id BETWEEN :first AND :last
""")


@pytest.fixture
def store(postgres_server: str, migrated_template: str) -> Iterator[Database]:
    """A database of the test, because the test changes its partitions."""
    with create_database(postgres_server, migrated_template) as database:
        yield database


def _fill(store: Database, first: int, last: int, state: str = "done") -> None:
    with store.write() as connection:
        for statement in (_MESSAGE, _BODY, _NUMBER):
            values = {"first": first, "last": last, "state": state}
            known = {name: values[name] for name in statement.compile().params}
            connection.execute(statement, known)


def test_bounds() -> None:
    """The oldest partition starts with the first id, and the last one has no bounds."""
    oldest = parse_bounds("message_from_0", "FOR VALUES FROM (MINVALUE) TO ('1000000')")
    assert oldest == Partition(0, 1_000_000, "from_0")
    second = parse_bounds("message_from_7", "FOR VALUES FROM ('7') TO ('9')")
    assert second == Partition(7, 9, "from_7")
    assert parse_bounds("message_rest", "DEFAULT") is None


def test_concurrent_creation(store: Database) -> None:
    """One of several nodes creates the next partition when half of the newest is used."""
    assert create_ahead(store) == 0
    assert continue_after(store, FIRST - 50, 100) == 0
    with store.write() as connection:
        connection.execute(text("SELECT setval('message_ids', :n)"), {"n": FIRST - 49})
    made: list[int] = []
    nodes = [
        threading.Thread(target=lambda: made.append(create_ahead(store, 100))) for _ in range(4)
    ]
    for node in nodes:
        node.start()
    for node in nodes:
        node.join()
    assert sorted(made) == [0, 0, 0, 1]
    assert names(store) == ["from_0", f"from_{FIRST}"]


def test_no_partition_is_left(store: Database) -> None:
    """If somebody has dropped all partitions, the next one begins after the last id."""
    with store.write() as connection:
        connection.execute(text("SELECT setval('message_ids', 41)"))
        for table in TABLES:
            connection.execute(text(f"DROP TABLE {table}_from_0"))
    assert create_ahead(store, 100) == 1
    assert names(store) == ["from_42"]


def test_ids_without_a_partition(store: Database) -> None:
    """The row is stored in the last partition, and the next partition starts above it."""
    _fill(store, FIRST + 10, FIRST + 20)
    assert continue_after(store, FIRST + 20, 100) == 1
    assert names(store) == ["from_0", f"from_{FIRST + 21}"]
    _fill(store, FIRST + 21, FIRST + 25)
    assert ids_in(store, "message_rest") == list(range(FIRST + 10, FIRST + 21))
    assert ids_in(store, f"message_from_{FIRST + 21}") == list(range(FIRST + 21, FIRST + 26))
    assert queries.message(store, FIRST + 15).ack == b"MSA"


def test_a_long_read_postpones_a_partition(store: Database) -> None:
    """A long read postpones the next partition, and blocks no other query."""
    with store.read() as connection:
        connection.execute(text("SELECT count(*) FROM message"))
        assert continue_after(store, FIRST, 100) == 0
    assert create_ahead(store, 100) == 1


def test_an_old_database(postgres_server: str) -> None:
    """Rows of an older release stay, new ids continue, and removed ids are not reused."""
    ask_server(postgres_server, "CREATE DATABASE parted_old")
    store = Database(address_of(postgres_server, "parted_old"))
    upgrade(store, target=revisions()[revisions().index("0017") - 1])
    _fill(store, 1, 300)
    with store.write() as connection:
        connection.execute(text("SELECT setval('message_id_seq', 300)"))
    before = {name: _all(store, name) for name in ("message", "message_body", "message_number")}
    upgrade(store)
    assert {name: _all(store, name) for name in before} == before
    assert ids_in(store, "message_from_0") == list(range(1, 301))
    with store.read() as connection:
        known = connection.execute(text("SELECT * FROM message_identity ORDER BY message_id"))
        assert [tuple(row) for row in known] == [(n * 7919, n, 0, n, "AA") for n in range(1, 301)]
    assert continue_after(store, FIRST - 1, 100) == 1
    _fill(store, FIRST, FIRST + 3)
    continue_after(store, FIRST + 3, 100)
    assert prune(store, 10 * FIRST).messages == 303  # the newest stays
    assert names(store)[0] == f"from_{FIRST}"
    with store.write() as connection:
        number = connection.execute(text("SELECT nextval('message_ids')")).scalar_one()
    assert number == FIRST + 4
    store.dispose()
    ask_server(postgres_server, "DROP DATABASE parted_old WITH (FORCE)")


def _all(store: Database, table: str) -> list[tuple[object, ...]]:
    with store.read() as connection:
        found = connection.execute(text(f"SELECT * FROM {table}"))  # noqa: S608  # our own names
        return sorted(tuple(row) for row in found)
