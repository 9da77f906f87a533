"""
Statements that depend on an index use it, also with a long backlog.

The plans are those of the executed statements. 20,000 rows distinguish a search from a scan.
"""

import json
import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from functools import cache
from typing import Any

import pytest
from sqlalchemy import Connection, text

from bridge.admin.lists.deliveries import DeliveryList
from bridge.admin.lists.listing import UNLIMITED, ListDefinition, ListRequest
from bridge.admin.lists.messages import MessageList
from bridge.queue import log_tables, queries
from bridge.queue import statements as sql
from bridge.queue.claims import MessageOutcome
from bridge.queue.inbox import Inbox
from bridge.queue.log_tables import pull_new
from bridge.queue.retention.policy import prune
from bridge.queue.states import QueueEvent
from bridge.store.database import Database
from bridge.store.postgresql.connection import binary_arrays, force_index_scans
from bridge.store.statements import BulkStatement, KeyStatement, key_statement
from tests.bridge.query_plans import plan_of, recorded_statements
from tests.bridge.queue.partitioned_databases import create_database
from tests.bridge.queue.samples import NOW
from tests.databases import fresh_file

_ROWS = 20_000
_SPARE = {
    "now": NOW,
    "limit": 100,
    "destination": "d",
    "owner": "o",
    "lease_until": NOW,
    "latest": NOW + 10**6,
}

_LONG_BACKLOG = """
    WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {rows})
    INSERT INTO message (received_at, listener, identity, digest, edition, message_type, mapping,
        mapping_version, lane_1, flags, ack_code, acknowledgment, error_code, error_place, state)
    SELECT 0, 'l', i * 7919, i, 0, 'ORM^O01', 'orders', 'v', {lane}, 0, 'AA', 'pending', '', '',
        'queued'
    FROM n
"""
_BODIES = """
    INSERT INTO message_body (message_id, payload, ack)
    SELECT id, CAST('MSH' AS {bytes}), CAST('ACK' AS {bytes}) FROM message
"""
_IDENTITIES = """
    INSERT INTO message_identity (identity, digest, edition, message_id, ack_code)
    SELECT CAST(n AS bigint) * 7919, n, 0, n, 'AA' FROM generate_series(1, 500000) AS n
"""
_LANES = "INSERT INTO message_lane (lane, message_id) SELECT lane_1, id FROM message"
_DELIVERY_LANES = "INSERT INTO delivery_lane (lane, delivery_id) SELECT lane, id FROM delivery"
_DELIVERIES = """
    INSERT INTO delivery (destination, lane, report_id, release_key, event, orders, release_at,
        created_at, state)
    SELECT 'd', id, 'r', id, 'final', '', 0, 0, 'queued' FROM message
"""


def _fill(store: Database, rows: int, lane: str) -> None:
    """Queue messages in bulk. `lane` is an SQL expression of the running number i."""
    kind = "BLOB" if store.dialect == "sqlite" else "bytea"
    with store.write() as connection:
        connection.execute(text(_LONG_BACKLOG.format(rows=rows, lane=lane)))
        connection.execute(text(_BODIES.format(bytes=kind)))
        connection.execute(text(_LANES))
        connection.execute(text(_DELIVERIES))
        connection.execute(text(_DELIVERY_LANES))
    with store.write() as connection:
        connection.execute(text("ANALYZE"))
    pull_new(store)  # the ids of the log follow those of the queue


def _plan(store: Database, connection: Connection, statement: str, values: Any) -> str:
    explain = "EXPLAIN QUERY PLAN" if store.dialect == "sqlite" else "EXPLAIN"
    if isinstance(values, Mapping):
        rows = connection.execute(text(f"{explain} {statement}"), values).all()
    else:
        rows = connection.exec_driver_sql(f"{explain} {statement}", values).all()
    return "\n".join(str(row[-1]) for row in rows)


