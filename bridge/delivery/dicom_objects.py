"""
The DICOM objects of a signed report: Encapsulated PDF, Basic Text SR, and rejection notes. No I/O.

A delivery to a PACS is stored as one body of `multipart/related; type="application/dicom"` (PS3.18
8.6.1.2), one part for each object: STOW-RS posts it as it is, C-STORE sends its parts.

The orders of a report may belong to several studies. Each study gets its own objects, which name
each other as identical documents (PS3.3 C.17.2). A later version is a new object that names the
objects which it replaces as predecessors. All UIDs follow from the release, so a repetition sends
the same objects.

What was stored at a PACS cannot be deleted by C-STORE. Objects that are no longer valid are named
by a Key Object Selection in their study (a rejection note, IHE RAD Image Object Change Management):

* all objects of a withdrawn report; a new version of the SR says that the report was withdrawn;
* the objects in a study that no order of the report has any more.
"""

import itertools
import re
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from io import BytesIO
from typing import Final
from zoneinfo import ZoneInfo

from pydicom import dcmread, dcmwrite
from pydicom.charset import python_encoding
from pydicom.dataset import Dataset, FileMetaDataset
from pydicom.errors import InvalidDicomError
from pydicom.uid import (
    UID,
    BasicTextSRStorage,
    EncapsulatedPDFStorage,
    ExplicitVRLittleEndian,
    KeyObjectSelectionDocumentStorage,
)

from bridge.delivery.errors import NoDocument, NoStudy, NotInCharacterSet
from bridge.orders.received_objects import instance_creator
from mappings.hl7.path import Path
from mappings.outbound.echo import Echo
from mappings.outbound.results import (
    WITHDRAWALS,
    FileFormat,
    ResultContext,
    ResultOrder,
    Signer,
)
from mappings.outbound.style import REPORT, WHOLE, Code, ReportSection, TextLayout
from mappings.outbound.variables import person
from parsers.dicom_file import IMPLEMENTATION_CLASS, IMPLEMENTATION_VERSION


class DocumentForm(StrEnum):
    PDF = "pdf"
    SR = "sr"


@dataclass(frozen=True, slots=True)
class DicomDocuments:
    """
    What a PACS gets of a report.

    `charset` is a value of Specific Character Set without code extensions. `organization` is the
    verifying organization, by default the site. `language` is a tag of RFC 5646, '' if unknown.
    """

    forms: tuple[DocumentForm, ...] = (DocumentForm.PDF, DocumentForm.SR)
    charset: str = "ISO_IR 192"
    organization: str = ""
    language: str = ""
    series_description: str = "Report"
    series_number: int = 9000


@dataclass(frozen=True, slots=True)
class SentDocument:
    """
    An object that a PACS has.

    `in_withdrawal`: it was sent to withdraw others. `rejects`: the instances that a rejection note
    names. `subject`: its attributes of patient and study.
    """

    sop_class: str
    sop_instance: str
    study: str
    series: str
    patient: str = ""
    in_withdrawal: bool = False
    rejects: frozenset[str] = frozenset()
    subject: Dataset = field(default_factory=Dataset, compare=False, repr=False)


_NAMESPACE: Final = uuid.UUID("c12d4274-1b53-4fd2-8181-4fb05d2497dd")

_SR_SECTION_TEXTS: Final[Mapping[str, Code]] = {
    "121064": ("121065", "Procedure Description", "DCM"),
    "121068": ("121069", "Previous Finding", "DCM"),
    "121070": ("121071", "Finding", "DCM"),
    "121072": ("121073", "Impression", "DCM"),
    "121074": ("121075", "Recommendation", "DCM"),
    "121076": ("121077", "Conclusion", "DCM"),
}
"""Headings of CID 7001 and the elements of CID 7002 below them. Others keep the heading's code."""

_WITHDRAWN: Final[Code] = ("113001", "Rejected for Quality Reasons", "DCM")
_MISFILED: Final[Code] = ("113038", "Incorrect Modality Worklist Entry", "DCM")
"""Titles of rejection notes (CID 7010). A PACS may go on showing what has the first one."""
_WITHDRAWN_TITLE: Final = "Withdrawn report"

