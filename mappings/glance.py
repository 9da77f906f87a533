"""
The check before the acknowledgment at one look: orders whose form has been seen to be in order.

A message that is cut like two before it, whose identity stands in plain fields, need not be
taken apart again. Whatever is unusual in any way gets no answer here, and the full check: this
file can say "in order, and whose", and never "refused".
"""

import re
from collections.abc import Sequence
from typing import NamedTuple

from mappings.control import OrderControlTable
from mappings.hl7.charset import says_utf_8
from mappings.hl7.delimiters import Delimiters
from mappings.hl7.header import Header
from mappings.hl7.lines import AFTER
from mappings.hl7.message import Message
from mappings.nodes import Node
from mappings.origins import Source, Sources, sources_of
from mappings.outlines import HEAD, outline
from mappings.scope import Scope

_MOST_SHAPES = 1024  # others get the full check, so that nobody can fill memory
_MOST_SEEN = 4096  # shapes that came once; beyond it all are forgotten
_LONGEST_SHAPE = 100  # segments
_LONGEST = 200  # bytes of an identifier that needs no second look
_LARGEST = 256 * 2**10  # bytes of a message; one look at a larger one holds up all others
_NULL = b'""'
_BEFORE_HEADS = 2  # in a key: charset and encoding characters
_Key = tuple[bytes, ...]
_ESCAPE = b"\x1b"  # of ISO 2022: what follows is not ASCII


class _Probe(NamedTuple):
    """A source in messages of one shape: the place of its field among those that are read."""

    at: int
    component: int
    match: tuple[int, bytes] | None


class _Marks(NamedTuple):
    """What parts a field; of `unusual` none must stand in one that is read."""

    component: bytes
    repetition: bytes
    unusual: tuple[bytes, ...]


class _Shape(NamedTuple):
    """Messages of one shape: `pattern` is all of one, and its groups are the fields to read."""

    charset: bytes
    utf_8: bool
    """Whether they say that they are in UTF-8."""
    pattern: re.Pattern[bytes]
    marks: _Marks
    mrn: tuple[_Probe, ...]
    accession: tuple[_Probe, ...]
    control: _Probe
    status: _Probe | None


class _Unusual(Exception):  # noqa: N818  # no error: the full check is asked
    """Something that this file does not judge."""


class Glance:
    """One definition's shapes. Learns from messages that passed the full check."""

    __slots__ = ("_control", "_latest", "_seen", "_shapes", "_sources")

    def __init__(self, sources: Sources, control: OrderControlTable) -> None:
        """Take where to look, and what ORC-1 may say."""
        self._sources = sources
        self._control = control
        self._shapes: dict[_Key, _Shape | None] = {}  # None where a glance is not enough
        self._seen: set[_Key] = set()
        self._latest: _Shape | None = None  # senders repeat themselves

    def mrn(self, raw: bytes, header: Header) -> str:
        """Give the patient's number of a message that is in order; "" where that is not sure."""
        if len(raw) > _LARGEST or b"\n" in raw or _ESCAPE in raw:
            return ""
        shape, charset = self._latest, header.fields[18]
        found = None
        if shape is not None and shape.charset == charset:
            found = shape.pattern.fullmatch(raw)
        if found is None:
            shape = self._shapes.get(_key(raw, header))
            if shape is None or (found := shape.pattern.fullmatch(raw)) is None:
                return ""
            self._latest = shape
        assert shape is not None  # noqa: S101  # its pattern has matched
        if not raw.isascii() and not (shape.utf_8 and _is_utf_8(raw)):
            return ""
        try:
            return self._look(shape, found.groups(b""))
        except _Unusual:
            return ""

    def learn(self, message: Message, scopes: Sequence[Scope]) -> None:
        """Remember the shape of a message that the full check found in order."""
        raw = message.raw
        if len(scopes) != 1 or len(message.names) > _LONGEST_SHAPE or not raw.startswith(b"MSH"):
            return
        if len(raw) > _LARGEST:
            return
        key = _key(raw, message.header)
        if key in self._shapes or len(key) != len(message.names) + _BEFORE_HEADS:
            return
        if key in self._seen and len(self._shapes) < _MOST_SHAPES:
            self._seen.discard(key)
            self._shapes[key] = self._shape(scopes[0], key, message.header)
            return
        # To write a pattern costs as much as many full checks: most shapes never come again.
        if len(self._seen) >= _MOST_SEEN:
            self._seen.clear()
        self._seen.add(key)

    def _shape(self, scope: Scope, key: _Key, header: Header) -> _Shape | None:
        sources = self._sources
        if any(len(scope.every(each.segment)) > 1 for each in sources.all()):
            return None
        places = sorted({place for each in sources.all() if (place := _place(each, scope))})
        mrn, accession, control, status = (
            _probes(each, scope, places)
            for each in (sources.mrn, sources.accession, sources.control, sources.status)
        )
        if not mrn or not accession or len(control) != 1 or len(status) > 1:
            return None
        pattern = outline(key[_BEFORE_HEADS:], places, header)
        if pattern is None:
            return None
        only = status[0] if status else None
        marks = _marks(header.delimiters)
        utf_8 = says_utf_8(header.charset, header.delimiters.repetition)
        return _Shape(header.charset, utf_8, pattern, marks, mrn, accession, control[0], only)

    def _look(self, shape: _Shape, fields: tuple[bytes, ...]) -> str:
        marks = shape.marks
        mrn = _first(shape.mrn, fields, marks)
        if not mrn or not _first(shape.accession, fields, marks):
            return ""
        control = _read(shape.control, fields, marks).decode().upper()
        status = "" if shape.status is None else _read(shape.status, fields, marks).decode()
        if not control or self._control.decide(control, status) is None:
            return ""
        return mrn.decode()


