"""Which order and which patient a message is about, where it does not name them as we know them.

Pure. A merged patient is the survivor; an order that was ordered under one of its numbers keeps
that accession when it is given another number. Nothing is ever sought beyond one patient.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from bridge.intake.process.early_events import is_same, numbers
from bridge.intake.process.link_signals import is_closed_by, is_unordered
from bridge.intake.process.order_rules import CASCADING, ORDERING, ORDERS, OrderState
from bridge.intake.process.planning import key_of
from bridge.store.records.order_index import IndexedOrder, OrderIndexKey
from mappings.inbound.events import CHILD_OF, OrderAction, OrderEvent

Patient = tuple[str, str]


class MergedPatient(Exception):  # noqa: N818  # says what the patient is
    """A message is about an identifier that was merged, and the listener redirects none."""

    def __init__(self) -> None:
        """Say so; never which."""
        super().__init__("the patient was merged into another")


class OrderOfAnother(Exception):  # noqa: N818  # says what the order is
    """A message names a patient for an order that is known as another patient's."""

    def __init__(self) -> None:
        """Say so; never whose."""
        super().__init__("the order is known as another patient's")


PATIENT_CONFLICT = "patient_conflict"
"""The code of a message that names another patient for an order that is known."""


class TakenNumber(Exception):  # noqa: N818  # says what the number is
    """A patient is to get a number that another one has."""

    def __init__(self) -> None:
        """Say so; never which."""
        super().__init__("the new identifier is another patient's")


CONCERNED = ORDERS | {OrderAction.PATIENT_UPDATE, OrderAction.VISIT_MOVE}
"""Actions on one patient; a merge names its patients itself."""


def surviving(event: OrderEvent, survivors: Mapping[Patient, str]) -> OrderEvent:
    """
    Give an event to the survivor of its patient; an order remembers whose it was said to be.

    A merge into somebody who was merged on says no more of the survivor than who joins her.
    """
    if event.action is OrderAction.VISIT_MOVE:
        prior = survivors.get((event.site, event.prior_mrn), event.prior_mrn)
        event = replace(event, prior_mrn=prior)
    mrn = survivors.get((event.site, event.mrn))
    if mrn is not None and event.action is OrderAction.PATIENT_MERGE and mrn != event.prior_mrn:
        return replace(event, mrn=mrn, clinical_info={"PatientMRN": mrn})
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


def orders_of_others(
    event: OrderEvent, index: Mapping[OrderIndexKey, IndexedOrder], others: Iterable[IndexedOrder]
) -> list[IndexedOrder]:
    """
    Give the open orders of other patients that an event names, by accession and number.

    None where the patient has an order under that accession, too: then that one is meant.
    """
    own = index.get(key_of(event))
    if event.action not in ORDERS or (own is not None and not is_unordered(own)):
        return []
    return [
        each
        for each in others
        if (each.key.site, each.key.accession) == (event.site, event.accession)
        and each.key.mrn not in {event.mrn, event.prior_mrn}
        and each.state != OrderState.CANCELLED
        and not is_unordered(each)
        and numbers(event).agree(each)
    ]


def numbers_of(event: OrderEvent) -> set[str]:
    """Give the numbers by which an event may be about an order that we know otherwise."""
    if event.action not in ORDERS:
        return set()
    parents = {each.value for each in event.link_signals if each.kind == CHILD_OF}
    own = {event.placer, event.filler} - {""}
    return parents | own


def is_known(event: OrderEvent, index: Mapping[OrderIndexKey, IndexedOrder]) -> bool:
    """Tell whether the order that an event names is one that we know, by all that it says."""
    known = index.get(key_of(event))
    if known is None or is_unordered(known) or event.prior_mrn:
        return False
    return event.placer in {"", known.placer} and event.filler in {"", known.filler}


def resolved(
    event: OrderEvent, index: Mapping[OrderIndexKey, IndexedOrder], numbered: Iterable[IndexedOrder]
) -> tuple[OrderEvent, bool]:
    """
    Give an event the accession that its order is known under; and whether that is doubtful.

    Only where its own accession is nothing but one of its numbers, and is not known itself.
    Several orders under one number are nobody's guess: the event stays as it is.
    """
    is_number = event.accession in {event.placer, event.filler}
    named = index.get(key_of(event))
    ordered = named is not None and not is_unordered(named)
    if event.action not in ORDERS or not is_number or ordered:
        return event, False
    akin = [each for each in numbered if is_same(event, each)]
    found = [each for each in akin if not is_unordered(each)]
    if not found and named is None and event.action not in ORDERING:
        found = akin[:1]  # whatever else is akin becomes one with it
    if len(found) != 1:
        return event, len(found) > 1 and event.action in CASCADING | {OrderAction.REPLACE}
    accession = found[0].key.accession
    info = {**event.clinical_info, "Accession": accession}
    return replace(event, accession=accession, clinical_info=info), False


def shares_end(event: OrderEvent, numbered: Iterable[IndexedOrder]) -> bool:
    """Tell whether what closed another order by a number may have been about an event's order."""
    if event.action not in ORDERING:
        return False
    own = {event.placer, event.filler} - {""}
    return any(
        each.key[:2] == (event.site, event.mrn)
        and not is_same(event, each)
        and is_closed_by(each, own)
        for each in numbered
    )


def has_other_accession(
    event: OrderEvent, index: Mapping[OrderIndexKey, IndexedOrder], numbered: Iterable[IndexedOrder]
) -> bool:
    """
    Tell whether an event names an open order, by its numbers, under another accession.

    Both orders stay: it may be a correction, or a second examination under the same numbers.
    """
    if event.action in ORDERING or event.accession in {event.placer, event.filler}:
        return False
    still = [each for each in numbered if each.state != OrderState.CANCELLED]
    own = [each for each in still if not is_unordered(each)]
    if key_of(event) in index or any(each.key == key_of(event) for each in own):
        return False
    return any(is_same(event, each) for each in own)
