"""
Matching of worklist items by the keys of a query (PS3.4 C.2.2.2 and K.6.1.2). Pure.

An item is DICOM JSON (PS3.18 annex F). A query has the same tree of tags: values of keys are texts
without padding, and a key without values matches all items. Values of person names are compared
without regard to case and accents, in each of their groups.
"""

import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal, InvalidOperation
from functools import lru_cache
from typing import Any, Final

import re2
from pydicom.datadict import tag_for_keyword

Item = Mapping[str, Mapping[str, Any]]
"""Elements by tag: `{"00100020": {"vr": "LO", "Value": ["4711"]}}`."""

STEPS: Final = "00400100"
"""Scheduled Procedure Step Sequence."""
START_DATE: Final = "00400002"
START_TIME: Final = "00400003"

_LEADING_SPACES_COUNT: Final = frozenset({"LT", "ST", "UT"})
_NO_WILDCARDS: Final = frozenset(
    {"AS", "AT", "DA", "DS", "DT", "FD", "FL", "IS", "SL", "SS", "SV", "TM", "UI", "UL", "UR"}
    | {"US", "UV"}
)
_NOT_COMPARED: Final = frozenset({"OB", "OD", "OF", "OL", "OV", "OW", "UN"})
_NUMBERS: Final = frozenset({"DS", "FD", "FL", "IS", "SL", "SS", "SV", "UL", "US", "UV"})
_WILD: Final = re.compile(r"[*?]")
_MAX_TEXT: Final = 1024
"""Characters of a value. RE2 needs memory for each, and SQLite refuses long patterns."""


@dataclass(frozen=True, slots=True)
class Key:
    """A key of a query: its values, or for a sequence the keys of its item, None without item."""

    vr: str
    values: tuple[str, ...] = ()
    item: "Query | None" = None

    @property
    def is_universal(self) -> bool:
        """True if a key matches everything, also items without the attribute."""
        if self.item is not None:
            return all(key.is_universal for key in self.item.values())
        if self.vr in _NOT_COMPARED or not any(self.values):
            return True
        # Some modalities send `*` also for dates, times and UIDs, which have no wildcards.
        return any(set(text) == {"*"} for text in self.values)


Query = Mapping[str, Key]


class BadKey(ValueError):
    """A key that cannot be used; the text is for an Error Comment and has no value in it."""

    def __init__(self, tag: str, text: str) -> None:
        super().__init__(text)
        self.tag = tag


def check(query: Query) -> None:
    """Raise BadKey for the first value that its value representation does not permit."""
    for tag, key in query.items():
        if key.item is not None:
            check(key.item)
        for text in () if key.is_universal else key.values:
            if text and (problem := _problem(key.vr, text)):
                raise BadKey(tag, problem)


def matches(query: Query, item: Item, level: str = "") -> bool:
    """
    True if an item meets all keys.

    An attribute that the worklist does not have does not restrict (PS3.4 C.2.2.1.2). `level` is
    the tag of the sequence whose item it is.
    """
    combined = _start_range(query)
    for tag, key in query.items():
        if combined is not None and tag in (START_DATE, START_TIME):
            continue
        if key.is_universal or (tag not in item and not is_known(tag, level)):
            continue
        if not _matches_key(tag, key, item.get(tag, {})):
            return False
    return combined is None or _starts_within(combined, item)


def answer(query: Query, item: Item) -> dict[str, dict[str, Any]]:
    """
    Return the attributes that a query asks for, without a value if the item has none.

    A sequence has the items that match, with the attributes that the key's item asks for. A key
    without an item, or with an empty one, gets whole items.
    """
    found: dict[str, dict[str, Any]] = {}
    for tag, key in sorted(query.items()):
        element = item.get(tag)
        if element is None:
            found[tag] = {"vr": key.vr}
        elif element["vr"] == "SQ" and key.item:
            inner = [entry for entry in element.get("Value", ()) if matches(key.item, entry, tag)]
            items = [answer(key.item, entry) for entry in inner]
            found[tag] = {"vr": "SQ", "Value": items} if items else {"vr": "SQ"}
        else:
            found[tag] = dict(element)
    return found


def has_unknown_keys(query: Query, item: Item, level: str = "") -> bool:
    """True if a query has keys that the worklist does not support (status FF01)."""
    for tag, key in query.items():
        element = item.get(tag)
        if element is None:
            if not is_known(tag, level):
                return True
        elif key.item and element["vr"] == "SQ":
            entries = element.get("Value", ())
            if any(has_unknown_keys(key.item, entry, tag) for entry in entries):
                return True
    return False


def is_range(text: str) -> bool:
    """True if a date or time is a range, as `20261130-`."""
    return "-" in text


