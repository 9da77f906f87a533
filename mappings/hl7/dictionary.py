"""
Dictionary: the names, types and tables of the standard for one version of HL7 v2.

The files of `standard` are generated from hl7apy (`python -m tests.dictionary`), one for each
version, as a difference to the version before. `tables.csv` has the meanings of the codes that
imaging uses. A version is loaded when it is first asked for; the processes that only receive
messages never load one.
"""

import csv
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib.resources import files
from io import StringIO
from typing import Final

from mappings.hl7.path import InvalidPath, Path

VERSIONS: Final = (
    *("2.1", "2.2", "2.3", "2.3.1", "2.4", "2.5", "2.5.1"),
    *("2.6", "2.7", "2.8", "2.8.1", "2.8.2"),
)
_USUAL: Final = "2.5.1"
_LONGEST_VERSION: Final = 16  # characters that are read

VARIES: Final = "varies"
"""The type of OBX-5: OBX-2 names it."""


@dataclass(frozen=True, slots=True)
class PartInfo:
    """A field of a segment, or a component of a data type. `table` is four digits or empty."""

    name: str
    type: str
    table: str
    repeats: bool = False
    withdrawn: bool = False


_UNKNOWN: Final = PartInfo("", "", "")


class Dictionary:
    """
    The segments and data types of one version.

    Senders declare one version and use segments and fields of a later one. What the version does
    not have is therefore looked up in the newest version.
    """

    def __init__(self, version: str, segments: Mapping[str, str], types: Mapping[str, str]) -> None:
        """`segments` and `types` have the lines of the files by name."""
        self.version = version
        self._lines = {"segment": segments, "type": types}
        self._parts: dict[tuple[str, str], tuple[PartInfo, ...]] = {}

    def segment(self, name: str) -> tuple[PartInfo, ...]:
        """Return the fields of a segment in their order, () if it is unknown, as a Z segment is."""
        return self._known("segment", name)

    def field(self, segment: str, number: int) -> PartInfo:
        """Return a field; its name is empty if it is unknown."""
        return self._part("segment", segment, number)

    def type(self, name: str) -> tuple[PartInfo, ...]:
        """Return the components of a data type; () if it is primitive or unknown."""
        return self._known("type", name)

    def component(self, data_type: str, number: int) -> PartInfo:
        """Return a component of a data type; its name is empty if it is unknown."""
        return self._part("type", data_type, number)

    def _part(self, kind: str, name: str, number: int) -> PartInfo:
        for dictionary in (self, newest()):
            parts = dictionary._known(kind, name)  # noqa: SLF001  # of the same class
            if 0 < number <= len(parts) and parts[number - 1].name:
                return parts[number - 1]
        return _UNKNOWN

    def _known(self, kind: str, name: str) -> tuple[PartInfo, ...]:
        found = self._parts.get((kind, name))
        if found is not None:
            return found
        line = self._lines[kind].get(name)
        if line is not None:
            found = self._parts[kind, name] = tuple(map(_read_part, line.split(";")))
            return found
        return () if self is newest() else newest()._known(kind, name)  # noqa: SLF001  # as above


def _read_part(text: str) -> PartInfo:
    if not text:
        return _UNKNOWN
    name, kind, table, flags = text.split("|")
    return PartInfo(name, kind, table, "*" in flags, "-" in flags)


def names(version: str) -> Dictionary:
    """Return the dictionary of a version as MSH-12 names it, or of the nearest one before."""
    return _load(nearest(version))


def newest() -> Dictionary:
    """Return the dictionary of the newest version."""
    return _load(VERSIONS[-1])


@lru_cache(maxsize=256)
def nearest(version: str) -> str:
    """Return the known version that is not later than another one, 2.5.1 if there is none."""
    numbers = _numbers(version)
    earlier = [known for known in VERSIONS if _numbers(known) <= numbers]
    return earlier[-1] if earlier else _USUAL


