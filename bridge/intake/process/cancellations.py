"""What was said after a cancellation, and before the order that it must be about has come.

Pure. Who holds or releases an order that was cancelled earlier has ordered it again: that order is
late. The last such word is kept as a mark on the cancelled order, its time as the mark's value,
and heard when the order comes. The time is of the same clock as the cancellation's; words that
cannot be compared with the cancellation are not kept.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace

from bridge.intake.process.link_signals import HELD_LATER, OPENED_LATER
from bridge.intake.process.order_rules import OPEN, ORDERING, OrderState
from bridge.store.records.message_time import MessageTime, are_comparable
from bridge.store.records.order_index import IndexedOrder, SignalHash
from mappings.inbound.events import OrderAction, OrderEvent

_KINDS = frozenset({HELD_LATER, OPENED_LATER})
_Word = tuple[str, MessageTime]


def later_word(
    before: IndexedOrder, event: OrderEvent, sent_at: MessageTime | None
) -> SignalHash | None:
    """Give what was said after an order that comes late; its value is the time, in ms."""
    if before.state != OrderState.CANCELLED or event.action not in ORDERING:
        return None
    if sent_at is None or not are_comparable(sent_at, before.turned_at):
        return None
    later = [each for each in before.signals if each.kind in _KINDS and each.signal > sent_at.at]
    return max(later, key=lambda each: each.signal, default=None)


def with_later_word(
    before: IndexedOrder, after: IndexedOrder, event: OrderEvent, sent_at: MessageTime | None
) -> IndexedOrder:
    """Mark a cancelled order with the last hold or release after its end; others bear no mark."""
    words = [*_words(before)]
    if sent_at is not None and event.action is OrderAction.HOLD:
        words.append((HELD_LATER, sent_at))
    if sent_at is not None and (event.examined or event.action is OrderAction.RELEASE):
        words.append((OPENED_LATER, sent_at))
    return _marked(after, words)


def with_words_of(after: IndexedOrder, rows: Iterable[IndexedOrder]) -> IndexedOrder:
    """Mark an order that was several rows until now in the same way."""
    return _marked(after, [word for each in rows for word in _words(each)])


def _marked(after: IndexedOrder, words: Iterable[_Word]) -> IndexedOrder:
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


def _words(row: IndexedOrder) -> Iterator[_Word]:
    """Give the holds and releases that are known of."""
    if row.turned_at is None:
        return
    for each in row.signals:
        if each.kind in _KINDS:
            yield each.kind, row.turned_at._replace(at=each.signal)
    if row.state == OrderState.HELD:
        yield HELD_LATER, row.turned_at
    if row.state in OPEN:
        yield OPENED_LATER, row.turned_at