_UID: Final = re.compile(r"(0|[1-9]\d*)(\.(0|[1-9]\d*))+")
_MAX_UID: Final = 64
_DAY: Final = re.compile(r"\d{8}")
_TIME: Final = re.compile(r"\d{2}(\d{2}(\d{2}(\.\d{1,6})?)?)?")
_AGE: Final = re.compile(r"\d{3}[DWMY]")
_SEXES: Final = frozenset("MFO")
_CONTROLS: Final = re.compile("[\x00-\x08\x0b\x0e-\x1f\x7f-\x9f]")
_PATIENT_IDS: Final = Path.parse("PID-3")
_UNIVERSAL_TYPES: Final = frozenset({"DNS", "EUI64", "ISO", "URI", "UUID", "X400", "X500"})
"""Defined terms of Universal Entity ID Type (0040,0033)."""
_SHORT, _LONG = 16, 64  # characters of SH and of LO


def write_documents(
    context: ResultContext,
    layout: TextLayout,
    documents: DicomDocuments,
    sent: Sequence[Sequence[SentDocument]],
    *,
    is_wrong_patient: bool = False,
) -> bytes:
    """
    Return the objects of a delivery as a multipart body.

    `layout` cuts the text into sections. `sent` are the objects of the deliveries that the PACS
    accepted, newest first: a withdrawal rejects all of them, another delivery follows the newest,
    and rejects those of studies that the report does not have any more. `is_wrong_patient`: a
    withdrawal of what went out under a wrong patient. Raises CompositionError.
    """
    studies = _orders_by_study(context.orders)
    writer = _DocumentWriter(context, layout, documents, sent, studies, is_wrong_patient)
    files = [_file(document) for document in writer.documents()]
    if not files:
        raise NoDocument
    return _multipart(files, context.control_id)


def _orders_by_study(orders: Sequence[ResultOrder]) -> dict[str, list[ResultOrder]]:
    """Group orders by study. Raises NoStudy for an order without a StudyInstanceUID."""
    found: dict[str, list[ResultOrder]] = {}
    for order in orders:
        study = order.tags.get("StudyInstanceUID", "").strip()
        if not _UID.fullmatch(study) or len(study) > _MAX_UID:
            raise NoStudy
        found.setdefault(study, []).append(order)
    return found


