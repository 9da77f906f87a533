"""
What hl7apy says about a message, as findings with a place and without a value.

Pure. Its sentences quote what stood in a field; here only their kind and their place are kept.
"""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from typing_extensions import override

from mappings.hl7.refusals import (
    ForbiddenElement,
    MessageRefusal,
    MissingField,
    StructureViolation,
    TableValueNotFound,
    TooManyRepetitions,
    ValueTooLong,
    WrongDataType,
)


@dataclass(frozen=True, slots=True)
class Finding:
    """One difference; a `grave` one is against the structure, others against tables and lengths."""

    refusal: MessageRefusal
    grave: bool

    @override
    def __str__(self) -> str:
        return f"{'error' if self.grave else 'warning'}: {self.refusal.text}"


def _missing(place: str) -> MessageRefusal:
    """Tell a field that is missing from a segment that is."""
    is_field = place != "MSH-9" and ("-" in place or "." in place)
    return MissingField(place) if is_field else StructureViolation(place)


_KINDS: Final[tuple[tuple[re.Pattern[str], Callable[[str], MessageRefusal]], ...]] = (
    (re.compile(r"Error: Missing required child (\S+)$"), _missing),
    (re.compile(r"Error: Child limit exceeded (\S+)$"), TooManyRepetitions),
    (re.compile(r"Error: Datatype \S+ is not correct for (\S+) \("), WrongDataType),
    (re.compile(r"Error: Invalid children detected for <\w+ (\w+)"), ForbiddenElement),
    (
        re.compile(r"Error: (?:Unknown|Invalid) element found"),
        lambda _: StructureViolation("MSH-9"),
    ),
    (
        re.compile(r"Warning: Value .* not in table \S+ in element (\S+)$", re.DOTALL),
        TableValueNotFound,
    ),
    (re.compile(r"Warning: Exceeded max length \(\d+\) of (\S+)$"), ValueTooLong),
)
_SEGMENT: Final = re.compile(r"[A-Z][A-Z0-9]{2}")
_NUMBERED: Final = re.compile(r"([A-Z0-9]{2,3})_(\d+)")


def read_report(lines: Iterable[str]) -> list[Finding]:
    """Read a report of hl7apy, a sentence a line; what is said twice is told once."""
    found: dict[tuple[str, str], Finding] = {}
    for line in lines:
        finding = _read(line.rstrip("\n"))
        if finding is not None:
            found.setdefault((type(finding.refusal).__name__, finding.refusal.place), finding)
    return list(found.values())


def _read(line: str) -> Finding | None:
    for pattern, make in _KINDS:
        told = pattern.match(line)
        if told is not None:
            place = place_of(told[1]) if told.re.groups else ""
            return Finding(make(place), line.startswith("Error"))
    return None


def place_of(path: str) -> str:
    """
    Write a path of hl7apy as HL7 does: `PID.PID_3` is PID-3, `PID_3.CX_1` is PID-3.1.

    Inside a component only the data type is known: `HD.HD_2` stays HD.2.
    """
    parent, _, child = path.partition(".")
    number = _NUMBERED.fullmatch(child)
    if number is None:  # a segment, or a group of them
        name = child or parent
        return name if _SEGMENT.fullmatch(name) else "MSH-9"
    if number[1] == parent and _SEGMENT.fullmatch(parent):
        return f"{parent}-{number[2]}"
    above = _NUMBERED.fullmatch(parent)
    if above is not None and _SEGMENT.fullmatch(above[1]):
        return f"{above[1]}-{above[2]}.{number[2]}"
    return f"{number[1]}.{number[2]}"
