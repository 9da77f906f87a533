"""
What modalities send: performed procedure steps (MPPS) and stored objects, as DICOM files.

The message log stores them as files (PS3.10), whose meta information names SOP class and instance,
and the AE title of the sender. Only the attributes that identify patient, orders and status are
read, never the content of a report. Values are patient data: do not log them.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from types import MappingProxyType
from typing import Any, Final
from uuid import UUID

from pydicom.dataset import Dataset
from pydicom.multival import MultiValue

from bridge.contract import OrderKey
from bridge.index_key import derived_key, signal_hash, signed64
from bridge.orders.order import Order
from mappings.hl7.path import Path
from mappings.inbound.events import OrderAction, OrderEvent
from mappings.inbound.procedures import step_accessions
from mappings.outbound.echo import Echo
from parsers.dicom_file import DicomLimits, FileMeta, read_file, read_meta

DICOM_LISTENER: Final = "dicom"
"""The name of the listener of messages that modalities sent."""

PERFORMED_STEP: Final = "1.2.840.10008.3.1.2.3.3"
"""Modality Performed Procedure Step SOP Class."""

KEY_OBJECTS: Final = "1.2.840.10008.5.1.4.1.1.88.59"
"""Key Object Selection Document Storage."""

ENCAPSULATED_PDF: Final = "1.2.840.10008.5.1.4.1.1.104.1"
"""Encapsulated PDF Storage."""

_LAST_TAG: Final = 0x0040A370
"""Referenced Request Sequence. The content of a report follows it."""


class MessageKind(StrEnum):
    """The type of a message that a modality sent, as lists show it."""

    STEP_CREATED = "N-CREATE MPPS"
    STEP_SET = "N-SET MPPS"
    REPORT_STORED = "C-STORE SR"
    KEY_OBJECTS_STORED = "C-STORE KO"
    DOCUMENT_STORED = "C-STORE PDF"
    REPORT_POSTED = "STOW-RS SR"
    KEY_OBJECTS_POSTED = "STOW-RS KO"
    DOCUMENT_POSTED = "STOW-RS PDF"

    @property
    def is_step(self) -> bool:
        return self in {MessageKind.STEP_CREATED, MessageKind.STEP_SET}


_KINDS: Final = frozenset(MessageKind)


class PerformedStatus(StrEnum):
    """Performed Procedure Step Status (0040,0252)."""

    IN_PROGRESS = "IN PROGRESS"
    COMPLETED = "COMPLETED"
    DISCONTINUED = "DISCONTINUED"

    @property
    def is_final(self) -> bool:
        return self is not PerformedStatus.IN_PROGRESS


@dataclass(frozen=True, slots=True)
class OrderReference:
    """How an object names an order; an attribute that it lacks is ''."""

    accession: str = ""
    study_uid: str = ""
    step_id: str = ""

    @property
    def key(self) -> int | None:
        """
        The keyed hash by which an order that arrives later is recognized: see `order_keys`.

        None if the reference names nothing.
        """
        if self.accession:
            return signal_hash("accession", self.accession)
        return signal_hash("study-uid", self.study_uid) if self.study_uid else None


@dataclass(frozen=True, slots=True)
class ReceivedObject:
    """
    The identifying attributes of an object or a performed step.

    `issuer` is that of the patient ID. `status`, `reason` (a code of CID 9300) and `has_images`
    are those of a performed step; None: the message does not tell. `is_own`: this installation made
    the object.
    """

    meta: FileMeta
    mrn: str
    issuer: str
    name: str
    references: tuple[OrderReference, ...]
    status: str = ""
    reason: str = ""
    has_images: bool | None = None
    has_end_and_series: bool = True
    """False for a message of a performed step that names no end or no series."""
    is_own: bool = False

    def updated(self, later: "ReceivedObject") -> "ReceivedObject":
        """Return a performed step after an N-SET, which has the changed attributes only."""
        return replace(
            self,
            status=later.status or self.status,
            reason=later.reason or self.reason,
            has_images=later.has_images,
            has_end_and_series=later.has_end_and_series,
        )


def is_message_kind(message_type: str) -> bool:
    """True for the types of messages that modalities send."""
    return message_type in _KINDS


def read_object(payload: bytes, limits: DicomLimits | None = None) -> ReceivedObject:
    """Read a stored message. Raises DicomRefused, and pydicom's errors, which may quote values."""
    meta, _ = read_meta(payload)
    limits = limits or DicomLimits(max_bytes=len(payload))
    return object_of(meta, read_file(payload, limits, last=_LAST_TAG))


