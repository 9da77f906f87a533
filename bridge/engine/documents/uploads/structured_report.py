"""
Read a DICOM structured report: clinical information, measurements, findings as text.

A measurement group (DICOM PS3.16 TID 1410, 1411, 1501) becomes one sentence: the tracking
identifier, finding and finding site, then its measurements and evaluations. Everything else is
read the same way in any template: containers are headings, leaves are `name: value`, indented by
depth (DICOM PS3.3 §C.17.3). References to images, coordinates, UIDs, the image library and the
observer context are left out. Only attributes that mean the same as a clinicalInfo tag become tags.
The text of a dose report has its totals only, because a report needs no line for each exposure. The
title of a key object selection says what it refers to.

A document (DICOM PS3.3 A.35) is read completely or refused. If a launch request has a tag too, the
caller chooses between the two values. Runs in a worker process
(`bridge.engine.documents.uploads.tasks`), because pydicom needs minutes for some short files.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal
from enum import StrEnum
from typing import Final

from pydicom.dataset import Dataset
from pydicom.multival import MultiValue
from pydicom.sequence import Sequence
from pydicom.uid import UID

from bridge.contract.errors import ErrorCode
from bridge.engine.documents.errors import BadStructuredReport
from bridge.engine.documents.exports.model import day_and_time, person_name, time_text
from parsers.dicom_file import DicomFault, DicomLimits, DicomRefused, read_file
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
TIMES: Final = "\u00d7"
NO_UNITS = frozenset({"1", "{no units}", "{ratio}", "{counts}"})


class _Role(StrEnum):
    """What an item of a known concept means for the text; the value is the English meaning."""

    TRACKING = "tracking identifier"
    GROUP = "measurement group"
    MEASUREMENTS = "imaging measurements"
    IMAGE_LIBRARY = "image library"
    PROCEDURE = "procedure reported"
    FINDING = "finding"
    SITE = "finding site"
    LATERALITY = "laterality"
    TOPOGRAPHY = "topographical modifier"
    METHOD = "measurement method"
    DERIVATION = "derivation"
    LANGUAGE = "language of content item and descendants"
    UNTOLD = "tracking unique identifier"  # what the sentence of a group leaves out
    OTHER = ""


_ROLE_CODES: Final[Mapping[_Role, str]] = {
    _Role.TRACKING: "112039",
    _Role.GROUP: "125007",
    _Role.MEASUREMENTS: "126010",
    _Role.IMAGE_LIBRARY: "111028",
    _Role.PROCEDURE: "121058",
    _Role.FINDING: "121071",
    _Role.SITE: "363698007 G-C0E3",
    _Role.LATERALITY: "272741003 G-C171",
    _Role.TOPOGRAPHY: "106233006 G-A1F8",
    _Role.METHOD: "370129005 G-C036",
    _Role.DERIVATION: "121401",
    _Role.LANGUAGE: "121049 121046",
    # tracking UID, session, finding category, algorithm, geometric purpose
    _Role.UNTOLD: "112040 C67447 276214006 G-C5CF 111001 111002 111003 130400",
}
_ROLES: Final[Mapping[str, _Role]] = {
    code: role for role, codes in _ROLE_CODES.items() for code in codes.split()
} | {role.value: role for role in _Role if role.value}
"""Roles by code, and by meaning, because private schemes use other codes."""
_MEASUREMENT_REPORTS: Final = frozenset({"126000", "126001", "126002", "126003"})
"""The titles of TID 1500."""
_LONG_AXIS: Final = frozenset({"103339001", "G-A185", "131187009"})
_SHORT_AXIS: Final = frozenset({"103340004", "G-A186", "131188004"})
_LONG_NAME = re.compile(r"(?:long(?:est)?|major|maxim\w+)\b.*\b(?:axis|diameter)", re.IGNORECASE)
_SHORT_NAME = re.compile(
    r"(?:short(?:est)?|minor|minim\w+|perpendicular|orthogonal)\b.*\b(?:axis|diameter)",
    re.IGNORECASE,
)


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


@dataclass(frozen=True, slots=True)
class MeasurementGroup:
    """
    The sentence of a measurement group; it is a line of the text.

    `about` has the texts by which a template's section is chosen, the best first: finding site,
    finding, tracking identifier.
    """

    sentence: str
    about: tuple[str, ...]


@dataclass(slots=True)
class SrContent:
    """The lines, measurements and measurement groups of a content tree."""

    lines: list[str] = field(default_factory=list)
    measurements: list[Measurement] = field(default_factory=list)
    groups: list[MeasurementGroup] = field(default_factory=list)
    sentences: Counter[str] = field(default_factory=Counter)
    """How often each sentence of a group occurs, before its number."""
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


_ANNOTATION = re.compile(r"\{[^{}]*\}")
_POWER_OF_TEN = re.compile(r"10[*^]([-+]?\d+)")
_EXPONENT = re.compile(r"(?<=[A-Za-zµ\]])([-+]?\d+)")
_MICRO = re.compile(r"(?<![A-Za-z])u(?=[A-Za-z])")
_SUPERSCRIPT = str.maketrans("+-0123456789", "⁺⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
_PRINTED_UNITS: Final = {
    "[hnsf'U]": "HU",
    "{HU}": "HU",
    "deg": "°",
    "Cel": "°C",
    "[degF]": "°F",
    "[in_i]": "in",
}


def printed_unit(value: str, meaning: str) -> str:
    """Return a UCUM unit as it is printed: `mm³` for `mm3`, `mmHg` for `mm[Hg]`."""
    if value in NO_UNITS:
        return ""
    if value in _PRINTED_UNITS:
        return _PRINTED_UNITS[value]
    bare = _ANNOTATION.sub("", value).strip(".")
    if not bare:
        return meaning or value.strip("{}")
    printed = _POWER_OF_TEN.sub(lambda found: "10" + found[1].translate(_SUPERSCRIPT), bare)
    printed = _EXPONENT.sub(lambda found: found[1].translate(_SUPERSCRIPT), printed)
    printed = _MICRO.sub("µ", printed.replace("[Hg]", "Hg")).replace(".", "·")
    return meaning or value if "[" in printed else printed


def _unit(measured: Dataset) -> str:
    for code in measured.get("MeasurementUnitsCodeSequence") or []:
        return printed_unit(*code_of(code))
    return ""


_LONG_FRACTION = re.compile(r"[-+]?\d+\.\d{5,}")
_DIGITS = 4


def _printed_number(value: str) -> str:
    """
    Return a number with four decimals or four significant digits, whichever are more.

    `8.199999809` is `8.2`, and a dose of `0.000163412` Gy·m² is `0.0001634`.
    """
    if not _LONG_FRACTION.fullmatch(value):
        return value
    number = Decimal(value)
    decimals = max(_DIGITS, _DIGITS - 1 - number.adjusted())
    rounded = f"{number:.{decimals}f}".rstrip("0").rstrip(".")
    return rounded if rounded.strip("-+0.") else value


def _number(item: Dataset) -> tuple[str, str]:
    """Return value and unit; without a value, the reason for its absence."""
    for measured in item.get("MeasuredValueSequence") or []:
        if value := text_of(measured.get("NumericValue")):
            return _printed_number(value), _unit(measured)
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
    walker = _Walker(content, is_measurement_report=_is_measurement_report(root))
    walker.children(root, _Place((), 0, max_depth, _tracking(root)))
    return content


def _is_measurement_report(root: Dataset) -> bool:
    names = root.get("ConceptNameCodeSequence") or []
    return any(code_of(name)[0] in _MEASUREMENT_REPORTS for name in names)


@dataclass(frozen=True, slots=True)
class _Place:
    """
    The place of items: names above them, printed headings, levels left, tracking identifier.

    `in_group`: the items belong to a measurement group.
    """

    path: tuple[str, ...]
    headings: int
    levels_left: int
    tracking: str
    in_group: bool = False


@dataclass(slots=True)
class _Walker:
    content: SrContent
    is_measurement_report: bool

    def children(self, parent: Dataset, place: _Place) -> None:
        children = parent.get("ContentSequence") or []
        if children and place.levels_left <= 0:
            raise BadStructuredReport(ErrorCode.SR_TOO_DEEP)
        self.content.elements += sum(map(len, children))
        if self.content.elements > STRUCTURED_REPORT_ELEMENTS:
            raise BadStructuredReport(ErrorCode.SR_TOO_MANY_ITEMS)
        for item in children:
            self._item(item, place)

    def _item(self, item: Dataset, place: _Place) -> None:
        if _is_omitted(item) or (self.is_measurement_report and _role(item) is _Role.PROCEDURE):
            return
        if _is_group(item, in_group=place.in_group):
            self._group(item, place)
        else:
            self._lines_of(item, place)

    def _group(self, item: Dataset, place: _Place) -> None:
        """Replace the lines below a measurement group by its sentence."""
        content, before, groups = self.content, len(self.content.lines), len(self.content.groups)
        self._lines_of(item, replace(place, in_group=True))
        inner = content.groups[groups:]
        del content.lines[before:], content.groups[groups:]
        if group := _group_of(item, content.sentences):
            inner.insert(0, group)
        content.groups += inner
        content.lines += [INDENT * place.headings + below.sentence for below in inner]

    def _lines_of(self, item: Dataset, place: _Place) -> None:
        content, name = self.content, concept(item)
        kind = text_of(item.get("ValueType")).upper()
        below = replace(
            place, levels_left=place.levels_left - 1, tracking=_tracking(item) or place.tracking
        )
        if kind == "CONTAINER":
            before = len(content.lines)
            is_heading = bool(name) and _role(item) not in (_Role.MEASUREMENTS, _Role.GROUP)
            inner = (*place.path, name) if name else place.path
            headings = place.headings + (1 if is_heading else 0)
            self.children(item, replace(below, path=inner, headings=headings))
            if is_heading and len(content.lines) > before:  # no heading without content
                content.lines.insert(before, INDENT * place.headings + name)
            return
        reader = VALUES.get(kind)
        if reader is not None and (value := reader(item)):
            content.lines.extend(_lines(name, value, place.headings))
            if kind == "NUM":
                content.measurements.append(_measurement(item, name, place.path, below.tracking))
        path, headings = (*place.path, name), place.headings + 1
        self.children(item, replace(below, path=path, headings=headings))


def _role(item: Dataset) -> _Role:
    for name in item.get("ConceptNameCodeSequence") or []:
        value, meaning = code_of(name)
        return _ROLES.get(value) or _ROLES.get(meaning.casefold()) or _Role.OTHER
    return _Role.OTHER


def _tracking(item: Dataset) -> str:
    """Return the tracking identifier among an item's children (DICOM PS3.16 TID 1501)."""
    children = item.get("ContentSequence") or []
    return next((_one_line(child) for child in children if _role(child) is _Role.TRACKING), "")


