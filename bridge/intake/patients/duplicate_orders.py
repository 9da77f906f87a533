"""Duplicate orders: one order known under two patient identifiers, or under a number and an
accession.

Pure. The later event decides values and state, by the senders' times. Messages under the
survivor's identifier may arrive before the merge. A closing event then counts for both rows,
unless the order was placed again later.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from bridge.intake.patients.demographics import DEMOGRAPHICS
from bridge.intake.process.order_rules import OPEN_STATES, OrderState
from bridge.intake.process.order_values import (
    combined_signals,
    has_moved_away,
    is_unordered,
    linking_signals,
    updated_values,
    with_later_events_of,
)
from bridge.store.records.message_time import MessageTime, is_earlier, newest
from bridge.store.records.order_index import IndexedOrder, OrderIndexKey
from mappings.inbound.events import OrderEvent


def combined(one: IndexedOrder, other: IndexedOrder) -> IndexedOrder:
    """Combine two rows of one order, under the key and with the report of the first."""
    behind = one.last_message < other.last_message
    one_is_newer = not _is_older(one.said_at, other.said_at, came_first=behind)
    newer, older = (one, other) if one_is_newer else (other, one)
    echo, tags = updated_values(older, newer.echo, newer.tags)
    deciding = _deciding_row(one, other)
    first = min(one, other, key=lambda each: (each.first_message, each.place))
    past, last = (one, other) if behind else (other, one)
    combined_order = replace(
        one,
        state=deciding.state,
        first_message=first.first_message,
        place=first.place,
        last_message=max(one.last_message, other.last_message),
        placer=newer.placer or older.placer,
        filler=newer.filler or older.filler,
        tags=tags,
        echo=echo,
        report_id=one.report_id or other.report_id,
        turned_at=deciding.turned_at,
        opened_at=newest(past.opened_at, last.opened_at),
        said_at=newest(past.said_at, last.said_at),
        signals=combined_signals(one.signals, other.signals),
    )
    return with_later_events_of(combined_order, (one, other))


def _is_older(one: MessageTime | None, other: MessageTime | None, *, came_first: bool) -> bool:
    """Compare as `is_earlier`; a row without a time is older than one with a time."""
    if (one is None) != (other is None):
        return one is None
    return is_earlier(one, other, came_first=came_first)


def is_open(order: IndexedOrder) -> bool:
    """Tell whether an order is to be read."""
    return OrderState(order.state) in OPEN_STATES


def _deciding_row(one: IndexedOrder, other: IndexedOrder) -> IndexedOrder:
    """Return the row that decides the state: closed, held or open."""
    if is_open(one) != is_open(other):
        return _later(one, other)
    if not is_open(one) and one.state != other.state:
        held, gone = (one, other) if one.state == OrderState.HELD else (other, one)
        return held if is_earlier(gone.turned_at, held.opened_at) else gone
    if one.state != other.state:
        return one if one.state == OrderState.ORDERED else other
    behind = one.last_message < other.last_message
    return other if _is_older(one.turned_at, other.turned_at, came_first=behind) else one


def _later(one: IndexedOrder, other: IndexedOrder) -> IndexedOrder:
    """Return the later row by the senders' times; by arrival if they are not comparable."""
    opened, closed = (one, other) if is_open(one) else (other, one)
    held = closed.state == OrderState.HELD
    opened_at = newest(opened.opened_at, opened.turned_at if held else None)
    only_changed = opened_at is None and (opened.said_at is not None or is_unordered(opened))
    if is_earlier(opened_at, closed.turned_at) or only_changed:
        return closed
    if is_earlier(closed.turned_at, opened_at):
        return opened
    return max(opened, closed, key=lambda each: each.last_message)


@dataclass(frozen=True, slots=True)
class DuplicateOrder:
    """An order that the survivor and the merged patient both have, and their combination."""

    own: IndexedOrder
    prior: IndexedOrder
    after: IndexedOrder


def duplicate_orders(event: OrderEvent, orders: Iterable[IndexedOrder]) -> list[DuplicateOrder]:
    """
    Return the orders that both patients of a merge have, combined.

    Demographics are the survivor's.
    """
    own = [each for each in orders if each.key.site == event.site]
    priors = {each.key.accession: each for each in own if each.key.mrn == event.prior_mrn}
    found = []
    for survivor in own:
        prior = priors.get(survivor.key.accession)
        if survivor.key.mrn != event.mrn or prior is None or has_moved_away(prior):
            continue
        if has_moved_away(survivor):
            found.append(DuplicateOrder(survivor, prior, replace(prior, key=survivor.key)))
            continue
        after = combined(survivor, prior)
        tags = {tag: value for tag, value in after.tags.items() if tag not in DEMOGRAPHICS}
        survivor_tags = {tag: value for tag, value in survivor.tags.items() if tag in DEMOGRAPHICS}
        found.append(
            DuplicateOrder(survivor, prior, replace(after, tags={**tags, **survivor_tags}))
        )
    return found


def combined_with_existing(moved: IndexedOrder, orders: Iterable[IndexedOrder]) -> IndexedOrder:
    """Combine an order that moves to a patient with the patient's own order under its key."""
    existing = next((each for each in orders if each.key == moved.key), None)
    if existing is None or has_moved_away(existing):
        return moved
    return combined(replace(moved, report_id=""), existing)


def index_after_merge(
    event: OrderEvent, index: Mapping[OrderIndexKey, IndexedOrder]
) -> tuple[dict[OrderIndexKey, IndexedOrder], list[IndexedOrder]]:
    """Return the index after a merge, and moved orders that share a signal with the survivor."""
    prior, survivor = (event.site, event.prior_mrn), (event.site, event.mrn)
    rest = {key: each for key, each in index.items() if key[:2] != prior}
    own = [linking_signals(each.signals) for key, each in rest.items() if key[:2] == survivor]
    moved = [
        replace(each, key=key._replace(mrn=event.mrn))
        for key, each in index.items()
        if key[:2] == prior and key._replace(mrn=event.mrn) not in rest
    ]
    kin = frozenset[int]().union(*own)
    akin = [
        each
        for each in moved
        if each.state == OrderState.ORDERED and linking_signals(each.signals) & kin
    ]
    return rest | {each.key: each for each in moved}, akin
