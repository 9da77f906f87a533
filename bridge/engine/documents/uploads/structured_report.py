"""
Read a DICOM structured report: clinical information, measurements, findings as text.

Any template is read the same way: containers are headings, leaves are `name: value`, indented by
depth (DICOM PS3.3 §C.17.3). Only attributes that mean the same as a clinicalInfo tag become tags.
References to images, coordinates, UIDs and the observer context are left out of the text. A
tracking identifier is kept, because it names the lesion of a group of measurements.

A document (DICOM PS3.3 A.35) is read completely or refused. If a launch request has a tag too, the
caller chooses between the two values. Runs in a worker process
(`bridge.engine.documents.uploads.tasks`), because pydicom needs minutes for some short files.
"""

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from pydicom.dataset import Dataset
from pydicom.multival import MultiValue
from pydicom.sequence import Sequence

from bridge.engine.documents.errors import BadStructuredReport, SrFault
from bridge.engine.documents.exports.model import day_and_time, person_name, time_text
from bridge.engine.documents.uploads.sr_file import SrLimits, read_file
from parsers.limits import STRUCTURED_REPORT_ELEMENTS, STRUCTURED_REPORT_TEXT

NOT_A_STUDY_MODALITY = frozenset({"SR", "KO", "PR", "SEG", "DOC", "OT", "AU", "RWV", "REG"})

TagReader = Callable[[Dataset], str]


def attribute(keyword: str) -> TagReader:
    """Return a reader of one attribute; several values are joined by commas."""
    return lambda data_set: text_of(data_set.get(keyword))


def text_of(value: object) -> str:
    """Return a pydicom value as one line of text; None and sequences give an empty text."""
    if value is None or isinstance(value, Dataset | Sequence):
        return ""
    if isinstance(value, MultiValue | list):
        return ", ".join(part for part in map(text_of, value) if part)
    return str(value).replace("\x00", "").strip()


def code_of(item: Dataset) -> tuple[str, str]:
    """Return value and meaning of a code sequence item (DICOM PS3.3 §8.3)."""
    keywords = ("CodeValue", "LongCodeValue", "URNCodeValue")
    values = (text_of(item.get(keyword)) for keyword in keywords)
    return next((value for value in values if value), ""), text_of(item.get("CodeMeaning"))


def requested(reader: TagReader) -> TagReader:
    """Return a reader for the first order of the report (ReferencedRequestSequence)."""

    def read(data_set: Dataset) -> str:
        items = data_set.get("ReferencedRequestSequence") or []
        return next((value for value in map(reader, items) if value), "")

    return read


def code_in(keyword: str) -> TagReader:
    """Return a reader of the code value of a sequence's first item."""

    def read(data_set: Dataset) -> str:
        return next((code_of(item)[0] for item in data_set.get(keyword) or []), "")

    return read


def study_modality(data_set: Dataset) -> str:
    """Return the modality of the images; `SR` is the modality of the report."""
    own = text_of(data_set.get("Modality"))
    in_study = [part.strip() for part in text_of(data_set.get("ModalitiesInStudy")).split(",")]
    return next((m for m in [*in_study, own] if m and m not in NOT_A_STUDY_MODALITY), "")


def verifying_observer(data_set: Dataset) -> str:
    """Return the last verifying observer of the report."""
    observers = data_set.get("VerifyingObserverSequence") or []
    names = [text_of(observer.get("VerifyingObserverName")) for observer in observers]
    return next((name for name in reversed(names) if name), "")


READERS: Mapping[str, tuple[TagReader, ...]] = {
    "PatientMRN": (attribute("PatientID"),),
    "Accession": (attribute("AccessionNumber"), requested(attribute("AccessionNumber"))),
    "PatientName": (attribute("PatientName"),),
    "PatientBirthDate": (attribute("PatientBirthDate"),),
    "PatientAge": (attribute("PatientAge"),),
    "PatientSex": (attribute("PatientSex"),),
    "Ethnicity": (attribute("EthnicGroup"),),
    "Modality": (study_modality,),
    "BodyPartExamined": (attribute("BodyPartExamined"),),
    "StudyDescription": (
        attribute("StudyDescription"),
        requested(attribute("RequestedProcedureDescription")),
    ),
    "ProcedureCode": (
        code_in("ProcedureCodeSequence"),
        requested(code_in("RequestedProcedureCodeSequence")),
    ),
    "StudyDate": (attribute("StudyDate"),),
    "StudyTime": (attribute("StudyTime"),),
    "StudyInstanceUID": (attribute("StudyInstanceUID"),),
    "ReasonForExam": (
        attribute("ReasonForTheRequestedProcedure"),
        requested(attribute("ReasonForTheRequestedProcedure")),
        attribute("AdmittingDiagnosesDescription"),
    ),
    "ReferringPhysician": (attribute("ReferringPhysicianName"),),
    "ReportingPhysician": (verifying_observer, attribute("NameOfPhysiciansReadingStudy")),
    "Notes": (attribute("AdditionalPatientHistory"), attribute("PatientComments")),
}
"""The sources of each tag, the best first."""