def _plan_of_some(
    connection: Connection, statement: KeyStatement, others: Mapping[str, Any]
) -> str:
    keys = list(range(1, 101))
    ids: object
    if connection.dialect.name == "sqlite":
        how, ids = f"EXPLAIN QUERY PLAN {statement.sqlite}", json.dumps(keys)
    else:
        (array,) = binary_arrays((statement.kind,), [(key,) for key in keys])
        how, ids = f"EXPLAIN {statement.postgres}", array
    rows = connection.exec_driver_sql(how, {"ids": ids, **others}).all()
    return "\n".join(str(row[-1]) for row in rows)


@pytest.fixture(scope="module")
def backlogs(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[[str], Database]]:
    """Return the database of a dialect with a backlog of many lanes; no test writes to it."""
    with ExitStack() as opened:

        @cache
        def filled(dialect: str) -> Database:
            if dialect == "postgresql":
                names = ("postgres_server", "migrated_template")
                made = create_database(*map(request.getfixturevalue, names))
                database = opened.enter_context(made)
            else:
                database = Database(fresh_file(tmp_path_factory.mktemp("backlog") / "test.db"))
                opened.callback(database.dispose)
            _fill(database, _ROWS, "i % 5000")
            return database

        yield filled


@pytest.fixture
def filled(store: Database, backlogs: Callable[[str], Database]) -> Database:
    return backlogs(store.dialect)


CASES = {
    "candidates": (sql.INBOX.candidates, "message_candidates"),
    "dead workers": (sql.INBOX.overdue, "message_leases"),
    "deliveries": (sql.OUTBOX.candidates, "delivery_candidates"),
    "dead couriers": (sql.OUTBOX.overdue, "delivery_leases"),
}


@pytest.mark.parametrize(("statement", "index"), list(CASES.values()), ids=list(CASES))
def test_due_rows(filled: Database, statement: str, index: str) -> None:
    """Each search for due rows uses its index, which returns them sorted."""
    with filled.write() as connection:
        plan = _plan(filled, connection, statement, _SPARE)
    assert index in plan
    if "candidates" in index:
        assert "SCAN" not in plan
        assert "TEMP B-TREE" not in plan
        assert "Sort  (" not in plan


SEARCHES = {
    "blockers": (sql.INBOX.blockers, {}),
    "claim": (sql.INBOX.claim, {"owner": "o", "lease_until": NOW}),
    "claim of acknowledged": (sql.INBOX.claim_acknowledged, {"owner": "o", "lease_until": NOW}),
    "extend": (sql.INBOX.extend, {"owner": "o", "lease_until": NOW}),
    "block": (sql.INBOX.block, {}),
    "blocking deliveries": (sql.OUTBOX.blockers, {}),
}


@pytest.mark.parametrize(("statement", "others"), list(SEARCHES.values()), ids=list(SEARCHES))
def test_earlier_rows_of_a_lane(
    filled: Database, statement: KeyStatement, others: dict[str, Any]
) -> None:
    with filled.write() as connection:
        plan = _plan_of_some(connection, statement, others)
    assert "SCAN" not in plan.replace("SCAN json_each", "")
    assert "Seq Scan" not in plan


OWN = {
    "held": key_statement(sql.INBOX.held),
    "extended": sql.INBOX.extend,
    "held deliveries": key_statement(sql.OUTBOX.held),
}


@pytest.mark.parametrize("statement", list(OWN.values()), ids=list(OWN))
@pytest.mark.postgres
@pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)
def test_claims_of_a_node(filled: Database, statement: KeyStatement) -> None:
    """
    The claims of one node are searched by key, not among all claims.

    The index of claims is small when clean. Until then it has all claims since the last cleaning,
    and each batch would read more rows than the one before.
    """
    with filled.write() as connection:
        plan = _plan_of_some(connection, statement, {"owner": "o", "lease_until": NOW})
    assert "leases" not in plan
    assert "pkey" in plan


@pytest.mark.parametrize("step", [sql.INBOX.guard, sql.OUTBOX.guard], ids=["inbox", "outbox"])
@pytest.mark.postgres
@pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)
def test_lanes_of_settled_messages(filled: Database, step: BulkStatement) -> None:
    """The lanes behind settled messages are searched one by one, for any number of rows."""
    with filled.write() as connection:
        plan = _plan(filled, connection, step.postgres, step.arrays([(n, n) for n in range(100)]))
    assert "lane_pkey" in plan
    assert "Seq Scan" not in plan