def object_of(meta: FileMeta, data_set: Dataset) -> ReceivedObject:
    """Return the identifying attributes of a data set."""
    is_step = meta.sop_class == PERFORMED_STEP
    return ReceivedObject(
        meta=meta,
        mrn=text_of(data_set.get("PatientID")),
        issuer=text_of(data_set.get("IssuerOfPatientID")),
        name=text_of(data_set.get("PatientName")),
        references=tuple(_step_references(data_set) if is_step else _references(data_set)),
        status=text_of(data_set.get("PerformedProcedureStepStatus")),
        reason=_reason(data_set),
        has_images=_have_images(data_set),
        has_end_and_series=not is_step or _has_end_and_series(data_set),
        is_own=_is_own(data_set),
    )


def _is_own(data_set: Dataset) -> bool:
    creator = text_of(data_set.get("InstanceCreatorUID"))
    return bool(creator) and creator == instance_creator()


def instance_creator() -> str:
    """
    Return the Instance Creator UID (0008,0014) of the objects that this installation makes.

    It follows from the index key, so all nodes have the same, and other installations another.
    """
    key = derived_key("instance creator", b"")
    return f"2.25.{UUID(bytes=key[:16], version=4).int}"


def step_identity(sop_instance: str, *, is_final: bool = False) -> int:
    """Return the identity of the message that creates a performed step, or that ends it."""
    return signed64(b"mpps", b"ended" if is_final else b"created", sop_instance.encode())


def text_of(value: Any) -> str:
    """Return a value as text without padding; the first one of several."""
    if isinstance(value, MultiValue):
        value = value[0] if value else None
    return "" if value is None else str(value).strip(" \0")


def _items(data_set: Dataset, keyword: str) -> Sequence[Dataset]:
    return data_set.get(keyword) or ()


def _step_references(data_set: Dataset) -> Iterator[OrderReference]:
    """Yield the scheduled steps of a performed one: several of a group, none if unscheduled."""
    for item in _items(data_set, "ScheduledStepAttributesSequence"):
        yield OrderReference(
            text_of(item.get("AccessionNumber")),
            text_of(item.get("StudyInstanceUID")),
            text_of(item.get("ScheduledProcedureStepID")),
        )


def _references(data_set: Dataset) -> Iterator[OrderReference]:
    """Yield the orders of an object, each once: its own and those of the requests it fulfils."""
    own_study = text_of(data_set.get("StudyInstanceUID"))
    own = OrderReference(text_of(data_set.get("AccessionNumber")), own_study)
    requests = [
        OrderReference(
            text_of(item.get("AccessionNumber")),
            text_of(item.get("StudyInstanceUID")) or own_study,
        )
        for item in _items(data_set, "ReferencedRequestSequence")
    ]
    named = [reference for reference in (own, *requests) if reference.accession]
    yield from dict.fromkeys(named or [own])


def _reason(data_set: Dataset) -> str:
    found = _items(data_set, "PerformedProcedureStepDiscontinuationReasonCodeSequence")
    return next((text_of(item.get("CodeValue")) for item in found), "")


def _have_images(data_set: Dataset) -> bool | None:
    """Return whether the performed series have objects; None without their sequence."""
    if "PerformedSeriesSequence" not in data_set:
        return None
    keywords = ("ReferencedImageSequence", "ReferencedNonImageCompositeSOPInstanceSequence")
    performed = _items(data_set, "PerformedSeriesSequence")
    return any(_items(series, keyword) for series in performed for keyword in keywords)


