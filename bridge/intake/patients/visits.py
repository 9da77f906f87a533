"""Which orders an event about a visit changes, and how they stand afterwards.

Pure. An order belongs to a visit by the number in its Metadata. A visit that moves to another
patient takes its orders along; whether their reports can follow, the report service knows.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

from bridge.intake.patients.demographics import anothers, said_in
from bridge.intake.patients.duplicate_orders import met
from bridge.intake.process.link_signals import has_moved_away
from bridge.intake.process.order_rules import OrderState
from bridge.store.records.order_index import IndexedOrder
from mappings.inbound.events import OrderAction, OrderEvent, PatientVisit
from mappings.inbound.procedures import replace_identifiers, replace_number

METADATA = "Metadata"
NUMBERS: Mapping[str, int] = MappingProxyType({"PV1": 19, "PID": 18})
"""Where the segments that an order came with name its visit or account."""


@dataclass(frozen=True, slots=True)
class Revisit:
    """One order, before and after; `told` are the tags that the report service is told."""

    before: IndexedOrder
    after: IndexedOrder
    told: dict[str, Any]

    @property
    def moves(self) -> bool:
        """Whether it is another patient's then."""
        return self.before.key != self.after.key


def revisits(event: OrderEvent, orders: Iterable[IndexedOrder]) -> list[Revisit]:
    """Give the orders that are changed by what an event says of a visit."""
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
        and (moves or each.state != OrderState.CANCELLED)  # that it is, goes along
        and _metadata(each).get(visit.key) == number
    ]
    changed = (_revisit(each, event, visit) for each in found)
    met_there = (_met(each, known) if each.moves else each for each in changed)
    return [each for each in met_there if each.before != each.after]


def _met(each: Revisit, known: Iterable[IndexedOrder]) -> Revisit:
    """Let an order that moves be one with what the other patient has under its accession."""
    after = met(each.after, known)
    return replace(each, after=after, told=dict(after.tags))


def _revisit(order: IndexedOrder, event: OrderEvent, visit: PatientVisit) -> Revisit:
    said = {**visit.values, visit.key: visit.number} if visit.number else dict(visit.values)
    news = {key: value for key, value in said.items() if _metadata(order).get(key) != value}
    tags = {**order.tags, METADATA: {**_metadata(order), **news}} if news else dict(order.tags)
    key = order.key._replace(mrn=event.mrn)
    told: dict[str, Any] = {METADATA: news}
    if key != order.key:
        tags = {**anothers(tags, said_in(event)), "PatientMRN": event.mrn}
        told = dict(tags)
    echo = replace_number(order.echo, NUMBERS, visit.prior, visit.number)
    echo = replace_identifiers(echo, event.echo) if key != order.key else echo
    return Revisit(order, replace(order, key=key, tags=tags, echo=echo), told)


def _metadata(order: IndexedOrder) -> dict[str, Any]:
    return dict(order.tags.get(METADATA) or {})
