"""
What modalities sent, applied: performed steps to orders, objects to reports.

A performed step becomes order events. A stored object is added to the reports of its orders by
`update-dicomsr`, where one content is stored once. What belongs to no order is parked, and waits
for an order with its accession number or study. A report that this service sent to a PACS, and that
comes back, changes nothing.
"""

import json
from base64 import b64encode
from collections.abc import Collection, Mapping
from typing import Final

from sqlalchemy import Connection

from bridge.contract import OrderKey
from bridge.contract.errors import ErrorCode
from bridge.engine_client.client import EngineClient
from bridge.engine_client.errors import EngineFailure
from bridge.intake.process.job_context import JobContext
from bridge.intake.process.jobs import (
    DefinitionMissingError,
    MessageJob,
    ReceivedMatch,
    require_content,
)
from bridge.orders.order import Order, OrderState
from bridge.orders.plans import ORDER_CANCELLED
from bridge.orders.received_objects import (
    Match,
    MessageKind,
    OrderReference,
    PerformedStep,
    ReceivedObject,
    SetAside,
    StepEvent,
    combined_event,
    has_images_or_runs,
    ignored_event,
    issuers,
    match,
    order_event,
    order_keys,
    read_object,
    step_code,
    step_event,
    step_identity,
    with_performed,
)
from bridge.orders.rules import SourceMessage
from bridge.queue import queries
from bridge.queue.claims import ClaimedMessage
from bridge.store.records import order_index, patient_records, scheduled_steps
from bridge.store.records.scheduled_steps import ON_WORKLIST
from bridge.store.records.step_events import StepEventRow
from mappings.inbound.events import OrderEvent

EVERY_SITE: Final = "*"
STORED: Final = "object_stored"
"""The note of an object that was added to a report."""
AWAITS_ORDER: Final = "object_awaits_order"
"""The note of an object whose order is not on the worklist; it is added when it is."""
OWN_OBJECT: Final = "object_own"
"""The note of an object that this service sent, and that a PACS routed back."""


class StepUnknownError(Exception):
    """The message that created a performed step is no longer stored."""

    def __init__(self) -> None:
        super().__init__("the message that created the performed step is no longer stored")


def read_received(
    connection: Connection, claimed: ClaimedMessage, sites: Mapping[str, Collection[str]]
) -> MessageJob:
    """
    Read what a modality sent, and find its orders; `sites` are those of each AE title.

    Raises the errors of content, DicomRefused, DefinitionMissingError and StepUnknownError.
    """
    require_content(claimed)
    kind = MessageKind(claimed.message_type)
    received = read_object(claimed.payload)
    if kind is MessageKind.STEP_SET:
        received = _created(connection, received).updated(received)
    visible = sites.get(received.meta.sender)
    if visible is None:
        raise DefinitionMissingError("peer")
    known = sites_of(connection, visible)
    patients = _patients(connection, received, known)
    found = ReceivedMatch(kind, received, _matches(connection, received, known, patients))
    events = [_event(connection, found, order) for order in found.orders]
    # The job waits for messages of the orders that it names, also of those that are not known yet.
    events += [
        ignored_event(site, mrn, missing.reference.accession)
        for missing in found.matches
        if missing.order is None
        for site, mrn in sorted(patients)[:_MAX_NAMED]
    ]
    return MessageJob(claimed, SourceMessage(claimed.message_id, None), events, received=found)


def _matches(
    connection: Connection,
    received: ReceivedObject,
    sites: Collection[str],
    patients: set[tuple[str, str]],
) -> list[Match]:
    matches = []
    for reference in received.references or (OrderReference(),):
        named = named_orders(connection, sites, reference)
        foreign = _foreign(connection, received.issuer, named)
        matches.append(match(reference, patients, named, foreign))
    return matches


