"""Validate one message against its version's structure or a profile, with hl7apy.

hl7apy counts what a group has and does not ask for the order; and a segment that it has no
structure for ends the group it stands in. Segments come in the order of the abstract syntax
(HL7 v2.5.1 §2.5.2, §2.13), and Z segments may stand anywhere.

Walks what hl7apy built of a message, which checks no value itself when it is tolerant.
Source: HL7 v2.5.1 chapter 2A, data types DT, DTM, NM, SI, TM.

Slow (tens of milliseconds a message) and blocking: call it from a thread. Nothing of a message
is written anywhere: the report goes through memory.
"""

import os
import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from types import MappingProxyType
from typing import Any, Final

from bridge.intake.validation.findings import Finding, read_report
from bridge.intake.validation.profiles import Reference, nearest
from mappings.hl7.message import Message
from mappings.hl7.refusals import (
    MessageRefusal,
    MessageTooComplex,
    StructureViolation,
    WrongDataType,
)

_GROUP: Final = re.compile(r"(Error: (?:Missing required child|Child limit exceeded) \w+\.)(\w+)$")


def without_local(segments: Sequence[str], reference: Any) -> list[str]:
    """Leave out the Z segments that a profile (None: no profile) does not name."""
    named = set(_names(reference)) if reference else set()
    return [each for each in segments if each[:1].upper() != "Z" or each[:3].upper() in named]


def _names(reference: Any) -> Iterator[str]:
    for name, below, _, kind in reference[1]:
        yield name
        if kind == "GRP":
            yield from _names(below)


def misplaced(element: Any) -> Iterator[str]:
    """Name the segments of a message of hl7apy's that stand behind what has to follow them."""
    expected, at = list(element.ordered_children or ()), 0
    for child in element.children:
        if child.name in expected:
            found = next((n for n in range(at, len(expected)) if expected[n] == child.name), None)
            if found is None:
                yield _first(child)
            else:
                at = found
        if child.classname == "Group":
            yield from misplaced(child)


def _first(element: Any) -> str:
    while element.classname == "Group" and element.children:
        element = element.children[0]
    return str(element.name)


def by_segment(line: str, version: str) -> str:
    """Say of a group that is missing, or one too many, which segment it begins with."""
    told = _GROUP.match(line)
    if told is None or "_" not in told[2]:
        return line
    from hl7apy import load_reference  # noqa: PLC0415  # slow to load, rarely wanted
    from hl7apy.exceptions import ChildNotFound  # noqa: PLC0415  # as above

    name, kind = told[2], "GRP"
    try:
        while kind == "GRP":
            order, children = load_reference(name, "Group", version)[:2]
            if order == "choice":
                return line
            name, kind = next(((each[0], each[3]) for each in children if each[2][0]), ("", ""))
    except ChildNotFound:
        return line
    return f"{told[1]}{name}" if name else line


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


# HL7 table 0354, for senders that name no structure in MSH-9.3 (as many before 2.4).
_ADT: Final[Mapping[str, str]] = MappingProxyType(
    {
        **dict.fromkeys(("A04", "A08", "A13"), "ADT_A01"),
        **dict.fromkeys(("A14", "A28", "A31"), "ADT_A05"),
        **dict.fromkeys(("A07",), "ADT_A06"),
        **dict.fromkeys(("A10", "A11"), "ADT_A09"),
        **dict.fromkeys(("A22", "A23", "A25", "A26", "A27", "A29", "A32", "A33"), "ADT_A21"),
        **dict.fromkeys(("A34", "A35", "A36", "A46", "A47", "A48", "A49"), "ADT_A30"),
        **dict.fromkeys(("A40", "A41", "A42"), "ADT_A39"),
        **dict.fromkeys(("A44",), "ADT_A43"),
        **dict.fromkeys(("A51",), "ADT_A50"),
    }
)

_NOT_JUDGED: Final = frozenset({"", "2.1", "2.7.1", "2.9"})
"""
hl7apy's tables of 2.1 ask for all members of choices, and for the precision of each time; it has
none of the others, which are held against the nearest.
"""

_MOST_PARTS: Final = 20_000
"""Fields, repetitions and components: hl7apy takes a tenth of a millisecond for each."""

_SLIPS: Final = frozenset({("2.2", "ORM_O01_ORDER_DETAIL.NTE")})
"""What hl7apy asks for and the standard does not (HL7 v2.2 chapter 4: `{OBX [{NTE}]}`)."""

