"""Validation of one message against the structure of its version or a profile, with hl7apy.

hl7apy counts the elements of a group and does not check their order. A segment for which it has
no structure ends the group. Segments must be in the order of the abstract syntax (HL7 v2.5.1
§2.5.2, §2.13); Z segments may be anywhere. In tolerant mode hl7apy checks no values; this module
checks those of the data types DT, DTM, NM, SI and TM (HL7 v2.5.1 chapter 2A).

Slow (tens of milliseconds a message) and blocking: call it on a thread. The report stays in
memory: no message content is written to disk.
"""

import os
import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import Any, Final

from bridge.intake.validation.profiles import Reference, load_profile
from bridge.intake.validation.validator import ValidationFinding, Validator, read_report
from bridge.metrics import Metrics
from config import Settings
from config.listeners import ListenerSettings, Validation
from mappings.hl7.dictionary import nearest
from mappings.hl7.message import Message
from mappings.hl7.refusals import (
    MessageRefusal,
    MessageTooComplex,
    StructureViolation,
    WrongDataType,
)

_GROUP: Final = re.compile(r"(Error: (?:Missing required child|Child limit exceeded) \w+\.)(\w+)$")


def without_undeclared(segments: Sequence[str], reference: Any) -> list[str]:
    """Remove the Z segments that the profile (None: no profile) does not declare."""
    named = set(_names(reference)) if reference else set()
    return [
        segment
        for segment in segments
        if segment[:1].upper() != "Z" or segment[:3].upper() in named
    ]


def _names(reference: Any) -> Iterator[str]:
    for name, below, _, kind in reference[1]:
        yield name
        if kind == "GRP":
            yield from _names(below)


def misplaced_segments(element: Any) -> Iterator[str]:
    expected, at = list(element.ordered_children or ()), 0
    for child in element.children:
        if child.name in expected:
            found = next((n for n in range(at, len(expected)) if expected[n] == child.name), None)
            if found is None:
                yield _first(child)
            else:
                at = found
        if child.classname == "Group":
            yield from misplaced_segments(child)


def _first(element: Any) -> str:
    while element.classname == "Group" and element.children:
        element = element.children[0]
    return str(element.name)


def naming_first_segment(line: str, version: str) -> str:
    """Replace the name of a missing or repeated group by that of its first segment."""
    match = _GROUP.match(line)
    if match is None or "_" not in match[2]:
        return line
    from hl7apy import load_reference  # noqa: PLC0415  # slow to load, rarely wanted
    from hl7apy.exceptions import ChildNotFound  # noqa: PLC0415  # as above

    name, kind = match[2], "GRP"
    try:
        while kind == "GRP":
            order, children = load_reference(name, "Group", version)[:2]
            if order == "choice":
                return line
            name, kind = next(((child[0], child[3]) for child in children if child[2][0]), ("", ""))
    except ChildNotFound:
        return line
    return f"{match[1]}{name}" if name else line


_HOURS: Final = r"(?:[01]\d|2[0-3])"
_ZONE: Final = r"(?:[+-]\d{4})?"
_SECONDS: Final = r"(?:[0-5]\d(?:\.\d{1,4})?)"
_DATE: Final = r"\d{4}(?:(?:0[1-9]|1[0-2])(?:(?:0[1-9]|[12]\d|3[01])"

_VALUE_PATTERNS: Final[Mapping[str, re.Pattern[str]]] = MappingProxyType(
    {
        "DT": re.compile(rf"{_DATE})?)?"),
        "DTM": re.compile(rf"{_DATE}(?:{_HOURS}(?:[0-5]\d{_SECONDS}?)?)?)?)?{_ZONE}"),
        "TM": re.compile(rf"{_HOURS}(?:[0-5]\d{_SECONDS}?)?{_ZONE}"),
        "NM": re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)"),
        "SI": re.compile(r"\d+"),
    }
)
_TIME_STAMP: Final = "TS_1"
"""The first component of a TS: hl7apy treats it as a string before 2.5, which introduced DTM."""

_NULL: Final = '""'


def malformed_values(element: Any) -> Iterator[str]:
    """Return the places, `PID-7` or `ORC-7.4`, of values that do not match their data type."""
    for child in element.children:
        if child.classname == "Segment":
            yield from _in_segment(child)
        elif child.classname == "Group":
            yield from malformed_values(child)


def _in_segment(segment: Any) -> Iterator[str]:
    observed = _observed(segment) if segment.name == "OBX" else ""
    for field in segment.children:
        place = str(field.name).replace("_", "-", 1)
        if place == "OBX-5":
            kind = "DTM" if observed == "TS" else observed
            wrong = not _is_valid(kind, field.to_er7().partition("^")[0])
            yield from [place] if wrong else []
            continue
        for number, component in enumerate(field.children, start=1):
            if _is_malformed(component):
                inside = len(field.children) > 1 or field.datatype != component.datatype
                whole = field.datatype == "TS" or not inside
                yield place if whole else f"{place}.{_number(component, number)}"


def _observed(segment: Any) -> str:
    """Return OBX-2, the data type of OBX-5."""
    return next((str(f.to_er7()).strip() for f in segment.children if f.name == "OBX_2"), "")


def _number(component: Any, otherwise: int) -> str:
    return str(component.name).rpartition("_")[2] if "_" in str(component.name) else str(otherwise)


def _is_malformed(component: Any) -> bool:
    kind = _checked_type(component)
    if kind:
        return not _is_valid(kind, component.to_er7())
    return any(
        _checked_type(child) and not _is_valid(_checked_type(child), child.to_er7())
        for child in component.children
    )