def _is_omitted(item: Dataset) -> bool:
    role = _role(item)
    if role is _Role.TRACKING:
        return False
    context = text_of(item.get("RelationshipType")).upper() == OBSERVER_CONTEXT
    return context or role in (_Role.IMAGE_LIBRARY, _Role.LANGUAGE)


def _is_group(item: Dataset, *, in_group: bool) -> bool:
    """
    Return whether an item with the items below it becomes one sentence.

    That is a measurement group, a container with a tracking identifier, and a value outside of a
    group that names its own tracking identifier or finding site.
    """
    below = {_role(inner) for inner in item.get("ContentSequence") or []}
    if text_of(item.get("ValueType")).upper() == "CONTAINER":
        return _Role.TRACKING in below or _role(item) is _Role.GROUP
    return _Role.TRACKING in below or (not in_group and _Role.SITE in below)


def _one_line(item: Dataset) -> str:
    """Return the value of a leaf in one line, empty for a reference or a container."""
    reader = VALUES.get(text_of(item.get("ValueType")).upper())
    return " ".join(reader(item).split()) if reader else ""


def _site_of(item: Dataset) -> tuple[str, str]:
    """Return the finding site, with its topographical modifiers, and its laterality."""
    below = item.get("ContentSequence") or []
    modifiers = [_one_line(entry) for entry in below if _role(entry) is _Role.TOPOGRAPHY]
    side = next((_one_line(entry) for entry in below if _role(entry) is _Role.LATERALITY), "")
    return ", ".join(part for part in (_one_line(item), *modifiers) if part), side


