"""
Parents and children among orders: what is done to a parent is done to its children.

Pure. HL7 v2.5.1 §4.5.1.1 (PA, CH): cancel, discontinue and hold of a parent apply to its
children, and theirs. Children are known by the number in ORC-8 or OBR-29; PA itself is no order
of the report service.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from bridge.intake.identity import signal
from bridge.intake.order_rules import CASCADING, OrderState
from bridge.store.order_index import IndexedOrder, Key
from mappings.events import CHILD_OF, Action, OrderEvent

OF_PARENT = "said of its parent"
"""The note of an event that no message bears: it follows from one about the parent."""


def child_signals(numbers: Iterable[str]) -> set[int]:
    """Give the signals that the children of an order with these numbers show."""
    return {signal(CHILD_OF, number) for number in numbers if number}


def descend(events: Sequence[OrderEvent], orders: Iterable[IndexedOrder]) -> Iterator[OrderEvent]:
    """Put what follows for its children behind each event; those the message names are its own."""
    known = list(orders)
    seen = {Key(each.site, each.mrn, each.accession) for each in events}
    for event in events:
        yield event
        if event.action in CASCADING:
            yield from _for_children(event, known, seen)


def _for_children(
    event: OrderEvent, orders: Sequence[IndexedOrder], seen: set[Key]
) -> Iterator[OrderEvent]:
    own = [each for each in orders if each.key == (event.site, event.mrn, event.accession)]
    numbers = {event.placer, event.filler, *(each.placer for each in own)}
    asked = child_signals(numbers | {each.filler for each in own})
    for order in orders:
        shown = {each.signal for each in order.signals if each.kind == CHILD_OF}
        same_patient = (order.key.site, order.key.mrn) == (event.site, event.mrn)
        if same_patient and shown & asked and order.key not in seen and _follows(event, order):
            seen.add(order.key)
            below = _about(order, event)
            yield below
            yield from _for_children(below, orders, seen)


def _follows(event: OrderEvent, child: IndexedOrder) -> bool:
    """Leave children alone that were cancelled already; release those that are held."""
    if event.action is Action.RELEASE:
        return child.state == OrderState.HELD
    return child.state != OrderState.CANCELLED


def _about(child: IndexedOrder, event: OrderEvent) -> OrderEvent:
    """Say of a child what was said of its parent."""
    return replace(
        event,
        accession=child.key.accession,
        location="",
        clinical_info={},
        link_signals=(),
        placer=child.placer,
        filler=child.filler,
        echo=child.echo,
        note=OF_PARENT,
    )


def parent_of(event: OrderEvent, orders: Iterable[IndexedOrder]) -> IndexedOrder | None:
    """Find the cancelled or held parent of an order, by the numbers that the order gives."""
    named = {each.value for each in event.link_signals if each.kind == CHILD_OF}
    if not named:
        return None
    closed = {OrderState.CANCELLED.value, OrderState.HELD.value}
    for order in orders:
        same_patient = (order.key.site, order.key.mrn) == (event.site, event.mrn)
        if same_patient and order.state in closed and named & {order.placer, order.filler}:
            return order
    return None
