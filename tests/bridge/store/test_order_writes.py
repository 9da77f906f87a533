"""Orders of the index are written with their signals, and read after merges of patients."""

import pytest

from bridge.store.database import Database
from bridge.store.records import merged_patients, order_index, order_writes
from bridge.store.records.order_index import IndexedOrder, OrderIndexKey, SignalHash

KEY = OrderIndexKey("S", "M", "A1")
OTHER = OrderIndexKey("S", "M", "A2")


def order(key: OrderIndexKey, number: int) -> IndexedOrder:
    signals = frozenset({SignalHash("study", number), SignalHash("parent", 9)})
    return IndexedOrder(key, "ordered", number, number, signals=signals)


def test_the_last_of_several_with_one_key(database: Database) -> None:
    """A merge can give two orders one key: the last one stays, with its own signals only."""
    with database.write() as connection:
        order_writes.save(connection, [order(KEY, 1), order(OTHER, 2), order(KEY, 3)])
    with database.read() as connection:
        found = order_index.find(connection, [KEY, OTHER])
    assert {key: (each.last_message, each.signals) for key, each in found.items()} == {
        KEY: (3, order(KEY, 3).signals),
        OTHER: (2, order(OTHER, 2).signals),
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
        merged = KEY._replace(mrn="N")
        order_writes.save(connection, [order(merged, 1), order(KEY._replace(mrn="X"), 2)])
        for site, prior_mrn, mrn in merges:
            merged_patients.merge(connection, site, prior_mrn, mrn)
        read = order_index.find_for_delivery(connection, {KEY: {"R"}, OTHER: {"R"}})
    assert {key: each.key for key, each in read.items()} == ({KEY: merged} if found else {})
