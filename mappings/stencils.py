"""
Stencils: one pattern for the orders of one sender that differ from one in order in nothing that
is asked before the acknowledgment, but for their numbers.

Where a glance reads the places it was told of, a stencil has what stood in them: all of MSH but
its time, control id and sequence number, what ORC says, where the patient's number and the
accession stand. What fits is in order for the same reasons as what it was cut from.
"""

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from mappings.hl7.header import Header
from mappings.hl7.null_characters import may_hold_nul
from mappings.probes import LONGEST, Marks, Place, Probe, is_in, may_be_plain, of_one, read

_PLAIN = rb"0-9A-Za-z._/-"
"""What numbers consist of that need no second look: nothing of it may part fields."""

_PLAIN_BYTES = re.compile(rb"[%s]+" % _PLAIN)
LONGEST_NUMBER = 64
_ESCAPE_MARK = slice(6, 7)  # in MSH-2
_NUMBER = rb"[%s]{1,%d}+" % (_PLAIN, LONGEST_NUMBER)
_TIME = rb"[0-9.+-]*+"
_COUNT = rb"[0-9]*+"
_COUNTED = re.compile(rb"[0-9]*")
_MSH_7, _MSH_10, _MSH_13 = 6, 9, 12  # places of MSH's line, cut at its separators
_VARIES = {_MSH_7: _TIME, _MSH_10: rb"(%s)" % _NUMBER, _MSH_13: _COUNT}


class Stencil(NamedTuple):
    """`pattern` is all of a message; its groups are MSH-10 and the patient's number."""

    pattern: re.Pattern[bytes]
    utf_8: bool
    """Whether the messages say that they are in UTF-8."""

    def numbers(self, raw: bytes) -> tuple[bytes, bytes] | None:
        """Give MSH-10 and the patient's number of a message that fits; else None."""
        found = self.pattern.fullmatch(raw)
        if found is None or not may_be_plain(raw) or not is_in(raw, utf_8=self.utf_8):
            return None
        if may_hold_nul(raw, raw[_ESCAPE_MARK]):
            return None
        return found.groups()  # type: ignore[return-value]  # the pattern has two, both needed


class Model(NamedTuple):
    """A message that is in order, as its shape has cut it."""

    raw: bytes
    header: Header
    heads: tuple[bytes, ...]
    """How each line begins."""
    places: tuple[Place, ...]
    fields: tuple[bytes, ...]
    """What stands there."""
    marks: Marks


class _Field(NamedTuple):
    """The pattern of one field; one that must be there ends no line before it."""

    pattern: bytes
    needed: bool


class _Part(NamedTuple):
    """A repetition: the number in it is each patient's own, the rest is the same in all."""

    value: bytes
    before: bytes
    behind: bytes

    @classmethod
    def of(cls, repetition: bytes, index: int, marks: Marks) -> "_Part | None":
        """Take a repetition apart; None where what is to vary is more than a number."""
        parts = repetition.split(marks.component) if marks.component else [repetition]
        if index >= len(parts) or not _PLAIN_BYTES.fullmatch(parts[index]):
            return None
        before = b"".join(part + marks.component for part in parts[:index])
        behind = b"".join(marks.component + part for part in parts[index + 1 :])
        return cls(parts[index], before, behind)

    def around(self, number: bytes) -> bytes:
        """Write the pattern of this and others like it."""
        return re.escape(self.before) + number + re.escape(self.behind)


class _Hole(NamedTuple):
    """Where a number stands in its field."""

    probe: int
    """Which of those that look for it has found it."""
    at: int
    chosen: int
    """The repetition that it stands in."""
    parts: tuple[_Part, ...]
    repetition: bytes

    @property
    def value(self) -> bytes:
        """The number."""
        return self.parts[self.chosen].value

    def field(self, number: bytes) -> "_Field":
        """Write the pattern of the field, with one for the number."""
        each = (
            part.around(number if at == self.chosen else _NUMBER)
            for at, part in enumerate(self.parts)
        )
        return _Field(re.escape(self.repetition).join(each), needed=True)


