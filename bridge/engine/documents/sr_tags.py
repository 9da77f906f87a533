"""
clinicalInfo tags from the attributes of a structured report.

Only attributes that mean the same as a tag are taken; what the file does not hold stays
absent. Which value wins against a launch request is not decided here.
"""

from collections.abc import Callable, Mapping

from pydicom.dataset import Dataset
from pydicom.multival import MultiValue
from pydicom.sequence import Sequence

NOT_A_STUDY_MODALITY = frozenset({"SR", "KO", "PR", "SEG", "DOC", "OT", "AU", "RWV", "REG"})

Reader = Callable[[Dataset], str]


def attribute(keyword: str) -> Reader:
    """Read one attribute of the data set as text, several values joined by a comma."""
    return lambda data_set: text_of(data_set.get(keyword))


def text_of(value: object) -> str:
    """Return a value of pydicom as one line of text; nothing and sequences give ''."""
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


def requested(reader: Reader) -> Reader:
    """Read from the first order that the report answers (ReferencedRequestSequence)."""

    def read(data_set: Dataset) -> str:
        items = data_set.get("ReferencedRequestSequence") or []
        return next((value for value in map(reader, items) if value), "")

    return read


def code_in(keyword: str) -> Reader:
    """Read the code value of a code sequence's first item."""

    def read(data_set: Dataset) -> str:
        return next((code_of(item)[0] for item in data_set.get(keyword) or []), "")

    return read


def study_modality(data_set: Dataset) -> str:
    """Return the modality of the images; 'SR' is the modality of the report itself."""
    own = text_of(data_set.get("Modality"))
    among = [part.strip() for part in text_of(data_set.get("ModalitiesInStudy")).split(",")]
    return next((m for m in [*among, own] if m and m not in NOT_A_STUDY_MODALITY), "")


def verifying_observer(data_set: Dataset) -> str:
    """Return who verified the report, the last of several."""
    observers = data_set.get("VerifyingObserverSequence") or []
    names = [text_of(observer.get("VerifyingObserverName")) for observer in observers]
    return next((name for name in reversed(names) if name), "")


READERS: Mapping[str, tuple[Reader, ...]] = {
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
"""Where each tag stands, best source first."""


def clinical_info(data_set: Dataset) -> dict[str, str]:
    """Return the tags that have a value in the file, in DICOM's own notation."""
    found = {
        tag: next((value for reader in readers if (value := reader(data_set))), "")
        for tag, readers in READERS.items()
    }
    return {tag: value for tag, value in found.items() if value}
