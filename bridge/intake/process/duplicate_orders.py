"""Rows of one order that become one: early events, and orders known under two patient identifiers.

Pure. A cancellation, a hold or an assignment of a number often has no OBR, and therefore a number
but no accession. Such an early event is stored as a row of its own. When the order with that number
arrives, both rows become one.

The later event decides values and state, by the senders' times. Messages under the survivor's
identifier may arrive before the merge. A closing event then counts for both rows, unless the order
was placed again later.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce

from bridge.intake.patients.demographics import DEMOGRAPHICS, demographics_of, with_new_patient
from bridge.intake.process.order_rules import OPEN_STATES, OrderState
from bridge.intake.process.order_values import (
    as_closed_by,
    as_ordered,
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
from mappings.inbound.procedures import replace_identifiers


def combined(one: IndexedOrder, other: IndexedOrder) -> IndexedOrder:
    """Combine two rows of one order, under the key and with the report of the first."""
    came_first = one.last_message < other.last_message
    one_is_newer = not _is_older(one.tags_sent_at, other.tags_sent_at, came_first=came_first)
    newer, older = (one, other) if one_is_newer else (other, one)
    echo, tags = updated_values(older, newer.echo, newer.tags)
    deciding = _deciding_row(one, other)
    first = min(one, other, key=lambda each: (each.first_message, each.position))
    earlier, later = (one, other) if came_first else (other, one)
    combined_order = replace(
        one,
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
        signals=combined_signals(one.signals, other.signals),
    )
    return with_later_events_of(combined_order, (one, other))


def _is_older(one: MessageTime | None, other: MessageTime | None, *, came_first: bool) -> bool:
    """Compare as `is_earlier`; a row without a time is older than one with a time."""
    if (one is None) != (other is None):
        return one is None
    return is_earlier(one, other, came_first=came_first)


def is_open(order: IndexedOrder) -> bool:
    """True if an order waits for a radiologist."""
    return OrderState(order.state) in OPEN_STATES


def _deciding_row(one: IndexedOrder, other: IndexedOrder) -> IndexedOrder:
    """Return the row that decides the state: closed, held or open."""
    if is_open(one) != is_open(other):
        return _later(one, other)
    if not is_open(one) and one.state != other.state:
        held, cancelled = (one, other) if one.state == OrderState.HELD else (other, one)
        return held if is_earlier(cancelled.state_changed_at, held.opened_at) else cancelled
    if one.state != other.state:
        return one if one.state == OrderState.ORDERED else other
    came_first = one.last_message < other.last_message
    return (
        other
        if _is_older(one.state_changed_at, other.state_changed_at, came_first=came_first)
        else one
    )


def _later(one: IndexedOrder, other: IndexedOrder) -> IndexedOrder:
    """Return the later row by the senders' times; by arrival if they are not comparable."""
    opened, closed = (one, other) if is_open(one) else (other, one)
    held = closed.state == OrderState.HELD
    opened_at = newest(opened.opened_at, opened.state_changed_at if held else None)
    only_changed = opened_at is None and (opened.tags_sent_at is not None or is_unordered(opened))
    if is_earlier(opened_at, closed.state_changed_at) or only_changed:
        return closed
    if is_earlier(closed.state_changed_at, opened_at):
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
    survivor_signals = frozenset[int]().union(*own)
    linkable = [
        each
        for each in moved
        if each.state == OrderState.ORDERED and linking_signals(each.signals) & survivor_signals
    ]
    return rest | {each.key: each for each in moved}, linkable


@dataclass(frozen=True, slots=True)
class OrderNumbers:
    """Placer and filler number of an order; '' if unknown."""

    placer: str
    filler: str

    def match(self, other: "OrderNumbers | IndexedOrder | OrderEvent") -> bool:
        """Compare the numbers that both have: all must be equal, and at least one must exist."""
        pairs = ((self.placer, other.placer), (self.filler, other.filler))
        both = [(each, same) for each, same in pairs if each and same]
        return bool(both) and all(each == same for each, same in both)


def order_numbers(
    event: OrderEvent | IndexedOrder, own: IndexedOrder | None = None
) -> OrderNumbers:
    placer, filler = (own.placer, own.filler) if own else ("", "")
    return OrderNumbers(event.placer or placer, event.filler or filler)


def may_be_same_order(event: OrderEvent, order: IndexedOrder) -> bool:
    same_patient = (event.site, event.mrn) == (order.key.site, order.key.mrn)
    return same_patient and order_numbers(event).match(order)


def early_rows(
    key: OrderIndexKey, known: OrderNumbers, orders: Sequence[IndexedOrder], prior_mrn: str = ""
) -> list[IndexedOrder]:
    """
    Return the rows about an order that are known by a number, or by the patient before a visit
    moved.

    A row is left out if another order has its number too.
    """
    patients = {(key.site, key.mrn), (key.site, prior_mrn)}
    others = [each for each in orders if each.key[:2] in patients and each.key != key]
    ordered = [each for each in others if not is_unordered(each) and not has_moved_away(each)]
    before = [each for each in ordered if each.key == key._replace(mrn=prior_mrn)]
    by_number = [
        each
        for each in others
        if is_unordered(each)
        and known.match(each)
        and not any(order_numbers(each).match(one) for one in ordered if one not in before)
    ]
    return by_number + before


def with_early_rows(
    event: OrderEvent, own: IndexedOrder | None, early: Sequence[IndexedOrder]
) -> IndexedOrder | None:
    """Combine an event's order with its early rows; None if there are no rows."""
    known = order_numbers(event, own)
    rows = [own] if own else []
    for each in early:
        key = OrderIndexKey(event.site, event.mrn, event.accession)
        row = each if each.key.mrn == key.mrn else _with_new_patient(each, event)
        if is_unordered(each) and bool(each.placer) != bool(each.filler):
            row = as_closed_by(row, each.placer or each.filler)
        row = replace(row, placer=known.placer or row.placer, filler=known.filler or row.filler)
        by_number = key.accession in {row.placer, row.filler}
        rows.append(replace(row if by_number else as_ordered(row), key=key))
    return reduce(combined, rows) if rows else None


def _with_new_patient(order: IndexedOrder, event: OrderEvent) -> IndexedOrder:
    tags = with_new_patient(order.tags, demographics_of(event))
    return replace(order, tags=tags, echo=replace_identifiers(order.echo, event.echo), report_id="")


@dataclass(frozen=True, slots=True)
class EarlyRowMatch:
    own: IndexedOrder
    early: Sequence[IndexedOrder]
    after: IndexedOrder


def match_early_rows(site: str, mrn: str, orders: Iterable[IndexedOrder]) -> list[EarlyRowMatch]:
    """Find a patient's orders that have early rows, after orders moved to the patient."""
    own = [each for each in orders if each.key[:2] == (site, mrn) and not has_moved_away(each)]
    if not any(map(is_unordered, own)):
        return []
    found = []
    for each in own:
        early = [] if is_unordered(each) else early_rows(each.key, order_numbers(each), own)
        if early:
            rows = [replace(one, key=each.key) for one in early]
            found.append(EarlyRowMatch(each, early, reduce(combined, rows, each)))
    return found
