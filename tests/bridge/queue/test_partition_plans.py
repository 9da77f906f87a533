"""
With a hundred partitions, statements on messages read only one or two of them.

The plans are those of the executed statements.
"""

import json
import re
from collections.abc import Iterator

import pytest
from sqlalchemy import text

from bridge.queue import inbox, log_tables
from bridge.queue import statements as sql
from bridge.queue.retention.rows import id_at
from bridge.queue.statements import MESSAGE
from bridge.store.database import Database
from bridge.store.postgresql.connection import binary_arrays
from bridge.store.statements import KeyStatement
from tests.bridge.queue.partitioned_databases import FIRST, continue_after, create_database, names
from tests.bridge.queue.samples import NOW

pytestmark = pytest.mark.postgres

SIZE = 1000
LAST = FIRST + 98 * SIZE
"""The first id of the newest partition."""
_MESSAGE = text("""
    INSERT INTO message (id, received_at, listener, identity, digest, edition, message_type,
        mapping, mapping_version, flags, ack_code, acknowledgment, error_code, error_place, state)
    VALUES (:id, :id, 'l', :id, :id, 0, 'ORM^O01', 'orders', 'v', 0, 'AA', 'delivered', '', '',
        'done')
""")
IDS = [*range(LAST - 20, LAST + 20)]
"""Ids of two partitions."""


@pytest.fixture(scope="module")
def store(postgres_server: str, migrated_template: str) -> Iterator[Database]:
    """A database with a hundred partitions, created before their rows."""
    with create_database(postgres_server, migrated_template) as database:
        continue_after(database, FIRST - 1, SIZE)
        for last in range(FIRST + SIZE - 1, LAST, SIZE):
            continue_after(database, last, SIZE)
        assert len(names(database)) == 100
        yield database


def _touched(plan: str) -> set[str]:
    return set(re.findall(r"\bmessage_(?:body_)?((?:from_\d+)|rest)\b(?!_)", plan))


def _explained(store: Database, statement: str, values: object) -> str:
    with store.write() as connection:
        driver = store.driver_connection(connection)
        rows = driver.execute(f"EXPLAIN (VERBOSE) {statement}", values).fetchall()
        return "\n".join(row[0] for row in rows)


AMONG = {
    "blockers": (sql.INBOX.blockers, {}),
    "block": (sql.INBOX.block, {}),
    "unblock": (sql.INBOX.unblock, {}),
    "claim": (sql.INBOX.claim, {"owner": "o", "lease_until": NOW}),
    "claimed": (inbox._CLAIMED, {}),
    "extend": (sql.INBOX.extend, {"owner": "o", "lease_until": NOW}),
}


@pytest.mark.parametrize(("statement", "others"), list(AMONG.values()), ids=list(AMONG))
def test_by_ids(store: Database, statement: KeyStatement, others: dict[str, object]) -> None:
    """Statements on messages of two partitions read only those two."""
    (array,) = binary_arrays((statement.kind,), [(identifier,) for identifier in IDS])
    plan = _explained(store, statement.postgres, {"ids": array, **others})
    assert _touched(plan) == {f"from_{LAST - SIZE}", f"from_{LAST}"}


def test_settling(store: Database) -> None:
    """Outcomes are written in the partitions of their messages, whatever the join."""
    step = sql.INBOX.settle
    rows = [
        (identifier, "done", 0, "", "", "", NOW, '{"codes":[],"calls":[]}') for identifier in IDS
    ]
    plan = _explained(store, step.postgres, step.arrays(rows))
    assert _touched(plan) == {f"from_{LAST - SIZE}", f"from_{LAST}"}


def test_the_message_log(store: Database) -> None:
    """Deduplication reads no partition, an acknowledgment the partition of its message."""
    plan = _explained(store, log_tables.POSTGRES_KNOWN, ([1, 2],))
    assert "message_identity_pkey" in plan
    assert _touched(plan) == set()
    for statement in (
        log_tables.POSTGRES_RETRANSMITTED,
        log_tables.POSTGRES_STORED_ACKS,
        sql.ACKNOWLEDGED.postgres,
    ):
        plan = _explained(store, statement, {"ids": IDS})
        assert _touched(plan) == {f"from_{LAST - SIZE}", f"from_{LAST}"}


def test_due_messages(store: Database) -> None:
    """Due messages are read from the newest partitions, in order, by their index."""
    spare = {"now": NOW, "limit": 100, "floor": LAST + 1, "near": LAST + 1}
    with store.write() as connection:
        due = text(f"EXPLAIN (FORMAT JSON) {sql.INBOX.candidates_from}")
        plan = json.dumps(connection.execute(due, spare).scalar_one())
    assert _touched(plan) == {f"from_{LAST}", "rest"}
    assert "Seq Scan" not in plan
    assert '"Sort"' not in plan
    entered = re.findall(r'"Index Cond": "([^"]+)"', plan)
    assert any("not_before = 0" in item and item.count("id >=") == 2 for item in entered)


def test_the_first_message_after_a_time(store: Database) -> None:
    """The first message after a time is found also in the last partition and beside empty ones."""
    ids = [5, 900, FIRST + 3, FIRST + 7 * SIZE, FIRST + 7 * SIZE + 1, LAST + 2, LAST + 3 * SIZE]
    with store.write() as connection:
        for number in ids:
            connection.execute(_MESSAGE, {"id": number})
        connection.execute(text("SELECT setval('message_ids', :last)"), {"last": ids[-1]})
    for moment in (0, 5, 6, *(identifier + d for identifier in ids for d in (0, 1))):
        with store.read() as connection:
            found = id_at(connection, MESSAGE, "received_at", moment)
        assert [row_id for row_id in ids if row_id < found] == [
            row_id for row_id in ids if row_id < moment
        ]
