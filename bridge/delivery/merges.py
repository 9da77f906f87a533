"""
Whose a result is by now, where its patient was merged after it was queued.

What is queued says who the patient was then; the order index and the pointers say who she is.
"""

from collections.abc import Sequence

from sqlalchemy import Connection

from bridge.delivery.announcing import key_of
from bridge.queue.deliveries import ClaimedDelivery
from bridge.store import merged_patients
from bridge.store.order_index import IndexedOrder


def merged(
    connection: Connection, delivery: ClaimedDelivery, orders: Sequence[IndexedOrder | None]
) -> dict[int, str]:
    """Find, by their places, the orders whose patient was merged since, and who survives."""
    keys = [key_of(each) for each in delivery.orders["orders"]]
    moved = {
        place: (key.site, key.mrn)
        for place, (key, order) in enumerate(zip(keys, orders, strict=True))
        if order is not None and order.key.mrn != key.mrn
    }
    if not moved:
        return {}
    found = merged_patients.survivors(connection, moved.values())
    return {
        place: found[patient]
        for place, patient in moved.items()
        if (order := orders[place]) is not None and found.get(patient) == order.key.mrn
    }