class _DocumentWriter:
    def __init__(
        self,
        context: ResultContext,
        layout: TextLayout,
        documents: DicomDocuments,
        sent: Sequence[Sequence[SentDocument]],
        studies: Mapping[str, Sequence[ResultOrder]],
        is_wrong_patient: bool,
    ) -> None:
        self._context = context
        self._layout = layout
        self._documents = documents
        self._sent = sent
        self._studies = studies
        self._is_wrong_patient = is_wrong_patient
        self._zone = ZoneInfo(context.time_zone)
        self._is_withdrawal = context.event in WITHDRAWALS
        self._title = layout.sections.code(REPORT) or WHOLE

    def documents(self) -> Iterator[Dataset]:
        forms = self._documents.forms
        yield from self._rejection_notes()
        if DocumentForm.PDF in forms and not self._is_withdrawal:
            pdf = self._context.files.get(FileFormat.PDF)
            if not pdf:
                raise NoDocument
            yield from (self._pdf(study, pdf) for study in self._studies)
        if DocumentForm.SR in forms:
            yield from map(self._sr, self._studies)

    def _pdf(self, study: str, pdf: bytes) -> Dataset:
        data = self._common(study, EncapsulatedPDFStorage, "DOC", DocumentForm.PDF)
        data.ConversionType = "WSD"
        data.AcquisitionDateTime = self._moment(self._signed_at)
        data.BurnedInAnnotation = "YES"
        data.DocumentTitle = self._short("DocumentTitle", self._title[1], 1024)
        data.ConceptNameCodeSequence = [self._code(self._title)]
        data.VerificationFlag = "VERIFIED" if _named(self._context.signed_by) else "UNVERIFIED"
        data.MIMETypeOfEncapsulatedDocument = "application/pdf"
        data.EncapsulatedDocument = pdf + b"\0" * (len(pdf) % 2)
        data.EncapsulatedDocumentLength = len(pdf)
        data.RequestAttributesSequence = [
            self._request(study, order, in_series=True) for order in self._studies[study]
        ]
        return data

    def _sr(self, study: str) -> Dataset:
        data = self._common(study, BasicTextSRStorage, "SR", DocumentForm.SR)
        self._document(data, study)
        data.CompletionFlag = "COMPLETE"
        data.PreliminaryFlag = "FINAL"
        signers = [] if self._is_withdrawal else self._signers()
        data.VerificationFlag = "VERIFIED" if signers else "UNVERIFIED"
        if signers:
            data.VerifyingObserverSequence = [self._observer(*signer) for signer in signers]
        title = self._code(self._title)
        if self._is_withdrawal:
            data.SeriesDescription = _WITHDRAWN_TITLE
        self._root(data, title, _DIAGNOSTIC_REPORT)
        data.ContentSequence = [
            self._language(),
            *self._observers(),
            *map(self._section, self._sections()),
        ]
        return data

    def _rejection_notes(self) -> Iterator[Dataset]:
        """
        Return a Key Object Selection for each study that has objects which are not valid any more.

        What was rejected already, or says that a report was withdrawn, stays as it is: it may be
        another patient's.
        """
        known = [document for sent in self._sent for document in sent]
        done = frozenset[str]().union(*(document.rejects for document in known))
        by_study: dict[str, list[SentDocument]] = {}
        for document in known:
            is_valid = document.study in self._studies and not self._is_withdrawal
            is_done = document.in_withdrawal or document.sop_instance in done
            if not (is_valid or is_done or document.rejects):
                by_study.setdefault(document.study, []).append(document)
        return itertools.starmap(self._rejection_note, by_study.items())

    def _rejection_note(self, study: str, rejected: Sequence[SentDocument]) -> Dataset:
        data = self._common(study, KeyObjectSelectionDocumentStorage, "KO", _NOTE)
        if orders := self._studies.get(study):
            data.ReferencedRequestSequence = [self._request(study, order) for order in orders]
        else:  # its patient and study are those of the objects, which the report has left
            for keyword in _SUBJECT:
                if keyword in data:
                    del data[keyword]
            data.update(rejected[0].subject)
            data.SeriesInstanceUID = self._series_uid(study, _NOTE, rejected[0].patient)
        is_misfiled = self._is_wrong_patient or study not in self._studies
        title = _MISFILED if is_misfiled else _WITHDRAWN
        data.SeriesDescription = title[1]
        data.ReferencedPerformedProcedureStepSequence = []
        data.CurrentRequestedProcedureEvidenceSequence = _by_study(rejected)
        self._root(data, self._code(title), _KEY_OBJECT_SELECTION)
        data.ContentSequence = [self._reference(document) for document in rejected]
        return data

    def _common(self, study: str, sop_class: str, modality: str, form: str) -> Dataset:
        """Return the patient, the study, the series and the equipment of an object."""
        context, now = self._context, self._context.now.astimezone(self._zone)
        tags = self._orders_of(study)[0].tags
        data = Dataset()
        data.SpecificCharacterSet = self._documents.charset
        data.TimezoneOffsetFromUTC = now.strftime("%z")[:5]
        data.SOPClassUID, data.SOPInstanceUID = sop_class, self._instance_uid(study, form)
        data.InstanceCreationDate, data.InstanceCreationTime = _day_and_time(now)
        data.InstanceCreatorUID = instance_creator()

        data.PatientName = self._name("PatientName", tags.get("PatientName", ""))
        patient = self._short("PatientID", tags.get("PatientMRN", ""), _LONG)
        data.PatientID = patient
        self._add_issuer(data, self._orders_of(study)[0])
        data.PatientBirthDate = _matching(_DAY, tags.get("PatientBirthDate", ""))
        data.PatientSex = sex if (sex := tags.get("PatientSex", "")) in _SEXES else ""
        if age := _matching(_AGE, tags.get("PatientAge", "")):
            data.PatientAge = age

        data.StudyInstanceUID = study
        data.StudyDate = _matching(_DAY, tags.get("StudyDate", ""))
        data.StudyTime = _matching(_TIME, tags.get("StudyTime", ""))
        # The tag is for readers: "HANNA WEBER; PETER HAHN". The attribute has one name.
        referring, _, _ = tags.get("ReferringPhysician", "").partition(";")
        data.ReferringPhysicianName = self._person("ReferringPhysician", referring)
        data.StudyID = ""
        data.AccessionNumber = self._short("Accession", tags.get("Accession", ""))
        data.StudyDescription = self._short("StudyDescription", tags.get("StudyDescription", ""))

        data.Modality = modality
        data.SeriesInstanceUID = self._series_uid(study, form)
        data.SeriesNumber = self._documents.series_number + _SERIES[modality]
        data.SeriesDescription = self._short(
            "series_description", self._documents.series_description
        )
        data.InstanceNumber = len(context.earlier) + 1
        data.ContentDate, data.ContentTime = _day_and_time(self._signed_at.astimezone(self._zone))

        data.Manufacturer = "Report Bridge"
        data.InstitutionName = self._short("organization", self._organization)
        predecessors = self._predecessors(study, sop_class, patient)
        if predecessors:
            data.PredecessorDocumentsSequence = predecessors
        return data

    def _add_issuer(self, data: Dataset, order: ResultOrder) -> None:
        """Add the assigning authority of the patient's number (PID-3.4), if it is known."""
        mrn = order.tags.get("PatientMRN", "")
        numbers = Echo(order.echo).read(_PATIENT_IDS).repetitions
        authorities = [
            [number.component(4).subcomponent(part).text().strip() for part in (1, 2, 3)]
            for number in numbers
            if number.component(1).text() == mrn
        ]
        found = next((authority for authority in authorities if any(authority)), None)
        if found is None:
            return
        name, universal, kind = found
        data.IssuerOfPatientID = self._short("PID-3.4", name or universal)
        if universal and kind in _UNIVERSAL_TYPES:
            item = Dataset()
            item.UniversalEntityID = self._encodable("PID-3.4", _one_line(universal))
            item.UniversalEntityIDType = kind
            data.IssuerOfPatientIDQualifiersSequence = [item]

    def _document(self, data: Dataset, study: str) -> None:
        """Add the requests that the document fulfils, and the same documents in other studies."""
        data.ReferencedPerformedProcedureStepSequence = []
        data.PerformedProcedureCodeSequence = []
        data.ReferencedRequestSequence = [
            self._request(own, order) for own, orders in self._studies.items() for order in orders
        ]
        others = [other for other in self._studies if other != study]
        if others:
            data.IdenticalDocumentsSequence = _by_study(
                [
                    SentDocument(
                        str(data.SOPClassUID),
                        self._instance_uid(other, DocumentForm.SR),
                        other,
                        self._series_uid(other, DocumentForm.SR),
                    )
                    for other in others
                ]
            )

    def _orders_of(self, study: str) -> Sequence[ResultOrder]:
        """Return the orders of a study; all orders for a study that the report has left."""
        return self._studies.get(study) or self._context.orders

    def _predecessors(self, study: str, sop_class: str, patient: str) -> list[Dataset]:
        """
        Return the objects that this one replaces: in the same study, if there are any.

        What was rejected under another patient is no version of this report.
        """
        newest = self._sent[0] if self._sent else ()
        if sop_class == KeyObjectSelectionDocumentStorage:
            return []
        same = [
            document
            for document in newest
            if document.sop_class == sop_class
            and (
                document.patient == patient
                or (document.study in self._studies and not document.in_withdrawal)
            )
        ]
        here = [document for document in same if document.study == study]
        return _by_study(here or same)

    def _instance_uid(self, study: str, form: str) -> str:
        return _uid(self._context.control_id, form, study)

    def _series_uid(self, study: str, form: str, patient: str = "") -> str:
        """
        Return the series of all versions of the report in this form, for one patient, by default
        the one of the orders.
        """
        report = self._context.document.number.partition(".")[0] or self._context.control_id
        patient = patient or self._orders_of(study)[0].tags.get("PatientMRN", "")
        return _uid(report, "series", form, study, patient)

    @property
    def _signed_at(self) -> datetime:
        addenda = self._context.addenda
        latest = addenda[-1].signed_at if addenda else None
        return latest or self._context.signed_at or self._context.now

    def _moment(self, moment: datetime) -> str:
        return moment.astimezone(self._zone).strftime("%Y%m%d%H%M%S%z")

    @property
    def _organization(self) -> str:
        return self._documents.organization or self._context.site

    def _signers(self) -> list[tuple[Signer, datetime]]:
        """Return the signers of the report and of its addenda, each with the last signature."""
        context = self._context
        signatures = [(context.signed_by, context.signed_at or context.now)]
        signatures += [(one.signed_by, one.signed_at or context.now) for one in context.addenda]
        latest = {signer: moment for signer, moment in signatures if _named(signer)}
        return list(latest.items())

    def _observer(self, signer: Signer, moment: datetime) -> Dataset:
        item = Dataset()
        item.VerifyingOrganization = self._short("organization", self._organization)
        item.VerificationDateTime = self._moment(moment)
        item.VerifyingObserverName = self._person("name of a signer", _named(signer))
        item.VerifyingObserverIdentificationCodeSequence = []
        return item

    def _person(self, what: str, name: str) -> str:
        """Return the name of a person as PN, from PN or as it is written in a text."""
        if "^" in name:
            return self._name(what, name)
        parts = person(name)
        return self._name(what, f"{parts.family}^{parts.given}".rstrip("^"))

    def _language(self) -> Dataset:
        """Return the language of the document (TID 1204), which TID 2000 requires."""
        language = self._documents.language
        item = self._content("HAS CONCEPT MOD", "CODE", _LANGUAGE)
        code = (language, language, _LANGUAGES) if language else _UNDETERMINED
        item.ConceptCodeSequence = [self._code(code)]
        return item

    def _observers(self) -> Iterator[Dataset]:
        """Return the signers (TID 1001, 1003)."""
        for signer, _ in [] if self._is_withdrawal else self._signers():
            kind = self._content("HAS OBS CONTEXT", "CODE", _OBSERVER_TYPE)
            kind.ConceptCodeSequence = [self._code(_PERSON)]
            yield kind
            name = self._content("HAS OBS CONTEXT", "PNAME", _OBSERVER_NAME)
            name.PersonName = self._person("name of a signer", _named(signer))
            yield name

    def _sections(self) -> list[ReportSection]:
        if self._is_withdrawal:
            lines = (self._context.report_text,)
            return [ReportSection(REPORT, self._title, 1, lines)]
        return self._layout.cut(self._context)

    def _section(self, section: ReportSection) -> Dataset:
        """
        Return a heading with its text (TID 2000, row 8, and TID 2002).

        The heading of text that has none is the title of the document.
        """
        text = self._content(
            "CONTAINS", "TEXT", _SR_SECTION_TEXTS.get(section.code[0], section.code)
        )
        written = _CONTROLS.sub("", "\r\n".join(section.lines))
        text.TextValue = self._encodable("text of the report", written or " ")
        heading = self._content("CONTAINS", "CONTAINER", section.code)
        heading.ContinuityOfContent = "SEPARATE"
        heading.ContentSequence = [text]
        return heading

    def _reference(self, document: SentDocument) -> Dataset:
        item = Dataset()
        item.RelationshipType, item.ValueType = "CONTAINS", "COMPOSITE"
        item.ReferencedSOPSequence = [_sop(document)]
        return item

    def _root(self, data: Dataset, title: Dataset, template: str) -> None:
        data.ValueType = "CONTAINER"
        used = Dataset()
        used.MappingResource, used.TemplateIdentifier = "DCMR", template
        data.ContentTemplateSequence = [used]
        data.ConceptNameCodeSequence = [title]
        data.ContinuityOfContent = "SEPARATE"

    def _content(self, relationship: str, value_type: str, name: Code) -> Dataset:
        item = Dataset()
        item.RelationshipType, item.ValueType = relationship, value_type
        item.ConceptNameCodeSequence = [self._code(name)]
        return item

    def _request(self, study: str, order: ResultOrder, *, in_series: bool = False) -> Dataset:
        """Return an item of Referenced Request, or of Request Attributes Sequence."""
        tags, item = order.tags, Dataset()
        item.AccessionNumber = self._short("Accession", tags.get("Accession", ""))
        item.StudyInstanceUID = study
        item.RequestedProcedureDescription = self._short(
            "StudyDescription", tags.get("StudyDescription", "")
        )
        item.RequestedProcedureID = self._short("procedure", order.procedure_id, _SHORT)
        if in_series:
            # There it may not be empty. The worklist of this service falls back to the same value.
            item.RequestedProcedureID = item.RequestedProcedureID or item.AccessionNumber[:_SHORT]
            return item
        item.ReferencedStudySequence = []
        item.PlacerOrderNumberImagingServiceRequest = self._short("placer", order.placer)
        item.FillerOrderNumberImagingServiceRequest = self._short("filler", order.filler)
        item.RequestedProcedureCodeSequence = []
        return item

    def _code(self, code: Code) -> Dataset:
        item, (value, meaning, scheme) = Dataset(), code
        if len(value) > _SHORT:
            item.LongCodeValue = self._short("code", value, 1024)
        else:
            item.CodeValue = self._short("code", value)
        item.CodingSchemeDesignator = "DCM" if scheme == "DCM" else self._short("code", scheme)
        item.CodeMeaning = self._short("code", meaning)
        return item

    def _name(self, what: str, name: str) -> str:
        """Return a person name (PN) with its groups of alphabets."""
        return self._encodable(what, _one_line(name))

    def _short(self, what: str, text: str, length: int = _LONG) -> str:
        """Return one value of a short text; a longer one is cut, as its VR requires."""
        return self._encodable(what, _one_line(text)[:length])

    def _encodable(self, what: str, text: str) -> str:
        """Raise NotInCharacterSet if the character set of the destination lacks a character."""
        charset = self._documents.charset
        try:
            text.encode(python_encoding[charset])
        except UnicodeEncodeError:
            raise NotInCharacterSet(what, charset) from None
        return text


