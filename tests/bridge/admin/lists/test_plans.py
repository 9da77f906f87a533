"""
Each list reads its rows by an index, in order, on both databases.

20,000 messages in ten partitions on PostgreSQL; one in fifty is rare in type, channel and site.
"""

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, text

from bridge.admin.lists import listing
from bridge.admin.lists.deliveries import DeliveryList
from bridge.admin.lists.listing import UNLIMITED, Access, ListDefinition, ListRequest
from bridge.admin.lists.messages import MessageList
from bridge.admin.lists.orders import OrderList
from bridge.admin.messages.message_index import (
    NumberKind,
    number_hash,
)
from bridge.admin.overview import attention
from bridge.index_key import keyed64
from bridge.queue.sites import sites_hash
from bridge.store.database import Database
from config import Settings
from mappings.language.rules import TAGS
from tests.bridge.query_plans import plan_of, recorded_statements
from tests.bridge.queue.partitioned_databases import FIRST, continue_after, create_database
from tests.databases import fresh_file

ROWS, SIZE = 20_000, 2_000
LAST = FIRST + ROWS - 1
START = 1_700_000_000_000
_SERIES = {
    "sqlite": (
        "WITH RECURSIVE n(i) AS (SELECT {first} UNION ALL SELECT i + 1 FROM n WHERE i < {last})"
    ),
    "postgresql": "WITH n(i) AS (SELECT * FROM generate_series(CAST({first} AS bigint), {last}))",
}
_MESSAGES = """
    INSERT INTO message (id, received_at, listener, identity, digest, edition, message_type,
        mapping, mapping_version, flags, ack_code, acknowledgment, error_code, error_place, state,
        code)
    {series} SELECT i, {start} + i * 1000, CASE WHEN i % 50 = 0 THEN 'rare' ELSE 'ris' END, i, i, 0,
        CASE WHEN i % 51 = 0 THEN 'ADT^A40' ELSE 'ORM^O01' END, 'orders', '1', 0, 'AA',
        'delivered', '', '', CASE WHEN i % 100 = 0 THEN 'parked' ELSE 'done' END,
        CASE WHEN i % 100 = 0 THEN '207' ELSE '' END FROM n
"""
_ENTRIES = """
    INSERT INTO message_entry (message_id, absent, orders)
    {series} SELECT i, CASE WHEN i % 500 = 0 THEN {bit} ELSE 0 END, 1 FROM n
"""
_NUMBERS = """
    INSERT INTO message_number (number, message_id)
    {series} SELECT CASE WHEN i % 50 = 0 THEN {rare} ELSE {site} END, i FROM n
    UNION ALL SELECT {number}, i FROM n WHERE i % 200 = 0
    UNION ALL SELECT i * 7919, i FROM n
"""
_DELIVERIES = """
    INSERT INTO delivery (id, destination, lane, report_id, release_key, event, orders, control_id,
        release_at, created_at, state, code, sites_hash)
    {series} SELECT i, CASE WHEN i % 50 = 0 THEN 'rare' ELSE 'ris' END, i, {report}, {text},
        'final', '{{}}', {control}, i, {start} + i * 1000,
        CASE WHEN i % 100 = 0 THEN 'parked' ELSE 'done' END,
        CASE WHEN i % 100 = 0 THEN 'AE' ELSE '' END,
        CASE WHEN i % 50 = 0 THEN {rare} ELSE {site} END FROM n
"""
_LANES = "INSERT INTO delivery_lane (lane, delivery_id, claimed) {series} SELECT i, i, 0 FROM n"
_KNOWN = """
    INSERT INTO known_report (site, accession, mrn, report_id, status, final, addenda, changed_at,
        check_at)
    {series} SELECT CASE WHEN i % 50 = 0 THEN 'RARE' ELSE 'SITE1' END, {control}, {text}, {report},
        'Final', 1, 0, i, i FROM n
"""
_ORDERS = """
    INSERT INTO bridge_order (id, site, mrn, accession, state, placer, filler, tags, echo,
        report_id, first_message, place, last_message)
    {series} SELECT i, CASE WHEN i % 50 = 0 THEN 'RARE' ELSE 'SITE1' END, {text}, {control},
        'ordered', '', '', '{{}}', '[]', {report}, i, 1, i FROM n
"""
MESSAGES, DELIVERIES, ORDERS = MessageList(), DeliveryList(), OrderList()


@pytest.fixture(
    scope="module", params=["sqlite", pytest.param("postgresql", marks=pytest.mark.postgres)]
)
def filled(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Database]:
    if request.param == "sqlite":
        database = Database(fresh_file(tmp_path_factory.mktemp("plans") / "test.db"))
        _fill(database)
        yield database
        database.dispose()
        return
    server, template = map(request.getfixturevalue, ("postgres_server", "migrated_template"))
    with create_database(server, template) as database:
        for last in range(FIRST - 1, LAST, SIZE):
            continue_after(database, last, SIZE)
        _fill(database)
        yield database


