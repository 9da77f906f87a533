"""
Procedures: the ORC/OBR parts in the stored lines of an order, and how later messages change them.

An order keeps the segments that it came with (`OrderEvent.echo`). Each part begins at its ORC; the
placer and filler numbers tell which parts a later message is about.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise, product

from mappings.hl7.escapes import escape
from mappings.hl7.header import Delimiters
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
_CODE = (Path.parse("OBR-4.1"),)
_DETAIL = (Path.parse("OBR-3.1"), Path.parse("OBR-2.1"), *_CODE)
_TEXT = Path.parse("OBR-4.2")
_STEP = Path.parse("IPC-1.1")
_MAX_STEPS = 50
_STEPS = tuple(replace(_STEP, occurrence=number) for number in range(1, _MAX_STEPS + 1))
"""The accessions of the scheduled steps of an order."""

Lines = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Procedure:
    """An ORC/OBR part of an order: lines, numbers, code (OBR-4.1) and description."""

    lines: Lines
    placer: str
    filler: str
    code: str = ""
    description: str = ""

    @property
    def has_detail(self) -> bool:
        """Whether it has an OBR; a status message may have an ORC alone."""
        return any(line[:3].upper() == "OBR" for line in self.lines)


def detail_values(echo: Sequence[str]) -> tuple[set[str], ...]:
    """Return the filler numbers, the placer numbers and the codes of the OBR of an order."""
    return tuple(_values(echo, place) for place in _DETAIL)


def detail_texts(echo: Sequence[str]) -> set[str]:
    """Return the texts of the procedures in the OBR of an order, in lower case."""
    return {text.casefold() for text in _values(echo, _TEXT)}


def step_accessions(echo: Sequence[str]) -> set[str]:
    """Return the accessions of the scheduled steps (IPC) of an order."""
    count = sum(line[:3].upper() == "IPC" for line in echo)
    read = Echo(echo) if count else Echo(())
    return {_first_value(read, (place,)) for place in _STEPS[:count]} - {""}


def _values(echo: Sequence[str], place: Path) -> set[str]:
    head, parts = split_procedures(echo, "")
    read = [Echo((*head, *part.lines)) for part in parts] or [Echo(head)]
    return {_first_value(one, (place,)) for one in read} - {""}


class ProcedureLookup:
    """
    Finds the first of some procedures that is the same as another one.

    Two procedures are the same if the numbers that both have are equal. Procedures without a common
    kind of number count as the same.
    """

    def __init__(self, procedures: Sequence[Procedure]) -> None:
        self._procedures = procedures
        self._positions: dict[tuple[str | None, str | None], int] = {}  # None: any number
        for position, procedure in enumerate(procedures):
            for key in product((procedure.placer, None), (procedure.filler, None)):
                self._positions.setdefault(key, position)

    def find(self, other: Procedure) -> Procedure | None:
        """Return the first procedure that is the same as `other`."""
        found = map(self._positions.get, _numbers_of_same(other))
        first = min((position for position in found if position is not None), default=None)
        return None if first is None else self._procedures[first]


def is_other_procedure(one: Procedure, other: Procedure) -> bool:
    """True if two procedures have different codes, and a number that differs."""
    numbers = ((one.placer, other.placer), (one.filler, other.filler))
    codes = one.code and other.code and one.code != other.code
    return bool(codes) and any(left and right and left != right for left, right in numbers)


def _numbers_of_same(one: Procedure) -> Iterator[tuple[str | None, str | None]]:
    """Return the numbers of the procedures that are the same; None: any number."""
    placers = (one.placer, "") if one.placer else (None,)
    fillers = (one.filler, "") if one.filler else (None,)
    return product(placers, fillers)


class _Unmatched:
    """The known procedures that no part of a message is about yet."""

    def __init__(self, known: Sequence[Procedure]) -> None:
        self._known = known
        self._taken: set[int] = set()
        self._positions: dict[tuple[str | None, ...], list[int]] = {}  # the first one is the last
        for position, procedure in reversed(list(enumerate(known))):
            for key in product(
                (procedure.placer, None), (procedure.filler, None), (procedure.code, None)
            ):
                self._positions.setdefault(key, []).append(position)
        self._counts = {key: len(positions) for key, positions in self._positions.items()}

    def count(self, sent: Procedure) -> int:
        """Return how many of all known procedures are the same as `sent`, with any code."""
        return sum(self._counts.get((*key, None), 0) for key in _numbers_of_same(sent))

    def take(self, sent: Procedure, code: str | None) -> Procedure | None:
        """Remove and return the first that is the same as `sent`; None: `code` may be any."""
        found = [self._positions.get((*key, code), []) for key in _numbers_of_same(sent)]
        for positions in found:
            while positions and positions[-1] in self._taken:
                positions.pop()
        first = min((positions[-1] for positions in found if positions), default=None)
        if first is None:
            return None
        self._taken.add(first)
        return self._known[first]

    def left(self) -> list[Procedure]:
        """Return those that were not removed."""
        return [procedure for at, procedure in enumerate(self._known) if at not in self._taken]


def split_procedures(echo: Sequence[str], description: str) -> tuple[Lines, list[Procedure]]:
    """Split the lines of an order into those before the first ORC, and its procedures."""
    starts = [index for index, line in enumerate(echo) if line[:3].upper() == "ORC"]
    head = tuple(echo[: starts[0]]) if starts else tuple(echo)
    parts = [tuple(echo[start:end]) for start, end in pairwise([*starts, len(echo)])]
    descriptions = description.split(DESCRIPTION_SEPARATOR)
    if len(descriptions) != len(parts):
        descriptions = [description] * len(parts)
    return head, [
        _procedure(head, part, text) for part, text in zip(parts, descriptions, strict=True)
    ]


def _procedure(head: Lines, lines: Lines, description: str) -> Procedure:
    echo = Echo((*head, *lines))
    placer, filler, code = [_first_value(echo, path) for path in (_PLACER, _FILLER, _CODE)]
    return Procedure(lines, placer, filler, code, description)


def _first_value(echo: Echo, places: Sequence[Path]) -> str:
    """Return the first of these fields that has a value."""
    found = (echo.field(place, "ST", all_repetitions=False).strip() for place in places)
    return next(filter(None, found), "")


def join_procedures(head: Lines, parts: Sequence[Procedure]) -> tuple[Lines, str]:
    """Join procedures; return the lines and one description."""
    descriptions = [part.description for part in parts]
    equal = len(set(descriptions)) == 1
    lines = tuple(line for procedure in parts for line in procedure.lines)
    return (*head, *lines), descriptions[0] if equal else DESCRIPTION_SEPARATOR.join(descriptions)


def update_procedures(known: Sequence[Procedure], sent: Sequence[Procedure]) -> list[Procedure]:
    """
    Return the procedures of an order after a message about some of them.

    A single procedure with the same placer number, or none, is replaced: it got a new filler
    number. Several procedures may have the same numbers: a part with an OBR replaces one of them,
    that with the same code if there is one; an ORC alone is about all of them.
    """
    lookup = ProcedureLookup(known)
    if len(known) == 1 and not _differ(known[0].placer, sent):
        return [_completed(procedure, lookup.find(procedure)) for procedure in sent]
    unmatched = _Unmatched(known)
    of_same_code = [
        unmatched.take(procedure, procedure.code) if procedure.has_detail else None
        for procedure in sent
    ]
    updated: list[Procedure] = []
    matches: list[Procedure | None]
    for procedure, before in zip(sent, of_same_code, strict=True):
        if procedure.has_detail:
            matches = [before or unmatched.take(procedure, None)]
        else:
            matches = list(iter(partial(unmatched.take, procedure, None), None))
        updated += [
            _described(procedure, one or lookup.find(procedure)) for one in matches or [None]
        ]
    return [*unmatched.left(), *updated]


def _described(sent: Procedure, before: Procedure | None) -> Procedure:
    """Keep the description of a procedure if the message does not have one."""
    sent = _completed(sent, before)
    if sent.description or before is None:
        return sent
    return replace(sent, description=before.description)


def _completed(sent: Procedure, before: Procedure | None) -> Procedure:
    """
    Keep segments that a message does not repeat.

    A message with an ORC alone, such as number assigned, repeats none; one with an OBR may lack the
    scheduled steps, which older versions of HL7 do not have.
    """
    if before is None:
        return sent
    names = {line[:3].upper() for line in sent.lines}
    wanted = {"IPC"} if sent.has_detail else {line[:3].upper() for line in before.lines}
    kept = tuple(line for line in before.lines if line[:3].upper() in wanted - names)
    if not kept:
        return sent
    return replace(sent, lines=(*sent.lines, *kept))


def procedures_left(known: Sequence[Procedure], sent: Sequence[Procedure]) -> list[Procedure]:
    """Return the procedures of an order that a message is not about."""
    lookup = ProcedureLookup(sent)
    return [procedure for procedure in known if lookup.find(procedure) is None]


def procedures_not_named(known: Sequence[Procedure], sent: Sequence[Procedure]) -> list[Procedure]:
    """
    Return the procedures of an order that remain after a cancellation of some of them.

    Several procedures may have the same numbers: then a part with a code cancels one with its code,
    or none. An ORC alone cancels all with its numbers.
    """
    unmatched = _Unmatched(known)
    for part in sorted(sent, key=lambda part: not part.code):
        if not part.code:
            for _ in iter(partial(unmatched.take, part, None), None):
                pass
        elif unmatched.take(part, part.code) is None and unmatched.count(part) == 1:
            unmatched.take(part, None)
    return unmatched.left()


def _differ(placer: str, sent: Sequence[Procedure]) -> bool:
    return bool(placer) and all(
        procedure.placer and procedure.placer != placer for procedure in sent
    )
