"""A modality that speaks DICOM with the services of the bridge, on a port of this machine."""

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from pydicom import dcmwrite
from pydicom.dataset import Dataset, FileMetaDataset
from pydicom.uid import UID, ExplicitVRLittleEndian, generate_uid
from pynetdicom import AE
from pynetdicom.association import Association
from pynetdicom.dsutils import encode

from bridge.dicom.server import Peer
from bridge.orders.received_objects import PERFORMED_STEP
from config.dicom import DicomPeer
from parsers.dicom_file import FileMeta

CALLED = "REPORT_BRIDGE"


PEER = Peer(
    "CT1",
    "127.0.0.1",
    DicomPeer.model_validate(
        {"ae_title": "CT1", "addresses": ["127.0.0.0/8"], "may": ["performed", "store"]}
    ),
)


@contextmanager
def serving(*services: Any, peer: Peer = PEER) -> Iterator[int]:
    """Serve these services for one peer; yield the port."""
    entity = AE(CALLED)
    handlers: list[Any] = []
    for service in services:
        for context in service.contexts:
            entity.add_supported_context(context.abstract_syntax, context.transfer_syntax)
        for event, handle in service.handle.items():
            handlers.append((event, partial(_call, handle, peer)))
    server = entity.start_server(("127.0.0.1", 0), block=False, evt_handlers=handlers)
    assert server is not None
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()


def _call(handle: Any, peer: Peer, event: Any) -> Any:
    return handle(event, peer)


@dataclass
class Modality:
    """A modality that sends with one syntax; every request has an association of its own."""

    port: int
    syntax: str = str(ExplicitVRLittleEndian)
    title: str = "CT1"

    def associate(self, *classes: str) -> Association:
        entity = AE(self.title)
        for sop_class in classes:
            entity.add_requested_context(sop_class, self.syntax)
        association = entity.associate("127.0.0.1", self.port, ae_title=CALLED)
        assert association.is_established
        return association

    async def create(self, uid: str | None, attributes: Dataset) -> Dataset:
        """Send an N-CREATE; return the status."""
        return await asyncio.to_thread(self.create_now, uid, attributes)

    async def set(self, uid: str, attributes: Dataset) -> Dataset:
        """Send an N-SET; return the status."""
        return await asyncio.to_thread(self.set_now, uid, attributes)

    async def store(self, made: Dataset) -> Dataset:
        """Send a C-STORE; return the status."""
        return await asyncio.to_thread(self.store_now, made)

    def store_now(self, made: Dataset) -> Dataset:
        association = self.associate(made.SOPClassUID)
        status = self.store_in(association, made)
        association.release()
        return status

    def store_in(self, association: Association, made: Dataset) -> Dataset:
        """Send a C-STORE in an association; return the status."""
        made.file_meta = FileMetaDataset()
        made.file_meta.TransferSyntaxUID = UID(self.syntax)
        return association.send_c_store(made)

    def create_now(self, uid: str | None, attributes: Dataset) -> Dataset:
        association = self.associate(PERFORMED_STEP)
        status, _ = association.send_n_create(attributes, PERFORMED_STEP, uid)
        association.release()
        return status

    def set_now(self, uid: str, attributes: Dataset) -> Dataset:
        association = self.associate(PERFORMED_STEP)
        status, _ = association.send_n_set(attributes, PERFORMED_STEP, uid)
        association.release()
        return status


def data_set(**values: Any) -> Dataset:
    made = Dataset()
    for keyword, value in values.items():
        setattr(made, keyword, value)
    return made


def scheduled(accession: str, step: str = "", study: str = "1.2.840.99999.1") -> Dataset:
    """Return an item of the Scheduled Step Attributes Sequence."""
    return data_set(
        AccessionNumber=accession, StudyInstanceUID=study, ScheduledProcedureStepID=step
    )


