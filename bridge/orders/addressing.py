"""
Addressing: which known order and patient a message is about.

A merged patient is replaced by the survivor. An order keeps the accession under which it was
ordered when it gets another number. Orders are searched within one patient only.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from bridge.contract import OrderKey
from bridge.orders.duplicates import may_be_same_order, order_numbers
from bridge.orders.hierarchy import numbers_of, parent_numbers
from bridge.orders.order import Order, OrderState, Patient, key_of
from bridge.orders.plans import SEVERAL_ORDERS
from bridge.orders.rules import (
    ADDRESSED_ACTIONS,
    AFFECTED_STATES,
    CLOSING_ACTIONS,
    CREATING_ACTIONS,
)
from bridge.orders.values import is_closed_by
from mappings.inbound.events import OrderAction, OrderEvent
from mappings.inbound.procedures import detail_texts, detail_values, step_accessions


class PatientMergedError(Exception):
    """A message names a merged identifier, and the listener does not redirect."""

    def __init__(self) -> None:
        super().__init__("the patient was merged into another")


class OrderOfOtherPatientError(Exception):
    """A message names an order of another patient."""

    def __init__(self) -> None:
        super().__init__("the order is known as another patient's")


class MergeContradictedError(Exception):
    """A message with a merged number names another person than the survivor."""

    def __init__(self) -> None:
        super().__init__("the patient was merged into another person")


class SeveralPatientsError(Exception):
    """PID-3 of a message has the numbers of several patients."""

    def __init__(self) -> None:
        super().__init__("the identifiers of one person belong to several patients")


SEVERAL_PATIENTS = "several_patients"
"""The code of a message whose PID-3 has the numbers of several patients."""


class OrderOfOtherPersonError(Exception):
    """A message names another person than the order that it is about."""

    def __init__(self) -> None:
        super().__init__("the order is known with the name of another person")


MERGE_CONTRADICTED = "merge_contradicted"
"""The code of a message with a merged number that is about another person than the survivor."""

NUMBER_REUSED = "number_reused"
"""The code of a correction of a freed number that names another person than its orders."""

PATIENT_CONFLICT = "patient_conflict"
"""The code of a message that names another patient for a known order."""


class NumberReusedError(Exception):
    """A correction of a number that an undone merge freed names another person than its orders."""

    def __init__(self) -> None:
        super().__init__("the number has orders of another person")


class IdentifierTakenError(Exception):
    """The new identifier of a patient belongs to another patient."""

    def __init__(self) -> None:
        super().__init__("the new identifier is another patient's")


SINGLE_ORDER_ACTIONS = AFFECTED_STATES.keys()
"""Actions that need one order: with the number of several, they have no effect."""

SINGLE_PATIENT_ACTIONS = ADDRESSED_ACTIONS | {OrderAction.PATIENT_UPDATE, OrderAction.VISIT_MOVE}
"""Actions on one patient. A merge names both of its patients itself."""


def redirected_to_survivor(event: OrderEvent, survivors: Mapping[Patient, str]) -> OrderEvent:
    """
    Redirect an event to the survivor of its patient; an order keeps the former MRN as
    `prior_mrn`.

    A merge into a patient who was merged further has no demographics of the final survivor.
    """
    if event.action is OrderAction.VISIT_MOVE:
        prior = survivors.get((event.site, event.prior_mrn), event.prior_mrn)
        event = replace(event, prior_mrn=prior)
    mrn = survivors.get((event.site, event.mrn))
    if mrn is not None and event.action is OrderAction.PATIENT_MERGE and mrn != event.prior_mrn:
        return replace(
            event,
            mrn=mrn,
            clinical_info={"PatientMRN": mrn},
            merged_into=event.mrn,
            merged_into_info=event.clinical_info,
        )
    if mrn is None or event.action not in SINGLE_PATIENT_ACTIONS:
        return event
    info = {**event.clinical_info, "PatientMRN": mrn}
    prior = event.mrn if event.action in ADDRESSED_ACTIONS else event.prior_mrn
    return replace(event, mrn=mrn, prior_mrn=prior, clinical_info=info)


def patients_in_identifiers(event: OrderEvent, survivors: Mapping[Patient, str]) -> set[Patient]:
    """
    Return the patients whose numbers an event has in PID-3: one, unless its sender repeats it.

    A merge is left out: it lists the numbers that it joins.
    """
    if not event.other_mrns or event.action not in SINGLE_PATIENT_ACTIONS:
        return set()
    numbers = {(event.site, mrn) for mrn in (event.mrn, *event.other_mrns)}
    found = {(site, survivors.get((site, mrn), mrn)) for site, mrn in numbers}
    return found if len(found) > 1 else set()


def with_number(event: OrderEvent, mrn: str) -> OrderEvent:
    """Return an event with another number of its patient."""
    return replace(event, mrn=mrn, clinical_info={**event.clinical_info, "PatientMRN": mrn})


def survivors_named(events: Iterable[OrderEvent], survivors: Mapping[Patient, str]) -> set[Patient]:
    """Return the survivors of merged identifiers that the events name, merges excepted."""
    return {
        (event.site, survivors[event.site, event.mrn])
        for event in events
        if (event.site, event.mrn) in survivors and event.action in SINGLE_PATIENT_ACTIONS
    }


def names_merged_patient(events: Iterable[OrderEvent], survivors: Mapping[Patient, str]) -> bool:
    """True if an event, merges excepted, names a merged identifier."""
    return bool(survivors_named(events, survivors))


def numbers_by_order(events: Iterable[OrderEvent]) -> dict[OrderKey, set[str]]:
    """Return the placer and filler numbers of the orders of events, for `orders_of_others`."""
    found: dict[OrderKey, set[str]] = {}
    for event in events:
        found.setdefault(key_of(event), set()).update(numbers_of(event))
    return found


def orders_of_others(
    event: OrderEvent, index: Mapping[OrderKey, Order], others: Iterable[Order]
) -> list[Order]:
    """
    Return the open orders of other patients that an event names by accession and number.

    Returns none if the patient has an order under that accession too: the event is about that
    one.
    """
    own = index.get(key_of(event))
    if event.action not in ADDRESSED_ACTIONS or (own is not None and not own.number_only):
        return []
    if not event.mrn:  # an outside report without a number of its patient
        return []
    return [
        order
        for order in others
        if (order.key.site, order.key.accession) == (event.site, event.accession)
        and order.key.mrn not in {event.mrn, event.prior_mrn}
        and order.state != OrderState.CANCELLED
        and not order.number_only
        and order_numbers(event).match(order)
    ]


def numbers_to_look_up(event: OrderEvent) -> set[str]:
    if event.action not in ADDRESSED_ACTIONS:
        return set()
    return parent_numbers(event) | numbers_of(event)


def is_known(event: OrderEvent, index: Mapping[OrderKey, Order]) -> bool:
    known = index.get(key_of(event))
    if known is None or known.number_only or event.prior_mrn:
        return False
    return event.placer in {"", known.placer} and event.filler in {"", known.filler}


def with_known_accession(
    event: OrderEvent, index: Mapping[OrderKey, Order], numbered: Iterable[Order]
) -> tuple[OrderEvent, bool]:
    """
    Give an event the accession of its known order; return it, and whether the order is ambiguous.

    Applies if the event's accession is only one of its numbers and is not known. If several orders
    have the number, the event is about the one that its OBR names, else about the one that is left
    in a state that it changes. If there are still several, it does not change.
    """
    named = index.get(key_of(event))
    ordered = named is not None and not named.number_only
    if event.action not in ADDRESSED_ACTIONS or ordered:
        return event, False
    same = [order for order in numbered if may_be_same_order(event, order)]
    if event.accession not in {event.placer, event.filler}:
        same = [order for order in same if _has_detail_number(order, event)]
        if not same:
            return event, False
    found: Sequence[Order] = [order for order in same if not order.number_only]
    if len(found) > 1 and event.action in SINGLE_ORDER_ACTIONS:
        found = _affected(event, found)
    if not found and named is None and event.action not in CREATING_ACTIONS:
        found = same[:1]  # the other rows are combined with this one later
    if len(found) != 1:
        several = len(found) > 1 and event.action in SINGLE_ORDER_ACTIONS
        if not several or event.action in CLOSING_ACTIONS:
            return event, several
        if event.action is OrderAction.CHANGE and any(detail_values(event.echo)):
            return event, False  # a further procedure
        return replace(event, note=SEVERAL_ORDERS), True
    accession = found[0].key.accession
    info = {**event.clinical_info, "Accession": accession}
    return replace(event, accession=accession, clinical_info=info), False


def _has_detail_number(order: Order, event: OrderEvent) -> bool:
    """True if the accession of an event is a number of the OBR or IPC of a known order."""
    if event.action not in SINGLE_ORDER_ACTIONS or order.number_only:
        return False
    numbers = (*detail_values(order.echo)[:2], step_accessions(order.echo))
    return any(event.accession in own for own in numbers)


def _affected(event: OrderEvent, orders: Sequence[Order]) -> Sequence[Order]:
    """Return the orders among several with the same number that an event is about."""
    named = orders
    sent = detail_values(event.echo)
    known = [(order, detail_values(order.echo)) for order in orders]
    for kind, values in enumerate(sent):
        named = [order for order, own in known if order in named and values & own[kind]] or named
    if len(named) == 1 or (sent[-1] and not any(sent[-1] & own[-1] for _, own in known)):
        return named  # its OBR names one of them, or another procedure
    texts = detail_texts(event.echo)
    if texts and not sent[-1]:
        named = [order for order in named if texts & detail_texts(order.echo)] or named
    return [order for order in named if order.state in AFFECTED_STATES[event.action]] or named


def may_share_closing(event: OrderEvent, numbered: Iterable[Order]) -> bool:
    """True if the closing of another row may have been meant for the order of an event."""
    if event.action not in CREATING_ACTIONS:
        return False
    own = numbers_of(event)
    return any(
        order.patient == (event.site, event.mrn)
        and not may_be_same_order(event, order)
        and is_closed_by(order, own)
        for order in numbered
    )


def has_other_accession(
    event: OrderEvent, index: Mapping[OrderKey, Order], numbered: Iterable[Order]
) -> bool:
    """
    True if an event names an open order, by its numbers, under another accession.

    Both orders remain: it may be a correction, or a second examination with the same numbers.
    """
    if event.action in CREATING_ACTIONS or event.accession in {event.placer, event.filler}:
        return False
    own = [
        order for order in numbered if order.state != OrderState.CANCELLED and not order.number_only
    ]
    if key_of(event) in index or any(order.key == key_of(event) for order in own):
        return False
    return any(may_be_same_order(event, order) for order in own)