_MISSING: Final = re.compile(r"Error: Missing required child (\w+)\.")


def validate(
    payload: bytes, profile: Reference | None = None, fallback: str = "utf-8"
) -> list[Finding]:
    """Say what is against the structure; empty when nothing is. Never raises for a message."""
    try:
        message = Message.parse(payload, fallback=fallback)
    except MessageRefusal as refusal:
        return [Finding(refusal, grave=True)]
    from hl7apy.exceptions import HL7apyException  # noqa: PLC0415  # slow to load, rarely wanted

    if _parts(message) > _MOST_PARTS:
        return [Finding(MessageTooComplex(), grave=True)]
    structure = _structure(message)
    if profile is not None and structure not in profile:
        return [Finding(StructureViolation("MSH-9"), grave=True)]
    reference = profile and profile[structure]
    segments = without_local([each.text() for each in message.segments], reference)
    text = "".join(f"{each}\r" for each in segments)
    judged = profile is not None or message.header.version not in _NOT_JUDGED
    try:
        lines, places, values = _report(text, structure, reference)
        found = read_report(lines)
        found += [Finding(StructureViolation(each), grave=True) for each in places]
        found += [Finding(WrongDataType(each), grave=True) for each in values]
        return found if judged else [replace(each, grave=False) for each in found]
    except (HL7apyException, AttributeError):  # it cannot even be taken apart
        return [Finding(StructureViolation("MSH-9"), grave=judged)]


def _parts(message: Message) -> int:
    """Count what hl7apy would build an object of."""
    marks = message.delimiters
    apart = [marks.field, marks.component, marks.repetition, marks.subcomponent]
    return sum(message.raw.count(each.encode()) for each in apart if each)


def _structure(message: Message) -> str:
    header = message.header
    named, code = message.value("MSH-9.3").strip().upper(), header.message_code
    # 2.1 knows ORM without an event, and some name it in EVN-1 alone.
    trigger = header.trigger or ("O01" if code == "ORM" else message.value("EVN-1").strip().upper())
    plain = f"{code}_{trigger}"
    return named or (_ADT.get(trigger, plain) if code == "ADT" else plain)


def _report(text: str, structure: str, reference: Any) -> tuple[list[str], list[str], list[str]]:
    """Give hl7apy's sentences, which segments stand out of their order, which values are wrong."""
    from hl7apy.consts import VALIDATION_LEVEL  # noqa: PLC0415  # as above
    from hl7apy.core import Message as Parsed  # noqa: PLC0415
    from hl7apy.exceptions import ValidationError  # noqa: PLC0415
    from hl7apy.parser import get_message_info, parse_segments  # noqa: PLC0415
    from hl7apy.validation import Validator  # noqa: PLC0415

    marks, _, said = get_message_info(text)
    version = nearest(said or "")
    level = VALIDATION_LEVEL.TOLERANT
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        whole = Parsed(
            structure,
            reference=reference,
            version=version,
            validation_level=level,
            encoding_chars=marks,
        )
        whole.children = parse_segments(text, version, marks, level, whole.reference, True)
        descriptor = os.memfd_create("hl7")
        kept = os.dup(descriptor)
        with suppress(ValidationError):  # the first of those that the report lists
            Validator.validate(whole, reference, report_file=descriptor)
        with os.fdopen(kept, encoding="utf-8", errors="replace") as report:
            report.seek(0)
            lines = [line.rstrip("\n") for line in report]
    asked = [each for each in lines if not _of_a_choice(each, version) and not _slip(each, version)]
    places = list(dict.fromkeys(misplaced(whole)))
    values = list(dict.fromkeys(malformed(whole)))
    return [by_segment(each, version) for each in asked], places, values


def _slip(line: str, version: str) -> bool:
    return any(at == version and line.endswith(f" {name}") for at, name in _SLIPS)


def _of_a_choice(line: str, version: str) -> bool:
    """Whether only the other members of a choice are missed: hl7apy asks for all of them."""
    from hl7apy import load_reference  # noqa: PLC0415  # as above
    from hl7apy.exceptions import ChildNotFound  # noqa: PLC0415

    told = _MISSING.match(line)
    if told is None or "_" not in told[1]:
        return False
    try:
        return bool(load_reference(told[1], "Group", version)[0] == "choice")
    except ChildNotFound:
        return False
