"""
Composer: writes the message of one delivery from its orders, the report text and the mapping.

Reads the order index and earlier deliveries. `ReportTexts` reads the report service.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import chain
from types import MappingProxyType
from typing import Any

from sqlalchemy import Connection

from bridge.contract import OrderKey
from bridge.contract.responses import ReleasedTextBody, SignerBody
from bridge.delivery.delivery_history import (
    ADDENDUM_EVENTS,
    DeliveredEvent,
    DeliveryHistory,
    as_delivered_event,
    document_names,
    events_since_cancellation,
    has_restored_read,
    read_histories,
    read_sent_documents,
    read_sent_observations,
)
from bridge.delivery.destinations import CompiledDestination, control_id, key_of
from bridge.delivery.dicom_objects import SentDocument, write_documents
from bridge.delivery.errors import (
    NoDefinitionForEvent,
    NothingToRetract,
    StoredMessageDamaged,
    UnmappedCodeRefused,
)
from bridge.orders.order import Order
from bridge.queue.deliveries import ClaimedDelivery
from bridge.store.database import Database
from bridge.store.records import (
    identifier_changes,
    order_index,
    patient_records,
    scheduled_steps,
)
from bridge.store.records.scheduled_steps import RequestedProcedure
from bridge.store.records.unmapped_codes import OnUnmappedCodes, ignore_unmapped_codes
from mappings.inbound.procedures import replace_identifiers, split_procedures
from mappings.language.code_tables import UnmappedCode
from mappings.language.diagnostics import CodeRefused
from mappings.outbound.definition import OutboundMapping
from mappings.outbound.results import (
    WITHDRAWALS,
    FileFormat,
    ResultContext,
    ResultEvent,
    ResultOrder,
    SentSection,
    SignedAddendum,
    Signer,
)

EVENTS_WITHOUT_TEXT = frozenset({ResultEvent.RECALL, ResultEvent.ORDER_STATUS})
"""Events whose messages carry no text of the report."""

RETRACTABLE_EVENTS: Mapping[ResultEvent, frozenset[ResultEvent]] = MappingProxyType(
    {
        ResultEvent.CANCELLATION: frozenset({ResultEvent.PRELIMINARY}),
        ResultEvent.RETRACTION: frozenset(
            {ResultEvent.FINAL, ResultEvent.ADDENDUM, ResultEvent.CORRECTION}
        ),
    }
)
"""Events that withdraw a text, and the events of which a receiver must have received one."""

DEMOGRAPHICS = ("PatientName", "PatientBirthDate", "PatientSex", "PatientAge", "Race", "Ethnicity")
"""Tags that a patient merge changes, besides the MRN."""

WITHDRAWN = "This report has been withdrawn."
"""The text of a retracted report. The editor then contains an unsigned draft, which is not sent."""


@dataclass(frozen=True, slots=True)
class DeliveryContext:
    """
    What the bridge's database holds for one delivery: its history and its orders.

    A delivery whose message is stored needs no orders. After a patient merge an order is found by
    either of the identifiers. `patients` are the present MRNs of such orders, by the position of
    the order, if the merge, or its undo, is newer than the delivery. `sent_sections` are the
    sections that the receiver has; None if one of the messages that contain them is damaged.
    `has_read`: the receiver has the preliminary read that the delivery would send again.
    """

    history: DeliveryHistory
    orders: list[Order | None] = field(default_factory=list)
    sent_sections: tuple[SentSection, ...] | None = ()
    patients: Mapping[int, str] = field(default_factory=dict)
    has_read: bool = False
    sent_documents: Sequence[Sequence[SentDocument]] = ()
    procedures: Mapping[OrderKey, RequestedProcedure] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class MessagePlan:
    """A message before it is written: its delivery, its event for this receiver, its mapping."""

    delivery: ClaimedDelivery
    context: DeliveryContext
    delivered_event: DeliveredEvent
    mapping: OutboundMapping
    destination: CompiledDestination

    @property
    def event(self) -> ResultEvent:
        """The event for this receiver, such as a correction for a second final text."""
        return self.delivered_event.event

    @property
    def anchor(self) -> OrderKey:
        """The first order, by which the report service knows the report now."""
        listed = key_of(self.delivery.orders["orders"][0])
        return replace(listed, mrn=self.context.patients.get(0, listed.mrn))

    @property
    def addenda(self) -> int:
        return int(self.delivery.orders["addenda"])

    @property
    def time_zone(self) -> str:
        """The IANA time zone for this receiver."""
        return self.destination.time_zone


class Composer:
    def __init__(
        self,
        database: Database,
        clock: Callable[[], datetime],
        on_unmapped_codes: OnUnmappedCodes = ignore_unmapped_codes,
    ) -> None:
        """
        Use the bridge's database; `clock` returns aware datetimes.

        `on_unmapped_codes` is called with codes that a definition's code tables do not contain.
        """
        self._database = database
        self._clock = clock
        self._on_unmapped_codes = on_unmapped_codes

    def look_up(
        self,
        deliveries: Sequence[ClaimedDelivery],
        destination: CompiledDestination,
        *,
        as_when_queued: bool = False,
    ) -> dict[int, DeliveryContext]:
        """
        Read the contexts of deliveries, by delivery id. Blocking. Raises StoreError.

        `as_when_queued`: the history ends before each delivery, to compose a past one again.
        """
        fresh = [delivery for delivery in deliveries if delivery.payload is None]
        with self._database.read_committed() as connection:
            histories = read_histories(
                connection, deliveries, destination.name, as_when_queued=as_when_queued
            )
            found = {
                delivery_id: DeliveryContext(history) for delivery_id, history in histories.items()
            }
            for delivery, orders in zip(fresh, find_orders(connection, fresh), strict=True):
                history = histories[delivery.delivery_id]
                context = DeliveryContext(
                    history,
                    orders,
                    patients=_present_patients(connection, delivery, orders),
                    has_read=has_restored_read(connection, delivery),
                )
                found[delivery.delivery_id] = _with_sent(connection, delivery, destination, context)
        return found

    def write(
        self, plan: MessagePlan, export: ReleasedTextBody | None, files: Mapping[FileFormat, bytes]
    ) -> tuple[bytes, str]:
        """Return the message and its control id. Blocking. Raises CompositionError."""
        delivery, context, destination = plan.delivery, plan.context, plan.destination
        orders = delivery.orders["orders"]
        name = control_id(destination.name, delivery.release_key)
        delivered = [*context.history.delivered, plan.delivered_event]
        unmapped: list[UnmappedCode] = []
        result_context = ResultContext(
            event=plan.event,
            control_id=name,
            now=self._clock(),
            site=str(orders[0].get("SiteID", "")),
            orders=tuple(
                chain.from_iterable(
                    result_orders(tags, index, context.patients.get(position, ""))
                    for position, (tags, index) in enumerate(
                        zip(orders, _as_sent(delivery, context.orders), strict=True)
                    )
                )
            ),
            destination=dict(destination.fields),
            report_status=str(delivery.orders["status"]),
            time_zone=destination.time_zone,
            earlier=events_since_cancellation(context.history.delivered),
            files=files,
            sent_sections=context.sent_sections or (),
            document=document_names(delivery.report_id, delivery.release_key, delivered),
            unmapped_codes=unmapped,
            **text_fields(plan.event, export, plan.addenda),
        )
        try:
            if destination.documents is None:
                return plan.mapping.render(result_context), name
            layout, sent = plan.mapping.style.layout, context.sent_documents
            result_context = _with_procedures(result_context, context.procedures)
            is_wrong_patient = bool(delivery.orders.get("identity"))
            documents = destination.documents
            return write_documents(
                result_context, layout, documents, sent, is_wrong_patient=is_wrong_patient
            ), name
        except CodeRefused as refused:
            raise UnmappedCodeRefused(str(refused)) from None
        finally:
            if unmapped:
                self._on_unmapped_codes(*plan.mapping.identity, unmapped)


def _with_sent(
    connection: Connection,
    delivery: ClaimedDelivery,
    destination: CompiledDestination,
    context: DeliveryContext,
) -> DeliveryContext:
    """Add what the receiver has of the report, as the next message needs it."""
    if destination.documents is not None:
        sent = read_sent_documents(connection, delivery)
        keys = {key_of(order) for order in delivery.orders["orders"]}
        keys |= {order.key for order in context.orders if order is not None}
        return replace(
            context,
            sent_sections=None if sent is None else (),
            sent_documents=sent or (),
            procedures=scheduled_steps.requested_procedures(connection, keys),
        )
    if context.history.delivered and uses_sections(destination, ResultEvent(delivery.event)):
        return replace(context, sent_sections=read_sent_observations(connection, delivery))
    return context


def _with_procedures(
    result: ResultContext, procedures: Mapping[OrderKey, RequestedProcedure]
) -> ResultContext:
    """Give orders the study and the Requested Procedure ID with which they were on the worklist."""
    orders = []
    for order in result.orders:
        if procedure := procedures.get(key_of(order.tags)):
            tags = {**order.tags, "StudyInstanceUID": procedure.study_uid}
            orders.append(replace(order, tags=tags, procedure_id=procedure.procedure_id))
        else:
            orders.append(order)
    return replace(result, orders=tuple(orders))


def _as_sent(delivery: ClaimedDelivery, orders: Sequence[Order | None]) -> list[Order | None]:
    """
    Return the orders of a delivery with the patient's identifiers in it, if it has some.

    A message that withdraws a result names the patient under whom the result was sent.
    """
    identity = delivery.orders.get("identity")
    if not identity:
        return list(orders)
    return [
        order and replace(order, echo=replace_identifiers(order.echo, identity)) for order in orders
    ]


def plan_message(
    delivery: ClaimedDelivery, context: DeliveryContext, destination: CompiledDestination
) -> MessagePlan:
    """Choose the event and the mapping of a delivery. Raises CompositionError."""
    if context.sent_sections is None:
        raise StoredMessageDamaged
    delivered_event = as_delivered_event(
        context.history.delivered, ResultEvent(delivery.event), delivery.release_key
    )
    event = delivered_event.event
    mapping = destination.mapping_for(event)
    if mapping is None or not delivery.orders["orders"]:
        raise NoDefinitionForEvent(delivery.event)
    earlier = events_since_cancellation(context.history.delivered)
    if event in RETRACTABLE_EVENTS and RETRACTABLE_EVENTS[event].isdisjoint(earlier):
        raise NothingToRetract
    return MessagePlan(delivery, context, delivered_event, mapping, destination)


def is_superseded(
    delivery: ClaimedDelivery, newer: Iterable[ResultEvent], destination: CompiledDestination
) -> bool:
    """
    True if a message would replace one of the newer messages that the receiver has.

    A separate addendum replaces nothing, and a status message no text. A delivery that the receiver
    accepted before is repeated in any case.
    """
    event = ResultEvent(delivery.event)
    if delivery.is_repeat or _is_separate(event, destination):
        return False
    replaced = [
        result_event for result_event in newer if not _is_separate(result_event, destination)
    ]
    return bool(replaced) and (
        event in EVENTS_WITHOUT_TEXT or not EVENTS_WITHOUT_TEXT.issuperset(replaced)
    )


def _is_separate(event: ResultEvent, destination: CompiledDestination) -> bool:
    """True if the message of an event is about an addendum without its report."""
    mapping = destination.mapping_for(event) if event in ADDENDUM_EVENTS else None
    return mapping is not None and mapping.style.layout.has_separate_addenda


def uses_sections(destination: CompiledDestination, event: ResultEvent) -> bool:
    """True if a receiver gets the text of an event as separate coded sections."""
    mapping = None if event in EVENTS_WITHOUT_TEXT else destination.mapping_for(event)
    return mapping is not None and bool(mapping.style.layout.sections.codes)


def find_orders(
    connection: Connection, deliveries: Sequence[ClaimedDelivery]
) -> list[list[Order | None]]:
    """Read the received orders of each delivery; None for an order that was never received."""
    keys = [[key_of(order) for order in delivery.orders["orders"]] for delivery in deliveries]
    reports: defaultdict[OrderKey, set[str]] = defaultdict(set)
    for delivery, some in zip(deliveries, keys, strict=True):
        for key in some:
            reports[key].add(delivery.report_id)
    found = order_index.find_for_delivery(connection, reports)
    return [[found.get(key) for key in some] for some in keys]


def _present_patients(
    connection: Connection, delivery: ClaimedDelivery, orders: Sequence[Order | None]
) -> dict[int, str]:
    """
    Return the present MRNs, by position, of orders that a merge or its undo has moved since.

    A message that withdraws a result names the patient under whom the result was sent.
    """
    if delivery.orders.get("identity"):
        return {}
    keys = [key_of(listed) for listed in delivery.orders["orders"]]
    moved = {
        position: (key.site, key.mrn)
        for position, (key, order) in enumerate(zip(keys, orders, strict=True))
        if order is not None and order.key.mrn != key.mrn
    }
    if not moved:
        return {}
    found = patient_records.survivors(connection, moved.values())
    return {
        position: order.key.mrn
        for position, patient in moved.items()
        if (order := orders[position]) is not None
        and (
            found.get(patient) == order.key.mrn
            or identifier_changes.has_undone(connection, order.patient, patient[1])
        )
    }


def result_orders(
    tags: Mapping[str, Any], index: Order | None, present_mrn: str = ""
) -> list[ResultOrder]:
    """
    Merge the tags of the service with those of the sender; the tags of the service are newer.

    Those of a signed report do not change any more, so the study is the sender's. After a patient
    merge or its undo, the sender's demographics and the MRN `present_mrn` are the newer ones. An
    order of several procedures yields one result order for each procedure.
    """
    from_sender = dict(index.tags) if index else {}
    merged = {
        **from_sender,
        **{tag: value for tag, value in tags.items() if value not in ("", None)},
    }
    if study := from_sender.get("StudyInstanceUID"):
        merged["StudyInstanceUID"] = study
    if present_mrn:
        merged |= {tag: from_sender[tag] for tag in DEMOGRAPHICS if from_sender.get(tag)} | {
            "PatientMRN": present_mrn
        }
    metadata = merged.pop("Metadata", None) or {}
    order = ResultOrder(
        tags={tag: str(value) for tag, value in merged.items()},
        metadata=metadata,
        placer=index.placer if index else "",
        filler=index.filler if index else "",
        echo=index.echo if index else (),
    )
    head, parts = split_procedures(order.echo, "")
    if not parts:
        return [order]
    first, *others = [replace(order, echo=(*head, *part.lines)) for part in parts]
    return [first, *(replace(part, placer="", filler="") for part in others)]


def text_fields(
    event: ResultEvent, export: ReleasedTextBody | None, addenda: int
) -> dict[str, Any]:
    """Return the text, its signer and the first addenda; for a withdrawal, the standard text."""
    if event in WITHDRAWALS:
        return {"report_text": WITHDRAWN, "addenda": (SignedAddendum(WITHDRAWN),) * addenda}
    if export is None:
        return {}
    return {
        "report_text": export.report.content,
        "signed_at": _moment(export.report.signed_at),
        "signed_by": _signer(export.report.signed_by),
        "addenda": tuple(
            SignedAddendum(
                addendum.content, _moment(addendum.signed_at), _signer(addendum.signed_by)
            )
            for addendum in export.addenda[:addenda]
        ),
    }


def _signer(person: SignerBody | None) -> Signer:
    return Signer(person.name, person.email) if person else Signer()


def _moment(text: str | None) -> datetime | None:
    if not text:
        return None
    moment = datetime.fromisoformat(text)
    return moment if moment.tzinfo else None
