"""
Two rows of one order made one: spoken of under two identifiers, or under a number and an accession.

Pure. The later word stands, of what is to be done and of whether it is, by the senders' times.
"""

from dataclasses import replace

from bridge.intake.afterwords import with_words_of
from bridge.intake.order_rules import OPEN, OrderState
from bridge.intake.saying import said
from bridge.intake.signals import both, is_unordered
from bridge.store.message_time import MessageTime, is_earlier, newest
from bridge.store.order_index import IndexedOrder


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