def _is_utf_8(raw: bytes) -> bool:
    try:
        raw.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def _key(raw: bytes, header: Header) -> _Key:
    """Give what tells shapes apart: charset, encoding characters, and how each line begins."""
    lines = raw.rstrip(AFTER).split(b"\r")
    return (header.fields[18], header.fields[2], *[line[:HEAD] for line in lines])


def _marks(delimiters: Delimiters) -> _Marks:
    unusual = delimiters.escape, delimiters.subcomponent
    return _Marks(
        delimiters.component.encode(),
        delimiters.repetition.encode(),
        tuple(each.encode() for each in unusual if each),
    )


def _place(source: Source, scope: Scope) -> tuple[int, int] | None:
    """Give line and field of a source whose segment a group has."""
    rows = scope.rows[source.segment]
    return (rows[0].index, source.field) if rows else None


def _probes(
    sources: Sequence[Source], scope: Scope, places: Sequence[tuple[int, int]]
) -> tuple[_Probe, ...]:
    return tuple(
        _Probe(places.index(place), each.component, each.match)
        for each in sources
        if (place := _place(each, scope))
    )


def _first(probes: Sequence[_Probe], fields: tuple[bytes, ...], marks: _Marks) -> bytes:
    for probe in probes:
        if value := _read(probe, fields, marks):
            return value
    return b""


def _read(probe: _Probe, fields: tuple[bytes, ...], marks: _Marks) -> bytes:
    """Read one place. Raises _Unusual for what is not plain."""
    at, component, match = probe
    text = fields[at]
    if not text:
        return b""
    if len(text) > _LONGEST:
        raise _Unusual
    if match is None and text.isalnum():  # nearly always: nothing in it can part it
        return text if component <= 1 else b""
    return _parted(text, component, match, marks)


def _parted(text: bytes, component: int, match: tuple[int, bytes] | None, marks: _Marks) -> bytes:
    for mark in marks.unusual:
        if mark in text:
            raise _Unusual
    if not marks.repetition or marks.repetition not in text:
        return _of_one(text, component, match, marks)
    if match is None:
        raise _Unusual
    for each in text.split(marks.repetition):
        if value := _of_one(each, component, match, marks):
            return value
    return b""


def _of_one(text: bytes, component: int, match: tuple[int, bytes] | None, marks: _Marks) -> bytes:
    """Read one repetition."""
    parts = text.split(marks.component) if marks.component else [text]
    if match is not None and (len(parts) < match[0] or parts[match[0] - 1].strip() != match[1]):
        return b""
    if not component:
        if len(parts) > 1:
            raise _Unusual
        value = text
    else:
        value = parts[component - 1] if component <= len(parts) else b""
    if value.isalnum():  # nearly always
        return value
    value = value.strip()
    if value == _NULL or not value.isascii() or not value.decode("ascii").isprintable():
        raise _Unusual
    return value


def compile_glance(
    tags: dict[str, Node], order: dict[str, Node], control: OrderControlTable
) -> Glance | None:
    """Make a glance where the rules it is about are lists of plain places; else None."""
    wanted = (tags.get("PatientMRN"), tags.get("Accession"), order.get("control"))
    found = [sources_of(node) if node is not None else None for node in wanted]
    status = sources_of(order["status"]) if "status" in order else ()
    mrn, accession, first = found
    if mrn is None or accession is None or first is None or status is None:
        return None
    return Glance(Sources(mrn, accession, first, status), control)
