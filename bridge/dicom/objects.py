"""
Objects that modalities store: structured reports, dose reports and key object selections.

C-STORE and STOW-RS share it. An object is stored in the message log before the answer; an equal one
is stored once.
"""

from collections.abc import Collection
from typing import Final

from bridge.dicom.encoding import SYNTAXES
from bridge.dicom.received_log import Admission, ReceivedLog, read_message
from bridge.dicom.refusals import Refused
from bridge.dicom.statuses import (
    CANNOT_UNDERSTAND,
    NO_SUCH_SOP_CLASS,
    NO_SUCH_SYNTAX,
    NOT_THE_SOP_CLASS,
    OUT_OF_RESOURCES,
)
from bridge.orders.received_objects import (
    ENCAPSULATED_PDF,
    KEY_OBJECTS,
    MessageKind,
    text_of,
)
from parsers.dicom_file import DicomFault, DicomRefused, FileMeta

_SR: Final = "1.2.840.10008.5.1.4.1.1.88"
CLASSES: Final = (
    f"{_SR}.11",  # Basic Text SR
    f"{_SR}.22",  # Enhanced SR
    f"{_SR}.33",  # Comprehensive SR
    f"{_SR}.34",  # Comprehensive 3D SR
    f"{_SR}.35",  # Extensible SR
    f"{_SR}.40",  # Procedure Log
    f"{_SR}.50",  # Mammography CAD SR
    KEY_OBJECTS,  # 88.59
    f"{_SR}.65",  # Chest CAD SR
    f"{_SR}.67",  # X-Ray Radiation Dose SR
    f"{_SR}.68",  # Radiopharmaceutical Radiation Dose SR
    f"{_SR}.69",  # Colon CAD SR
    f"{_SR}.70",  # Implantation Plan SR
    f"{_SR}.71",  # Acquisition Context SR
    f"{_SR}.72",  # Simplified Adult Echo SR
    f"{_SR}.73",  # Patient Radiation Dose SR
    f"{_SR}.76",  # Enhanced X-Ray Radiation Dose SR
    ENCAPSULATED_PDF,  # only those of this installation, which a PACS routes back
)
"""The storage SOP classes that are accepted (PS3.4 table B.5-1)."""

_FAULTS: Final = {
    DicomFault.NOT_DICOM: CANNOT_UNDERSTAND,
    DicomFault.MALFORMED: CANNOT_UNDERSTAND,
    DicomFault.TOO_LARGE: OUT_OF_RESOURCES,
    DicomFault.TOO_MANY: OUT_OF_RESOURCES,
}


class ObjectStore:
    """Stores objects of peers in the message log."""

    def __init__(self, log: ReceivedLog, max_size: int) -> None:
        """`max_size` limits the bytes of a data set."""
        self._log = log
        self._max_size = max_size

    def store(
        self,
        meta: FileMeta,
        body: bytes,
        sites: Collection[str],
        *,
        study: str = "",
        is_posted: bool = False,
    ) -> Admission:
        """
        Store an object of a peer that has these sites; `study` is that of the request, if any.

        Raises Refused, StoreError.
        """
        if meta.sop_class not in CLASSES:
            raise Refused(NO_SUCH_SOP_CLASS, "is not accepted", "SOPClassUID")
        if meta.transfer_syntax not in SYNTAXES:
            raise Refused(NO_SUCH_SYNTAX, "is not accepted", "TransferSyntaxUID")
        if len(body) > self._max_size:
            raise Refused(OUT_OF_RESOURCES, f"more than {self._max_size} bytes")
        try:
            message, data_set = read_message(_kind(meta, is_posted), meta, body, sites)
        except DicomRefused as refused:
            text = f"data set: {refused.fault.value}"
            raise Refused(_FAULTS[refused.fault], text) from None
        if text_of(data_set.get("SOPClassUID")) != meta.sop_class:
            raise Refused(NOT_THE_SOP_CLASS, "not that of the request", "SOPClassUID")
        if not meta.sop_instance or text_of(data_set.get("SOPInstanceUID")) != meta.sop_instance:
            raise Refused(NOT_THE_SOP_CLASS, "not that of the request", "SOPInstanceUID")
        if meta.sop_class == ENCAPSULATED_PDF and not message.received.is_own:
            raise Refused(NO_SUCH_SOP_CLASS, "documents of others are not accepted", "SOPClassUID")
        own_study = text_of(data_set.get("StudyInstanceUID"))
        if not own_study:
            raise Refused(CANNOT_UNDERSTAND, "has no value", "StudyInstanceUID")
        if study not in {"", own_study}:
            raise Refused(NOT_THE_SOP_CLASS, "not that of the request", "StudyInstanceUID")
        return self._log.store_object(message)


_KINDS: Final = {
    KEY_OBJECTS: (MessageKind.KEY_OBJECTS_STORED, MessageKind.KEY_OBJECTS_POSTED),
    ENCAPSULATED_PDF: (MessageKind.DOCUMENT_STORED, MessageKind.DOCUMENT_POSTED),
}
_REPORTS: Final = (MessageKind.REPORT_STORED, MessageKind.REPORT_POSTED)


def _kind(meta: FileMeta, is_posted: bool) -> MessageKind:
    return _KINDS.get(meta.sop_class, _REPORTS)[is_posted]