_NOTE: Final = "ko"
_SUBJECT: Final = (
    "SpecificCharacterSet", "PatientName", "PatientID", "IssuerOfPatientID",
    "IssuerOfPatientIDQualifiersSequence", "PatientBirthDate", "PatientSex", "PatientAge",
    "StudyInstanceUID", "StudyDate", "StudyTime", "ReferringPhysicianName", "StudyID",
    "AccessionNumber", "StudyDescription",
)  # fmt: skip
"""The attributes of patient and study of every object here."""
_SERIES: Final = {"DOC": 0, "SR": 1, "KO": 2}
"""Added to the number of the series, by modality."""
_DIAGNOSTIC_REPORT: Final = "2000"
_KEY_OBJECT_SELECTION: Final = "2010"
"""Templates of PS3.16."""
_LANGUAGES: Final = "RFC5646"
_UNDETERMINED: Final[Code] = ("und", "Undetermined", _LANGUAGES)
_LANGUAGE: Final[Code] = ("121049", "Language of Content Item and Descendants", "DCM")
_OBSERVER_TYPE: Final[Code] = ("121005", "Observer Type", "DCM")
_PERSON: Final[Code] = ("121006", "Person", "DCM")
_OBSERVER_NAME: Final[Code] = ("121008", "Person Observer Name", "DCM")


