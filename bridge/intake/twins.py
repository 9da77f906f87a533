"""
Orders that both patients of a merge have: one order, spoken of under two identifiers.

Pure. Messages under the survivor's identifier may come before the merge itself. What closed the
order then counts for both, unless it was ordered again since.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from bridge.intake.demographics import DEMOGRAPHICS
from bridge.intake.one_order import as_one
from bridge.intake.order_rules import OrderState
from bridge.intake.signals import bonds, has_moved_away
from bridge.store.order_index import IndexedOrder, Key
from mappings.events import OrderEvent


@dataclass(frozen=True, slots=True)
class Reunion:
    """An order of the survivor, the same one of who is merged into her, and how it stands."""

    own: IndexedOrder
    prior: IndexedOrder
    after: IndexedOrder


def reunited(event: OrderEvent, orders: Iterable[IndexedOrder]) -> list[Reunion]:
    """Give the orders that both patients of a merge have, as they stand by what was said of both.

    Who she is, the survivor's say.
    """
    own = [each for each in orders if each.key.site == event.site]
    priors = {each.key.accession: each for each in own if each.key.mrn == event.prior_mrn}
    found = []
    for survivor in own:
        prior = priors.get(survivor.key.accession)
        if survivor.key.mrn != event.mrn or prior is None or has_moved_away(prior):
            continue
        if has_moved_away(survivor):
            found.append(Reunion(survivor, prior, replace(prior, key=survivor.key)))
            continue
        after = as_one(survivor, prior)
        tags = {tag: value for tag, value in after.tags.items() if tag not in DEMOGRAPHICS}
        hers = {tag: value for tag, value in survivor.tags.items() if tag in DEMOGRAPHICS}
        found.append(Reunion(survivor, prior, replace(after, tags={**tags, **hers})))
    return found


def met(moved: IndexedOrder, orders: Iterable[IndexedOrder]) -> IndexedOrder:
    """Give an order that comes to a patient as it stands beside what is known of it there."""
    twin = next((each for each in orders if each.key == moved.key), None)
    if twin is None or has_moved_away(twin):
        return moved
    return as_one(replace(moved, report_id=""), twin)


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
