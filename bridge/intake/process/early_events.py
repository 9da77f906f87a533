"""Early events: events that name an order by a number before the order arrives under its accession.

Pure. A cancellation, a hold or an assignment of a number often has no OBR, and therefore a
number but no accession. Such an event is stored as a row of its own. When the order with that
number arrives, both rows become one.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import reduce

from bridge.intake.patients.demographics import demographics_of, with_new_patient
from bridge.intake.patients.duplicate_orders import combined
from bridge.intake.process.order_values import (
    as_closed_by,
    as_ordered,
    has_moved_away,
    is_unordered,
)
from bridge.store.records.order_index import IndexedOrder, OrderIndexKey
from mappings.inbound.events import OrderEvent
from mappings.inbound.procedures import replace_identifiers


@dataclass(frozen=True, slots=True)
class OrderNumbers:
    """Placer and filler number of an order; '' if unknown."""

    placer: str
    filler: str

    def match(self, other: "OrderNumbers | IndexedOrder | OrderEvent") -> bool:
        """Compare the numbers that both have: all must be equal, and at least one must exist."""
        pairs = ((self.placer, other.placer), (self.filler, other.filler))
        both = [(each, same) for each, same in pairs if each and same]
        return bool(both) and all(each == same for each, same in both)


def order_numbers(
    event: OrderEvent | IndexedOrder, own: IndexedOrder | None = None
) -> OrderNumbers:
    """Return the numbers of an order after an event."""
    placer, filler = (own.placer, own.filler) if own else ("", "")
    return OrderNumbers(event.placer or placer, event.filler or filler)


def may_be_same_order(event: OrderEvent, order: IndexedOrder) -> bool:
    """Tell whether an event may be about an order, by their numbers."""
    same_patient = (event.site, event.mrn) == (order.key.site, order.key.mrn)
    return same_patient and order_numbers(event).match(order)


def early_rows(
    key: OrderIndexKey, known: OrderNumbers, orders: Sequence[IndexedOrder], prior_mrn: str = ""
) -> list[IndexedOrder]:
    """
    Return the rows about an order that are known by a number, or by the patient before a visit
    moved.

    A row is left out if another order has its number too.
    """
    patients = {(key.site, key.mrn), (key.site, prior_mrn)}
    others = [each for each in orders if each.key[:2] in patients and each.key != key]
    ordered = [each for each in others if not is_unordered(each) and not has_moved_away(each)]
    before = [each for each in ordered if each.key == key._replace(mrn=prior_mrn)]
    by_number = [
        each
        for each in others
        if is_unordered(each)
        and known.match(each)
        and not any(order_numbers(each).match(one) for one in ordered if one not in before)
    ]
    return by_number + before


def with_early_rows(
    event: OrderEvent, own: IndexedOrder | None, early: Sequence[IndexedOrder]
) -> IndexedOrder | None:
    """Combine an event's order with its early rows; None if there are no rows."""
    known = order_numbers(event, own)
    rows = [own] if own else []
    for each in early:
        key = OrderIndexKey(event.site, event.mrn, event.accession)
        row = each if each.key.mrn == key.mrn else _with_new_patient(each, event)
        if is_unordered(each) and bool(each.placer) != bool(each.filler):
            row = as_closed_by(row, each.placer or each.filler)
        row = replace(row, placer=known.placer or row.placer, filler=known.filler or row.filler)
        by_number = key.accession in {row.placer, row.filler}
        rows.append(replace(row if by_number else as_ordered(row), key=key))
    return reduce(combined, rows) if rows else None


def _with_new_patient(order: IndexedOrder, event: OrderEvent) -> IndexedOrder:
    """Move a row to the patient of the event."""
    tags = with_new_patient(order.tags, demographics_of(event))
    return replace(order, tags=tags, echo=replace_identifiers(order.echo, event.echo), report_id="")


@dataclass(frozen=True, slots=True)
class EarlyRowMatch:
    """An order, its early rows, and the order that they become."""

    own: IndexedOrder
    early: Sequence[IndexedOrder]
    after: IndexedOrder


def match_early_rows(site: str, mrn: str, orders: Iterable[IndexedOrder]) -> list[EarlyRowMatch]:
    """Find a patient's orders that have early rows, after orders moved to the patient."""
    own = [each for each in orders if each.key[:2] == (site, mrn) and not has_moved_away(each)]
    if not any(map(is_unordered, own)):
        return []
    found = []
    for each in own:
        early = [] if is_unordered(each) else early_rows(each.key, order_numbers(each), own)
        if early:
            rows = [replace(one, key=each.key) for one in early]
            found.append(EarlyRowMatch(each, early, reduce(combined, rows, each)))
    return found
