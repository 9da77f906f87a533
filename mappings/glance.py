"""
The check before the acknowledgment at one look: orders whose form has been seen to be in order.

A message that is cut like one before it, whose identity stands in plain fields, need not be
taken apart again. Whatever is unusual in any way gets no answer here, and the full check: this
file can say "in order, and whose", and never "refused".
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from mappings.control import OrderControlTable
from mappings.hl7.delimiters import Delimiters
from mappings.hl7.header import Header
from mappings.hl7.lines import AFTER
from mappings.hl7.message import Message
from mappings.hl7.path import BadPath, Path
from mappings.nodes import Node
from mappings.scope import Scope

_MOST_SHAPES = 4096  # beyond it all are forgotten, so that nobody can fill memory
_LONGEST_SHAPE = 100  # segments
_LONGEST = 200  # bytes of an identifier that needs no second look
_NULL = b'""'
_ESCAPE = b"\x1b"  # of ISO 2022: what follows is not ASCII


class Source(NamedTuple):
    """A place that a value may stand in; `match`: component and text that must stand with it."""

    segment: str
    field: int
    component: int
    match: tuple[int, bytes] | None = None


class _Probe(NamedTuple):
    """A source in messages of one shape: the segment's place instead of its name."""

    line: int
    field: int
    component: int
    match: tuple[int, bytes] | None


class _Shape(NamedTuple):
    """Where to look in messages of one shape; `lines` are cut once, as far as is needed."""

    lines: tuple[tuple[int, int], ...]
    mrn: tuple[_Probe, ...]
    accession: tuple[_Probe, ...]
    control: _Probe
    status: _Probe | None


class _Unusual(Exception):  # noqa: N818  # no error: the full check is asked
    """Something that this file does not judge."""


@dataclass(frozen=True, slots=True)
class Sources:
    """Where a definition looks for what the check is about, in order."""

    mrn: tuple[Source, ...]
    accession: tuple[Source, ...]
    control: tuple[Source, ...]
    status: tuple[Source, ...]

    def all(self) -> tuple[Source, ...]:
        """Give all of them."""
        return (*self.mrn, *self.accession, *self.control, *self.status)


class Glance:
    """One definition's shapes. Learns from messages that passed the full check."""

    __slots__ = ("_control", "_shapes", "_sources")

    def __init__(self, sources: Sources, control: OrderControlTable) -> None:
        """Take where to look, and what ORC-1 may say."""
        self._sources = sources
        self._control = control
        self._shapes: dict[tuple[bytes, ...], _Shape] = {}

    def mrn(self, raw: bytes, header: Header) -> str:
        """Give the patient's number of a message that is in order; "" where that is not sure."""
        if not raw.startswith(b"MSH") or not raw.isascii() or b"\n" in raw or _ESCAPE in raw:
            return ""
        lines = raw.rstrip(AFTER).split(b"\r")
        shape = self._shapes.get((header.charset, *[line[:4] for line in lines]))
        if shape is None:
            return ""
        try:
            return self._look(shape, lines, header)
        except _Unusual:
            return ""

    def learn(self, message: Message, scopes: Sequence[Scope]) -> None:
        """Remember the shape of a message that the full check found in order."""
        raw = message.raw
        if len(scopes) != 1 or len(message.names) > _LONGEST_SHAPE or not raw.startswith(b"MSH"):
            return
        heads = [line[:4] for line in raw.rstrip(AFTER).split(b"\r")]
        key = (message.header.charset, *heads)
        if key in self._shapes or len(heads) != len(message.names):
            return
        if (shape := self._shape(scopes[0])) is not None:
            if len(self._shapes) >= _MOST_SHAPES:
                self._shapes.clear()
            self._shapes[key] = shape

    def _shape(self, scope: Scope) -> _Shape | None:
        sources = self._sources
        if any(len(scope.every(each.segment)) > 1 for each in sources.all()):
            return None
        mrn, accession = _probes(sources.mrn, scope), _probes(sources.accession, scope)
        control, status = _probes(sources.control, scope), _probes(sources.status, scope)
        if not mrn or not accession or len(control) != 1 or len(status) > 1:
            return None
        lines: dict[int, int] = {}
        for probe in (*mrn, *accession, *control, *status):
            lines[probe.line] = max(lines.get(probe.line, 0), probe.field + 1)
        return _Shape(
            tuple(lines.items()), mrn, accession, control[0], status[0] if status else None
        )

    def _look(self, shape: _Shape, lines: list[bytes], header: Header) -> str:
        separator, marks = header.fields[1], header.delimiters
        cut = {at: lines[at].split(separator, most) for at, most in shape.lines}
        mrn = _first(shape.mrn, cut, marks)
        if not mrn or not _first(shape.accession, cut, marks):
            return ""
        control = _read(shape.control, cut, marks).decode().upper()
        status = "" if shape.status is None else _read(shape.status, cut, marks).decode()
        if not control or self._control.decide(control, status) is None:
            return ""
        return mrn.decode()


