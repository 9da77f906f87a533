"""Visit changes: the orders that an event about a visit changes.

Pure. An order belongs to a visit by the number in its Metadata. When a visit moves to another
patient, its orders move too, unless the report engine refuses.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

from bridge.intake.patients.demographics import demographics_of, with_new_patient
from bridge.intake.patients.duplicate_orders import combined_with_existing
from bridge.intake.process.link_signals import has_moved_away
from bridge.intake.process.order_rules import OrderState
from bridge.store.records.order_index import IndexedOrder
from mappings.inbound.events import OrderAction, OrderEvent, PatientVisit
from mappings.inbound.procedures import replace_identifiers, replace_number

METADATA = "Metadata"
VISIT_NUMBER_FIELDS: Mapping[str, int] = MappingProxyType({"PV1": 19, "PID": 18})
"""Fields of an order's segments that contain the visit or account number."""


@dataclass(frozen=True, slots=True)
class VisitChange:
    """One order before and after; `updates` are the tags for the report engine."""

    before: IndexedOrder
    after: IndexedOrder
    updates: dict[str, Any]

    @property
    def moves(self) -> bool:
        """Whether the order moves to another patient."""
        return self.before.key != self.after.key


def visit_changes(event: OrderEvent, orders: Iterable[IndexedOrder]) -> list[VisitChange]:
    """Return the orders that an event about a visit changes."""
    visit = event.visit
    if visit is None:
        return []
    known = list(orders)
    moves = event.action is OrderAction.VISIT_MOVE
    owner = event.prior_mrn or event.mrn if moves else event.mrn
    number = visit.prior or visit.number if moves else visit.number
    found = [
        each
        for each in known
        if number
        and (each.key.site, each.key.mrn) == (event.site, owner)
        and not has_moved_away(each)
        and (moves or each.state != OrderState.CANCELLED)  # a cancelled order moves too
        and _metadata(each).get(visit.key) == number
    ]
    changed = (_visit_change(each, event, visit) for each in found)
    combined_changes = (_with_existing(each, known) if each.moves else each for each in changed)
    return [each for each in combined_changes if each.before != each.after]


def _with_existing(each: VisitChange, known: Iterable[IndexedOrder]) -> VisitChange:
    """Combine a moved order with the other patient's order under its accession."""
    after = combined_with_existing(each.after, known)
    return replace(each, after=after, updates=dict(after.tags))


def _visit_change(order: IndexedOrder, event: OrderEvent, visit: PatientVisit) -> VisitChange:
    values = {**visit.values, visit.key: visit.number} if visit.number else dict(visit.values)
    changed_values = {
        key: value for key, value in values.items() if _metadata(order).get(key) != value
    }
    tags = (
        {**order.tags, METADATA: {**_metadata(order), **changed_values}}
        if changed_values
        else dict(order.tags)
    )
    key = order.key._replace(mrn=event.mrn)
    updates: dict[str, Any] = {METADATA: changed_values}
    if key != order.key:
        tags = {**with_new_patient(tags, demographics_of(event)), "PatientMRN": event.mrn}
        updates = dict(tags)
    echo = replace_number(order.echo, VISIT_NUMBER_FIELDS, visit.prior, visit.number)
    echo = replace_identifiers(echo, event.echo) if key != order.key else echo
    return VisitChange(order, replace(order, key=key, tags=tags, echo=echo), updates)


def _metadata(order: IndexedOrder) -> dict[str, Any]:
    return dict(order.tags.get(METADATA) or {})
