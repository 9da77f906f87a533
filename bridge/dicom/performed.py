"""
Modality Performed Procedure Step: the service that modalities report their steps to (PS3.4 F.7.2).

A message is stored before its success status leaves. The consumer applies it to the orders.
"""

import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import structlog
from pydicom.dataset import Dataset
from pynetdicom import evt
from pynetdicom.events import Event, EventType
from pynetdicom.presentation import PresentationContext, build_context

from bridge.dicom.received_log import Admission, ReceivedLog, ReceivedMessage, Sender, read_message
from bridge.dicom.refusals import MAY_NOT_BE_UPDATED, Refused, Status
from bridge.orders.received_objects import (
    PERFORMED_STEP,
    MessageKind,
    PerformedStatus,
    text_of,
)
from bridge.redaction import describe
from parsers.dicom_file import DicomRefused, FileMeta

SYNTAXES: Final = ("1.2.840.10008.1.2", "1.2.840.10008.1.2.1", "1.2.840.10008.1.2.2")
"""Implicit VR little endian, explicit VR little endian, explicit VR big endian."""

REQUIRED: Final = (
    "ScheduledStepAttributesSequence",
    "PerformedStationAETitle",
    "PerformedProcedureStepStartDate",
    "PerformedProcedureStepStartTime",
    "PerformedProcedureStepStatus",
    "PerformedProcedureStepID",
    "Modality",
)
"""Attributes of type 1 in an N-CREATE (PS3.4 table F.7.2-1)."""

Response = tuple[Dataset | int, Dataset | None]
Handler = Callable[[Event, Sender], Any]


class PerformedSteps:
    """The MPPS SCP, as a service of the DICOM server."""

    name: Final = "performed"
    contexts: Sequence[PresentationContext] = (build_context(PERFORMED_STEP, [*SYNTAXES]),)

    def __init__(self, log: ReceivedLog, max_size: int) -> None:
        """`max_size` limits the bytes of a data set."""
        self._log = structlog.get_logger("dicom")
        self._received = log
        self._max_size = max_size
        self.handle: Mapping[EventType, Handler] = {
            evt.EVT_N_CREATE: self.create,
            evt.EVT_N_SET: self.set,
        }

    def create(self, event: Event, peer: Sender) -> Response:
        """Answer an N-CREATE."""
        request: Any = event.request
        given = request.AffectedSOPInstanceUID
        uid = str(given) if given else f"2.25.{uuid.uuid4().int}"
        made = Dataset()
        if not given:  # PS3.7 10.1.5.1.4
            made.AffectedSOPInstanceUID = uid
        return self._answer(lambda: self._create(event, uid, request.AttributeList, peer), made)

    def set(self, event: Event, peer: Sender) -> Response:
        """Answer an N-SET."""
        request: Any = event.request
        uid = str(request.RequestedSOPInstanceUID or "")
        return self._answer(lambda: self._set(event, uid, request.ModificationList, peer), None)

    def _answer(self, work: Callable[[], None], made: Dataset | None) -> Response:
        try:
            work()
        except Refused as refused:
            self._received.count(refused.status)
            return refused.data_set(), None
        except Exception as error:  # noqa: BLE001  # there is always an answer, without values
            self._log.error("performed step not stored", error=describe(error))
            self._received.count(Status.PROCESSING_FAILURE)
            return Refused(Status.PROCESSING_FAILURE, "not stored: send it again").data_set(), None
        self._received.count(Status.SUCCESS)
        return int(Status.SUCCESS), made

    def _create(self, event: Event, uid: str, stream: Any, peer: Sender) -> None:
        message, data_set = self._read(MessageKind.STEP_CREATED, event, uid, stream, peer)
        for keyword in REQUIRED:
            _require(data_set, keyword)
        for item in data_set.ScheduledStepAttributesSequence:
            _require(item, "StudyInstanceUID")
        if message.received.status != PerformedStatus.IN_PROGRESS:
            text = "a new step is IN PROGRESS"
            raise Refused(Status.INVALID_VALUE, text, "PerformedProcedureStepStatus")
        if self._received.create_step(message) is Admission.KNOWN:
            raise Refused(Status.DUPLICATE_INSTANCE, "the step exists")

    def _set(self, event: Event, uid: str, stream: Any, peer: Sender) -> None:
        message, data_set = self._read(MessageKind.STEP_SET, event, uid, stream, peer)
        status = message.received.status
        if "PerformedProcedureStepStatus" in data_set and status not in set(PerformedStatus):
            text = "IN PROGRESS, COMPLETED or DISCONTINUED"
            raise Refused(Status.INVALID_VALUE, text, "PerformedProcedureStepStatus")
        is_final = bool(status) and PerformedStatus(status).is_final
        match self._received.set_step(message, is_final=is_final):
            case Admission.UNKNOWN:
                raise Refused(Status.NO_SUCH_INSTANCE, "no such step")
            case Admission.ENDED:
                raise Refused(
                    Status.PROCESSING_FAILURE,
                    "the step may no longer be updated",
                    error_id=MAY_NOT_BE_UPDATED,
                )

    def _read(
        self, kind: MessageKind, event: Event, uid: str, stream: Any, peer: Sender
    ) -> tuple[ReceivedMessage, Dataset]:
        body: bytes = b"" if stream is None else stream.getvalue()
        if len(body) > self._max_size:
            raise Refused(Status.RESOURCE_LIMIT, f"more than {self._max_size} bytes")
        if not uid:
            raise Refused(Status.NO_SUCH_INSTANCE, "no such step")
        meta = FileMeta(PERFORMED_STEP, uid, str(event.context.transfer_syntax), peer.title)
        try:
            return read_message(kind, meta, body, peer.settings.sites)
        except DicomRefused as refused:
            text = f"data set: {refused.fault.value}"
            raise Refused(Status.PROCESSING_FAILURE, text) from None


def _require(data_set: Dataset, keyword: str) -> None:
    """Require an attribute of type 1. Raises Refused."""
    if keyword not in data_set:
        raise Refused(Status.MISSING_ATTRIBUTE, "is missing", keyword)
    value = data_set.get(keyword)
    if not value or not text_of(value):
        raise Refused(Status.MISSING_VALUE, "has no value", keyword)
