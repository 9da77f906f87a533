"""Duplicate orders: one order known under two patient identifiers, or under a number and an
accession.

Pure. The later word stands, of what is to be done and of whether it is, by the senders' times.

Pure. Messages under the survivor's identifier may come before the merge itself. What closed the
order then counts for both, unless it was ordered again since.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from bridge.intake.patients.demographics import DEMOGRAPHICS
from bridge.intake.process.cancellations import with_words_of
from bridge.intake.process.link_signals import bonds, both, has_moved_away, is_unordered
from bridge.intake.process.order_rules import OPEN, OrderState
from bridge.intake.process.order_values import said
from bridge.store.records.message_time import MessageTime, is_earlier, newest
from bridge.store.records.order_index import IndexedOrder, OrderIndexKey
from mappings.inbound.events import OrderEvent


def as_one(one: IndexedOrder, other: IndexedOrder) -> IndexedOrder:
    """Make one order of two rows of it, under the key and with the report of the first."""
    behind = one.last_message < other.last_message
    one_newer = not _is_older(one.said_at, other.said_at, came_first=behind)
    newer, older = (one, other) if one_newer else (other, one)
    echo, tags = said(older, newer.echo, newer.tags)
    stands = _standing(one, other)
    first = min(one, other, key=lambda each: (each.first_message, each.place))
    past, last = (one, other) if behind else (other, one)
    united = replace(
        one,
        state=stands.state,
        first_message=first.first_message,
        place=first.place,
        last_message=max(one.last_message, other.last_message),
        placer=newer.placer or older.placer,
        filler=newer.filler or older.filler,
        tags=tags,
        echo=echo,
        report_id=one.report_id or other.report_id,
        turned_at=stands.turned_at,
        opened_at=newest(past.opened_at, last.opened_at),
        said_at=newest(past.said_at, last.said_at),
        signals=both(one.signals, other.signals),
    )
    return with_words_of(united, (one, other))


def _is_older(one: MessageTime | None, other: MessageTime | None, *, came_first: bool) -> bool:
    """Compare as `is_earlier` does; a row without a time is older than one with a time."""
    if (one is None) != (other is None):
        return one is None
    return is_earlier(one, other, came_first=came_first)


def is_open(order: IndexedOrder) -> bool:
    """Tell whether an order is to be read."""
    return OrderState(order.state) in OPEN


def _standing(one: IndexedOrder, other: IndexedOrder) -> IndexedOrder:
    """Choose the row by which an order stands, closed, held or open."""
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
    """Choose the later word by the senders' times; where they prove nothing, by arrival."""
    opened, closed = (one, other) if is_open(one) else (other, one)
    held = closed.state == OrderState.HELD
    spoken = newest(opened.opened_at, opened.turned_at if held else None)
    only_changed = spoken is None and (opened.said_at is not None or is_unordered(opened))
    if is_earlier(spoken, closed.turned_at) or only_changed:
        return closed
    if is_earlier(closed.turned_at, spoken):
        return opened
    return max(opened, closed, key=lambda each: each.last_message)


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
    event: OrderEvent, index: Mapping[OrderIndexKey, IndexedOrder]
) -> tuple[dict[OrderIndexKey, IndexedOrder], list[IndexedOrder]]:
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