def _named(signer: Signer) -> str:
    return signer.name.strip() or signer.email.strip()


def _uid(*parts: str) -> str:
    return f"2.25.{uuid.uuid5(_NAMESPACE, chr(31).join(parts)).int}"


def _day_and_time(moment: datetime) -> tuple[str, str]:
    return moment.strftime("%Y%m%d"), moment.strftime("%H%M%S")


def _matching(pattern: re.Pattern[str], text: str) -> str:
    return text if pattern.fullmatch(text) else ""


def _one_line(text: str) -> str:
    """Return a text without control characters, and without the separator of values."""
    return " ".join(_CONTROLS.sub(" ", text).replace("\\", "/").split())


def _by_study(documents: Sequence[SentDocument]) -> list[Dataset]:
    """Return a hierarchical reference (PS3.3 table C.17-3): studies, series, objects."""
    studies: dict[str, dict[str, list[SentDocument]]] = {}
    for document in documents:
        studies.setdefault(document.study, {}).setdefault(document.series, []).append(document)
    return [_study_reference(study, series) for study, series in studies.items()]


def _study_reference(study: str, series: Mapping[str, Sequence[SentDocument]]) -> Dataset:
    item = Dataset()
    item.StudyInstanceUID = study
    item.ReferencedSeriesSequence = []
    for uid, documents in series.items():
        below = Dataset()
        below.SeriesInstanceUID = uid
        below.ReferencedSOPSequence = [_sop(document) for document in documents]
        item.ReferencedSeriesSequence.append(below)
    return item