_END: Final = (
    "PerformedProcedureStepEndDate",
    "PerformedProcedureStepEndTime",
    "PerformedSeriesSequence",
)
"""What a completed step must have (PS3.4 table F.7.2-1); real modalities leave it out."""


def _has_end_and_series(data_set: Dataset) -> bool:
    return all(data_set.get(keyword) for keyword in _END)


class MatchFault(StrEnum):
    """Why an object belongs to no order; the codes of its message."""

    NO_ORDER = "object_without_order"
    OTHER_PATIENT = "patient_conflict"
    SEVERAL = "several_orders"


class SetAside(StrEnum):
    """
    Why the report service does not use an object that it got; the codes of its message.

    They are warnings of `update-dicomsr`.
    """

    OTHER_PATIENT = "dicom_sr_other_patient"
    """Name or birth date contradict the patient of the order, although the numbers fit."""
    SECOND_VERSION = "dicom_sr_second_version"
    """The report has another content with this SOP Instance UID."""


@dataclass(frozen=True, slots=True)
class Match:
    """The order that a reference names, or why there is none."""

    reference: OrderReference
    order: Order | None
    fault: MatchFault | None = None


_PATIENT_IDS: Final = Path.parse("PID-3")


def issuers(order: Order) -> set[str]:
    """Return the assigning authorities (CX-4) of the patient's number, as its sender wrote them."""
    numbers = Echo(order.echo).read(_PATIENT_IDS).repetitions
    authorities = [
        number.component(4) for number in numbers if number.component(1).text() == order.key.mrn
    ]
    parts = (part.text().strip() for one in authorities for part in one.subcomponents[:2])
    return {part for part in parts if part}


def match(
    reference: OrderReference,
    mrns: Collection[tuple[str, str]],
    named: Iterable[Order],
    foreign: Collection[OrderKey] = (),
) -> Match:
    """
    Choose the order of a reference: patient and number must both fit.

    `mrns` are site and number of the patient, survivors of merges included. `named` are the known
    orders with the accession number or study of the reference; the number of the patient of
    `foreign` ones has another issuer.
    """
    candidates = [
        order
        for order in named
        if not (order.number_only or order.moved_away)
        and (not reference.accession or reference.accession in _accessions(order))
    ]
    own = [order for order in candidates if order.patient in mrns and order.key not in foreign]
    if len(own) == 1:
        return Match(reference, own[0])
    if own:
        return Match(reference, None, MatchFault.SEVERAL)
    return Match(reference, None, MatchFault.OTHER_PATIENT if candidates else MatchFault.NO_ORDER)


_SHORT: Final = 16
"""The longest accession number in DICOM (PS3.5 6.2, SH): a longer one may have been cut."""


def _accessions(order: Order) -> set[str]:
    """Return the values by which an object may name an order as its accession number."""
    accession = order.key.accession
    return {accession, accession[:_SHORT], *order.numbers, *step_accessions(order.echo)}


def order_keys(order: Order) -> set[int]:
    """Return the keyed hashes of all numbers by which an object may name an order."""
    study = str(order.tags.get("StudyInstanceUID") or "")
    keys = {signal_hash("accession", number) for number in _accessions(order)}
    return keys | {signal_hash("study-uid", study)} if study else keys


NOT_EXAMINED: Final = frozenset({"110500", "110502", "110504", "110510", "110511", "110512"})
"""
Reasons of a discontinued step (PS3.16 CID 9300) after which the examination will not take place:
cancelled by the doctor or the ward, wrong procedure or side, died, duplicate.
"""
WRONG_ENTRY: Final = "110514"
"""The operator chose the wrong worklist entry: the scheduled step was not begun (CID 9300)."""


