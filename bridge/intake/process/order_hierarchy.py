"""
Parent and child orders: an action on a parent applies to its children.

Pure. HL7 v2.5.1 §4.5.1.1 (PA, CH): cancel, discontinue and hold of a parent apply to its children
and to their children. A child names its parent's number in ORC-8 or OBR-29. PA itself is not an
order of the report engine. Children of a replaced order stay open: no rule assigns them to the
replacement.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from bridge.intake.process.order_rules import CASCADING_ACTIONS, OPEN_STATES, OrderState
from bridge.intake.receive.identity import signal
from bridge.store.records.message_time import MessageTime, is_earlier
from bridge.store.records.order_index import IndexedOrder, OrderIndexKey
from mappings.inbound.events import CHILD_OF, OrderAction, OrderEvent

FROM_PARENT = "from_parent"
"""The note of an event that follows from an event about the parent."""

REPLACED_SIGNAL = "replaced"
"""The kind of signal of an order that was replaced, not cancelled. It links no orders."""

PARENT_REPLACED = "parent_replaced"
"""The code of a message after which children of a replaced parent remain on the worklist."""


def child_signals(numbers: Iterable[str]) -> set[int]:
    return {signal(CHILD_OF, number) for number in numbers if number}


def with_child_events(
    events: Sequence[OrderEvent], orders: Iterable[IndexedOrder], sent_at: MessageTime | None
) -> Iterator[OrderEvent]:
    known = list(orders)
    seen = {OrderIndexKey(each.site, each.mrn, each.accession) for each in events}
    for event in events:
        yield event
        if event.action in CASCADING_ACTIONS:
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
    signals = child_signals(numbers | {each.filler for each in own})
    for each in own:  # orders with the same parent are no children of each other
        signals -= {one.signal for one in each.signals if one.kind == CHILD_OF}
    for order in orders:
        parent_signals = {each.signal for each in order.signals if each.kind == CHILD_OF}
        same_patient = (order.key.site, order.key.mrn) == (event.site, event.mrn)
        if (
            same_patient
            and parent_signals & signals
            and order.key not in seen
            and _applies_to_child(event, order)
        ):
            seen.add(order.key)
            child_event = _child_event(order, event)
            yield child_event
            yield from _for_children(child_event, orders, seen, sent_at)


def _was_released(parent: IndexedOrder, event: OrderEvent, sent_at: MessageTime | None) -> bool:
    """True if a later release has been applied before this hold."""
    holds = event.action is OrderAction.HOLD and parent.state in OPEN_STATES
    return holds and is_earlier(sent_at, parent.state_changed_at)


def _applies_to_child(event: OrderEvent, child: IndexedOrder) -> bool:
    """Cancel or hold children that are not cancelled; release children that are held."""
    if event.action is OrderAction.RELEASE:
        return child.state == OrderState.HELD
    return child.state != OrderState.CANCELLED


def _child_event(child: IndexedOrder, event: OrderEvent) -> OrderEvent:
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


def parent_of(event: OrderEvent, orders: Iterable[IndexedOrder]) -> IndexedOrder | None:
    """Return the cancelled or held parent of an order, by the numbers in the event."""
    closed = {OrderState.CANCELLED.value, OrderState.HELD.value}
    return next(
        (
            each
            for each in _parents(event, orders)
            if each.state in closed and not _is_replaced(each)
        ),
        None,
    )


def involves_parent(event: OrderEvent) -> bool:
    named = any(each.kind == CHILD_OF for each in event.link_signals)
    return named or event.action is OrderAction.REPLACE


def has_lost_parent(event: OrderEvent, orders: Iterable[IndexedOrder]) -> bool:
    """True if the parent of an order was replaced, and no parent is open."""
    parents = _parents(event, orders)
    return any(map(_is_replaced, parents)) and all(
        each.state not in OPEN_STATES for each in parents
    )


def leaves_open_children(event: OrderEvent, orders: Iterable[IndexedOrder]) -> bool:
    """True if a replaced order has children on the worklist."""
    if event.action is not OrderAction.REPLACE:
        return False
    signals = child_signals({event.placer, event.filler})
    return any(
        (each.key.site, each.key.mrn) == (event.site, event.mrn)
        and each.state in OPEN_STATES
        and not signals.isdisjoint(one.signal for one in each.signals if one.kind == CHILD_OF)
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


def _is_replaced(order: IndexedOrder) -> bool:
    return any(each.kind == REPLACED_SIGNAL for each in order.signals)