def _sop(document: SentDocument) -> Dataset:
    item = Dataset()
    item.ReferencedSOPClassUID = document.sop_class
    item.ReferencedSOPInstanceUID = document.sop_instance
    return item


def _file(data: Dataset) -> bytes:
    """Return an object as a file of PS3.10, Explicit VR Little Endian."""
    meta = FileMetaDataset()
    meta.MediaStorageSOPClassUID = data.SOPClassUID
    meta.MediaStorageSOPInstanceUID = data.SOPInstanceUID
    meta.TransferSyntaxUID = ExplicitVRLittleEndian
    meta.ImplementationClassUID = UID(IMPLEMENTATION_CLASS)
    meta.ImplementationVersionName = IMPLEMENTATION_VERSION
    data.file_meta = meta
    written = BytesIO()
    dcmwrite(written, data, enforce_file_format=True)
    return written.getvalue()


_PART_HEAD: Final = b"\r\nContent-Type: application/dicom\r\n\r\n"
_BOUNDARY: Final = re.compile(rb"--(report-bridge-[0-9a-f]{32})\r\nContent-Type: application/dicom")


def _multipart(files: Sequence[bytes], control_id: str) -> bytes:
    boundary = b"report-bridge-" + uuid.uuid5(_NAMESPACE, control_id).hex.encode()
    parts = [b"--" + boundary + _PART_HEAD + file + b"\r\n" for file in files]
    return b"".join([*parts, b"--" + boundary + b"--\r\n"])


