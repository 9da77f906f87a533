"""
Rows of one order that become one: early events, and orders known under two patient identifiers.

A cancellation, a hold or an assignment of a number often has no OBR, and therefore a number but no
accession. Such an early event is stored as a row of its own. When the order with that number
arrives, both rows become one.

The later event decides values and state, by the senders' times. Messages under the survivor's
identifier may arrive before the merge. A closing event then counts for both rows, unless the order
was placed again later.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce

from bridge.contract import OrderKey
from bridge.orders.order import Order, OrderState, key_of
from bridge.orders.patients import DEMOGRAPHICS, demographics_of, with_new_patient
from bridge.orders.times import MessageTime, is_earlier, newest
from bridge.orders.values import (
    as_closed_by,
    combined_relations,
    updated_values,
    with_later_events_of,
)
from mappings.inbound.events import OrderEvent
from mappings.inbound.procedures import replace_identifiers


def combined(one: Order, other: Order) -> Order:
    """Combine two rows of one order, under the key and with the report of the first."""
    came_first = one.last_message < other.last_message
    one_is_newer = not _is_older(one.tags_sent_at, other.tags_sent_at, came_first=came_first)
    newer, older = (one, other) if one_is_newer else (other, one)
    echo, tags = updated_values(older, newer.echo, newer.tags)
    deciding = _deciding_row(one, other)
    first = min(one, other, key=lambda row: row.arrival)
    earlier, later = (one, other) if came_first else (other, one)
    combined_order = replace(
        combined_relations(one, other),
        state=deciding.state,
        first_message=first.first_message,
        position=first.position,
        last_message=max(one.last_message, other.last_message),
        placer=newer.placer or older.placer,
        filler=newer.filler or older.filler,
        tags=tags,
        echo=echo,
        report_id=one.report_id or other.report_id,
        state_changed_at=deciding.state_changed_at,
        opened_at=newest(earlier.opened_at, later.opened_at),
        tags_sent_at=newest(earlier.tags_sent_at, later.tags_sent_at),
    )
    return with_later_events_of(combined_order, (one, other))


def _is_older(one: MessageTime | None, other: MessageTime | None, *, came_first: bool) -> bool:
    """Compare as `is_earlier`; a row without a time is older than one with a time."""
    if (one is None) != (other is None):
        return one is None
    return is_earlier(one, other, came_first=came_first)


def _deciding_row(one: Order, other: Order) -> Order:
    """Return the row that decides the state: closed, held or open."""
    if one.is_open != other.is_open:
        return _later(one, other)
    states = {one.state, other.state}
    if states == {OrderState.REPORTED, OrderState.HELD}:
        return one if one.state == OrderState.REPORTED else other
    if not one.is_open and one.state != other.state:
        held, cancelled = (other, one) if one.state == OrderState.CANCELLED else (one, other)
        return held if is_earlier(cancelled.state_changed_at, held.opened_at) else cancelled
    if one.state != other.state:
        return one if one.state == OrderState.ORDERED else other
    came_first = one.last_message < other.last_message
    return (
        other
        if _is_older(one.state_changed_at, other.state_changed_at, came_first=came_first)
        else one
    )


def _later(one: Order, other: Order) -> Order:
    """Return the later row by the senders' times; by arrival if they are not comparable."""
    opened, closed = (one, other) if one.is_open else (other, one)
    held = closed.state in {OrderState.HELD, OrderState.REPORTED}
    opened_at = newest(opened.opened_at, opened.state_changed_at if held else None)
    only_changed = opened_at is None and (opened.tags_sent_at is not None or opened.number_only)
    if is_earlier(opened_at, closed.state_changed_at) or only_changed:
        return closed
    if is_earlier(closed.state_changed_at, opened_at):
        return opened
    return max(opened, closed, key=lambda row: row.last_message)


@dataclass(frozen=True, slots=True)
class DuplicateOrder:
    """An order that the survivor and the merged patient both have, and their combination."""

    own: Order
    prior: Order
    after: Order


def duplicate_orders(event: OrderEvent, orders: Iterable[Order]) -> list[DuplicateOrder]:
    """
    Return the orders that both patients of a merge have, combined.

    Demographics are the survivor's.
    """
    known = list(orders)
    priors = {
        order.key.accession: order
        for order in known
        if order.patient == (event.site, event.prior_mrn)
    }
    found = []
    for survivor in known:
        prior = priors.get(survivor.key.accession)
        if survivor.patient != (event.site, event.mrn) or prior is None or prior.moved_away:
            continue
        if survivor.moved_away:
            found.append(DuplicateOrder(survivor, prior, replace(prior, key=survivor.key)))
            continue
        after = combined(survivor, prior)
        tags = {tag: value for tag, value in after.tags.items() if tag not in DEMOGRAPHICS}
        survivor_tags = {tag: value for tag, value in survivor.tags.items() if tag in DEMOGRAPHICS}
        found.append(
            DuplicateOrder(survivor, prior, replace(after, tags={**tags, **survivor_tags}))
        )
    return found


