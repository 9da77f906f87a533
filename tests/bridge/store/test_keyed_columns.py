"""Hashes of identifiers are keyed. Rows of an older release are keyed once, on both databases."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from sqlalchemy import text

from bridge import index_key
from bridge.admin.messages.message_index import NumberKind, number_hash
from bridge.index_key import keyed64, keyed_text, signal_hash, signed64
from bridge.queue.arrivals import lane
from bridge.store.database import Database
from bridge.store.errors import WrongIndexKey
from bridge.store.migration import (
    BRIDGE,
    BRIDGE_TABLE,
    ENGINE,
    ENGINE_TABLE,
    ensure_keyed,
    fingerprint_of,
)
from tests.eventually import PATIENCE, eventually

_WAITING = text(
    "SELECT count(*) FROM pg_stat_activity"
    " WHERE datname = current_database() AND wait_event_type = 'Lock'"
)

OLD = signed64(b"SITE1|4711")
OTHER = b"x" * index_key.KEY_BYTES


@pytest.fixture
def _own_key() -> Iterator[None]:
    yield
    index_key.install(bytes(range(index_key.KEY_BYTES)))


def fill(database: Database) -> None:
    with database.write() as connection:
        for statement in (
            "INSERT INTO message_number (number, message_id) VALUES (:old, 1), (:old, 2), (7, 2)",
            (
                "INSERT INTO bridge_order (id, site, mrn, accession, state, placer, filler, tags,"
                " echo, report_id, first_message, place, last_message)"
                " VALUES (1, 'S', 'M', 'A', 'ordered', '', '', '{}', '[]', '', 1, 0, 1)"
            ),
            (
                "INSERT INTO order_signal (order_id, kind, signal)"
                " VALUES (1, 'study', :old), (1, 'held-later', 1800000000000)"
            ),
        ):
            rows = {"old": OLD} if ":old" in statement else {}
            connection.execute(text(statement), rows)


def test_rows_of_an_older_release_are_keyed_once(database: Database) -> None:
    """Each hash becomes a keyed one, times stay, and a second start changes nothing."""
    fill(database)
    for _ in range(2):
        ensure_keyed(database, BRIDGE_TABLE, BRIDGE)
        with database.read() as connection:
            numbers = connection.execute(text("SELECT number, message_id FROM message_number"))
            assert {tuple(number) for number in numbers} == {
                (keyed64(OLD), 1),
                (keyed64(OLD), 2),
                (keyed64(7), 2),
            }
            signals = connection.execute(text("SELECT kind, signal FROM order_signal"))
            assert {tuple(signal) for signal in signals} == {
                ("study", keyed64(OLD)),
                ("held-later", 1_800_000_000_000),
            }
    assert fingerprint_of(database, BRIDGE_TABLE) == index_key.fingerprint()


@pytest.mark.postgres
@pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)
def test_two_nodes_that_start_at_once(database: Database) -> None:
    """The second of two nodes waits for the first, and does not key the rows again."""
    fill(database)

    def waiting() -> int:
        with database.read() as connection:
            return int(connection.execute(_WAITING).scalar_one())

    with ThreadPoolExecutor(2) as pool:
        with database.write() as connection:
            connection.execute(text("LOCK TABLE message_number IN EXCLUSIVE MODE"))
            nodes = [pool.submit(ensure_keyed, database, BRIDGE_TABLE, BRIDGE) for _ in range(2)]
            eventually(lambda: waiting() == len(nodes))
        for node in nodes:
            node.result(PATIENCE)
    with database.read() as connection:
        numbers = connection.execute(text("SELECT DISTINCT number FROM message_number"))
        assert set(numbers.scalars()) == {keyed64(OLD), keyed64(7)}


@pytest.mark.usefixtures("_own_key")
def test_another_key_is_refused(database: Database) -> None:
    """A node with another key does not start, and the rows stay."""
    for table, columns in ((BRIDGE_TABLE, BRIDGE), (ENGINE_TABLE, ENGINE)):
        index_key.install(bytes(range(index_key.KEY_BYTES)))
        ensure_keyed(database, table, columns)
        index_key.install(OTHER)
        with pytest.raises(WrongIndexKey, match=r"secrets/index\.key"):
            ensure_keyed(database, table, columns)


@pytest.mark.usefixtures("_own_key")
def test_every_hash_of_an_identifier_depends_on_the_key() -> None:
    """Each hash differs with another key, so that it cannot be computed without the key."""

    def all_hashes() -> list[object]:
        return [
            lane("SITE1|4711"),
            signal_hash("study", "1.2.3"),
            keyed64(number_hash(NumberKind.PATIENT, "4711")),
            keyed_text("a digest"),
            index_key.fingerprint(),
        ]

    ours = all_hashes()
    assert ours == all_hashes()
    index_key.install(OTHER)
    assert not set(map(str, ours)) & set(map(str, all_hashes()))
    assert lane("SITE1|4711") != signed64(b"SITE1|4711")
