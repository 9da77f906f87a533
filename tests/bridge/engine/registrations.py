"""Registration of orders in the transaction of a test, as a batch of launches registers them."""

from collections.abc import Sequence

from bridge.engine.rules.order import OrderId
from bridge.engine.service.launch.creation import OrderInput
from bridge.engine.service.launch.registration import RegisteredOrder, register_current
from bridge.engine.service.report_lookup import follow_pointers, lock_patients
from bridge.engine.service.work import Work


def register(work: Work, site_id: str, order: OrderInput) -> RegisteredOrder:
    """Register one order; raise Conflict (from the database) if another node did so first."""
    return register_many(work, site_id, [order])[0]


def register_many(work: Work, site_id: str, orders: Sequence[OrderInput]) -> list[RegisteredOrder]:
    lock_patients(work, site_id, (order.mrn for order in orders))
    pointers = follow_pointers(work.connection, site_id, (order.mrn for order in orders))
    identities = [
        OrderId(site_id, pointers.get(order.mrn, order.mrn), order.accession) for order in orders
    ]
    return register_current(work, identities, orders)
