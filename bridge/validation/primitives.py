"""
Whether values have the form of their primitive data type: dates, times, numbers.

Walks what hl7apy built of a message, which checks no value itself when it is tolerant.
Source: HL7 v2.5.1 chapter 2A, data types DT, DTM, NM, SI, TM.
"""

import re
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final

_HOURS: Final = r"(?:[01]\d|2[0-3])"
_ZONE: Final = r"(?:[+-]\d{4})?"
_SECONDS: Final = r"(?:[0-5]\d(?:\.\d{1,4})?)"
_DATE: Final = r"\d{4}(?:(?:0[1-9]|1[0-2])(?:(?:0[1-9]|[12]\d|3[01])"

_FORMS: Final[Mapping[str, re.Pattern[str]]] = MappingProxyType(
    {
        "DT": re.compile(rf"{_DATE})?)?"),
        "DTM": re.compile(rf"{_DATE}(?:{_HOURS}(?:[0-5]\d{_SECONDS}?)?)?)?)?{_ZONE}"),
        "TM": re.compile(rf"{_HOURS}(?:[0-5]\d{_SECONDS}?)?{_ZONE}"),
        "NM": re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)"),
        "SI": re.compile(r"\d+"),
    }
)
_TIME_STAMP: Final = "TS_1"
"""The first component of a TS: before 2.5 hl7apy calls it a string, for there was no DTM."""

_NULL: Final = '""'


def malformed(element: Any) -> Iterator[str]:
    """Name the places, `PID-7` or `ORC-7.4`, of values that are not what their type demands."""
    for child in element.children:
        if child.classname == "Segment":
            yield from _in_segment(child)
        elif child.classname == "Group":
            yield from malformed(child)


def _in_segment(segment: Any) -> Iterator[str]:
    observed = _observed(segment) if segment.name == "OBX" else ""
    for field in segment.children:
        place = str(field.name).replace("_", "-", 1)
        if place == "OBX-5":
            kind = "DTM" if observed == "TS" else observed
            wrong = not _fits(kind, field.to_er7().partition("^")[0])
            yield from [place] if wrong else []
            continue
        for number, component in enumerate(field.children, start=1):
            if _wrong(component):
                inside = len(field.children) > 1 or field.datatype != component.datatype
                whole = field.datatype == "TS" or not inside
                yield place if whole else f"{place}.{_number(component, number)}"


def _observed(segment: Any) -> str:
    """Give OBX-2, by which the type of OBX-5 goes."""
    return next((str(f.to_er7()).strip() for f in segment.children if f.name == "OBX_2"), "")


def _number(component: Any, otherwise: int) -> str:
    return str(component.name).rpartition("_")[2] if "_" in str(component.name) else str(otherwise)


def _wrong(component: Any) -> bool:
    """Whether a component, or one of its subcomponents, is malformed."""
    kind = _kind(component)
    if kind:
        return not _fits(kind, component.to_er7())
    return any(_kind(each) and not _fits(_kind(each), each.to_er7()) for each in component.children)


def _kind(element: Any) -> str:
    if element.name == _TIME_STAMP:
        return "DTM"
    return element.datatype if element.datatype in _FORMS else ""


def _fits(kind: str, value: str) -> bool:
    form, said = _FORMS.get(kind), value.strip()
    return form is None or said in {"", _NULL} or form.fullmatch(said) is not None