def _with_side(site: str, side: str) -> str:
    """Return `Right upper lobe` for `Upper lobe` and `Right`."""
    if not side or side.casefold() in site.casefold():
        return site
    if not site:
        return side
    start = site[0].lower() if site[1:2].islower() else site[0]
    return f"{side} {start}{site[1:]}"


@dataclass(slots=True)
class _Value:
    """A measurement of a group, or an evaluation such as `Margin: Spiculated`."""

    name: str
    value: str
    unit: str
    site: str
    notes: tuple[str, ...]
    axis: str
    """`long`, `short`, or empty."""

    def text(self, site: str) -> str:
        """Return name, value and unit, with the site unless it is that of the group."""
        words = " ".join(filter(None, (self.name, self.value, self.unit)))
        return _noted(words, self.notes_beside(site))

    def notes_beside(self, site: str) -> tuple[str, ...]:
        """Return the notes, with the site unless it is that of the group."""
        return (self.site, *self.notes) if self.site and self.site != site else self.notes


def _noted(text: str, notes: Iterable[str]) -> str:
    joined = ", ".join(notes)
    return f"{text} ({joined})" if joined else text


@dataclass(slots=True)
class _GroupContent:
    """What the items of a group say."""

    tracking: str = ""
    findings: list[str] = field(default_factory=list)
    sites: list[str] = field(default_factory=list)
    side: str = ""
    values: list[_Value] = field(default_factory=list)

    def read(self, item: Dataset) -> None:
        role = _role(item)
        if _is_omitted(item) or role is _Role.UNTOLD:
            return
        if role is _Role.TRACKING:
            self.tracking = self.tracking or _one_line(item)
        elif role is _Role.SITE:
            self.sites.append(_with_side(*_site_of(item)))
        elif role is _Role.LATERALITY:
            self.side = self.side or _one_line(item)
        elif role is _Role.FINDING:
            site, notes = _notes(item)
            self.findings.append(_noted(_one_line(item), filter(None, (site, *notes))))
        elif text_of(item.get("ValueType")).upper() == "CONTAINER":
            self.read_children(item)
        else:
            self.read_value(item)

    def read_children(self, item: Dataset) -> None:
        """Read the items below one, except those of other groups."""
        for child in item.get("ContentSequence") or []:
            if not _is_group(child, in_group=True):
                self.read(child)

    def read_value(self, item: Dataset) -> None:
        name, text = " ".join(concept(item).split()), _one_line(item)
        if not text:
            return
        is_number = text_of(item.get("ValueType")).upper() == "NUM"
        value, unit = _number(item) if is_number else (text, "")
        site, notes = _notes(item)
        self.values.append(_Value(name, value, unit, site, tuple(notes), _axis(item)))

    def group(self, known: Counter[str]) -> MeasurementGroup | None:
        """Return the sentence, with a number if it is known already; None without content."""
        value_sites = list(dict.fromkeys(value.site for value in self.values if value.site))
        if not self.sites and len(value_sites) == 1:
            self.sites = value_sites
        own = ", ".join(dict.fromkeys(filter(None, self.sites)))
        site = _with_side(own, self.side)
        finding = ", ".join(dict.fromkeys(filter(None, self.findings)))
        name = self.tracking or finding or site
        about = [text for text in (finding, site) if text.casefold() not in name.casefold()]
        head, values = _noted(name, about), "; ".join(self._texts(own))
        sentence = ", ".join(filter(None, (head, values)))
        if not sentence:
            return None
        known[sentence] += 1
        if known[sentence] > 1:
            number = f"{head} #{known[sentence]}".strip()
            sentence = ", ".join(filter(None, (number, values)))
        named = dict.fromkeys(filter(None, (site, *value_sites, finding, self.tracking)))
        return MeasurementGroup(_ended(sentence), tuple(named))

    def _texts(self, site: str) -> list[str]:
        """Return the values; a long and a short axis become `8.2 x 6.1 mm`."""
        long, short = self._only("long"), self._only("short")
        if not (long and short) or (
            (long.unit, long.notes_beside(site)) != (short.unit, short.notes_beside(site))
        ):
            return [value.text(site) for value in self.values]
        size = f"{long.value} {TIMES} {short.value} {long.unit}".strip()
        names = f"{long.name} {TIMES} {short.name}"
        both = _noted(size, (names, *long.notes_beside(site)))
        return [
            both if value is long else value.text(site)
            for value in self.values
            if value is not short
        ]

    def _only(self, axis: str) -> _Value | None:
        found = [value for value in self.values if value.axis == axis]
        return found[0] if len(found) == 1 else None


