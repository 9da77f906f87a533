"""Queries of operators, console pages and retention do not scan growing tables."""

import re
from collections.abc import Callable

from sqlalchemy import text

from bridge.admin.search import delivery_search
from bridge.admin.search.delivery_search import DeliveryQuery
from bridge.admin.search.message_index import NumberKind
from bridge.admin.search.message_search import MessageQuery, search_messages
from bridge.console import dashboard
from bridge.queue import queries
from bridge.queue.queries import Filter
from bridge.queue.retention.policy import prune
from bridge.queue.states import QueueState
from bridge.store.database import Database
from tests.bridge.query_plans import plan_of, recorded_statements
from tests.bridge.queue.samples import NOW

_ROWS = 20_000
_HOUR = 3_600_000
_RANGE = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 20000)"
_SETTLED = "CASE WHEN i % 500 = 0 THEN 'parked' ELSE 'done' END"
_MESSAGES = f"""
    INSERT INTO message (received_at, listener, identity, digest, edition, message_type, mapping,
        mapping_version, lane_1, flags, ack_code, acknowledgment, error_code, error_place, state,
        settled_at)
    {_RANGE} SELECT i, 'l' || (i % 3), i * 7919, i, 0, 'ORM^O01', 'orders', 'v', i, 0, 'AA',
        'delivered', '', '', {_SETTLED}, i FROM n
"""  # noqa: S608  # our own names
_DELIVERIES = f"""
    INSERT INTO delivery (destination, lane, report_id, release_key, event, orders, release_at,
        created_at, state, settled_at)
    {_RANGE} SELECT 'd' || (i % 3), i, 'r' || i, 'k' || i, 'final', '{{}}', 0, i, {_SETTLED}, i
    FROM n
"""  # noqa: S608  # our own names
_NUMBERS = f"INSERT INTO message_number (number, message_id) {_RANGE} SELECT i * 7919, i FROM n"  # noqa: S608  # our own names
_ATTEMPTS = f"""
    INSERT INTO delivery_attempt (delivery_id, kind, at, code, detail, reply)
    {_RANGE} SELECT i, 'attempt', i, 'AE', '', '' FROM n
"""  # noqa: S608  # our own names
_LONG = re.compile(r"SCAN (message|delivery)(?!.*(_candidates|_leases|_attention|_claimed))")
Query = Callable[[Database], object]
QUERIES: dict[str, Query] = {
    "open messages": queries.open_messages,
    "by listener": queries.open_by_listener,
    "open deliveries": queries.open_deliveries,
    "refused": lambda store: queries.refused_since(store, 0),
    "queued": lambda store: queries.messages(store, Filter(state=QueueState.QUEUED)),
    "recent": lambda store: queries.messages(store, Filter(since=_ROWS - 20, limit=1000)),
    "queued deliveries": lambda store: queries.deliveries(store, Filter(state=QueueState.QUEUED)),
    "of a report": lambda store: queries.deliveries(store, Filter(report_id="r7")),
    "dashboard": lambda store: dashboard.read_figures(store, NOW + _HOUR),
    "page: queued": lambda store: search_messages(store, MessageQuery(state=QueueState.QUEUED)),
    "page: parked": lambda store: search_messages(
        store, MessageQuery(state=QueueState.PARKED, text="x")
    ),
    "page: number": lambda store: search_messages(
        store, MessageQuery(kind=NumberKind.ORDER, number="A1", text="x")
    ),
    "page: time": lambda store: search_messages(
        store, MessageQuery(since=_ROWS - 30, until=_ROWS - 10)
    ),
    "page: deliveries": lambda store: delivery_search.search_deliveries(
        store, DeliveryQuery(state=QueueState.QUEUED)
    ),
    "retention": lambda store: prune(store, 0),
}


def test_no_query_scans_all_rows(store: Database) -> None:
    """The tables have many settled rows, a few parked ones, and no queued ones."""
    for change in (_MESSAGES, _DELIVERIES, _NUMBERS, _ATTEMPTS, "ANALYZE"):
        with store.write() as connection:
            connection.execute(text(change))
    walking = []
    for name, query in QUERIES.items():
        with recorded_statements(store) as statements:
            query(store)
        growing = [each for each in statements if re.search("FROM (message|delivery)", each[0])]
        assert growing, name
        with store.write() as connection:
            plans = [plan_of(connection, each) for each in growing]
        walking += [(name, plan) for plan in plans if _scans(plan)]
    assert walking == []


def _scans(plan: str) -> bool:
    """
    Return whether a plan reads a whole table, or an index from end to end.

    The last partition is empty in this test, so it is read as a whole.
    """
    lines = [line for line in plan.splitlines() if "_rest" not in line]
    return any("Seq Scan on" in line or _LONG.match(line) for line in lines)