def date_range(text: str) -> tuple[str, str]:
    """Return first and last date of a key as YYYYMMDD; '' where it is open."""
    first, dash, last = text.replace(".", "").partition("-")
    return (first, last) if dash else (first, first)


def _problem(vr: str, text: str) -> str:
    match vr:
        case "DA":
            fits = _DATES.fullmatch(text) and text != "-"
            return "" if fits else "no date or range of dates, as 20261130-20261207"
        case "TM":
            fits = _TIMES.fullmatch(text) and text != "-"
            return "" if fits else "no time or range of times, as 0800-1200"
        case "DT":
            return "" if _moments(text) else "no date-time or range, as 20261130080000-"
        case "UI":
            return "" if is_uid(text) else "no UID"
    if vr in _NUMBERS:
        return "no number" if _number(text) is None else ""
    return f"more than {_MAX_TEXT} characters" if len(text) > _MAX_TEXT else ""


_DATE: Final = r"\d{4}(?:\d{4}|\.\d\d\.\d\d)"
_DATES: Final = re.compile(rf"(?:{_DATE})?-?(?:{_DATE})?", re.ASCII)
_TIME: Final = r"\d\d(?::?\d\d(?::?\d\d(?:\.\d{1,6})?)?)?"
_TIMES: Final = re.compile(rf"(?:{_TIME})?-?(?:{_TIME})?", re.ASCII)
_UID: Final = re.compile(r"[0-9.]{1,64}")


def is_uid(text: str) -> bool:
    """True for a UID, also for one with leading zeros, which some devices make."""
    return _UID.fullmatch(text) is not None


_MOMENT: Final = re.compile(
    r"(\d{4})(\d\d)?(\d\d)?(\d\d)?(\d\d)?(\d\d)?(?:\.(\d{1,6}))?([+-]\d{4})?", re.ASCII
)


def _matches_key(tag: str, key: Key, element: Mapping[str, Any]) -> bool:
    values = element.get("Value", ())
    if key.item is not None:
        entries = [entry for entry in values if isinstance(entry, Mapping)]
        return any(matches(key.item, entry, tag) for entry in entries)
    if key.vr == "PN":
        names = [value for value in values if isinstance(value, Mapping)]
        return any(_matches_name(text, name) for text in key.values for name in names)
    texts = [str(value) for value in values if isinstance(value, str | int | float)]
    return any(_matches_text(key.vr, text, value) for text in key.values for value in texts)


def _matches_text(vr: str, text: str, value: str) -> bool:
    value = value.rstrip() if vr in _LEADING_SPACES_COUNT else value.strip()
    match vr:
        case "DA":
            first, last = date_range(text)
            day = value.replace(".", "")
            return bool(day) and first <= day and (not last or day <= last)
        case "TM":
            return _within(_times(text), _exact_time(value))
        case "DT":
            found, limits = _moments(value), _moments(text)
            return found is not None and limits is not None and _within(limits, found[0])
    if vr in _NUMBERS:
        return _number(text) == _number(value)
    if vr not in _NO_WILDCARDS and _WILD.search(text):
        return _pattern(text).fullmatch(value) is not None
    return text == value


def _within(limits: tuple[Any, Any], value: Any) -> bool:
    first, last = limits
    return value is not None and (first is None or first <= value) and (not last or value <= last)


@lru_cache(256)
def _pattern(text: str) -> Any:
    """Return the expression of a wildcard; RE2 takes linear time for all of them."""
    parts = {"*": ".*", "?": "."}
    options = re2.Options()
    options.dot_nl = True
    return re2.compile("".join(parts.get(sign) or re2.escape(sign) for sign in text), options)


def _number(text: str) -> Decimal | None:
    try:
        return Decimal(text)
    except InvalidOperation:
        return None


# Times: HHMMSSFFFFFF, so that they compare as texts.
_LATEST_TIME: Final = "235959999999"


def _exact_time(text: str) -> str | None:
    digits = re.sub(r"[:.]", "", text)
    return digits.ljust(12, "0") if digits.isdecimal() else None


@lru_cache(256)
def _times(text: str) -> tuple[str, str]:
    """Return first and last time of a key; parts that are missing in the last are the largest."""
    first, dash, last = (re.sub(r"[:.]", "", part) for part in text.partition("-"))
    last = last if dash else first
    return first.ljust(12, "0"), last + _LATEST_TIME[len(last) :]


