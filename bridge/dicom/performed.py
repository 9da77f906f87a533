"""
Modality Performed Procedure Step: the service that modalities report their steps to (PS3.4 F.7.2).

A message is stored before its success status leaves. The consumer applies it to the orders.
"""

import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final

import structlog
from pydicom.dataset import Dataset
from pynetdicom import evt
from pynetdicom.events import Event
from pynetdicom.presentation import PresentationContext, build_context

from bridge.dicom.answers import AnswerCounter
from bridge.dicom.encoding import SYNTAXES
from bridge.dicom.received_log import Admission, ReceivedLog, ReceivedMessage, read_message
from bridge.dicom.refusals import Refused
from bridge.dicom.server import Peer
from bridge.dicom.statuses import (
    DUPLICATE_INSTANCE,
    INVALID_VALUE,
    MAY_NOT_BE_UPDATED,
    MISSING_ATTRIBUTE,
    MISSING_VALUE,
    NO_SUCH_INSTANCE,
    PROCESSING_FAILURE,
    RESOURCE_LIMIT,
    SUCCESS,
)
from bridge.orders.received_objects import (
    PERFORMED_STEP,
    MessageKind,
    PerformedStatus,
    text_of,
)
from bridge.redaction import describe
from parsers.dicom_file import DicomRefused, FileMeta

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


class PerformedSteps:
    """The MPPS SCP, as a service of the DICOM server."""

    name: Final = "performed"
    contexts: Sequence[PresentationContext] = (build_context(PERFORMED_STEP, [*SYNTAXES]),)

    def __init__(self, log: ReceivedLog, max_size: int, answers: AnswerCounter) -> None:
        """`max_size` limits the bytes of a data set."""
        self._log = structlog.get_logger("dicom")
        self._received = log
        self._max_size = max_size
        self._answers = answers
        self.handle: Mapping[Any, Callable[[Event, Peer], Any]] = {
            evt.EVT_N_CREATE: self.create,
            evt.EVT_N_SET: self.set,
        }

    def create(self, event: Event, peer: Peer) -> Response:
        """Answer an N-CREATE."""
        request: Any = event.request
        given = request.AffectedSOPInstanceUID
        uid = str(given) if given else f"2.25.{uuid.uuid4().int}"
        made = Dataset()
        if not given:  # PS3.7 10.1.5.1.4
            made.AffectedSOPInstanceUID = uid
        create = partial(self._create, event, uid, request.AttributeList, peer)
        return self._answer("N-CREATE", peer, create), made

    def set(self, event: Event, peer: Peer) -> Response:
        """Answer an N-SET."""
        request: Any = event.request
        uid = str(request.RequestedSOPInstanceUID or "")
        change = partial(self._set, event, uid, request.ModificationList, peer)
        return self._answer("N-SET", peer, change), None

    def _answer(self, request: str, peer: Peer, work: Callable[[], None]) -> Dataset | int:
        """Return the status of a request."""
        began, refused = time.monotonic(), None
        try:
            work()
        except Refused as error:
            refused = error
        except Exception as error:  # noqa: BLE001  # there is always an answer, without values
            self._log.error("performed step not stored", error=describe(error))
            refused = Refused(PROCESSING_FAILURE, "not stored: send it again")
        self._answers.count(
            peer.title,
            request,
            f"{SUCCESS:04X}" if refused is None else refused.code,
            is_success=refused is None,
            began=began,
            address=peer.address,
        )
        return SUCCESS if refused is None else refused.data_set()

    def _create(self, event: Event, uid: str, stream: Any, peer: Peer) -> None:
        message, data_set = self._read(MessageKind.STEP_CREATED, event, uid, stream, peer)
        for keyword in REQUIRED:
            _require(data_set, keyword)
        for item in data_set.ScheduledStepAttributesSequence:
            _require(item, "StudyInstanceUID")
        if message.received.status != PerformedStatus.IN_PROGRESS:
            text = "a new step is IN PROGRESS"
            raise Refused(INVALID_VALUE, text, "PerformedProcedureStepStatus")
        if self._received.create_step(message) is Admission.KNOWN:
            raise Refused(DUPLICATE_INSTANCE, "the step exists")

    def _set(self, event: Event, uid: str, stream: Any, peer: Peer) -> None:
        message, data_set = self._read(MessageKind.STEP_SET, event, uid, stream, peer)
        status = message.received.status
        if "PerformedProcedureStepStatus" in data_set and status not in set(PerformedStatus):
            text = "IN PROGRESS, COMPLETED or DISCONTINUED"
            raise Refused(INVALID_VALUE, text, "PerformedProcedureStepStatus")
        is_final = bool(status) and PerformedStatus(status).is_final
        match self._received.set_step(message, is_final=is_final):
            case Admission.UNKNOWN:
                raise Refused(NO_SUCH_INSTANCE, "no such step")
            case Admission.ENDED:
                raise Refused(
                    PROCESSING_FAILURE,
                    "the step may no longer be updated",
                    error_id=MAY_NOT_BE_UPDATED,
                )

    def _read(
        self, kind: MessageKind, event: Event, uid: str, stream: Any, peer: Peer
    ) -> tuple[ReceivedMessage, Dataset]:
        body: bytes = b"" if stream is None else stream.getvalue()
        if len(body) > self._max_size:
            raise Refused(RESOURCE_LIMIT, f"more than {self._max_size} bytes")
        if not uid:
            raise Refused(NO_SUCH_INSTANCE, "no such step")
        meta = FileMeta(PERFORMED_STEP, uid, str(event.context.transfer_syntax), peer.title)
        try:
            return read_message(kind, meta, body, peer.settings.sites)
        except DicomRefused as refused:
            text = f"data set: {refused.fault.value}"
            raise Refused(PROCESSING_FAILURE, text) from None


def _require(data_set: Dataset, keyword: str) -> None:
    """Require an attribute of type 1. Raises Refused."""
    if keyword not in data_set:
        raise Refused(MISSING_ATTRIBUTE, "is missing", keyword)
    value = data_set.get(keyword)
    if not value or not text_of(value):
        raise Refused(MISSING_VALUE, "has no value", keyword)