def has_other_match(
    connection: Connection, found: ReceivedMatch, sites: Mapping[str, Collection[str]]
) -> bool:
    """
    True if an order for which a message waits is another one now, or has another state.

    It may have been stored after the message was read.
    """
    known = sites_of(connection, sites.get(found.received.meta.sender, ()))
    patients = _patients(connection, found.received, known)
    now = _matches(connection, found.received, known, patients)
    return any(
        _is_waiting(found.kind, before) and _outline(before) != _outline(after)
        for before, after in zip(found.matches, now, strict=True)
    )


def _is_waiting(kind: MessageKind, found: Match) -> bool:
    if found.order is None:
        return True
    return not kind.is_step and found.order.state in _WITHOUT_REPORT | {OrderState.CANCELLED}


def _outline(found: Match) -> tuple[object, ...]:
    order = found.order
    return found.fault, order and order.key, order and order.state


_MAX_NAMED: Final = 10
"""Sites on which the patient of an unknown order is locked."""


def _event(connection: Connection, found: ReceivedMatch, order: Order) -> OrderEvent:
    if found.kind.is_step:
        goes_on = _goes_on(connection, found, order)
        return order_event(found.received, order, goes_on=goes_on)
    return ignored_event(order.key.site, order.key.mrn, order.key.accession)


def _goes_on(connection: Connection, found: ReceivedMatch, order: Order) -> bool:
    """True if another step of an order is on the worklist, runs, or was examined."""
    performed = dict(scheduled_steps.performed_of(connection, order.key))
    performed.pop(found.received.meta.sop_instance, None)
    return has_images_or_runs(performed) or _has_other_steps(connection, found, order)


def _has_other_steps(connection: Connection, found: ReceivedMatch, order: Order) -> bool:
    """
    True if an order has steps on the worklist beside those that a performed step names.

    One that names none of them is about all.
    """
    steps = scheduled_steps.steps_of(connection, [order.key])
    named = {
        one.reference.step_id
        for one in found.matches
        if one.order is not None and one.order.key == order.key
    }
    others = [step for step in steps if step.step_id not in named]
    is_whole = "" in named or len(others) == len(steps)
    return not is_whole and any(step.status in ON_WORKLIST for step in others)


def _created(connection: Connection, changed: ReceivedObject) -> ReceivedObject:
    """Return a performed step as it was created."""
    identity = step_identity(changed.meta.sop_instance)
    payload = queries.payload_with_identity(connection, identity)
    if not payload:
        raise StepUnknownError
    return read_object(payload)


def sites_of(connection: Connection, visible: Collection[str]) -> Collection[str]:
    """Return the sites of a peer: those that have orders if it sees every site."""
    return order_index.sites(connection) if EVERY_SITE in visible else visible


def named_orders(
    connection: Connection, sites: Collection[str], reference: OrderReference
) -> list[Order]:
    return order_index.find_named(connection, sites, reference.accession, reference.study_uid)


def _patients(
    connection: Connection, received: ReceivedObject, sites: Collection[str]
) -> set[tuple[str, str]]:
    """Return the patient of an object on each site, survivors in place of merged numbers."""
    if not received.mrn:
        return set()
    named = {(site, received.mrn) for site in sites}
    survivors = patient_records.survivors(connection, named)
    return {(site, survivors.get((site, mrn), mrn)) for site, mrn in named}


def _foreign(connection: Connection, issuer: str, orders: Collection[Order]) -> set[OrderKey]:
    """
    Return the orders whose patient's number has another issuer than that of an object.

    A modality repeats the issuer of the worklist, which a definition may take from anywhere.
    """
    if not issuer:
        return set()
    known = {order.key: issuers(order) for order in orders}
    for step in scheduled_steps.steps_of(connection, known):
        known[step.key] |= {str(text) for text in _elements(step.item, _ISSUER)}
    return {key for key, found in known.items() if found and issuer not in found}


_ISSUER: Final = "00100021"  # Issuer of Patient ID