def _fill(database: Database) -> None:
    names = {
        "series": _SERIES[database.dialect].format(first=FIRST, last=LAST),
        "start": START,
        "bit": 1 << TAGS.index("Modality"),
        "rare": keyed64(sites_hash(["RARE"])),
        "site": keyed64(sites_hash(["SITE1"])),
        "number": keyed64(number_hash(NumberKind.ORDER, "A1")),
        "report": "'r' || CAST(i AS text)",
        "text": "'t' || CAST(i AS text)",
        "control": "'c' || CAST(i AS text)",
    }
    with database.write() as connection:
        for statement in (_MESSAGES, _ENTRIES, _NUMBERS, _DELIVERIES, _LANES, _ORDERS, _KNOWN):
            connection.execute(text(statement.format(**names)))
    with database.write() as connection:
        connection.execute(text("ANALYZE"))


PAGES: dict[str, tuple[dict[str, Any], str]] = {
    # filters, the index of the ids
    "number": ({"number": "A1", "kind": "order"}, "message_number"),
    "parked": ({"state": "parked"}, "message_attention|_state_id_idx"),
    "a cause": (
        {"state": "parked", "cause": "207", "channel": "ris"},
        "message_causes|_state_code_listener_id_idx",
    ),
    "channel": ({"channel": "rare"}, "message_listener|_listener_id_idx"),
    "type": ({"type": "ADT^A40"}, "message_type_listing|_message_type_id_idx"),
    "rare type of a channel": (
        {"type": "ADT^A40", "channel": "ris", "text": "x"},
        "message_type_listing|_message_type_id_idx",
    ),
    "absent": ({"absent": "Modality"}, "message_entry|SEARCH message_entry USING INTEGER PRIMARY"),
}


def _plans(database: Database, run: Callable[[Connection], object]) -> list[str]:
    with recorded_statements(database) as statements, database.read() as connection:
        run(connection)
    with database.read() as connection:
        return [plan_of(connection, statement) for statement in statements]


def _page(
    listed: ListDefinition[Any], filters: dict[str, Any], access: Access = UNLIMITED
) -> Callable[[Connection], object]:
    return lambda connection: listed.page(
        connection, ListRequest(filters, before=LAST - 10), access
    )


def _problems(plan: str, *, ids_sorted: bool = False) -> list[str]:
    """
    Return the steps that read all rows, or sort them.

    `ids_sorted`: ids of several branches may be sorted, as each branch is limited.
    """
    return [
        line
        for line in plan.splitlines()
        if (
            re.search(r"SCAN (message\w*|m|x)\b(?!.*USING)|Seq Scan on (message|bridge)", line)
            and not re.search(r"Seq Scan on \w+_(from_0|rest)\b", line)
        )  # they are empty
        or ("TEMP B-TREE FOR ORDER BY" in line and not ids_sorted)
        or (re.search(r"\bSort  \(cost", line) and not (ids_sorted and "width=8)" in line))
    ]


@pytest.mark.parametrize("name", PAGES)
def test_a_page_reads_the_ids_of_one_index_in_order(filled: Database, name: str) -> None:
    """The rows are looked up by their ids; nothing is scanned or sorted."""
    filters, index = PAGES[name]
    found = _plans(filled, _page(MESSAGES, filters))
    lookup = r"SEARCH m USING INTEGER PRIMARY KEY|Index Scan using \w+_pkey on \w+ x"
    pages = [plan for plan in found if re.search(lookup, plan) and re.search(index, plan)]
    assert len(pages) == 1, "\n\n".join(found)
    assert _problems(pages[0]) == [], pages[0]


Run = Callable[[Connection, dict[str, Any], Access], object]
RUNS: dict[str, Run] = {
    "first page": lambda connection, filters, access: MESSAGES.page(
        connection, ListRequest(filters), access
    ),
    "page": lambda connection, filters, access: _page(MESSAGES, filters, access)(connection),
    "oldest first": lambda connection, filters, access: MESSAGES.page(
        connection, ListRequest(filters, descending=False), access
    ),
    "new rows": lambda connection, filters, access: MESSAGES.page(
        connection, ListRequest(filters, after=LAST - 100), access
    ),
    "count": MESSAGES.count,
    "ids": lambda connection, filters, access: MESSAGES.ids_after(
        connection, filters, access, FIRST + 100, LAST, 50
    ),
}
ACCESSES = {"all sites": UNLIMITED, "two sites": Access(frozenset({"RARE", "SITE1"}))}


