"""
Procedures: the ORC/OBR parts in the stored lines of an order, and how later messages change them.

An order keeps the segments that it came with (`OrderEvent.echo`). Each part begins at its ORC; the
placer and filler numbers tell which parts a later message is about.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from mappings.hl7.delimiters import Delimiters
from mappings.hl7.escapes import escape
from mappings.hl7.path import Path
from mappings.outbound.echo import Echo

_PID_3 = 3


def replace_number(
    lines: Sequence[str], fields: Mapping[str, int], before: str, after: str
) -> tuple[str, ...]:
    """Give lines with another number where these fields begin with `before`."""
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
    """Give lines whose PID-3 is that of others; as they are, where those write otherwise."""
    marks = Echo(lines).marks
    now = [line for line in identity if line[:3].upper() == "PID"]
    if not now or Echo(identity).marks != marks:
        return tuple(lines)
    numbers = (now[0].split(marks.field) + [""] * _PID_3)[_PID_3]
    return tuple(_with_numbers(line, marks, numbers) for line in lines)


def _with_numbers(line: str, marks: Delimiters, numbers: str) -> str:
    row = line.split(marks.field)
    if row[0].upper() != "PID" or len(row) <= _PID_3 or not numbers:
        return line
    return marks.field.join([*row[:_PID_3], numbers, *row[_PID_3 + 1 :]])


BETWEEN = "; "
"""Stands between the descriptions of several procedures in StudyDescription."""

_PLACER = (Path.parse("ORC-2.1"), Path.parse("OBR-2.1"))
_FILLER = (Path.parse("ORC-3.1"), Path.parse("OBR-3.1"))

Lines = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Procedure:
    """One ORC/OBR part of an order: its lines, its numbers, how it is described."""

    lines: Lines
    placer: str
    filler: str
    description: str = ""

    def is_same(self, other: "Procedure") -> bool:
        """Compare the numbers that both have; where they share none they may be the same."""
        pairs = ((self.placer, other.placer), (self.filler, other.filler))
        return all(one == two for one, two in pairs if one and two)


def split_procedures(echo: Sequence[str], description: str) -> tuple[Lines, list[Procedure]]:
    """Cut the echo of an order into what stands before the first ORC, and its parts."""
    starts = [place for place, line in enumerate(echo) if line[:3].upper() == "ORC"]
    head = tuple(echo[: starts[0]]) if starts else tuple(echo)
    parts = [tuple(echo[start:end]) for start, end in pairwise([*starts, len(echo)])]
    said = description.split(BETWEEN)
    if len(said) != len(parts):
        said = [description] * len(parts)
    return head, [_procedure(head, part, words) for part, words in zip(parts, said, strict=True)]


def _procedure(head: Lines, lines: Lines, description: str) -> Procedure:
    echo = Echo((*head, *lines))
    return Procedure(lines, _number(echo, _PLACER), _number(echo, _FILLER), description)


def _number(echo: Echo, places: Sequence[Path]) -> str:
    """Read a number where it stands first."""
    found = (echo.field(place, "ST", all_repetitions=False).strip() for place in places)
    return next(filter(None, found), "")


def join_procedures(head: Lines, parts: Sequence[Procedure]) -> tuple[Lines, str]:
    """Put parts together again: the echo, and one description for all."""
    said = [each.description for each in parts]
    alike = len(set(said)) == 1
    lines = tuple(line for each in parts for line in each.lines)
    return (*head, *lines), said[0] if alike else BETWEEN.join(said)


def update_procedures(known: Sequence[Procedure], said: Sequence[Procedure]) -> list[Procedure]:
    """
    Give the parts of an order after a message about some of them.

    A lone part whose placer number is the same, or unsaid, was renumbered and gives way.
    """
    if len(known) == 1 and not _differ(known[0].placer, said):
        return [_completed(each, known) for each in said]
    return [*procedures_left(known, said), *(_described(each, known) for each in said)]


def _described(said: Procedure, known: Sequence[Procedure]) -> Procedure:
    """Keep the description that a message does not repeat."""
    before = next((each.description for each in known if each.is_same(said)), "")
    said = _completed(said, known)
    return said if said.description else replace(said, description=before)


def _completed(said: Procedure, known: Sequence[Procedure]) -> Procedure:
    """Keep the segments that an ORC alone does not repeat (numbers assigned, released …)."""
    before = next((each for each in known if each.is_same(said)), None)
    names = {line[:3].upper() for line in said.lines}
    if before is None or "OBR" in names:
        return said
    kept = tuple(line for line in before.lines if line[:3].upper() not in names)
    return replace(said, lines=(*said.lines, *kept))


def procedures_left(known: Sequence[Procedure], said: Sequence[Procedure]) -> list[Procedure]:
    """Give the parts of an order that a message is not about."""
    return [each for each in known if not any(each.is_same(one) for one in said)]


def _differ(placer: str, said: Sequence[Procedure]) -> bool:
    return bool(placer) and all(each.placer and each.placer != placer for each in said)
