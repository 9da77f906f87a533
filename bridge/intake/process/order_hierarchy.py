"""Parents and children among orders: what is done to a parent is done to its children.

Pure. HL7 v2.5.1 §4.5.1.1 (PA, CH): cancel, discontinue and hold of a parent apply to its
children, and theirs. Children are known by the number in ORC-8 or OBR-29; PA itself is no order
of the report service. Children of a replaced order stand: no rule gives them to what replaces it.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from bridge.intake.process.order_rules import CASCADING, OPEN, OrderState
from bridge.intake.receive.identity import signal
from bridge.store.records.message_time import MessageTime, is_earlier
from bridge.store.records.order_index import IndexedOrder, OrderIndexKey
from mappings.inbound.events import CHILD_OF, OrderAction, OrderEvent

OF_PARENT = "said of its parent"
"""The note of an event that no message bears: it follows from one about the parent."""

REPLACED = "replaced"
"""The kind of signal of an order that was not cancelled but replaced; it joins nobody."""

PARENT_REPLACED = "parent_replaced"
"""The code of a message that leaves children on the worklist whose parent was replaced."""


def child_signals(numbers: Iterable[str]) -> set[int]:
    """Give the signals that the children of an order with these numbers show."""
    return {signal(CHILD_OF, number) for number in numbers if number}


def descend(
    events: Sequence[OrderEvent], orders: Iterable[IndexedOrder], sent_at: MessageTime | None
) -> Iterator[OrderEvent]:
    """Put what follows for its children behind each event; those the message names are its own."""
    known = list(orders)
    seen = {OrderIndexKey(each.site, each.mrn, each.accession) for each in events}
    for event in events:
        yield event
        if event.action in CASCADING:
            yield from _for_children(event, known, seen, sent_at)


def _for_children(
    event: OrderEvent,
    orders: Sequence[IndexedOrder],
    seen: set[OrderIndexKey],
    sent_at: MessageTime | None,
) -> Iterator[OrderEvent]:
    own = [each for each in orders if each.key == (event.site, event.mrn, event.accession)]
    if any(_was_released(each, event, sent_at) for each in own):
        return
    numbers = {event.placer, event.filler, *(each.placer for each in own)}
    asked = child_signals(numbers | {each.filler for each in own})
    for order in orders:
        shown = {each.signal for each in order.signals if each.kind == CHILD_OF}
        same_patient = (order.key.site, order.key.mrn) == (event.site, event.mrn)
        if same_patient and shown & asked and order.key not in seen and _follows(event, order):
            seen.add(order.key)
            below = _about(order, event)
            yield below
            yield from _for_children(below, orders, seen, sent_at)


def _was_released(parent: IndexedOrder, event: OrderEvent, sent_at: MessageTime | None) -> bool:
    """Tell whether a hold comes after the release that was sent behind it."""
    holds = event.action is OrderAction.HOLD and parent.state in OPEN
    return holds and is_earlier(sent_at, parent.turned_at)


def _follows(event: OrderEvent, child: IndexedOrder) -> bool:
    """Leave children alone that were cancelled already; release those that are held."""
    if event.action is OrderAction.RELEASE:
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
    closed = {OrderState.CANCELLED.value, OrderState.HELD.value}
    return next(
        (each for each in _parents(event, orders) if each.state in closed and not _replaced(each)),
        None,
    )


def may_be_orphaned(event: OrderEvent) -> bool:
    """Tell whether an event is about parents at all: it names one, or replaces what may be one."""
    named = any(each.kind == CHILD_OF for each in event.link_signals)
    return named or event.action is OrderAction.REPLACE


def lost_parent(event: OrderEvent, orders: Iterable[IndexedOrder]) -> bool:
    """Tell whether an order is the child of one that was replaced, and of none that stands."""
    parents = _parents(event, orders)
    return any(map(_replaced, parents)) and all(each.state not in OPEN for each in parents)


def leaves_children(event: OrderEvent, orders: Iterable[IndexedOrder]) -> bool:
    """Tell whether an order that is replaced has children on the worklist: they stay there."""
    if event.action is not OrderAction.REPLACE:
        return False
    asked = child_signals({event.placer, event.filler})
    return any(
        (each.key.site, each.key.mrn) == (event.site, event.mrn)
        and each.state in OPEN
        and not asked.isdisjoint(one.signal for one in each.signals if one.kind == CHILD_OF)
        for each in orders
    )


def _parents(event: OrderEvent, orders: Iterable[IndexedOrder]) -> list[IndexedOrder]:
    named = {each.value for each in event.link_signals if each.kind == CHILD_OF}
    own = (event.site, event.mrn)
    return [
        each
        for each in (orders if named else ())
        if (each.key.site, each.key.mrn) == own and named & {each.placer, each.filler}
    ]


def _replaced(order: IndexedOrder) -> bool:
    return any(each.kind == REPLACED for each in order.signals)
