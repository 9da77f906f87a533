"""Link signals of an order after a message.

Pure. Values of the order that a message does not repeat remain, and so does its message group.
Other signals that are not repeated are removed.
"""

from collections.abc import Iterable
from dataclasses import replace

from bridge.intake.process.order_hierarchy import OF_PARENT, REPLACED_SIGNAL
from bridge.intake.process.order_rules import CREATING_ACTIONS, OrderState
from bridge.intake.receive.identity import signal
from bridge.store.records.order_index import IndexedOrder, SignalHash
from mappings.inbound.events import CHILD_OF, OrderAction, OrderEvent

CLOSED_BY = "closed-by"
"""The kind of signal of an order that was closed before it arrived, by a single number."""

LASTING_KINDS = frozenset({"study-uid", "accession", CHILD_OF, CLOSED_BY})
"""Signals that are values of the order: a message without them does not change them."""

MESSAGE_GROUP = "message-group"
"""Orders of one message stay linked when one of them changes alone."""

MOVED_AWAY = "moved"
"""The kind of signal of the row that remains when an order moved to another patient."""

UNORDERED = "unordered"
"""The kind of signal of an order that is known by a number only and was not ordered yet."""

HELD_LATER, OPENED_LATER = "held-later", "opened-later"
"""The kinds of signal of a cancelled order that was later held, or released."""

NON_LINKING_KINDS = frozenset(
    {CHILD_OF, REPLACED_SIGNAL, MOVED_AWAY, UNORDERED, CLOSED_BY, HELD_LATER, OPENED_LATER}
)
"""Signals that do not link orders."""


def linking_signals(signals: Iterable[SignalHash]) -> frozenset[int]:
    """Return the signals that link orders."""
    return frozenset(each.signal for each in signals if each.kind not in NON_LINKING_KINDS)


def as_moved_away(order: IndexedOrder) -> IndexedOrder:
    """Return the row that remains of an order that moved to another patient."""
    mark = SignalHash(MOVED_AWAY, signal(MOVED_AWAY, order.key.accession))
    left = OrderState.CANCELLED
    return replace(order, state=left, report_id="", signals=frozenset({mark}))


def as_ordered(order: IndexedOrder) -> IndexedOrder:
    """Return an order without the mark of one that is known by a number only."""
    rest = frozenset(each for each in order.signals if each.kind != UNORDERED)
    return replace(order, signals=rest)


def has_moved_away(order: IndexedOrder) -> bool:
    """Tell whether an order has moved to another patient."""
    return any(each.kind == MOVED_AWAY for each in order.signals)


def with_unordered_mark(
    signals: frozenset[SignalHash], event: OrderEvent, before: IndexedOrder | None
) -> frozenset[SignalHash]:
    """Return the signals after an event, with the mark if the order is known by a number only."""
    by_number = event.accession in {event.placer, event.filler}
    known = by_number if before is None else is_unordered(before)
    if known and event.action not in CREATING_ACTIONS:
        return signals | {SignalHash(UNORDERED, signal(UNORDERED, event.accession))}
    if before is None or not known:
        return signals
    return frozenset(each for each in signals if each.kind != UNORDERED)


def combined_signals(
    one: frozenset[SignalHash], other: frozenset[SignalHash]
) -> frozenset[SignalHash]:
    """Return the signals of an order that is combined from two rows."""
    marks = {each for each in one | other if each.kind in {UNORDERED, REPLACED_SIGNAL}}
    return (one | other) - (marks - (one & other))


def as_closed_by(order: IndexedOrder, number: str) -> IndexedOrder:
    """Mark an order with the number that closed it. Other orders may have the same number."""
    mark = SignalHash(CLOSED_BY, signal(CLOSED_BY, number))
    return replace(order, signals=order.signals | {mark})


def is_closed_by(order: IndexedOrder, numbers: Iterable[str]) -> bool:
    """Tell whether an order was closed by one of these numbers alone."""
    shown = {each.signal for each in order.signals if each.kind == CLOSED_BY}
    closed = order.state in {OrderState.CANCELLED, OrderState.HELD}
    return closed and not shown.isdisjoint(signal(CLOSED_BY, each) for each in numbers)


def is_unordered(order: IndexedOrder) -> bool:
    """Tell whether an order is known by a number only and was not ordered yet."""
    return any(each.kind == UNORDERED for each in order.signals)


def updated_signals(
    base: IndexedOrder, event: OrderEvent, *, closing: bool
) -> frozenset[SignalHash]:
    """Return the signals after an event; an event that only closes the order changes none."""
    silent = event.note == OF_PARENT or (closing and base.signals)
    shown = base.signals if silent else signals_after(base.signals, event)
    if event.action is not OrderAction.REPLACE:
        return shown
    return shown | {SignalHash(REPLACED_SIGNAL, signal(REPLACED_SIGNAL, base.key.accession))}


def lasting_signals(signals: frozenset[SignalHash], event: OrderEvent) -> frozenset[SignalHash]:
    """Return the signals of an event whose kinds remain if they are not repeated."""
    known = {each.kind for each in signals}
    return frozenset(
        each
        for each in signals_after(frozenset(), event)
        if each.kind == MESSAGE_GROUP or (each.kind in LASTING_KINDS and each.kind not in known)
    )


def signals_after(before: frozenset[SignalHash], event: OrderEvent) -> frozenset[SignalHash]:
    """
    Return the signals of an order after an event.

    Signals of `LASTING_KINDS` and `MESSAGE_GROUP` remain.
    """
    shown = frozenset(
        SignalHash(each.kind, signal(each.kind, each.value)) for each in event.link_signals
    )
    kinds = {each.kind for each in shown}
    kept = {
        each
        for each in before
        if each.kind == MESSAGE_GROUP or (each.kind in LASTING_KINDS and each.kind not in kinds)
    }
    return shown | kept
