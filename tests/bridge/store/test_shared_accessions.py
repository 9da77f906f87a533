"""A sender may give all orders the same accession."""

import pytest
from sqlalchemy import text

from bridge.store.database import Database
from bridge.store.migration import upgrade
from bridge.store.records import order_index, order_writes
from bridge.store.records.order_index import IndexedOrder, OrderIndexKey
from tests.bridge.query_plans import plan_of, recorded_statements

COUNT = 2000


def order(number: int) -> IndexedOrder:
    key = OrderIndexKey("S", f"M{number}", "0")
    return IndexedOrder(key, "ordered", number, number, placer=f"P{number}", filler=f"F{number}")


@pytest.fixture
def orders(database: Database) -> Database:
    """A database with an order of each patient, without statistics."""
    upgrade(database)
    with database.write() as connection:
        if database.dialect == "postgresql":
            connection.execute(text("ALTER TABLE bridge_order SET (autovacuum_enabled = off)"))
        order_writes.save(connection, [order(number) for number in range(COUNT)])
    return database


def test_orders_of_other_patients_with_a_number(orders: Database) -> None:
    """Only those with one of the numbers are read, because many share the accession."""
    with orders.read() as connection:
        own, others = order_index.find_with_others(connection, {order(5).key: {"P7", "F9", "X"}})
    assert own == {order(5).key: order(5)}
    assert sorted(others, key=lambda each: each.key) == [order(7), order(9)]


def test_the_order_of_a_patient(orders: Database) -> None:
    with orders.read() as connection:
        assert order_index.find(connection, [order(5).key]) == {order(5).key: order(5)}
        with recorded_statements(orders) as statements:
            order_index.find_with_others(connection, {order(5).key: {"P7"}})
        plan = plan_of(connection, statements[0])
    assert ("uq_bridge_order_key" if orders.dialect == "postgresql" else "USING INDEX") in plan
    assert "Seq Scan on bridge_order" not in plan
    assert "SCAN bridge_order" not in plan