def _checked_type(element: Any) -> str:
    if element.name == _TIME_STAMP:
        return "DTM"
    return element.datatype if element.datatype in _VALUE_PATTERNS else ""


def _is_valid(kind: str, value: str) -> bool:
    pattern, value = _VALUE_PATTERNS.get(kind), value.strip()
    return pattern is None or value in {"", _NULL} or pattern.fullmatch(value) is not None


# HL7 table 0354, for messages without MSH-9.3 (common before 2.4).
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

_WARN_ONLY_VERSIONS: Final = frozenset({"", "2.1", "2.7.1", "2.9"})
"""
Versions whose violations are warnings.

hl7apy's tables of 2.1 require all members of a choice and the precision of each time. It has no
tables of the other versions; the nearest version is used.
"""

_MAX_PARTS: Final = 8_000
"""Limit of separators in a message: hl7apy needs a tenth of a millisecond for each part."""

_MAX_SEGMENTS: Final = 1_000
"""Limit of segments: for repeated ones hl7apy needs quadratic time."""

_KNOWN_ERRORS: Final = frozenset({("2.2", "ORM_O01_ORDER_DETAIL.NTE")})
"""Elements that hl7apy requires and the standard does not (HL7 v2.2 chapter 4: `{OBX [{NTE}]}`)."""

_MISSING: Final = re.compile(r"Error: Missing required child (\w+)\.")


def validate(
    payload: bytes, profile: Reference | None = None, fallback: str = "utf-8"
) -> list[ValidationFinding]:
    """Return the violations of a message; empty if there are none. Never raises for a message."""
    try:
        message = Message.parse(payload, fallback=fallback)
    except MessageRefusal as refusal:
        return [ValidationFinding(refusal, is_error=True)]
    from hl7apy.exceptions import HL7apyException  # noqa: PLC0415  # slow to load, rarely wanted

    if _parts(message) > _MAX_PARTS or len(message.segments) > _MAX_SEGMENTS:
        return [ValidationFinding(MessageTooComplex(), is_error=True)]
    structure = _structure(message)
    if profile is not None and structure not in profile:
        return [ValidationFinding(StructureViolation("MSH-9"), is_error=True)]
    reference = profile and profile[structure]
    segments = without_undeclared([segment.text() for segment in message.segments], reference)
    text = "".join(f"{segment}\r" for segment in segments)
    is_strict = profile is not None or message.header.version not in _WARN_ONLY_VERSIONS
    try:
        lines, places, values = _report(text, structure, reference)
        found = read_report(lines)
        found += [ValidationFinding(StructureViolation(place), is_error=True) for place in places]
        found += [ValidationFinding(WrongDataType(value), is_error=True) for value in values]
        return found if is_strict else [replace(finding, is_error=False) for finding in found]
    except (HL7apyException, AttributeError):  # hl7apy cannot parse it
        return [ValidationFinding(StructureViolation("MSH-9"), is_error=is_strict)]


def _parts(message: Message) -> int:
    """Count the separators: hl7apy builds an object for each."""
    marks = message.delimiters
    separators = [marks.field, marks.component, marks.repetition, marks.subcomponent]
    return sum(message.raw.count(separator.encode()) for separator in separators if separator)


def _structure(message: Message) -> str:
    header = message.header
    named, code = message.value("MSH-9.3").strip().upper(), header.message_code
    # In 2.1, ORM has no event; some senders have the event in EVN-1 only.
    trigger = header.trigger or ("O01" if code == "ORM" else message.value("EVN-1").strip().upper())
    plain = f"{code}_{trigger}"
    return named or (_ADT.get(trigger, plain) if code == "ADT" else plain)


def _report(text: str, structure: str, reference: Any) -> tuple[list[str], list[str], list[str]]:
    """Return hl7apy's report lines, the misplaced segments, and the malformed values."""
    from hl7apy.consts import VALIDATION_LEVEL  # noqa: PLC0415  # as above
    from hl7apy.core import Message as Parsed  # noqa: PLC0415
    from hl7apy.exceptions import ValidationError  # noqa: PLC0415
    from hl7apy.parser import get_message_info, parse_segments  # noqa: PLC0415
    from hl7apy.validation import Validator  # noqa: PLC0415

    marks, _, value = get_message_info(text)
    version = nearest(value or "")
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
    reported = [
        line
        for line in lines
        if not _is_alternative(line, version) and not _is_known_error(line, version)
    ]
    places = list(dict.fromkeys(misplaced_segments(whole)))
    values = list(dict.fromkeys(malformed_values(whole)))
    return [naming_first_segment(line, version) for line in reported], places, values


def _is_known_error(line: str, version: str) -> bool:
    return any(at == version and line.endswith(f" {name}") for at, name in _KNOWN_ERRORS)


def _is_alternative(line: str, version: str) -> bool:
    """True if only other members of a choice are missing: hl7apy requires all of them."""
    from hl7apy import load_reference  # noqa: PLC0415  # as above
    from hl7apy.exceptions import ChildNotFound  # noqa: PLC0415

    match = _MISSING.match(line)
    if match is None or "_" not in match[1]:
        return False
    try:
        return bool(load_reference(match[1], "Group", version)[0] == "choice")
    except ChildNotFound:
        return False


def make_validator(
    settings: Settings, listener: ListenerSettings, metrics: Metrics
) -> Validator | None:
    """Return the validator of a listener, or None. Raises ProfileUnusable."""
    if listener.validation is Validation.OFF:
        return None
    file = listener.profile
    profile = None if file is None else load_profile(settings.path(file))
    validate_payload = partial(validate, profile=profile, fallback=listener.charset)
    return Validator(
        listener.name, validate_payload, metrics, refuse=listener.validation is Validation.REFUSE
    )
