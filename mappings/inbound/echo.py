"""The segments that an order came with, ready to be repeated in its result.

Lines in the sender's own delimiters, MSH first, as `OrderEvent.echo` keeps them. Asked for
by path; without an MSH the standard delimiters are assumed.

Pure. A part begins with its ORC; numbers tell which part a later message is about. Knows no
events and no service.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise

from mappings.hl7 import delimiters
from mappings.hl7.charset import codec_for
from mappings.hl7.delimiters import Delimiters
from mappings.hl7.escapes import escape, unescape
from mappings.hl7.path import Path
from mappings.hl7.refusals import Malformed
from mappings.hl7.times import parse_timestamp
from mappings.outbound.encoding import NOTHING, Encoded, recode, recode_freely, repeated, segment

_MSH_7 = 7
_MSH_18 = 18
_PID_3 = 3


class Echo:
    """The echo of one order. Finds nothing where there is nothing; never fails."""

    def __init__(self, lines: Sequence[str], *, zoned: bool = True) -> None:
        """Take the lines as they were kept; `zoned`: times bear the zone that MSH-7 names."""
        self._lines = lines
        self._zoned = zoned
        self._written: dict[tuple[Path, str, bool], Encoded] = {}

    @cached_property
    def marks(self) -> Delimiters:
        """Return the sender's delimiters."""
        for line in self._lines:
            if line[:3].upper() == "MSH":
                declared = line[3:4] + line[4:].partition(line[3:4] or "|")[0]
                try:
                    return delimiters.read(declared.encode("latin-1", "replace"))
                except Malformed:
                    break
        return delimiters.STANDARD

    @cached_property
    def _codec(self) -> str:
        rows = self._rows.get("MSH", [[]])
        return codec_for(rows[0][_MSH_18] if len(rows[0]) > _MSH_18 else "")

    @cached_property
    def _offset(self) -> int | None:
        """Return the zone of times that name none, in minutes from UTC."""
        rows = self._rows.get("MSH", [[]])
        sent = parse_timestamp(rows[0][_MSH_7]) if len(rows[0]) > _MSH_7 else None
        return sent.offset if sent is not None and self._zoned else None

    @cached_property
    def _rows(self) -> dict[str, list[list[str]]]:
        rows: dict[str, list[list[str]]] = {}
        for line in self._lines:
            row = line.split(self.marks.field)
            name = row[0].upper()
            if name == "MSH":
                row.insert(1, self.marks.field)
            rows.setdefault(name, []).append(row)
        return rows

    def repetitions(self, path: Path) -> list[str]:
        """Return the repetitions of a field as the sender wrote them, without nulls."""
        rows = self._rows.get(path.segment, ())
        index = max(path.occurrence, 1) - 1
        if len(rows) <= index or len(rows[index]) <= path.field:
            return []
        text = rows[index][path.field]
        if not text:
            return []
        parts = text.split(self.marks.repetition) if self.marks.repetition else [text]
        return [part for part in parts if part.strip() not in ("", '""')]

    def field(self, path: Path, kind: str, *, all_repetitions: bool) -> Encoded:
        """Write a field in our delimiters, in the shape of a data type."""
        chosen = self.repetitions(path)
        if not chosen:  # most fields that may be repeated are not there
            return NOTHING
        key = (path, kind, all_repetitions)
        written = self._written.get(key)  # lines of a text ask for the same again and again
        if written is None:
            written = self._field(path, kind, chosen, all_repetitions=all_repetitions)
            self._written[key] = written
        return written

    def _field(self, path: Path, kind: str, chosen: list[str], *, all_repetitions: bool) -> Encoded:
        if not all_repetitions:
            chosen = chosen[:1]
        if path.component and self.marks.component:
            chosen = [_nth(each.split(self.marks.component), path.component) for each in chosen]
        coded = [
            recode(
                _no_nulls(each, self.marks),
                self.marks,
                self._codec,
                kind=kind,
                offset=self._offset,
            )
            for each in chosen
        ]
        return repeated([each for each in coded if each])

    def texts(self, path: Path) -> set[str]:
        """Return every component and subcomponent of a field, unescaped."""
        found = set()
        for repetition in self.repetitions(path):
            for component in _cut(repetition, self.marks.component):
                leaves = _cut(component, self.marks.subcomponent)
                found |= {unescape(leaf, self.marks, self._codec).strip() for leaf in leaves}
        return found

    def segments(self, name: str) -> list[Encoded]:
        """Write all segments of a name in our delimiters, as they are."""
        return [
            segment(name, [recode_freely(each, self.marks, self._codec) for each in row[1:]])
            for row in self._rows.get(name, ())
        ]


def _cut(text: str, separator: str) -> list[str]:
    return text.split(separator) if separator else [text]


def _nth(parts: Sequence[str], number: int) -> str:
    return parts[number - 1] if len(parts) >= number else ""


def _no_nulls(text: str, marks: Delimiters) -> str:
    """Nulls delete on the way in; nobody wants them back."""
    if '""' not in text or not marks.component:
        return text
    parts = text.split(marks.component)
    return marks.component.join("" if part.strip() == '""' else part for part in parts)


def renumbered(
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


def readdressed(lines: Sequence[str], identity: Sequence[str]) -> tuple[str, ...]:
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


def procedures_of(echo: Sequence[str], description: str) -> tuple[Lines, list[Procedure]]:
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


def joined(head: Lines, parts: Sequence[Procedure]) -> tuple[Lines, str]:
    """Put parts together again: the echo, and one description for all."""
    said = [each.description for each in parts]
    alike = len(set(said)) == 1
    lines = tuple(line for each in parts for line in each.lines)
    return (*head, *lines), said[0] if alike else BETWEEN.join(said)


def updated(known: Sequence[Procedure], said: Sequence[Procedure]) -> list[Procedure]:
    """
    Give the parts of an order after a message about some of them.

    A lone part whose placer number is the same, or unsaid, was renumbered and gives way.
    """
    if len(known) == 1 and not _differ(known[0].placer, said):
        return [_completed(each, known) for each in said]
    return [*remaining(known, said), *(_described(each, known) for each in said)]


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


def remaining(known: Sequence[Procedure], said: Sequence[Procedure]) -> list[Procedure]:
    """Give the parts of an order that a message is not about."""
    return [each for each in known if not any(each.is_same(one) for one in said)]


def _differ(placer: str, said: Sequence[Procedure]) -> bool:
    return bool(placer) and all(each.placer and each.placer != placer for each in said)