class StepEvent(StrEnum):
    """What a performed step says about its scheduled steps; the codes of its message."""

    STARTED = "step_started"
    COMPLETED = "step_completed"
    DISCONTINUED = "step_discontinued"
    REVERTED = "step_reverted"
    """The step was not begun: it is scheduled again."""


def step_event(performed: ReceivedObject) -> StepEvent:
    """Return what a performed step says now."""
    if performed.status == PerformedStatus.COMPLETED:
        return StepEvent.COMPLETED
    if performed.status != PerformedStatus.DISCONTINUED:
        return StepEvent.STARTED
    is_wrong = performed.reason == WRONG_ENTRY and not performed.has_images
    return StepEvent.REVERTED if is_wrong else StepEvent.DISCONTINUED


@dataclass(frozen=True, slots=True)
class PerformedStep:
    """What a performed step says of its scheduled steps, and whether it has images."""

    event: StepEvent
    has_images: bool = False


PerformedSteps = Mapping[str, PerformedStep]
"""The performed steps of a scheduled step or of an order, by SOP instance UID."""


MAX_PERFORMED: Final = 100
"""Performed steps that are kept; the oldest are forgotten."""


def with_performed(known: PerformedSteps, instance: str, said: PerformedStep) -> PerformedSteps:
    """Return performed steps with what one says now. One that has ended stays as it ended."""
    before = known.get(instance)
    if before is not None and before.event is not StepEvent.STARTED:
        return known
    return dict([*{**known, instance: said}.items()][-MAX_PERFORMED:])


_STRONGEST_FIRST: Final = (StepEvent.STARTED, StepEvent.COMPLETED, StepEvent.DISCONTINUED)


def combined_event(performed: PerformedSteps) -> StepEvent | None:
    """
    Return what performed steps say together: started while one runs, completed if one is.

    A reverted one says nothing about the scheduled step if there are others. None without any.
    """
    said = {one.event for one in performed.values()}
    return next((event for event in _STRONGEST_FIRST if event in said), next(iter(said), None))


WITHOUT_END: Final = "step_without_end"
"""The code of a message that completes a step without its end or a series."""


def step_code(performed: ReceivedObject) -> str:
    """Return the code of the message of a performed step."""
    event = step_event(performed)
    if event is StepEvent.COMPLETED and not performed.has_end_and_series:
        return WITHOUT_END
    return event.value


def ignored_event(site: str, mrn: str, accession: str) -> OrderEvent:
    """Return an event that changes nothing: it names the order that an object is about."""
    return OrderEvent(
        action=OrderAction.IGNORE,
        site=site,
        location="",
        mrn=mrn,
        accession=accession,
        clinical_info=MappingProxyType({}),
        reporting_app=MappingProxyType({}),
        place="",
    )


def has_images_or_runs(performed: PerformedSteps) -> bool:
    """True if there are images of performed steps, or may be."""
    return any(
        one.has_images or one.event in (StepEvent.STARTED, StepEvent.COMPLETED)
        for one in performed.values()
    )


def order_event(performed: ReceivedObject, order: Order, *, goes_on: bool) -> OrderEvent:
    """
    Return what a performed step does to an order.

    Images to read make an order readable, also those of a discontinued step. A discontinued step
    ends its order only if it says that there are none, and the reason that there will be none, and
    the order does not go on: another step of it is scheduled, runs, or was examined.
    """
    event = step_event(performed)
    ends = (
        event is StepEvent.DISCONTINUED
        and performed.reason in NOT_EXAMINED
        and performed.has_images is False
        and not goes_on
    )
    examined = event is StepEvent.COMPLETED or (
        event is StepEvent.DISCONTINUED and performed.has_images is True
    )
    return OrderEvent(
        action=OrderAction.DISCONTINUE if ends else OrderAction.CHANGE,
        site=order.key.site,
        location="",
        mrn=order.key.mrn,
        accession=order.key.accession,
        clinical_info=MappingProxyType({}),
        reporting_app=MappingProxyType({}),
        place="",
        placer=order.placer,
        filler=order.filler,
        echo=order.echo,
        examined=examined,
    )