def boundary_of(payload: bytes) -> str:
    """Return the boundary of a body that `write_documents` has written; '' for other payloads."""
    found = _BOUNDARY.match(payload)
    return found[1].decode() if found else ""


def files_of(payload: bytes) -> list[bytes]:
    """Return the files of a body that `write_documents` has written."""
    boundary = boundary_of(payload).encode()
    if not boundary:
        return []
    end = b"\r\n--" + boundary
    parts = (b"\r\n" + payload).split(end)[1:-1]
    return [part.removeprefix(_PART_HEAD) for part in parts]


def read_documents(payload: bytes) -> list[Dataset]:
    """Return the objects of a body, each with `file_meta`; none if it is not such a body."""
    try:
        return [dcmread(BytesIO(file)) for file in files_of(payload)]
    except InvalidDicomError:
        return []


def sent_objects(payload: bytes, *, in_withdrawal: bool = False) -> tuple[SentDocument, ...]:
    """Return all objects of a body; `in_withdrawal`: of the delivery of a withdrawal."""
    return tuple(
        SentDocument(
            str(data.SOPClassUID),
            str(data.SOPInstanceUID),
            str(data.StudyInstanceUID),
            str(data.SeriesInstanceUID),
            str(data.get("PatientID") or ""),
            in_withdrawal,
            _rejected_by(data),
            _subject_of(data),
        )
        for data in read_documents(payload)
    )


def _rejected_by(data: Dataset) -> frozenset[str]:
    """Return the instances that a rejection note names; none for another object."""
    if data.SOPClassUID != KeyObjectSelectionDocumentStorage:
        return frozenset()
    return frozenset(
        str(reference.ReferencedSOPInstanceUID)
        for item in data.ContentSequence
        for reference in item.ReferencedSOPSequence
    )


def _subject_of(data: Dataset) -> Dataset:
    subject = Dataset()
    for keyword in _SUBJECT:
        if keyword in data:
            subject[keyword] = data[keyword]
    return subject