def _ended(sentence: str) -> str:
    return sentence if not sentence or sentence[-1] in ".!?\u3002" else f"{sentence}."


def _axis(item: Dataset) -> str:
    names = [code_of(name) for name in item.get("ConceptNameCodeSequence") or []]
    for axis, codes, words in (
        ("long", _LONG_AXIS, _LONG_NAME),
        ("short", _SHORT_AXIS, _SHORT_NAME),
    ):
        if any(value in codes or words.match(meaning) for value, meaning in names):
            return axis
    return ""


def _notes(item: Dataset) -> tuple[str, list[str]]:
    """Return the finding site of a value, and what else the items below it say."""
    site, side, notes = "", "", []
    for child in item.get("ContentSequence") or []:
        role, value = _role(child), _one_line(child)
        if not value or _is_omitted(child) or role in (_Role.UNTOLD, _Role.TRACKING):
            continue
        if role is _Role.SITE:
            site = _with_side(*_site_of(child))
        elif role is _Role.LATERALITY:
            side = value
        elif role in (_Role.METHOD, _Role.DERIVATION):
            notes.append(value)
        else:
            notes.append(f"{concept(child)} {value}".strip())
    return _with_side(site, side), notes


def _group_of(item: Dataset, known: Counter[str]) -> MeasurementGroup | None:
    """Return the sentence of a group; a value is a group of its own with its modifiers."""
    content = _GroupContent()
    if text_of(item.get("ValueType")).upper() == "CONTAINER":
        content.read_children(item)
    else:
        for child in item.get("ContentSequence") or []:
            if _role(child) is _Role.TRACKING:
                content.read(child)
        content.read_value(item)
    return content.group(known)


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

