"""
Which order and which patient a message is about, where it does not name them as we know them.

Pure. A merged patient is the survivor; an order that was ordered under one of its numbers keeps
that accession when it is given another number. Nothing is ever sought beyond one patient.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from bridge.intake.order_rules import CASCADING, OrderState
from bridge.intake.planning import ORDERS, key_of
from bridge.store.order_index import IndexedOrder, Key
from mappings.events import CHILD_OF, Action, OrderEvent

Patient = tuple[str, str]


class MergedPatient(Exception):  # noqa: N818  # says what the patient is
    """A message is about an identifier that was merged, and the listener redirects none."""

    def __init__(self) -> None:
        """Say so; never which."""
        super().__init__("the patient was merged into another")


CONCERNED = ORDERS | {Action.PATIENT_UPDATE, Action.VISIT_MOVE}
"""Actions on one patient; a merge names its patients itself."""


def surviving(event: OrderEvent, survivors: Mapping[Patient, str]) -> OrderEvent:
    """Give an event to the survivor of its patient; an order remembers whose it was said to be."""
    mrn = survivors.get((event.site, event.mrn))
    if mrn is None or event.action not in CONCERNED:
        return event
    info = {**event.clinical_info, "PatientMRN": mrn}
    prior = event.mrn if event.action in ORDERS else event.prior_mrn
    return replace(event, mrn=mrn, prior_mrn=prior, clinical_info=info)


def led_to(events: Iterable[OrderEvent], survivors: Mapping[Patient, str]) -> set[Patient]:
    """Give who survives of those that the events, merges apart, name by a merged identifier."""
    return {
        (event.site, survivors[event.site, event.mrn])
        for event in events
        if (event.site, event.mrn) in survivors and event.action in CONCERNED
    }


def is_about_merged(events: Iterable[OrderEvent], survivors: Mapping[Patient, str]) -> bool:
    """Tell whether one of the events, merges apart, is about an identifier that was merged."""
    return bool(led_to(events, survivors))


def numbers_of(event: OrderEvent) -> set[str]:
    """Give the numbers by which an event may be about an order that we know otherwise."""
    if event.action not in ORDERS:
        return set()
    parents = {each.value for each in event.link_signals if each.kind == CHILD_OF}
    own = {event.placer, event.filler} - {""}
    return parents | own if event.accession in own or event.action is Action.CHANGE else parents


def resolved(
    event: OrderEvent, index: Mapping[Key, IndexedOrder], numbered: Iterable[IndexedOrder]
) -> tuple[OrderEvent, bool]:
    """
    Give an event the accession that its order is known under; and whether that is doubtful.

    Only where its own accession is nothing but one of its numbers, and is not known itself.
    Several orders under one number are nobody's guess: the event stays as it is.
    """
    is_number = event.accession in {event.placer, event.filler}
    if event.action not in ORDERS or not is_number or key_of(event) in index:
        return event, False
    found = [each for each in numbered if _is_same(event, each)]
    if len(found) != 1:
        return event, len(found) > 1 and event.action in CASCADING | {Action.REPLACE}
    accession = found[0].key.accession
    info = {**event.clinical_info, "Accession": accession}
    return replace(event, accession=accession, clinical_info=info), False


def has_other_accession(
    event: OrderEvent, index: Mapping[Key, IndexedOrder], numbered: Iterable[IndexedOrder]
) -> bool:
    """Tell whether a change gives an order that stands, by its numbers, another accession."""
    if event.action is not Action.CHANGE or event.accession in {event.placer, event.filler}:
        return False
    own = (each for each in numbered if each.state == OrderState.ORDERED)
    return key_of(event) not in index and any(_is_same(event, each) for each in own)


def _is_same(event: OrderEvent, order: IndexedOrder) -> bool:
    """Compare the numbers that both have: all must be equal, and there must be one."""
    if (event.site, event.mrn) != (order.key.site, order.key.mrn):
        return False
    pairs: Sequence[tuple[str, str]] = ((event.placer, order.placer), (event.filler, order.filler))
    both = [(one, other) for one, other in pairs if one and other]
    return bool(both) and all(one == other for one, other in both)
