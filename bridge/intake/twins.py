"""
Orders that both patients of a merge have: one order, spoken of under two identifiers.

Pure. Messages under the survivor's identifier may come before the merge itself. What closed the
order then counts for both, unless it was ordered again since.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from bridge.intake.order_rules import OPEN, OrderState, is_earlier
from bridge.intake.regrouping import bonds
from bridge.store.order_index import IndexedOrder, Key
from mappings.events import OrderEvent


def reunited(event: OrderEvent, orders: Iterable[IndexedOrder]) -> list[IndexedOrder]:
    """Give the survivor's orders of which one twin is open and the other closed, as they stand."""
    own = [each for each in orders if each.key.site == event.site]
    priors = {each.key.accession: each for each in own if each.key.mrn == event.prior_mrn}
    found = []
    for survivor in own:
        prior = priors.get(survivor.key.accession)
        if survivor.key.mrn != event.mrn or prior is None or _is_open(survivor) == _is_open(prior):
            continue
        stands = _later(survivor, prior)
        found.append(replace(stands, key=survivor.key, report_id=survivor.report_id))
    return found


def met(moved: IndexedOrder, orders: Iterable[IndexedOrder]) -> IndexedOrder:
    """Give an order that comes to a patient as it stands beside what is known of it there."""
    twin = next((each for each in orders if each.key == moved.key), None)
    if twin is None:
        return moved
    older, newer = (twin, moved) if is_earlier(twin.said_at, moved.said_at) else (moved, twin)
    together = replace(newer, tags={**older.tags, **newer.tags}, report_id=twin.report_id)
    if _is_open(moved) == _is_open(twin):
        return together
    stands = _later(moved, twin)
    turned_at, opened_at = stands.turned_at, stands.opened_at
    return replace(together, state=stands.state, turned_at=turned_at, opened_at=opened_at)


def is_withdrawn(order: IndexedOrder) -> bool:
    """Tell whether an order has no place on the worklist."""
    return not _is_open(order)


def united(
    event: OrderEvent, index: Mapping[Key, IndexedOrder]
) -> tuple[dict[Key, IndexedOrder], list[IndexedOrder]]:
    """Give the index after a merge, and the moved orders that are akin to one of the survivor's."""
    prior, survivor = (event.site, event.prior_mrn), (event.site, event.mrn)
    rest = {key: each for key, each in index.items() if key[:2] != prior}
    own = [bonds(each.signals) for key, each in rest.items() if key[:2] == survivor]
    moved = [
        replace(each, key=key._replace(mrn=event.mrn))
        for key, each in index.items()
        if key[:2] == prior and key._replace(mrn=event.mrn) not in rest
    ]
    kin = frozenset[int]().union(*own)
    akin = [
        each for each in moved if each.state == OrderState.ORDERED and bonds(each.signals) & kin
    ]
    return rest | {each.key: each for each in moved}, akin


def _is_open(order: IndexedOrder) -> bool:
    return OrderState(order.state) in OPEN


def _later(one: IndexedOrder, other: IndexedOrder) -> IndexedOrder:
    """Choose the later word by the senders' times; where they prove nothing, by arrival."""
    opened, closed = (one, other) if _is_open(one) else (other, one)
    held = closed.state == OrderState.HELD
    times = [opened.opened_at, opened.turned_at if held else None]
    spoken = max((each for each in times if each is not None), default=None)
    only_changed = spoken is None and opened.said_at is not None
    if is_earlier(spoken, closed.turned_at) or (only_changed and not held):
        return closed
    if is_earlier(closed.turned_at, spoken):
        return opened
    return max(opened, closed, key=lambda each: each.last_message)
