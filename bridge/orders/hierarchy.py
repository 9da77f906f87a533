"""
Parent and child orders: an action on a parent applies to its children.

HL7 v2.5.1 §4.5.1.1 (PA, CH): cancel, discontinue and hold of a parent apply to its children
and to their children. A child names its parent's number in ORC-8 or OBR-29. PA itself is not an
order of the report engine. Children of a replaced order stay open: no rule assigns them to the
replacement.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from bridge.contract import OrderKey
from bridge.orders.order import Order, OrderState, key_of, parent_hash
from bridge.orders.rules import CASCADING_ACTIONS
from bridge.orders.times import MessageTime, is_earlier
from mappings.inbound.events import CHILD_OF, OrderAction, OrderEvent

FROM_PARENT = "from_parent"
"""The note of an event that follows from an event about the parent."""

PARENT_REPLACED = "parent_replaced"
"""The code of a message after which children of a replaced parent remain on the worklist."""


def with_child_events(
    events: Sequence[OrderEvent], orders: Iterable[Order], sent_at: MessageTime | None
) -> Iterator[OrderEvent]:
    known = list(orders)
    seen = {key_of(event) for event in events}
    for event in events:
        yield event
        if event.action in CASCADING_ACTIONS:
            yield from _for_children(event, known, seen, sent_at)


def _for_children(
    event: OrderEvent,
    orders: Sequence[Order],
    seen: set[OrderKey],
    sent_at: MessageTime | None,
) -> Iterator[OrderEvent]:
    own = [order for order in orders if order.key == key_of(event)]
    if any(_was_released(order, event, sent_at) for order in own):
        return
    named = numbers_of(event).union(*(order.numbers for order in own))
    # Orders with the same parent are no children of each other.
    hashes = set(map(parent_hash, named)).difference(*(order.parents for order in own))
    for order in orders:
        if (
            order.patient == (event.site, event.mrn)
            and not order.parents.isdisjoint(hashes)
            and order.key not in seen
            and _applies_to_child(event, order)
        ):
            seen.add(order.key)
            child_event = _child_event(order, event)
            yield child_event
            yield from _for_children(child_event, orders, seen, sent_at)


def numbers_of(event: OrderEvent) -> set[str]:
    """Return the placer and filler number of an event."""
    return {event.placer, event.filler} - {""}


def _was_released(parent: Order, event: OrderEvent, sent_at: MessageTime | None) -> bool:
    """True if a later release has been applied before this hold."""
    holds = event.action is OrderAction.HOLD and parent.is_open
    return holds and is_earlier(sent_at, parent.state_changed_at)


def _applies_to_child(event: OrderEvent, child: Order) -> bool:
    """Cancel or hold children that are not cancelled; release children that are held."""
    if event.action is OrderAction.RELEASE:
        return child.state == OrderState.HELD
    return child.state != OrderState.CANCELLED


def _child_event(child: Order, event: OrderEvent) -> OrderEvent:
    return replace(
        event,
        accession=child.key.accession,
        location="",
        clinical_info={},
        link_signals=(),
        placer=child.placer,
        filler=child.filler,
        echo=child.echo,
        note=FROM_PARENT,
    )


def parent_of(event: OrderEvent, orders: Iterable[Order]) -> Order | None:
    """Return the cancelled or held parent of an order, by the numbers in the event."""
    closed = {OrderState.CANCELLED, OrderState.HELD}
    parents = _parents(event, orders)
    return next((order for order in parents if order.state in closed and not order.replaced), None)


def involves_parent(event: OrderEvent) -> bool:
    return bool(parent_numbers(event)) or event.action is OrderAction.REPLACE


def has_lost_parent(event: OrderEvent, orders: Iterable[Order]) -> bool:
    """True if the parent of an order was replaced, and no parent is open."""
    parents = _parents(event, orders)
    return any(order.replaced for order in parents) and not any(order.is_open for order in parents)


def leaves_open_children(event: OrderEvent, orders: Iterable[Order]) -> bool:
    """True if a replaced order has children on the worklist."""
    if event.action is not OrderAction.REPLACE:
        return False
    hashes = set(map(parent_hash, numbers_of(event)))
    return any(
        order.patient == (event.site, event.mrn)
        and order.is_open
        and not order.parents.isdisjoint(hashes)
        for order in orders
    )


def parent_numbers(event: OrderEvent) -> set[str]:
    """Return the numbers of the parents that an event names."""
    return {link.value for link in event.link_signals if link.kind == CHILD_OF}


def _parents(event: OrderEvent, orders: Iterable[Order]) -> list[Order]:
    named = parent_numbers(event)
    return [
        order
        for order in (orders if named else ())
        if order.patient == (event.site, event.mrn) and not named.isdisjoint(order.numbers)
    ]
