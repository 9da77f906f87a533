"""PostgreSQL finds orders by the right index in a table without statistics."""

from dataclasses import replace

import pytest
from sqlalchemy import text

from bridge.contract import OrderKey
from bridge.orders.order import LaterEvent, Link, Order, OrderState
from bridge.orders.patients import DemographicsUpdate
from bridge.store.database import Database
from bridge.store.migration import upgrade
from bridge.store.records import order_index, patient_records
from tests.bridge.query_plans import plan_of, recorded_statements

_ORDERS = """
    INSERT INTO bridge_order (site, mrn, accession, state, placer, filler, tags, echo, report_id,
        first_message, place, last_message)
    SELECT 'S', 'M' || n, 'A' || n, 'ordered', 'P' || n, '', '{}', '[]', '', n, 0, n
    FROM generate_series(1, :count) AS n
"""


@pytest.mark.postgres
@pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)
@pytest.mark.parametrize("count", [500, 5000])
@pytest.mark.parametrize("many", [3, 30])
def test_the_orders_of_patients_in_a_new_table(database: Database, count: int, many: int) -> None:
    """Orders are searched by patient, not by site, which has an index too."""
    patients = [f"M{number}" for number in range(1, count, count // many)]
    with database.write() as connection:
        connection.execute(text("ALTER TABLE bridge_order SET (autovacuum_enabled = off)"))
        connection.execute(text(_ORDERS), {"count": count})
    with database.read() as connection, recorded_statements(database) as statements:
        found = order_index.find_by_patient(connection, [("S", mrn) for mrn in patients])
    with database.read() as connection:
        plan = plan_of(connection, statements[0])
    assert "ix_bridge_order_patient" in plan
    assert "Seq Scan" not in plan
    assert sorted(order.placer for order in found) == sorted(f"P{mrn[1:]}" for mrn in patients)


KEY = OrderKey("S", "M", "A1")
OTHER = OrderKey("S", "M", "A2")


def order(key: OrderKey, number: int) -> Order:
    links = frozenset({Link("study", number), Link("parent", 9)})
    return Order(key, OrderState.ORDERED, number, number, links=links)


@pytest.mark.parametrize(
    "known",
    [
        replace(order(KEY, 1), parents=frozenset({3, 4}), closed_by=frozenset({5})),
        replace(order(KEY, 1), merged_from=frozenset({6}), number_only=True),
        replace(order(KEY, 1), replaced=True, later_event=LaterEvent(True, 7)),
        replace(order(KEY, 1), moved_away=True, later_event=LaterEvent(False, 8)),
    ],
    ids=["relations", "number", "replaced", "moved"],
)
def test_the_facts_of_an_order(database: Database, known: Order) -> None:
    """An order is read with the facts with which it was stored."""
    with database.write() as connection:
        order_index.save(connection, [known])
    with database.read() as connection:
        assert order_index.find(connection, [KEY]) == {KEY: known}


def test_the_last_of_several_with_one_key(database: Database) -> None:
    """A merge can give two orders one key: the last one stays, with its own signals only."""
    with database.write() as connection:
        order_index.save(connection, [order(KEY, 1), order(OTHER, 2), order(KEY, 3)])
    with database.read() as connection:
        found = order_index.find(connection, [KEY, OTHER])
    assert {key: (item.last_message, item.links) for key, item in found.items()} == {
        KEY: (3, order(KEY, 3).links),
        OTHER: (2, order(OTHER, 2).links),
    }


@pytest.mark.parametrize(
    ("merges", "found"),
    [
        ([], False),
        ([("S", "M", "N")], True),
        ([("S", "N", "M")], True),
        ([("S", "M", "P"), ("S", "P", "N")], True),
        ([("S", "M", "P"), ("S", "N", "P")], True),
        ([("S", "M", "P"), ("S", "N", "Q")], False),
        ([("S2", "M", "N")], False),
    ],
)
def test_the_order_of_a_result(
    database: Database, merges: list[tuple[str, str, str]], *, found: bool
) -> None:
    """An order under another identifier is used only if the two were merged."""
    with database.write() as connection:
        merged = replace(KEY, mrn="N")
        order_index.save(connection, [order(merged, 1), order(replace(KEY, mrn="X"), 2)])
        for site, prior_mrn, mrn in merges:
            patient_records.merge(connection, site, prior_mrn, mrn)
        read = order_index.find_for_delivery(connection, {KEY: {"R"}, OTHER: {"R"}})
    assert {key: item.key for key, item in read.items()} == ({KEY: merged} if found else {})


COUNT = 2000


def order_of_patient(number: int) -> Order:
    key = OrderKey("S", f"M{number}", "0")
    return Order(key, OrderState.ORDERED, number, number, placer=f"P{number}", filler=f"F{number}")


@pytest.fixture
def orders(database: Database) -> Database:
    """A database with an order of each patient, without statistics."""
    upgrade(database)
    with database.write() as connection:
        if database.dialect == "postgresql":
            connection.execute(text("ALTER TABLE bridge_order SET (autovacuum_enabled = off)"))
        order_index.save(connection, [order_of_patient(number) for number in range(COUNT)])
    return database


def test_orders_of_other_patients_with_a_number(orders: Database) -> None:
    """Only those with one of the numbers are read, because many share the accession."""
    with orders.read() as connection:
        own, others = order_index.find_with_others(
            connection, {order_of_patient(5).key: {"P7", "F9", "X"}}
        )
    assert own == {order_of_patient(5).key: order_of_patient(5)}
    assert sorted(others, key=lambda item: item.key) == [
        order_of_patient(7),
        order_of_patient(9),
    ]


def test_the_order_of_a_patient(orders: Database) -> None:
    with orders.read() as connection:
        assert order_index.find(connection, [order_of_patient(5).key]) == {
            order_of_patient(5).key: order_of_patient(5)
        }
        with recorded_statements(orders) as statements:
            order_index.find_with_others(connection, {order_of_patient(5).key: {"P7"}})
        plan = plan_of(connection, statements[0])
    assert ("uq_bridge_order_key" if orders.dialect == "postgresql" else "USING INDEX") in plan
    assert "Seq Scan on bridge_order" not in plan
    assert "SCAN bridge_order" not in plan


def test_demographics_without_orders_are_removed(database: Database) -> None:
    """An old correction without a later order is removed. Others stay."""
    upgrade(database)
    patients = [("S", mrn) for mrn in ("old", "ordered", "new")]
    with database.write() as connection:
        for place, (site, mrn) in enumerate(patients):
            patient_records.save_demographics(
                connection, DemographicsUpdate(site, mrn, 1 + 9 * (place == 2), {})
            )
        order_index.save(
            connection, [Order(OrderKey("S", "ordered", "A1"), OrderState.ORDERED, 1, 1)]
        )
    patient_records.delete_old(database, 5)
    with database.read() as connection:
        assert set(patient_records.demographics(connection, patients)) == set(patients[1:])