def clinical_info(data_set: Dataset) -> dict[str, str]:
    """Return the tags that have a value in the file, in DICOM notation."""
    found = {
        tag: next((value for reader in readers if (value := reader(data_set))), "")
        for tag, readers in READERS.items()
    }
    return {tag: value for tag, value in found.items() if value}


INDENT = "  "
OBSERVER_CONTEXT = "HAS OBS CONTEXT"
NO_UNITS = frozenset({"1", "{no units}"})
LANGUAGE_CODES = frozenset({"121049", "121046"})  # language of content item, country of language
TRACKING_CODE, TRACKING_NAME = "112039", "tracking identifier"


@dataclass(frozen=True, slots=True)
class Measurement:
    """
    One NUM item: `path` has the headings above it, `qualifiers` the codes of its children.

    `tracking` is the tracking identifier of the measured object, such as `Lesion 1`.
    """

    name: str
    value: str
    unit: str
    path: tuple[str, ...]
    qualifiers: tuple[tuple[str, str], ...]
    tracking: str = ""


@dataclass(slots=True)
class SrContent:
    """The lines and measurements of a content tree."""

    lines: list[str] = field(default_factory=list)
    measurements: list[Measurement] = field(default_factory=list)
    elements: int = 0
    """Elements of the visited items."""


def concept(item: Dataset) -> str:
    """Return the name of an item: the meaning of its concept name code."""
    for name in item.get("ConceptNameCodeSequence") or []:
        value, meaning = code_of(name)
        return meaning or value
    return ""


def _coded(item: Dataset) -> str:
    for code in item.get("ConceptCodeSequence") or []:
        value, meaning = code_of(code)
        return meaning or value
    return ""


def _unit(measured: Dataset) -> str:
    for code in measured.get("MeasurementUnitsCodeSequence") or []:
        value, meaning = code_of(code)
        if value in NO_UNITS:
            return ""
        return meaning if value.startswith("{") and meaning else value
    return ""


def _number(item: Dataset) -> tuple[str, str]:
    """Return value and unit; without a value, the reason for its absence."""
    for measured in item.get("MeasuredValueSequence") or []:
        if value := text_of(measured.get("NumericValue")):
            return value, _unit(measured)
    for code in item.get("NumericValueQualifierCodeSequence") or []:
        return code_of(code)[1], ""
    return "", ""


VALUES: Mapping[str, Callable[[Dataset], str]] = {
    "TEXT": lambda item: text_of(item.get("TextValue")),
    "CODE": _coded,
    "NUM": lambda item: " ".join(part for part in _number(item) if part),
    "PNAME": lambda item: person_name(text_of(item.get("PersonName"))),
    "DATE": lambda item: day_and_time(text_of(item.get("Date"))),
    "TIME": lambda item: time_text(text_of(item.get("Time"))),
    "DATETIME": lambda item: day_and_time(text_of(item.get("DateTime"))),
}
"""Formatters of leaf values by value type; other types have no text."""


def walk(root: Dataset, max_depth: int) -> SrContent:
    """Collect lines and measurements below `root`; raise `BadStructuredReport` if too deep."""
    content = SrContent()
    _walk_children(root, (), content, max_depth, _tracking(root))
    return content


def _walk_children(
    parent: Dataset, path: tuple[str, ...], content: SrContent, levels_left: int, tracking: str
) -> None:
    children = parent.get("ContentSequence") or []
    if children and levels_left <= 0:
        raise BadStructuredReport(SrFault.TOO_DEEP)
    content.elements += sum(map(len, children))
    if content.elements > STRUCTURED_REPORT_ELEMENTS:
        raise BadStructuredReport(SrFault.TOO_MANY_ITEMS)
    for item in children:
        _walk_item(item, path, content, levels_left, tracking)