_KEY_OBJECTS: Final = f"{SR_STORAGE}59"
_DOSE_REPORTS: Final = frozenset(f"{SR_STORAGE}{number}" for number in (67, 68, 73, 76))
"""X-ray, radiopharmaceutical, patient and enhanced X-ray radiation dose (PS3.4 table B.5-1)."""
_EVENTS: Final = "113812"
"""Total Number of Irradiation Events (PS3.16 TID 10012)."""
_DOSE_TOTALS: Final = frozenset(
    {
        *(_EVENTS, "113813"),  # CT Dose Length Product Total
        *("113722", "113725"),  # Dose Area Product Total, Dose (RP) Total (TID 10002)
        *("113730", "113731"),  # total fluoro time, total number of radiographic frames
        "111637",  # Accumulated Average Glandular Dose (TID 10005)
        *("113507", "113503"),  # administered activity and volume (TID 10022)
        "113839",  # Effective Dose
    }
)
_DOSE_EVENTS: Final = frozenset({"113819", "113706"})
"""CT Acquisition, Irradiation Event X-Ray Data."""
_IMAGE_CLASS: Final = re.compile(r"(.+) Image Storage\b")


def _referenced_objects(data_set: Dataset) -> str:
    """Return what a key object selection refers to: `3 images in 2 series, CT`."""
    series = [
        one
        for study in data_set.get("CurrentRequestedProcedureEvidenceSequence") or []
        for one in study.get("ReferencedSeriesSequence") or []
    ]
    classes = {
        text_of(item.get("ReferencedSOPInstanceUID")): text_of(item.get("ReferencedSOPClassUID"))
        for one in series
        for item in one.get("ReferencedSOPSequence") or []
    }
    if not classes:
        return ""
    kinds = [_IMAGE_CLASS.match(UID(one).name) for one in dict.fromkeys(classes.values())]
    number, noun = len(classes), "image" if all(kinds) else "object"
    places = len({text_of(one.get("SeriesInstanceUID")) for one in series})
    named = [kind[1] for kind in kinds if kind]
    counted = f"{number} {noun}{'' if number == 1 else 's'} in {places} series"
    return ", ".join([counted, *named])