def cut(
    model: Model, mrn: Sequence[Probe], accession: Sequence[Probe], others: Sequence[Probe]
) -> re.Pattern[bytes] | None:
    """Write the pattern of messages like this one; None where one cannot stand for others."""
    whose, which = _hole(mrn, model), _hole(accession, model)
    first_line = _first_line(model)
    if first_line is None or whose is None or which is None or whose.at == which.at:
        return None
    before = (*mrn[: whose.probe], *accession[: which.probe])  # they were asked, and said nothing
    asked = {probe.at for probe in (*before, *others)}
    fields = {model.places[at]: _the_same(model.fields[at]) for at in asked}
    fields[model.places[whose.at]] = whose.field(rb"(%s)" % _NUMBER)
    fields[model.places[which.at]] = which.field(_NUMBER)
    separator = re.escape(model.header.fields[1])
    lines = [
        re.escape(head) + _line({f: p for (line, f), p in fields.items() if line == at}, separator)
        for at, head in enumerate(model.heads[1:], start=1)
    ]
    pattern = re.compile(rb"\r".join([first_line, *lines]) + rb"\r*+")
    found = pattern.fullmatch(model.raw)
    same = found is not None and found.groups() == (model.header.control_id, whose.value)
    return pattern if same else None


def _hole(probes: Sequence[Probe], model: Model) -> _Hole | None:
    """Find the number in its field; None where it does not stand there by itself."""
    marks = model.marks
    told = next((n for n, each in enumerate(probes) if read(each, model.fields, marks)), None)
    if told is None or _parts_numbers(model.header):
        return None
    probe = probes[told]
    # A part that somebody compares is no hole: what stands there decides whether it is read.
    index = max(probe.component, 1) - 1
    if index in {each.match[0] - 1 for each in probes if each.at == probe.at and each.match}:
        return None
    field = model.fields[probe.at]
    repetitions = field.split(marks.repetition) if marks.repetition else [field]
    chosen = next(n for n, each in enumerate(repetitions) if of_one(each, *probe[1:], marks))
    parts = [_Part.of(each, index, marks) for each in repetitions]
    if None in parts or len(field) + LONGEST_NUMBER > LONGEST:
        return None
    return _Hole(told, probe.at, chosen, tuple(filter(None, parts)), marks.repetition)


def _parts_numbers(header: Header) -> bool:
    """Whether a delimiter may stand in a number."""
    return bool(_PLAIN_BYTES.search(header.fields[1] + header.fields[2]))


def _the_same(text: bytes) -> _Field:
    return _Field(re.escape(text), needed=bool(text))


def _first_line(model: Model) -> bytes | None:
    """Write the pattern of MSH: the model's own, but for what every message has for itself."""
    separator = model.header.fields[1]
    line = model.raw[: model.raw.find(b"\r")]
    parts = line.split(separator)
    known = tuple(parts[1 : len(model.header.fields) - 1])
    if not line.isascii() or model.header.fields[2 : 2 + len(known)] != known:
        return None  # read in another way than it stands there
    if len(parts) <= _MSH_10 or not _COUNTED.fullmatch(b"".join(parts[_MSH_13 : _MSH_13 + 1])):
        return None
    return re.escape(separator).join(
        _VARIES.get(at, re.escape(part)) for at, part in enumerate(parts)
    )


def _line(fields: Mapping[int, _Field], separator: bytes) -> bytes:
    """Write the pattern of what is behind a head: fields as far as asked for, and the rest."""
    one = rb"[^\r%s]*+" % separator
    rest, needed = rb"(?:%s[^\r]*+)?+" % separator, False
    if not fields:
        return rb"[^\r]*+"
    for number in range(max(fields), 0, -1):
        field = fields.get(number, _Field(one, needed=False))
        rest = field.pattern + (rest if number == max(fields) else _behind(rest, separator, needed))
        needed = needed or field.needed
    return rest


def _behind(rest: bytes, separator: bytes, needed: bool) -> bytes:
    return separator + rest if needed else rb"(?:%s%s)?+" % (separator, rest)