@pytest.mark.parametrize("name", [*PAGES, "nothing"])
@pytest.mark.parametrize("run", RUNS)
@pytest.mark.parametrize("access", ACCESSES)
def test_nothing_that_a_list_asks_scans_or_sorts_messages(
    filled: Database, monkeypatch: pytest.MonkeyPatch, name: str, run: str, access: str
) -> None:
    """Pages, counts, and the ids for a job, for all users and for those of few sites."""
    monkeypatch.setattr(listing, "ID_WINDOW", SIZE // 10)  # a small part of all messages
    filters = PAGES[name][0] if name in PAGES else {"text": "locked"}
    asked = RUNS[run]
    for plan in _plans(filled, lambda database: asked(database, filters, ACCESSES[access])):
        assert _problems(plan, ids_sorted=True) == [], plan


def test_the_messages_of_a_small_site_are_found_by_the_index(filled: Database) -> None:
    """They are not searched among the messages of all sites."""
    found = _plans(filled, _page(MESSAGES, {}, Access(frozenset({"RARE"}))))
    index = r"message_number\w*_pkey|SEARCH message_number USING PRIMARY KEY"
    assert any(re.search(index, plan) for plan in found), "\n\n".join(found)


OTHERS: dict[str, tuple[ListDefinition[Any], dict[str, Any], str]] = {
    "deliveries of a destination": (DELIVERIES, {"destination": "rare"}, "delivery_listing"),
    "parked deliveries": (DELIVERIES, {"state": "parked"}, "delivery_attention"),
    "deliveries with a cause": (
        DELIVERIES,
        {"state": "parked", "cause": "AE", "destination": "rare"},
        "delivery_causes",
    ),
    "deliveries of a report": (DELIVERIES, {"report": f"r{LAST - 50}"}, "delivery_report"),
    "a sent message": (DELIVERIES, {"control_id": f"c{LAST - 50}"}, "delivery_control"),
    "orders with a number": (
        ORDERS,
        {"number": f"c{LAST - 50}"},
        "uq_bridge_order_key|sqlite_auto",
    ),
    "orders of a patient": (
        ORDERS,
        {"number": f"t{LAST - 50}", "kind": "patient"},
        "ix_bridge_order_patient",
    ),
    "the order of a report": (ORDERS, {"report": f"r{LAST - 50}"}, "bridge_order_report"),
    "orders whose result was not accepted": (
        ORDERS,
        {"waiting": "receiver"},
        "delivery_attention|delivery_causes",
    ),
    "orders that have waited long": (
        ORDERS,
        {"waiting": "long"},
        "PRIMARY KEY|bridge_order_pkey",
    ),
    "new orders": (ORDERS, {"state": "ordered"}, "PRIMARY KEY|bridge_order_pkey"),
}


@pytest.mark.parametrize("name", OTHERS)
def test_deliveries_and_orders_are_read_by_their_indexes(
    filled: Database, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """For all users and for those of one site; ids of few orders may be sorted."""
    monkeypatch.setattr(listing, "ID_WINDOW", SIZE // 10)
    listed, filters, index = OTHERS[name]
    found = _plans(filled, _page(listed, filters))
    assert any(re.search(index, plan) for plan in found), "\n\n".join(found)
    for access in ACCESSES.values():
        for plan in _plans(filled, _page(listed, filters, access)):
            if listed is ORDERS and "delivery_report" in plan and "known_report" not in plan:
                continue  # the few results of the orders of a page are sorted
            if "Sort Key: message_from_0.id" in plan or "One-Time Filter: false" in plan:
                continue  # times become ids by bisection; this partition is empty, or none is left
            assert _problems(plan, ids_sorted=listed is ORDERS) == [], plan


def test_a_rare_type_is_read_by_its_index_although_few_messages_near_the_end_lack_the_tag(
    filled: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a tag lacks is counted near the newest message only: none there is not none at all."""
    for name, value in {"_SAMPLE": 3, "_SAMPLE_WINDOW": 100}.items():
        monkeypatch.setattr(listing, name, value)
    found = _plans(filled, _page(MESSAGES, {"type": "ADT^A40", "absent": "Modality"}))
    lookup = r"SEARCH m USING INTEGER PRIMARY KEY|Index Scan using \w+_pkey on \w+ x"
    page = next(plan for plan in found if re.search(lookup, plan))
    assert re.search(r"message_type_listing|_message_type_id_idx", page), "\n\n".join(found)


@pytest.mark.parametrize("access", ACCESSES)
def test_causes_are_grouped_from_parked_rows_only(filled: Database, access: str) -> None:
    """One cause of messages and one of results; no other row is read."""
    with recorded_statements(filled) as statements:
        found = attention.groups(Settings(home=Path("/none")), filled, ACCESSES[access], START)
    counts = {group.subject.value: group.count for group in found.groups}
    assert counts == {"messages": ROWS // 100, "deliveries": ROWS // 100}
    assert found.complete
    assert all(group.first_at < group.last_at for group in found.groups)
    with filled.read() as connection:
        plans = [plan_of(connection, statement) for statement in statements]
    grouped = [
        plan for plan, (text, _) in zip(plans, statements, strict=True) if "AS parked" in text
    ]
    assert len(grouped) == 2
    for plan in grouped:
        assert not re.search(r"SCAN m\b(?!.*USING)|Seq Scan on (message|delivery)(?!_)", plan), plan
        assert re.search("message_attention|delivery_attention|_causes|_state_", plan), plan