@lru_cache(256)
def _moments(text: str) -> tuple[datetime | None, datetime | None] | None:
    """Return first and last moment of a date-time or range; None if it is none."""
    if single := _MOMENT.fullmatch(text):  # before ranges: 2026-0500 is a year with an offset
        return _moment_limits(single)
    for dash in (at for at, sign in enumerate(text) if sign == "-"):
        sides = text[:dash], text[dash + 1 :]
        parts = [_MOMENT.fullmatch(side) for side in sides]
        if any(sides) and all(part or not side for part, side in zip(parts, sides, strict=True)):
            limits = [part and _moment_limits(part) for part in parts]
            if all(limit or not side for limit, side in zip(limits, sides, strict=True)):
                return limits[0][0] if limits[0] else None, limits[1][1] if limits[1] else None
    return None


def _moment_limits(found: re.Match[str]) -> tuple[datetime, datetime] | None:
    """Return the first and last moment that a date-time of limited precision means."""
    year, month, day, hour, minute, second, fraction, offset = found.groups()
    try:
        first = datetime(  # noqa: DTZ001  # times without an offset are local
            *(int(year), int(month or 1), int(day or 1)),
            *(int(hour or 0), int(minute or 0), min(int(second or 0), 59)),
            int((fraction or "").ljust(6, "0")),
        )
        if month is None:
            last = first.replace(month=12, day=31)
        elif day is None:
            last = (first.replace(day=28) + timedelta(days=4)).replace(day=1) - timedelta(days=1)
        else:
            last = first
        ends = ((hour, {"hour": 23}), (minute, {"minute": 59}), (second, {"second": 59}))
        for part, end in ends:
            last = last if part else last.replace(**end)  # type: ignore[arg-type]  # of integers
        last = last if fraction else last.replace(microsecond=999_999)
        if offset:
            shift = timedelta(hours=int(offset[:3]), minutes=int(offset[0] + offset[3:]))
            first, last = first - shift, last - shift
    except (ValueError, OverflowError):
        return None
    return first, last


def _start_range(query: Query) -> tuple[str, str] | None:
    """
    Return the period of ranges of both start date and start time, '' where it is open.

    Such ranges mean one period: from the first day and time to the last day and time (PS3.4
    K.6.1.2.2, note to Scheduled Procedure Step Start Date).
    """
    dates, times = query.get(START_DATE), query.get(START_TIME)
    if dates is None or times is None or len(dates.values) != 1 or len(times.values) != 1:
        return None
    (date,), (time,) = dates.values, times.values
    if not is_range(date) or not is_range(time):
        return None
    first_day, last_day = date_range(date)
    first, last = _times(time)
    return first_day and first_day + first, last_day and last_day + last


def _starts_within(period: tuple[str, str], item: Item) -> bool:
    day, time = (next(iter(item.get(tag, {}).get("Value", ())), "") for tag in _START)
    start = str(day).replace(".", "") + (_exact_time(str(time)) or "0" * 12)
    first, last = period
    return bool(day) and first <= start and (not last or start <= last)


_START: Final = (START_DATE, START_TIME)


def _matches_name(text: str, name: Mapping[str, Any]) -> bool:
    """
    True if a key matches a group of a name, or each of its groups the same group of the name.

    A group of a key with empty components only matches all, as an empty one does.
    """
    groups = [fold(str(name.get(group) or "")) for group in _GROUPS]
    keys = [fold(part) for part in text.split("=")]
    if len(keys) == 1 and keys[0]:
        return any(_matches_group(keys[0], group) for group in groups if group)
    pairs = zip(keys, groups, strict=False)
    return all(_matches_group(key, group) for key, group in pairs if key)


_GROUPS: Final = ("Alphabetic", "Ideographic", "Phonetic")


def _matches_group(key: str, group: str) -> bool:
    if not _WILD.search(key):
        return key == group
    # `Doe^*^*` also means a name whose last components are empty and left out (PS3.5 6.2).
    whole = group + "^" * (key.count("^") - group.count("^"))
    return any(_pattern(key).fullmatch(form) is not None for form in {group, whole})


def fold(name: str) -> str:
    """
    Return a group of a name without case, accents, and empty components at its end.

    Only marks of alphabets are accents: those of kana change the letter. Half-width kana are equal
    to those of full width.
    """
    parts = (part.strip() for part in name.split("^"))
    text = "^".join(parts).rstrip("^")
    if text.isascii():
        return text.lower()
    signs = unicodedata.normalize("NFKD", text)
    bare = "".join(sign for sign in signs if not "\u0300" <= sign <= "\u036f")
    return unicodedata.normalize("NFC", bare.casefold())


def _tags(*keywords: str) -> frozenset[str]:
    return frozenset(f"{tag_for_keyword(keyword):08X}" for keyword in keywords)