def _elements(item: str, tag: str) -> Collection[object]:
    """Return the values of an element of a worklist item."""
    found: Mapping[str, Collection[object]] = json.loads(item).get(tag, {})
    return found.get("Value", ())


def change_steps(connection: Connection, found: ReceivedMatch, now: int) -> None:
    """Set the status of the scheduled steps that a performed step names."""
    instance, said = _said(found.received)
    for named in found.matches:
        if named.order is not None:
            ids = {named.reference.step_id} - {""}
            scheduled_steps.set_performed(connection, named.order.key, ids, instance, said, now)


def _said(received: ReceivedObject) -> tuple[str, PerformedStep]:
    """Return the instance of a performed step, and what it says."""
    said = PerformedStep(step_event(received), bool(received.has_images))
    return received.meta.sop_instance, said


_WITHOUT_REPORT: Final = frozenset({OrderState.AWAITED, OrderState.HELD})


_SENT_STATUSES: Final[Mapping[StepEvent, str]] = {
    StepEvent.STARTED: "Started",
    StepEvent.COMPLETED: "Completed",
    StepEvent.DISCONTINUED: "Discontinued",
    StepEvent.REVERTED: "Ordered",
}
"""The statuses of orders in status messages, by the code tables of the definition."""


_ENDS: Final = frozenset({StepEvent.COMPLETED, StepEvent.DISCONTINUED})
_WITHOUT_RESULT: Final = frozenset({StepEvent.DISCONTINUED, StepEvent.REVERTED})


def status_events(
    connection: Connection, message_id: int, found: ReceivedMatch, received_at: int
) -> list[StepEventRow]:
    """
    Return what a performed step says of its orders, for the receivers of status messages.

    Call it before `change_steps`. An order with other steps on the worklist has not ended. A
    performed step that is discontinued says what all of the order say together, and nothing if they
    said so before.
    """
    if found.kind is MessageKind.STEP_SET and step_event(found.received) is StepEvent.STARTED:
        return []  # a change while it is in progress
    instance, said = _said(found.received)
    rows = []
    for order in found.orders:
        known = scheduled_steps.performed_of(connection, order.key)
        event = said.event
        if event in _ENDS and _has_other_steps(connection, found, order):
            continue
        if event in _WITHOUT_RESULT:
            event = combined_event(with_performed(known, instance, said)) or event
            if event is combined_event(known):
                continue
        status = _SENT_STATUSES[event]
        rows.append(StepEventRow(message_id, order.key, status, received_at))
    return rows


async def apply_received(client: EngineClient, context: JobContext, found: ReceivedMatch) -> None:
    """
    Add an object to the reports of its orders; note what it, or a performed step, did.

    Raises EngineFailure. Repeated calls add nothing.
    """
    if found.fault is not None:
        context.notes.append(found.fault.value)
        context.waits_for |= found.missing_keys
    if found.kind.is_step:
        context.notes.append(step_code(found.received))
        return
    if found.received.is_own:
        context.notes.append(OWN_OBJECT)
        return
    content = b64encode(context.job.claimed.payload).decode()
    for order in found.orders:
        context.job.claimed.lease.require()
        if order.state in _WITHOUT_REPORT:
            context.waits_for |= order_keys(order)
            context.notes.append(AWAITS_ORDER)
        else:
            context.notes += await _add_to_report(client, context, order, content)


async def _add_to_report(
    client: EngineClient, context: JobContext, order: Order, content: str
) -> list[str]:
    """Return the notes of an object; that of a cancelled order waits until it is ordered again."""
    try:
        warnings = await client.add_structured_report(order.key, content)
    except EngineFailure as failure:
        is_gone = failure.code == ErrorCode.REPORT_NOT_FOUND
        if not is_gone or order.state is not OrderState.CANCELLED:
            raise
        context.waits_for |= order_keys(order)
        return [ORDER_CANCELLED]
    return [why.value for why in SetAside if why in warnings] or [STORED]