def combined_with_existing(moved: Order, orders: Iterable[Order]) -> Order:
    """Combine an order that moves to a patient with the patient's own order under its key."""
    existing = next((order for order in orders if order.key == moved.key), None)
    if existing is None or existing.moved_away:
        return moved
    return combined(replace(moved, report_id=""), existing)


def index_after_merge(
    event: OrderEvent, index: Mapping[OrderKey, Order]
) -> tuple[dict[OrderKey, Order], list[Order]]:
    """Return the index after a merge, and moved orders that share a link with the survivor."""
    prior, survivor = (event.site, event.prior_mrn), (event.site, event.mrn)
    rest = {key: order for key, order in index.items() if order.patient != prior}
    moved = [
        replace(order, key=replace(key, mrn=event.mrn))
        for key, order in index.items()
        if order.patient == prior and replace(key, mrn=event.mrn) not in rest
    ]
    survivor_links = {
        link for order in rest.values() if order.patient == survivor for link in order.links
    }
    linkable = [
        order
        for order in moved
        if order.state == OrderState.ORDERED and not order.links.isdisjoint(survivor_links)
    ]
    return rest | {order.key: order for order in moved}, linkable


@dataclass(frozen=True, slots=True)
class OrderNumbers:
    """Placer and filler number of an order; '' if unknown."""

    placer: str
    filler: str

    def match(self, other: "OrderNumbers | Order | OrderEvent") -> bool:
        """Compare the numbers that both have: all must be equal, and at least one must exist."""
        pairs = ((self.placer, other.placer), (self.filler, other.filler))
        both = [(own, given) for own, given in pairs if own and given]
        return bool(both) and all(own == given for own, given in both)


def order_numbers(event: OrderEvent | Order, own: Order | None = None) -> OrderNumbers:
    placer, filler = (own.placer, own.filler) if own else ("", "")
    return OrderNumbers(event.placer or placer, event.filler or filler)


def may_be_same_order(event: OrderEvent, order: Order) -> bool:
    return (event.site, event.mrn) == order.patient and order_numbers(event).match(order)


def early_rows(
    key: OrderKey, known: OrderNumbers, orders: Sequence[Order], prior_mrn: str = ""
) -> list[Order]:
    """
    Return the rows about an order that are known by a number, or by the patient before a visit
    moved.

    A row is left out if another order has its number too.
    """
    patients = {(key.site, key.mrn), (key.site, prior_mrn)}
    others = [order for order in orders if order.patient in patients and order.key != key]
    ordered = [order for order in others if not order.number_only and not order.moved_away]
    before = [order for order in ordered if order.key == replace(key, mrn=prior_mrn)]
    by_number = [
        row
        for row in others
        if row.number_only
        and known.match(row)
        and not any(order_numbers(row).match(order) for order in ordered if order not in before)
    ]
    return by_number + before


def with_early_rows(event: OrderEvent, own: Order | None, early: Sequence[Order]) -> Order | None:
    """Combine an event's order with its early rows; None if there are no rows."""
    known = order_numbers(event, own)
    rows = [own] if own else []
    for order in early:
        key = key_of(event)
        row = order if order.key.mrn == key.mrn else _with_new_patient(order, event)
        if order.number_only and bool(order.placer) != bool(order.filler):
            row = as_closed_by(row, order.placer or order.filler)
        row = replace(row, placer=known.placer or row.placer, filler=known.filler or row.filler)
        by_number = key.accession in {row.placer, row.filler}
        rows.append(replace(row, key=key, number_only=row.number_only and by_number))
    return reduce(combined, rows) if rows else None


def _with_new_patient(order: Order, event: OrderEvent) -> Order:
    tags = with_new_patient(order.tags, demographics_of(event))
    return replace(order, tags=tags, echo=replace_identifiers(order.echo, event.echo), report_id="")


@dataclass(frozen=True, slots=True)
class EarlyRowMatch:
    own: Order
    early: Sequence[Order]
    after: Order


def match_early_rows(site: str, mrn: str, orders: Iterable[Order]) -> list[EarlyRowMatch]:
    """Find a patient's orders that have early rows, after orders moved to the patient."""
    known = [order for order in orders if order.patient == (site, mrn) and not order.moved_away]
    if not any(order.number_only for order in known):
        return []
    found = []
    for own in known:
        early = [] if own.number_only else early_rows(own.key, order_numbers(own), known)
        if early:
            rows = [replace(row, key=own.key) for row in early]
            found.append(EarlyRowMatch(own, early, reduce(combined, rows, own)))
    return found