def _probes(sources: Sequence[Source], scope: Scope) -> tuple[_Probe, ...]:
    """Find the sources whose segment a group has."""
    return tuple(
        _Probe(rows[0].index, each.field, each.component, each.match)
        for each in sources
        if (rows := scope.rows[each.segment])
    )


_Cut = dict[int, list[bytes]]


def _first(probes: Sequence[_Probe], cut: _Cut, marks: Delimiters) -> bytes:
    for probe in probes:
        if value := _read(probe, cut, marks):
            return value
    return b""


def _read(probe: _Probe, cut: _Cut, marks: Delimiters) -> bytes:
    """Read one place. Raises _Unusual for what is not plain."""
    line, number, component, match = probe
    fields = cut[line]
    if number >= len(fields) or not (text := fields[number]):
        return b""
    if len(text) > _LONGEST:
        raise _Unusual
    if match is None and text.isalnum():  # nearly always: nothing in it can part it
        return text if component <= 1 else b""
    return _parted(text, component, match, marks)


def _parted(
    text: bytes, component: int, match: tuple[int, bytes] | None, marks: Delimiters
) -> bytes:
    for mark in (marks.repetition, marks.escape, marks.subcomponent):
        if mark and mark.encode() in text:
            raise _Unusual
    parts = text.split(marks.component.encode()) if marks.component else [text]
    if match is not None and (len(parts) < match[0] or parts[match[0] - 1].strip() != match[1]):
        return b""
    if not component:
        if len(parts) > 1:
            raise _Unusual
        value = text
    else:
        value = parts[component - 1] if component <= len(parts) else b""
    value = value.strip()
    if value == _NULL or (value and not value.decode().isprintable()):
        raise _Unusual
    return value


def compile_glance(
    tags: dict[str, Node], order: dict[str, Node], control: OrderControlTable
) -> Glance | None:
    """Make a glance where the rules it is about are lists of plain places; else None."""
    wanted = (tags.get("PatientMRN"), tags.get("Accession"), order.get("control"))
    found = [_sources(node) if node is not None else None for node in wanted]
    status = _sources(order["status"]) if "status" in order else ()
    mrn, accession, first = found
    if mrn is None or accession is None or first is None or status is None:
        return None
    return Glance(Sources(mrn, accession, first, status), control)


def _sources(node: Node) -> tuple[Source, ...] | None:
    """Read a rule that says nothing but where to look; None for any other."""
    value = node.value
    if isinstance(value, str):
        source = _source(value)
        return None if source is None else (source,)
    if isinstance(value, list):
        parts = [_sources(each) for each in value]
        known = [each for each in parts if each is not None]
        return tuple(one for each in known for one in each) if len(known) == len(parts) else None
    if not isinstance(value, dict):
        return None
    keys = set(value)
    if keys == {"first"}:
        return _sources(node["first"])
    return _sources(node["from"]) if "from" in keys and keys <= {"from", "required"} else None


def _source(text: str) -> Source | None:
    try:
        path = Path.parse(text)
    except BadPath:
        return None
    plain = not path.subcomponent and path.repetition is None and path.occurrence == 1
    if not plain or not path.segment or path.segment == "MSH":
        return None
    if not path.matches:
        return Source(path.segment, path.field, path.component)
    (match, *more) = path.matches
    if more or match.subcomponent or not match.component or not match.value.isascii():
        return None
    return Source(path.segment, path.field, path.component, (match.component, match.value.encode()))
