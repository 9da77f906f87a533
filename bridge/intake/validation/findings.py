"""Findings of hl7apy, with a place and without a value.

Pure. The texts of hl7apy quote field values; only kind and place are kept.
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
class ValidationFinding:
    """One violation: an error of the structure, or a warning about a table or a length."""

    refusal: MessageRefusal
    is_error: bool

    @override
    def __str__(self) -> str:
        return f"{'error' if self.is_error else 'warning'}: {self.refusal.text}"


def _missing(place: str) -> MessageRefusal:
    """Distinguish a missing field from a missing segment."""
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


def read_report(lines: Iterable[str]) -> list[ValidationFinding]:
    """Read a report of hl7apy, one finding a line; repeated ones are returned once."""
    found: dict[tuple[str, str], ValidationFinding] = {}
    for line in lines:
        finding = _read(line.rstrip("\n"))
        if finding is not None:
            found.setdefault((type(finding.refusal).__name__, finding.refusal.place), finding)
    return list(found.values())


def _read(line: str) -> ValidationFinding | None:
    for pattern, make in _KINDS:
        match = pattern.match(line)
        if match is not None:
            place = hl7_place(match[1]) if match.re.groups else ""
            return ValidationFinding(make(place), line.startswith("Error"))
    return None


def hl7_place(path: str) -> str:
    """
    Convert a path of hl7apy to HL7 notation: `PID.PID_3` is PID-3, `PID_3.CX_1` is PID-3.1.

    Inside a component only the data type is known: `HD.HD_2` becomes HD.2.
    """
    parent, _, child = path.partition(".")
    number = _NUMBERED.fullmatch(child)
    if number is None:  # a segment or a group
        name = child or parent
        return name if _SEGMENT.fullmatch(name) else "MSH-9"
    if number[1] == parent and _SEGMENT.fullmatch(parent):
        return f"{parent}-{number[2]}"
    above = _NUMBERED.fullmatch(parent)
    if above is not None and _SEGMENT.fullmatch(above[1]):
        return f"{above[1]}-{above[2]}.{number[2]}"
    return f"{number[1]}.{number[2]}"