def _numbers(version: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", version[:_LONGEST_VERSION])]


@cache
def _load(version: str) -> Dictionary:
    segments, types = _entries(version)
    return Dictionary(version, segments, types)


@cache
def _entries(version: str) -> tuple[Mapping[str, str], Mapping[str, str]]:
    """Return the lines of the segments and types of a version; most are those of the one before."""
    content = json.loads(_read(f"{version}.json"))
    index = VERSIONS.index(version)
    before = _entries(VERSIONS[index - 1]) if index else ({}, {})
    return (_changed(before[0], content["segments"]), _changed(before[1], content["types"]))


def _changed(before: Mapping[str, str], difference: Mapping[str, str | None]) -> dict[str, str]:
    entries = {**before, **difference}
    return {name: line for name, line in entries.items() if line is not None}


def _read(file: str) -> str:
    return files("mappings.hl7").joinpath("standard", file).read_text(encoding="utf-8")


def meaning(table: str, code: str) -> str:
    """Return the meaning of a code in words, "" if it is unknown or not of the standard."""
    return tables().get(table, {}).get(code, "")


@cache
def tables() -> Mapping[str, Mapping[str, str]]:
    """Return the meanings of the codes by table (four digits) and code."""
    found: dict[str, dict[str, str]] = {}
    for row in csv.DictReader(StringIO(_read("tables.csv"))):
        found.setdefault(row["table"], {})[row["code"]] = row["meaning"]
    return found


def field_name(place: str, version: str = _USUAL) -> str:
    """Return the name of the field of a path (`OBR-16.2`: `Ordering provider`), "" if unknown."""
    path = _parse(place)
    return names(version).field(path.segment, path.field).name if path else ""


def place_name(place: str, version: str = _USUAL) -> str:
    """
    Return the name of the field or component of a path (`OBR-16.2`: `Family name`).

    "" if the place is unknown, a whole segment, or no path.
    """
    path = _parse(place)
    if path is None:
        return ""
    dictionary = names(version)
    part = dictionary.field(path.segment, path.field)
    for number in filter(None, (path.component, path.subcomponent)):
        part = dictionary.component(part.type, number)
    return part.name


def _parse(place: str) -> Path | None:
    try:
        return Path.parse(place)
    except InvalidPath:
        return None


SEGMENT_NAMES: Final[Mapping[str, str]] = {
    "ABS": "Abstract",
    "ACC": "Accident",
    "ADD": "Addendum",
    "AIG": "Appointment: general resource",
    "AIL": "Appointment: location",
    "AIP": "Appointment: personnel",
    "AIS": "Appointment: service",
    "AL1": "Allergy",
    "ARQ": "Appointment request",
    "ARV": "Access restrictions",
    "AUT": "Authorization",
    "BHS": "Batch header",
    "BLG": "Billing",
    "BPO": "Blood product order",
    "BTS": "Batch trailer",
    "BTX": "Blood product transfusion",
    "CDM": "Charge description",
    "CON": "Consent",
    "CSP": "Clinical study phase",
    "CSR": "Clinical study registration",
    "CTD": "Contact",
    "CTI": "Clinical trial",
    "DB1": "Disability",
    "DG1": "Diagnosis",
    "DRG": "Diagnosis related group",
    "DSC": "Continuation pointer",
    "DSP": "Display data",
    "EQU": "Equipment",
    "ERR": "Error",
    "EVN": "Event type",
    "FAC": "Facility",
    "FHS": "File header",
    "FT1": "Financial transaction",
    "FTS": "File trailer",
    "GOL": "Goal",
    "GT1": "Guarantor",
    "IAM": "Adverse reaction",
    "IN1": "Insurance",
    "IN2": "Insurance, additional",
    "IN3": "Insurance, certification",
    "IPC": "Imaging procedure control",
    "LOC": "Location",
    "MFE": "Master file entry",
    "MFI": "Master file identification",
    "MRG": "Merge: prior patient",
    "MSA": "Message acknowledgment",
    "MSH": "Message header",
    "NCK": "System clock",
    "NK1": "Next of kin",
    "NTE": "Notes and comments",
    "OBR": "Observation request",
    "OBX": "Observation",
    "ODS": "Dietary orders",
    "ORC": "Common order",
    "ORG": "Practitioner organization",
    "PD1": "Patient, additional",
    "PDA": "Patient death and autopsy",
    "PID": "Patient identification",
    "PR1": "Procedures",
    "PRA": "Practitioner",
    "PRB": "Problem",
    "PRD": "Provider",
    "PRT": "Participation",
    "PV1": "Patient visit",
    "PV2": "Patient visit, additional",
    "QAK": "Query acknowledgment",
    "QPD": "Query parameters",
    "QRD": "Query definition",
    "QRF": "Query filter",
    "RCP": "Response control",
    "RF1": "Referral",
    "RGS": "Resource group",
    "ROL": "Role",
    "RXA": "Pharmacy administration",
    "RXD": "Pharmacy dispense",
    "RXE": "Pharmacy encoded order",
    "RXO": "Pharmacy order",
    "RXR": "Pharmacy route",
    "SAC": "Specimen container",
    "SCH": "Scheduling activity",
    "SFT": "Software",
    "SPM": "Specimen",
    "STF": "Staff",
    "TQ1": "Timing and quantity",
    "TQ2": "Timing and quantity relationship",
    "TXA": "Document header",
    "UAC": "User authentication",
    "UB1": "UB82 billing",
    "UB2": "UB92 billing",
    "VAR": "Variance",
    "ZDS": "Study instance UID (IHE)",
}
"""The names of the segments that imaging senders use; hl7apy has none."""
