"""
Which link signals an order has after a message about it, by those that the message shows.

Pure. A value of the order that a message does not repeat stays, and so does a group that it was
sent in; any other signal that is gone is gone.
"""

from bridge.intake.family import OF_PARENT
from bridge.intake.identity import signal
from bridge.store.order_index import IndexedOrder, Signal
from mappings.events import CHILD_OF, OrderEvent

KEPT = frozenset({"study-uid", "accession", CHILD_OF})
"""Signals that are values of the order: a message that is silent about them changes nothing."""

JOINED = "message-group"
"""Orders that once came in one message stay together when one of them changes alone."""


def signals_of(base: IndexedOrder, event: OrderEvent, *, closing: bool) -> frozenset[Signal]:
    """Keep the signals of an order where a message says no more than that it is closed."""
    silent = event.note == OF_PARENT or (closing and base.signals)
    return base.signals if silent else signals_after(base.signals, event)


def lasting(signals: frozenset[Signal], event: OrderEvent) -> frozenset[Signal]:
    """Give the signals that an event shows, of the kinds that silence does not end."""
    known = {each.kind for each in signals}
    return frozenset(
        each
        for each in signals_after(frozenset(), event)
        if each.kind == JOINED or (each.kind in KEPT and each.kind not in known)
    )


def signals_after(before: frozenset[Signal], event: OrderEvent) -> frozenset[Signal]:
    """
    Give the signals of an order after an event about it.

    Those of `KEPT` kinds stay, and `JOINED`.
    """
    shown = frozenset(
        Signal(each.kind, signal(each.kind, each.value)) for each in event.link_signals
    )
    kinds = {each.kind for each in shown}
    kept = {
        each
        for each in before
        if each.kind == JOINED or (each.kind in KEPT and each.kind not in kinds)
    }
    return shown | kept
