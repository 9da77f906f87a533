"""Holds and releases between a cancellation and an order that arrives late.

Pure. A hold or release after a cancellation shows that the order was placed again; that order
message has not arrived yet. The last such event is stored as a signal of the cancelled order,
with its time as the value. It is applied when the order arrives. Only times of the
cancellation's clock are stored.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace

from bridge.intake.process.link_signals import HELD_LATER, OPENED_LATER
from bridge.intake.process.order_rules import CREATING_ACTIONS, OPEN_STATES, OrderState
from bridge.store.records.message_time import MessageTime, are_comparable
from bridge.store.records.order_index import IndexedOrder, SignalHash
from mappings.inbound.events import OrderAction, OrderEvent

_KINDS = frozenset({HELD_LATER, OPENED_LATER})
_TimedEvent = tuple[str, MessageTime]


def later_event(
    before: IndexedOrder, event: OrderEvent, sent_at: MessageTime | None
) -> SignalHash | None:
    """Return the hold or release that was sent after a late order; its value is the time in ms."""
    if before.state != OrderState.CANCELLED or event.action not in CREATING_ACTIONS:
        return None
    if sent_at is None or not are_comparable(sent_at, before.turned_at):
        return None
    later = [each for each in before.signals if each.kind in _KINDS and each.signal > sent_at.at]
    return max(later, key=lambda each: each.signal, default=None)


def with_later_event(
    before: IndexedOrder, after: IndexedOrder, event: OrderEvent, sent_at: MessageTime | None
) -> IndexedOrder:
    """Add the last hold or release after its cancellation to a cancelled order."""
    words = [*_timed_events(before)]
    if sent_at is not None and event.action is OrderAction.HOLD:
        words.append((HELD_LATER, sent_at))
    if sent_at is not None and (event.examined or event.action is OrderAction.RELEASE):
        words.append((OPENED_LATER, sent_at))
    return _with_latest(after, words)


def with_later_events_of(after: IndexedOrder, rows: Iterable[IndexedOrder]) -> IndexedOrder:
    """Add the last hold or release to a cancelled order that is combined from several rows."""
    return _with_latest(after, [word for each in rows for word in _timed_events(each)])


def _with_latest(after: IndexedOrder, words: Iterable[_TimedEvent]) -> IndexedOrder:
    signals = frozenset(each for each in after.signals if each.kind not in _KINDS)
    turned_at = after.turned_at
    if after.state == OrderState.CANCELLED and turned_at is not None:
        later = [
            SignalHash(kind, time.at)
            for kind, time in words
            if are_comparable(time, turned_at) and time.at > turned_at.at
        ]
        signals |= {max(later, key=lambda each: each.signal)} if later else set()
    return after if signals == after.signals else replace(after, signals=signals)


def _timed_events(row: IndexedOrder) -> Iterator[_TimedEvent]:
    """Return the known holds and releases of a row."""
    if row.turned_at is None:
        return
    for each in row.signals:
        if each.kind in _KINDS:
            yield each.kind, row.turned_at._replace(at=each.signal)
    if row.state == OrderState.HELD:
        yield HELD_LATER, row.turned_at
    if row.state in OPEN_STATES:
        yield OPENED_LATER, row.turned_at
