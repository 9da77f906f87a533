"""
Procedures: the ORC/OBR parts in the stored lines of an order, and how later messages change them.

An order keeps the segments that it came with (`OrderEvent.echo`). Each part begins at its ORC; the
placer and filler numbers tell which parts a later message is about.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise, product

from mappings.hl7.delimiters import Delimiters
from mappings.hl7.escapes import escape
from mappings.hl7.path import Path
from mappings.outbound.echo import Echo

_PID_3 = 3


def replace_number(
    lines: Sequence[str], fields: Mapping[str, int], before: str, after: str
) -> tuple[str, ...]:
    """Replace a number at the beginning of these fields (field numbers by segment name)."""
    if not before or not after or before == after:
        return tuple(lines)
    marks = Echo(lines).marks
    old, new = escape(before, marks), escape(after, marks)
    return tuple(_renumbered(line, marks, fields, old, new) for line in lines)


def _renumbered(
    line: str, marks: Delimiters, fields: Mapping[str, int], before: str, after: str
) -> str:
    row = line.split(marks.field)
    at = fields.get(row[0].upper(), 0)
    if not 0 < at < len(row):
        return line
    number, component, rest = row[at].partition(marks.component or "\0")
    if number.strip() == before:
        row[at] = after + component + rest
    return marks.field.join(row)


def replace_identifiers(lines: Sequence[str], identity: Sequence[str]) -> tuple[str, ...]:
    """
    Replace PID-3 by that of `identity`, the lines with the current identifiers of the patient.

    The lines are unchanged if `identity` has other delimiters or no PID.
    """
    marks = Echo(lines).marks
    current = [line for line in identity if line[:3].upper() == "PID"]
    if not current or Echo(identity).marks != marks:
        return tuple(lines)
    numbers = (current[0].split(marks.field) + [""] * _PID_3)[_PID_3]
    return tuple(_with_numbers(line, marks, numbers) for line in lines)


def _with_numbers(line: str, marks: Delimiters, numbers: str) -> str:
    row = line.split(marks.field)
    if row[0].upper() != "PID" or len(row) <= _PID_3 or not numbers:
        return line
    return marks.field.join([*row[:_PID_3], numbers, *row[_PID_3 + 1 :]])


DESCRIPTION_SEPARATOR = "; "
"""Separates the descriptions of several procedures in StudyDescription."""

_PLACER = (Path.parse("ORC-2.1"), Path.parse("OBR-2.1"))
_FILLER = (Path.parse("ORC-3.1"), Path.parse("OBR-3.1"))

Lines = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Procedure:
    """An ORC/OBR part of an order: lines, numbers and description."""

    lines: Lines
    placer: str
    filler: str
    description: str = ""


class ProcedureLookup:
    """
    Finds the first of some procedures that is the same as another one.

    Two procedures are the same if the numbers that both have are equal. Procedures without a common
    kind of number count as the same.
    """

    def __init__(self, procedures: Sequence[Procedure]) -> None:
        self._procedures = procedures
        self._positions: dict[tuple[str | None, str | None], int] = {}  # None: any number
        for position, each in enumerate(procedures):
            for key in product((each.placer, None), (each.filler, None)):
                self._positions.setdefault(key, position)

    def find(self, other: Procedure) -> Procedure | None:
        """Return the first procedure that is the same as `other`."""
        placers = (other.placer, "") if other.placer else (None,)
        fillers = (other.filler, "") if other.filler else (None,)
        found = map(self._positions.get, product(placers, fillers))
        first = min((each for each in found if each is not None), default=None)
        return None if first is None else self._procedures[first]


def split_procedures(echo: Sequence[str], description: str) -> tuple[Lines, list[Procedure]]:
    """Split the lines of an order into those before the first ORC, and its procedures."""
    starts = [index for index, line in enumerate(echo) if line[:3].upper() == "ORC"]
    head = tuple(echo[: starts[0]]) if starts else tuple(echo)
    parts = [tuple(echo[start:end]) for start, end in pairwise([*starts, len(echo)])]
    descriptions = description.split(DESCRIPTION_SEPARATOR)
    if len(descriptions) != len(parts):
        descriptions = [description] * len(parts)
    return head, [
        _procedure(head, part, each) for part, each in zip(parts, descriptions, strict=True)
    ]


def _procedure(head: Lines, lines: Lines, description: str) -> Procedure:
    echo = Echo((*head, *lines))
    return Procedure(lines, _first_number(echo, _PLACER), _first_number(echo, _FILLER), description)


def _first_number(echo: Echo, places: Sequence[Path]) -> str:
    """Return the first of these fields that has a value."""
    found = (echo.field(place, "ST", all_repetitions=False).strip() for place in places)
    return next(filter(None, found), "")


def join_procedures(head: Lines, parts: Sequence[Procedure]) -> tuple[Lines, str]:
    """Join procedures; return the lines and one description."""
    descriptions = [each.description for each in parts]
    equal = len(set(descriptions)) == 1
    lines = tuple(line for each in parts for line in each.lines)
    return (*head, *lines), descriptions[0] if equal else DESCRIPTION_SEPARATOR.join(descriptions)


def update_procedures(known: Sequence[Procedure], sent: Sequence[Procedure]) -> list[Procedure]:
    """
    Return the procedures of an order after a message about some of them.

    A single procedure with the same placer number, or none, is replaced: it got a new filler
    number.
    """
    lookup = ProcedureLookup(known)
    if len(known) == 1 and not _differ(known[0].placer, sent):
        return [_completed(each, lookup.find(each)) for each in sent]
    return [
        *procedures_left(known, sent),
        *(_described(each, lookup.find(each)) for each in sent),
    ]


def _described(sent: Procedure, before: Procedure | None) -> Procedure:
    """Keep the description of a procedure if the message does not have one."""
    sent = _completed(sent, before)
    if sent.description or before is None:
        return sent
    return replace(sent, description=before.description)


def _completed(sent: Procedure, before: Procedure | None) -> Procedure:
    """Keep segments that a message with an ORC alone does not repeat, such as number assigned."""
    names = {line[:3].upper() for line in sent.lines}
    if before is None or "OBR" in names:
        return sent
    kept = tuple(line for line in before.lines if line[:3].upper() not in names)
    return replace(sent, lines=(*sent.lines, *kept))


def procedures_left(known: Sequence[Procedure], sent: Sequence[Procedure]) -> list[Procedure]:
    """Return the procedures of an order that a message is not about."""
    lookup = ProcedureLookup(sent)
    return [each for each in known if lookup.find(each) is None]


def _differ(placer: str, sent: Sequence[Procedure]) -> bool:
    return bool(placer) and all(each.placer and each.placer != placer for each in sent)