def _dose_totals(data_set: Dataset) -> list[str]:
    """Return a line for each total of a dose report, and the number of exposures."""
    lines, events = dict[str, None](), 0
    counts_events = False

    def visit(item: Dataset) -> None:
        nonlocal events, counts_events
        code = next((code_of(one)[0] for one in item.get("ConceptNameCodeSequence") or []), "")
        if code in _DOSE_TOTALS and (value := _one_line(item)):
            lines[f"{concept(item)}: {value}"] = None
            counts_events |= code == _EVENTS
        events += code in _DOSE_EVENTS
        for child in item.get("ContentSequence") or []:
            visit(child)

    visit(data_set)
    if events and lines and not counts_events:
        lines[f"Irradiation events: {events}"] = None
    return list(lines)


@dataclass(frozen=True, slots=True)
class StructuredReport:
    """The content of one file; `tags` are the clinicalInfo tags that have a value."""

    sop_instance_uid: str
    title: str
    tags: Mapping[str, str]
    measurements: tuple[Measurement, ...]
    groups: tuple[MeasurementGroup, ...]
    text: str


def read(data: bytes, limits: DicomLimits | None = None) -> StructuredReport:
    """Return the content of a file, or raise `BadStructuredReport`; errors contain no values."""
    try:
        return _read(data, limits or DicomLimits())
    except BadStructuredReport:
        raise
    except DicomRefused as refused:
        raise BadStructuredReport(_FAULTS[refused.fault]) from None
    except RecursionError:
        raise BadStructuredReport(ErrorCode.SR_TOO_DEEP) from None
    except Exception:  # noqa: BLE001  # pydicom raises arbitrary exceptions
        raise BadStructuredReport(ErrorCode.SR_MALFORMED) from None


_FAULTS: Final[Mapping[DicomFault, ErrorCode]] = {
    DicomFault.NOT_DICOM: ErrorCode.SR_NOT_DICOM,
    DicomFault.TOO_LARGE: ErrorCode.SR_TOO_LARGE,
    DicomFault.TOO_MANY: ErrorCode.SR_TOO_MANY_ITEMS,
    DicomFault.MALFORMED: ErrorCode.SR_MALFORMED,
}


def _read(data: bytes, limits: DicomLimits) -> StructuredReport:
    data_set = read_file(data, limits)
    sop_class = text_of(data_set.get("SOPClassUID"))
    if not sop_class:
        raise BadStructuredReport(ErrorCode.SR_NOT_DICOM)
    if not sop_class.startswith(SR_STORAGE):
        raise BadStructuredReport(ErrorCode.SR_NOT_STRUCTURED_REPORT)
    return _interpret(data_set, sop_class, limits)


def _interpret(data_set: Dataset, sop_class: str, limits: DicomLimits) -> StructuredReport:
    instance = text_of(data_set.get("SOPInstanceUID"))
    if not instance:  # without it a repeated file is not recognized
        raise BadStructuredReport(ErrorCode.SR_MALFORMED)
    content = walk(data_set, limits.max_depth)
    paths = sum(
        len(name)
        for measurement in content.measurements
        for name in (*measurement.path, measurement.tracking)
    )
    paths += sum(len(text) for group in content.groups for text in (group.sentence, *group.about))
    if sum(map(len, content.lines)) + paths > STRUCTURED_REPORT_TEXT:
        raise BadStructuredReport(ErrorCode.SR_TOO_LARGE)
    title = concept(data_set)
    if sop_class == _KEY_OBJECTS and (referenced := _referenced_objects(data_set)):
        title = f"{title} ({referenced})".lstrip()
    totals = _dose_totals(data_set) if sop_class in _DOSE_REPORTS else []
    return StructuredReport(
        sop_instance_uid=instance,
        title=title,
        tags=clinical_info(data_set),
        measurements=tuple(content.measurements),
        groups=tuple(content.groups),
        text="\n".join(totals or content.lines),
    )