def _walk_item(
    item: Dataset, path: tuple[str, ...], content: SrContent, levels_left: int, tracking: str
) -> None:
    if _is_omitted(item):
        return
    name, kind = concept(item), text_of(item.get("ValueType")).upper()
    tracking = _tracking(item) or tracking
    if kind == "CONTAINER":
        before = len(content.lines)
        inner = (*path, name) if name else path
        _walk_children(item, inner, content, levels_left - 1, tracking)
        if name and len(content.lines) > before:  # no heading without content
            content.lines.insert(before, INDENT * len(path) + name)
        return
    reader = VALUES.get(kind)
    if reader is not None and (value := reader(item)):
        content.lines.extend(_lines(name, value, len(path)))
        if kind == "NUM":
            content.measurements.append(_measurement(item, name, path, tracking))
    _walk_children(item, (*path, name), content, levels_left - 1, tracking)


def _tracking(item: Dataset) -> str:
    """Return the tracking identifier among an item's children (DICOM PS3.16 TID 1501)."""
    children = item.get("ContentSequence") or []
    return next((text_of(each.get("TextValue")) for each in children if _is_tracking(each)), "")


def _is_tracking(item: Dataset) -> bool:
    names = map(code_of, item.get("ConceptNameCodeSequence") or [])
    return any(
        value == TRACKING_CODE or meaning.casefold() == TRACKING_NAME for value, meaning in names
    )


def _is_omitted(item: Dataset) -> bool:
    if _is_tracking(item):
        return False
    if text_of(item.get("RelationshipType")).upper() == OBSERVER_CONTEXT:
        return True
    names = item.get("ConceptNameCodeSequence") or []
    return any(code_of(name)[0] in LANGUAGE_CODES for name in names)


def _lines(name: str, value: str, depth: int) -> list[str]:
    """Return the lines of one item; all have the same indent."""
    first, *others = value.splitlines() or [""]
    label = f"{name}: " if name else ""
    indent = INDENT * depth
    return [f"{indent}{label}{first}", *(indent + line for line in others)]


def _measurement(item: Dataset, name: str, path: tuple[str, ...], tracking: str) -> Measurement:
    value, unit = _number(item)
    qualifiers = tuple(
        (concept(child), VALUES["CODE"](child))
        for child in item.get("ContentSequence") or []
        if VALUES["CODE"](child)
    )
    return Measurement(name, value, unit, path, qualifiers, tracking)


SR_STORAGE = "1.2.840.10008.5.1.4.1.1.88."  # the prefix of all SR document classes (PS3.4 B.5)

UNEXPECTED_END = r".* in file "  # pydicom only warns about a truncated sequence


@dataclass(frozen=True, slots=True)
class StructuredReport:
    """The content of one file; `tags` are the clinicalInfo tags that have a value."""

    sop_instance_uid: str
    title: str
    tags: Mapping[str, str]
    measurements: tuple[Measurement, ...]
    text: str


def read(data: bytes, limits: SrLimits | None = None) -> StructuredReport:
    """Return the content of a file, or raise `BadStructuredReport`; errors contain no values."""
    try:
        # Warnings of pydicom quote values, which must not reach a log.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            warnings.filterwarnings("error", message=UNEXPECTED_END)
            return _read(data, limits or SrLimits())
    except BadStructuredReport:
        raise
    except RecursionError:
        raise BadStructuredReport(SrFault.TOO_DEEP) from None
    except Exception:  # noqa: BLE001  # pydicom raises arbitrary exceptions
        raise BadStructuredReport(SrFault.MALFORMED) from None


def _read(data: bytes, limits: SrLimits) -> StructuredReport:
    data_set = read_file(data, limits)
    sop_class = text_of(data_set.get("SOPClassUID"))
    if not sop_class:
        raise BadStructuredReport(SrFault.NOT_DICOM)
    if not sop_class.startswith(SR_STORAGE):
        raise BadStructuredReport(SrFault.NOT_STRUCTURED_REPORT)
    return _interpret(data_set, limits)


def _interpret(data_set: Dataset, limits: SrLimits) -> StructuredReport:
    instance = text_of(data_set.get("SOPInstanceUID"))
    if not instance:  # without it a repeated file is not recognized
        raise BadStructuredReport(SrFault.MALFORMED)
    content = walk(data_set, limits.max_depth)
    paths = sum(len(name) for each in content.measurements for name in (*each.path, each.tracking))
    if sum(map(len, content.lines)) + paths > STRUCTURED_REPORT_TEXT:
        raise BadStructuredReport(SrFault.TOO_LARGE)
    return StructuredReport(
        sop_instance_uid=instance,
        title=concept(data_set),
        tags=clinical_info(data_set),
        measurements=tuple(content.measurements),
        text="\n".join(content.lines),
    )