@pytest.mark.postgres
@pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)
def test_deduplication_without_statistics(store: Database) -> None:
    """Without statistics, as after a restore, identities are searched one by one."""
    kinds = (*dict(log_tables.COLUMNS).values(), "bytea", "bytea")
    empty = {"text": "", "bytea": b"", "bigint": 0, "integer": 0}
    message = tuple(empty[kind] for kind in kinds)
    with store.write() as connection:
        connection.execute(text("ALTER TABLE message_identity SET (autovacuum_enabled = off)"))
        connection.execute(text(_IDENTITIES))
    with store.write() as connection:
        driver = store.driver_connection(connection)
        force_index_scans(driver)
        for count in (1, 10, 320):
            statement = (
                f"EXPLAIN {log_tables.POSTGRES_INSERT_NEW}",
                binary_arrays(kinds, [message] * count),
            )
            plan = "\n".join(row[0] for row in driver.execute(*statement).fetchall())
            assert "(identity = arrivals.identity)" in plan
            assert "Join Filter" not in plan


_SETTLED = [(n, "done", 0, "", "", "", NOW) for n in range(1, 101)]
STEPS = {
    f"{name} {step}": (getattr(line, step), rows)
    for name, line, settled in (
        ("inbox", sql.INBOX, [(*row, '{"codes":[],"calls":[]}') for row in _SETTLED]),
        ("outbox", sql.OUTBOX, _SETTLED),
    )
    for step, rows in (
        ("claim_lane", [(n, n) for n in range(100)]),
        ("leave", [(n, n) for n in range(100)]),
        ("free_lane", [(n, n) for n in range(100)]),
        ("settle", settled),
    )
}


@pytest.mark.parametrize(("step", "rows"), list(STEPS.values()), ids=list(STEPS))
def test_a_batch_of_rows(
    filled: Database, step: BulkStatement, rows: list[tuple[Any, ...]]
) -> None:
    """A hundred rows are claimed, settled and released by key, on both databases."""
    with filled.write() as connection:
        if filled.dialect == "sqlite":
            plan = _plan(filled, connection, step.sqlite, rows[0])
        else:
            plan = _plan(filled, connection, step.postgres, step.arrays(rows))
    assert "SCAN" not in plan
    assert "Seq Scan" not in plan


def test_deduplication(filled: Database) -> None:
    """Deduplication is one index search for any number of stored messages."""
    with filled.write() as connection:
        if filled.dialect == "sqlite":
            plans = [
                _plan(filled, connection, log_tables.SQLITE_KNOWN.sqlite, {"ids": "[1, 2]"}),
                _plan(filled, connection, log_tables.SQLITE_LAST_ID, ()),
            ]
        else:
            plans = [_plan(filled, connection, log_tables.POSTGRES_KNOWN, ([1, 2],))]
    assert "message_identity" in plans[0]
    assert not any("SCAN m" in plan.replace("SCAN lane_watermark", "") for plan in plans)