_IN_STEP: Final = _tags(
    "ScheduledStationAETitle",
    *("ScheduledProcedureStepStartDate", "ScheduledProcedureStepStartTime"),
    *("ScheduledProcedureStepEndDate", "ScheduledProcedureStepEndTime", "Modality"),
    *("ScheduledPerformingPhysicianName", "ScheduledPerformingPhysicianIdentificationSequence"),
    *("ScheduledProcedureStepDescription", "ScheduledStationName"),
    *("ScheduledProcedureStepLocation", "ScheduledProtocolCodeSequence", "PreMedication"),
    *("ScheduledProcedureStepID", "RequestedContrastAgent", "ScheduledProcedureStepStatus"),
    *("CommentsOnTheScheduledProcedureStep", "ScheduledProcedureStepStartDateTime"),
)
_IN_OTHER_SEQUENCES: Final = _tags(
    *("CodeValue", "CodingSchemeDesignator", "CodingSchemeVersion", "CodeMeaning"),
    *("ReferencedSOPClassUID", "ReferencedSOPInstanceUID", "PersonIdentificationCodeSequence"),
    *("InstitutionName", "InstitutionCodeSequence", "PersonAddress", "PersonTelephoneNumbers"),
    *("LocalNamespaceEntityID", "UniversalEntityID", "UniversalEntityIDType"),
)
_IN_ITEM: Final = _tags(
    *("ScheduledProcedureStepSequence", "SpecificCharacterSet"),
    # requested procedure
    *("RequestedProcedureID", "RequestedProcedureDescription"),
    *("RequestedProcedureCodeSequence", "StudyInstanceUID", "StudyDate", "StudyTime"),
    *("ReferencedStudySequence", "RequestedProcedurePriority", "PatientTransportArrangements"),
    *("ReasonForTheRequestedProcedure", "ReasonForRequestedProcedureCodeSequence"),
    *("RequestedProcedureLocation", "ConfidentialityCode"),
    *("NamesOfIntendedRecipientsOfResults",),
    *("IntendedRecipientsOfResultsIdentificationSequence", "RequestedProcedureComments"),
    *("StudyDescription", "StudyID"),
    # imaging service request
    *("AccessionNumber", "IssuerOfAccessionNumberSequence", "RequestingPhysician"),
    *("RequestingPhysicianIdentificationSequence", "RequestingService"),
    *("ReferringPhysicianName", "ReferringPhysicianIdentificationSequence"),
    *("ReasonForTheImagingServiceRequest", "IssueDateOfImagingServiceRequest"),
    *("IssueTimeOfImagingServiceRequest", "OrderEnteredBy", "OrderEntererLocation"),
    *("OrderCallbackPhoneNumber", "PlacerOrderNumberImagingServiceRequest"),
    *("FillerOrderNumberImagingServiceRequest", "ImagingServiceRequestComments"),
    *("OrderPlacerIdentifierSequence", "OrderFillerIdentifierSequence"),
    # visit
    *("AdmissionID", "IssuerOfAdmissionIDSequence", "RouteOfAdmissions", "AdmittingDate"),
    *("AdmittingTime", "ServiceEpisodeID", "CurrentPatientLocation"),
    *("PatientInstitutionResidence", "PatientState", "InstitutionalDepartmentName"),
    *("InstitutionalDepartmentTypeCodeSequence", "ReferencedPatientSequence"),
    *("ReferencedVisitSequence", "AdmittingDiagnosesDescription"),
    *("AdmittingDiagnosesCodeSequence", "ReferencedPatientAliasSequence", "VisitStatusID"),
    # patient
    *("PatientName", "PatientID", "IssuerOfPatientID", "TypeOfPatientID"),
    *("IssuerOfPatientIDQualifiersSequence", "OtherPatientIDs", "OtherPatientNames"),
    *("OtherPatientIDsSequence", "PatientBirthDate", "PatientBirthTime", "PatientSex"),
    *("PatientAge", "PatientSize", "PatientWeight", "PatientAddress", "MedicalAlerts"),
    *("Allergies", "CountryOfResidence", "RegionOfResidence", "PatientTelephoneNumbers"),
    *("EthnicGroup", "Occupation", "SmokingStatus", "AdditionalPatientHistory"),
    *("PregnancyStatus", "LastMenstrualDate", "PatientReligiousPreference"),
    *("PatientSpeciesDescription", "PatientSexNeutered", "PatientBreedDescription"),
    *("ResponsiblePerson", "ResponsibleOrganization", "PatientComments"),
    *("ConfidentialityConstraintOnPatientDataDescription", "SpecialNeeds"),
)


def is_known(tag: str, level: str) -> bool:
    """
    True if an attribute is one of PS3.4 table K.6-1, at its level: '' or the tag of a sequence.

    A step without a value for such an attribute has an unknown value.
    """
    return tag in {"": _IN_ITEM, STEPS: _IN_STEP}.get(level, _IN_OTHER_SEQUENCES)
