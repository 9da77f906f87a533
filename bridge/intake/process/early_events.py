"""What was said of an order by its numbers alone, before the order came under its own accession.

Pure. A cancellation, a hold or the assignment of a number often has no OBR: it names no accession
but a number. What it said is said of the order, once that is known by the number: the rows are one.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import reduce

from bridge.intake.patients.demographics import anothers, said_in
from bridge.intake.patients.duplicate_orders import as_one
from bridge.intake.process.link_signals import (
    as_closed_by,
    as_ordered,
    has_moved_away,
    is_unordered,
)
from bridge.store.records.order_index import IndexedOrder, OrderIndexKey
from mappings.inbound.events import OrderEvent
from mappings.inbound.procedures import replace_identifiers


@dataclass(frozen=True, slots=True)
class Numbers:
    """By what an order may be known: its placer's and its filler's number; '' is unsaid."""

    placer: str
    filler: str

    def agree(self, other: "Numbers | IndexedOrder | OrderEvent") -> bool:
        """Compare the numbers that both have: all must be equal, and there must be one."""
        pairs = ((self.placer, other.placer), (self.filler, other.filler))
        both = [(each, same) for each, same in pairs if each and same]
        return bool(both) and all(each == same for each, same in both)


def numbers(event: OrderEvent | IndexedOrder, own: IndexedOrder | None = None) -> Numbers:
    """Give the numbers of an order after an event about it."""
    placer, filler = (own.placer, own.filler) if own else ("", "")
    return Numbers(event.placer or placer, event.filler or filler)


def is_same(event: OrderEvent, order: IndexedOrder) -> bool:
    """Tell whether an event may be about an order, by the numbers that both have."""
    same_patient = (event.site, event.mrn) == (order.key.site, order.key.mrn)
    return same_patient and numbers(event).agree(order)


def forerunners_of(
    key: OrderIndexKey, known: Numbers, orders: Sequence[IndexedOrder], prior_mrn: str = ""
) -> list[IndexedOrder]:
    """
    Give what was said of an order under a number, or where its visit was before it moved.

    Where another order has that number too, nobody knows whose it was: it is left out.
    """
    patients = {(key.site, key.mrn), (key.site, prior_mrn)}
    others = [each for each in orders if each.key[:2] in patients and each.key != key]
    ordered = [each for each in others if not is_unordered(each) and not has_moved_away(each)]
    before = [each for each in ordered if each.key == key._replace(mrn=prior_mrn)]
    by_number = [
        each
        for each in others
        if is_unordered(each)
        and known.agree(each)
        and not any(numbers(each).agree(one) for one in ordered if one not in before)
    ]
    return by_number + before


def heard_of(
    event: OrderEvent, own: IndexedOrder | None, said: Sequence[IndexedOrder]
) -> IndexedOrder | None:
    """Give how an event's order stands by all that was said of it; None: nothing was."""
    known = numbers(event, own)
    rows = [own] if own else []
    for each in said:
        key = OrderIndexKey(event.site, event.mrn, event.accession)
        row = each if each.key.mrn == key.mrn else _hers(each, event)
        if is_unordered(each) and bool(each.placer) != bool(each.filler):
            row = as_closed_by(row, each.placer or each.filler)
        row = replace(row, placer=known.placer or row.placer, filler=known.filler or row.filler)
        by_number = key.accession in {row.placer, row.filler}
        rows.append(replace(row if by_number else as_ordered(row), key=key))
    return reduce(as_one, rows) if rows else None


def _hers(order: IndexedOrder, event: OrderEvent) -> IndexedOrder:
    """Give an order of whose its visit was: who the patient is, the event says."""
    tags = anothers(order.tags, said_in(event))
    return replace(order, tags=tags, echo=replace_identifiers(order.echo, event.echo), report_id="")


@dataclass(frozen=True, slots=True)
class Tie:
    """An order, what was said of it by a number, and how it stands by both."""

    own: IndexedOrder
    said: Sequence[IndexedOrder]
    after: IndexedOrder


def ties(site: str, mrn: str, orders: Iterable[IndexedOrder]) -> list[Tie]:
    """Find what is one of a patient's orders, after some have come from another."""
    own = [each for each in orders if each.key[:2] == (site, mrn) and not has_moved_away(each)]
    if not any(map(is_unordered, own)):
        return []
    found = []
    for each in own:
        said = [] if is_unordered(each) else forerunners_of(each.key, numbers(each), own)
        if said:
            rows = [replace(one, key=each.key) for one in said]
            found.append(Tie(each, said, reduce(as_one, rows, each)))
    return found