@pytest.mark.slow
def test_a_claim_costs_the_same_at_any_backlog(store: Database) -> None:
    """A claim is as fast with 200,000 queued messages, half of them in one blocked lane."""
    _fill(store, 200_000, "CASE WHEN i % 2 = 0 THEN -1 ELSE i % 50000 END")
    inbox = Inbox(store, "node", lease=1000)
    claimed = inbox.claim(NOW, 100)
    head = next(message for message in claimed if message.lanes == (-1,))
    others = [message.message_id for message in claimed if message is not head]
    inbox.settle([MessageOutcome(head.message_id, QueueEvent.POSTPONED, retry_at=NOW + 10**9)], NOW)
    inbox.settle([MessageOutcome(other, QueueEvent.ACCEPTED) for other in others], NOW)
    number, took = 0, []
    begun = time.perf_counter()
    while number < 5000:
        before = time.perf_counter()
        batch = inbox.claim(NOW, 100)
        took.append(time.perf_counter() - before)
        assert len(batch) == 100
        inbox.settle([MessageOutcome(item.message_id, QueueEvent.ACCEPTED) for item in batch], NOW)
        number += len(batch)
    rate = number / (time.perf_counter() - begun)
    took.sort()
    median = took[len(took) // 2]
    assert median < 0.5, f"a claim of 100 took {median * 1000:.0f} ms, {rate:.0f} messages/s"


_RANGE = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 20000)"
_STATE = "CASE WHEN i % 500 = 0 THEN 'parked' ELSE 'done' END"
_MESSAGES = f"""
    INSERT INTO message (received_at, listener, identity, digest, edition, message_type, mapping,
        mapping_version, lane_1, flags, ack_code, acknowledgment, error_code, error_place, state,
        settled_at)
    {_RANGE} SELECT i, 'l' || (i % 3), i * 7919, i, 0, 'ORM^O01', 'orders', 'v', i, 0, 'AA',
        'delivered', '', '', {_STATE}, i FROM n
"""  # noqa: S608  # our own names
_MANY_DELIVERIES = f"""
    INSERT INTO delivery (destination, lane, report_id, release_key, event, orders, release_at,
        created_at, state, settled_at)
    {_RANGE} SELECT 'd' || (i % 3), i, 'r' || i, 'k' || i, 'final', '{{}}', 0, i, {_STATE}, i
    FROM n
"""  # noqa: S608  # our own names
_NUMBERS = f"INSERT INTO message_number (number, message_id) {_RANGE} SELECT i * 7919, i FROM n"  # noqa: S608  # our own names
_POSITIONS = (
    f"INSERT INTO delivery_lane (lane, delivery_id, claimed) {_RANGE} SELECT i, i, 0 FROM n"  # noqa: S608  # our own names
)
_ATTEMPTS = f"""
    INSERT INTO delivery_attempt (delivery_id, kind, at, code, detail, reply)
    {_RANGE} SELECT i, 'attempt', i, 'AE', '', '' FROM n
"""  # noqa: S608  # our own names
_LONG = re.compile(r"SCAN (message|delivery)(?!.*(_candidates|_leases|_attention|_claimed))")
Query = Callable[[Database], object]


def page(store: Database, listed: ListDefinition[Any], filters: dict[str, Any]) -> object:
    with store.read() as connection:
        return listed.page(connection, ListRequest(filters), UNLIMITED)


QUERIES: dict[str, Query] = {
    "open messages": queries.open_messages,
    "by listener": queries.open_by_listener,
    "open deliveries": queries.open_deliveries,
    "refused": lambda store: queries.refused_since(store, 0),
    "page: queued": lambda store: page(store, MessageList(), {"state": "queued"}),
    "page: parked": lambda store: page(store, MessageList(), {"state": "parked", "text": "x"}),
    "page: number": lambda store: page(
        store, MessageList(), {"number": "A1", "kind": "order", "text": "x"}
    ),
    "page: time": lambda store: page(
        store, MessageList(), {"since": _ROWS - 30, "until": _ROWS - 10}
    ),
    "page: deliveries": lambda store: page(store, DeliveryList(), {"state": "queued"}),
    "page: of a report": lambda store: page(store, DeliveryList(), {"report": "r7"}),
    "retention": lambda store: prune(store, 0),
}


def test_no_query_scans_all_rows(store: Database) -> None:
    """The tables have many settled rows, a few parked ones, and no queued ones."""
    for change in (_MESSAGES, _MANY_DELIVERIES, _POSITIONS, _NUMBERS, _ATTEMPTS, "ANALYZE"):
        with store.write() as connection:
            connection.execute(text(change))
    walking = []
    for name, query in QUERIES.items():
        with recorded_statements(store) as statements:
            query(store)
        growing = [
            statement
            for statement in statements
            if re.search("FROM (message|delivery)", statement[0])
        ]
        assert growing, name
        with store.write() as connection:
            plans = [plan_of(connection, item) for item in growing]
        walking += [(name, plan) for plan in plans if _scans(plan)]
    assert walking == []


def _scans(plan: str) -> bool:
    """
    Return whether a plan reads a whole table, or an index from end to end.

    The last partition is empty in this test, so it is read as a whole.
    """
    lines = [line for line in plan.splitlines() if "_rest" not in line]
    return any("Seq Scan on" in line or _LONG.match(line) for line in lines)