def new_step(
    *references: Dataset, mrn: str = "M1", status: str = "IN PROGRESS", **more: Any
) -> Dataset:
    """Return the attributes of an N-CREATE."""
    return data_set(
        ScheduledStepAttributesSequence=list(references) or [scheduled("A1")],
        PatientID=mrn,
        PatientName="TESTER^TILDA",
        PerformedStationAETitle="CT1",
        PerformedProcedureStepStartDate="20261130",
        PerformedProcedureStepStartTime="101500",
        PerformedProcedureStepStatus=status,
        PerformedProcedureStepID="PPS1",
        PerformedSeriesSequence=[],
        Modality="CT",
        **more,
    )


def ended(status: str = "COMPLETED", *, images: int | None = 1, reason: str = "") -> Dataset:
    """Return the attributes of the last N-SET; `images` None leaves out the series."""
    made = data_set(
        PerformedProcedureStepStatus=status,
        PerformedProcedureStepEndDate="20261130",
        PerformedProcedureStepEndTime="103000",
    )
    if images is not None:
        made.PerformedSeriesSequence = [
            data_set(SeriesInstanceUID=generate_uid(), ReferencedImageSequence=_images(images))
        ]
    if reason:
        code = data_set(CodeValue=reason, CodingSchemeDesignator="DCM", CodeMeaning="reason")
        made.PerformedProcedureStepDiscontinuationReasonCodeSequence = [code]
    return made


def _images(count: int) -> Sequence[Dataset]:
    ct = "1.2.840.10008.5.1.4.1.1.2"
    return [
        data_set(ReferencedSOPClassUID=ct, ReferencedSOPInstanceUID=generate_uid())
        for _ in range(count)
    ]


BASIC_TEXT = "1.2.840.10008.5.1.4.1.1.88.11"
DOSE_REPORT = "1.2.840.10008.5.1.4.1.1.88.67"


def report(
    *,
    accession: str = "A1",
    mrn: str = "M1",
    text: str = "Nodule 8 mm",
    sop_class: str = BASIC_TEXT,
    **more: Any,
) -> Dataset:
    """Return a structured report with one sentence."""
    found = data_set(
        RelationshipType="CONTAINS",
        ValueType="TEXT",
        ConceptNameCodeSequence=[_code("121071", "Finding")],
        TextValue=text,
    )
    return data_set(
        SOPClassUID=sop_class,
        SOPInstanceUID=generate_uid(),
        StudyInstanceUID="1.2.840.99999.1",
        SeriesInstanceUID=generate_uid(),
        Modality="SR",
        PatientID=mrn,
        PatientName="TESTER^TILDA",
        PatientBirthDate="19700101",
        PatientSex="F",
        AccessionNumber=accession,
        StudyDate="20261130",
        StudyTime="101500",
        StudyID="1",
        ReferringPhysicianName="",
        SeriesNumber=1,
        InstanceNumber=1,
        ContentDate="20261130",
        ContentTime="101500",
        CompletionFlag="COMPLETE",
        VerificationFlag="UNVERIFIED",
        Manufacturer="",
        ReferencedPerformedProcedureStepSequence=[],
        PerformedProcedureCodeSequence=[],
        ValueType="CONTAINER",
        ContinuityOfContent="SEPARATE",
        ConceptNameCodeSequence=[_code("18748-4", "Diagnostic Imaging Report", "LN")],
        ContentSequence=[found],
        **more,
    )


def _code(value: str, meaning: str, scheme: str = "DCM") -> Dataset:
    return data_set(CodeValue=value, CodingSchemeDesignator=scheme, CodeMeaning=meaning)


def write_report(folder: Path, made: Dataset, syntax: UID = ExplicitVRLittleEndian) -> Path:
    """Write a report as a file for a program that sends files."""
    path = folder / f"{made.SOPInstanceUID}.dcm"
    made.file_meta = FileMetaDataset()
    made.file_meta.TransferSyntaxUID = syntax
    dcmwrite(path, made, enforce_file_format=True)
    return path


def meta_of(made: Dataset) -> FileMeta:
    return FileMeta(made.SOPClassUID, made.SOPInstanceUID, str(ExplicitVRLittleEndian), "CT1")


def encoded(made: Dataset) -> bytes:
    found = encode(made, is_implicit_vr=False, is_little_endian=True)
    assert found is not None
    return found
