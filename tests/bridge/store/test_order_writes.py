"""Orders of the index are written with their signals."""

from bridge.store.database import Database
from bridge.store.records import order_index, order_writes
from bridge.store.records.order_index import IndexedOrder, OrderIndexKey, SignalHash

KEY = OrderIndexKey("S", "M", "A1")
OTHER = OrderIndexKey("S", "M", "A2")


def order(key: OrderIndexKey, number: int) -> IndexedOrder:
    """Return an order of a message, with a signal of its own and one that all have."""
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
