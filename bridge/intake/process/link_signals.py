"""Which link signals an order has after a message about it, by those that the message shows.

Pure. A value of the order that a message does not repeat stays, and so does a group that it was
sent in; any other signal that is gone is gone.
"""

from collections.abc import Iterable
from dataclasses import replace

from bridge.intake.process.order_hierarchy import OF_PARENT, REPLACED
from bridge.intake.process.order_rules import ORDERING, OrderState
from bridge.intake.receive.identity import signal
from bridge.store.records.order_index import IndexedOrder, SignalHash
from mappings.inbound.events import CHILD_OF, OrderAction, OrderEvent

CLOSED_BY = "closed-by"
"""The kind of signal of an order that was closed before it came, by the one number given then."""

KEPT = frozenset({"study-uid", "accession", CHILD_OF, CLOSED_BY})
"""Signals that are values of the order: a message that is silent about them changes nothing."""

JOINED = "message-group"
"""Orders that once came in one message stay together when one of them changes alone."""

MOVED = "moved"
"""The kind of signal of what is left where an order went to another patient with its visit."""

UNORDERED = "unordered"
"""The kind of signal of an order that messages named by a number alone, and none has ordered."""

HELD_LATER, OPENED_LATER = "held-later", "opened-later"
"""The kinds of signal of a cancelled order that was held, or released, after that."""

UNBOUND = frozenset({CHILD_OF, REPLACED, MOVED, UNORDERED, CLOSED_BY, HELD_LATER, OPENED_LATER})
"""Signals that bind an order to no other."""


def bonds(signals: Iterable[SignalHash]) -> frozenset[int]:
    """Give the signals that bind orders together."""
    return frozenset(each.signal for each in signals if each.kind not in UNBOUND)


def as_moved_away(order: IndexedOrder) -> IndexedOrder:
    """Give what is left of an order that went to another patient: it tells where to look."""
    mark = SignalHash(MOVED, signal(MOVED, order.key.accession))
    left = OrderState.CANCELLED
    return replace(order, state=left, report_id="", signals=frozenset({mark}))


def as_ordered(order: IndexedOrder) -> IndexedOrder:
    """Give an order that stays under its number, though it is known under an accession as well."""
    rest = frozenset(each for each in order.signals if each.kind != UNORDERED)
    return replace(order, signals=rest)


def has_moved_away(order: IndexedOrder) -> bool:
    """Tell whether an order is another patient's by now."""
    return any(each.kind == MOVED for each in order.signals)


def marked(
    signals: frozenset[SignalHash], event: OrderEvent, before: IndexedOrder | None
) -> frozenset[SignalHash]:
    """Give the signals of an order after an event, with the mark of one that is not ordered yet."""
    by_number = event.accession in {event.placer, event.filler}
    known = by_number if before is None else is_unordered(before)
    if known and event.action not in ORDERING:
        return signals | {SignalHash(UNORDERED, signal(UNORDERED, event.accession))}
    if before is None or not known:
        return signals
    return frozenset(each for each in signals if each.kind != UNORDERED)


def both(one: frozenset[SignalHash], other: frozenset[SignalHash]) -> frozenset[SignalHash]:
    """Give the signals of an order that was two until now."""
    marks = {each for each in one | other if each.kind in {UNORDERED, REPLACED}}
    return (one | other) - (marks - (one & other))


def as_closed_by(order: IndexedOrder, number: str) -> IndexedOrder:
    """Give an order with the mark of what closed it; other orders may have that number as well."""
    mark = SignalHash(CLOSED_BY, signal(CLOSED_BY, number))
    return replace(order, signals=order.signals | {mark})


def is_closed_by(order: IndexedOrder, numbers: Iterable[str]) -> bool:
    """Tell whether an order is off the worklist by one of these numbers alone."""
    shown = {each.signal for each in order.signals if each.kind == CLOSED_BY}
    closed = order.state in {OrderState.CANCELLED, OrderState.HELD}
    return closed and not shown.isdisjoint(signal(CLOSED_BY, each) for each in numbers)


def is_unordered(order: IndexedOrder) -> bool:
    """Tell whether an order was never ordered, and a number is all its accession."""
    return any(each.kind == UNORDERED for each in order.signals)


def signals_of(base: IndexedOrder, event: OrderEvent, *, closing: bool) -> frozenset[SignalHash]:
    """Keep the signals of an order where a message says no more than that it is closed."""
    silent = event.note == OF_PARENT or (closing and base.signals)
    shown = base.signals if silent else signals_after(base.signals, event)
    if event.action is not OrderAction.REPLACE:
        return shown
    return shown | {SignalHash(REPLACED, signal(REPLACED, base.key.accession))}


def lasting(signals: frozenset[SignalHash], event: OrderEvent) -> frozenset[SignalHash]:
    """Give the signals that an event shows, of the kinds that silence does not end."""
    known = {each.kind for each in signals}
    return frozenset(
        each
        for each in signals_after(frozenset(), event)
        if each.kind == JOINED or (each.kind in KEPT and each.kind not in known)
    )


def signals_after(before: frozenset[SignalHash], event: OrderEvent) -> frozenset[SignalHash]:
    """
    Give the signals of an order after an event about it.

    Those of `KEPT` kinds stay, and `JOINED`.
    """
    shown = frozenset(
        SignalHash(each.kind, signal(each.kind, each.value)) for each in event.link_signals
    )
    kinds = {each.kind for each in shown}
    kept = {
        each
        for each in before
        if each.kind == JOINED or (each.kind in KEPT and each.kind not in kinds)
    }
    return shown | kept
