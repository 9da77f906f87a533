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
from mappings.hl7.header import Header
from mappings.hl7.lines import AFTER
from mappings.hl7.message import Message
from mappings.nodes import Node
from mappings.origins import Sources, sources_of
from mappings.outlines import HEAD, outline
from mappings.probes import (
    Marks,
    Place,
    Probe,
    Unusual,
    first,
    is_in,
    marks_of,
    may_be_plain,
    place_of,
    probes_of,
    read,
)
from mappings.scope import Scope
from mappings.stencils import Model, Stencil, cut

_MOST_SHAPES = 1024  # others get the full check, so that nobody can fill memory
_MOST_SEEN = 4096  # shapes that came once; beyond it all are forgotten
_LONGEST_SHAPE = 100  # segments
_BEFORE_HEADS = 2  # in a key: charset and encoding characters
_Key = tuple[bytes, ...]


class _Shape(NamedTuple):
    """Messages of one shape: `pattern` is all of one, and its groups are the fields to read."""

    charset: bytes
    utf_8: bool
    """Whether they say that they are in UTF-8."""
    pattern: re.Pattern[bytes]
    marks: Marks
    mrn: tuple[Probe, ...]
    accession: tuple[Probe, ...]
    control: Probe
    status: Probe | None
    heads: tuple[bytes, ...]
    """How each line begins."""
    places: tuple[Place, ...]
    """Where the fields of the groups stand."""


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
        if not may_be_plain(raw):
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
        if not is_in(raw, utf_8=shape.utf_8):
            return ""
        try:
            return self._look(shape, found.groups(b""))
        except Unusual:
            return ""

    def stencil(self, raw: bytes, header: Header) -> Stencil | None:
        """Cut a stencil from a message like the latest that `mrn` was asked about, if it can be."""
        shape = self._latest
        found = None if shape is None else shape.pattern.fullmatch(raw)
        if shape is None or found is None or shape.charset != header.charset:
            return None
        model = Model(raw, header, shape.heads, shape.places, found.groups(b""), shape.marks)
        others = (shape.control,) if shape.status is None else (shape.control, shape.status)
        try:
            pattern = cut(model, shape.mrn, shape.accession, others)
        except Unusual:
            return None
        return None if pattern is None else Stencil(pattern, shape.utf_8)

    def learn(self, message: Message, scopes: Sequence[Scope]) -> None:
        """Remember the shape of a message that the full check found in order."""
        raw = message.raw
        if len(scopes) != 1 or len(message.names) > _LONGEST_SHAPE or not raw.startswith(b"MSH"):
            return
        if not may_be_plain(raw):
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
        places = sorted({place for each in sources.all() if (place := place_of(each, scope))})
        mrn, accession, control, status = (
            probes_of(each, scope, places)
            for each in (sources.mrn, sources.accession, sources.control, sources.status)
        )
        if not mrn or not accession or len(control) != 1 or len(status) > 1:
            return None
        pattern = outline(key[_BEFORE_HEADS:], places, header)
        if pattern is None:
            return None
        only = status[0] if status else None
        marks = marks_of(header.delimiters)
        utf_8 = says_utf_8(header.charset, header.delimiters.repetition)
        probes = (mrn, accession, control[0], only)
        heads = key[_BEFORE_HEADS:]
        return _Shape(header.charset, utf_8, pattern, marks, *probes, heads, tuple(places))

    def _look(self, shape: _Shape, fields: tuple[bytes, ...]) -> str:
        marks = shape.marks
        mrn = first(shape.mrn, fields, marks)
        if not mrn or not first(shape.accession, fields, marks):
            return ""
        control = read(shape.control, fields, marks).decode().upper()
        status = "" if shape.status is None else read(shape.status, fields, marks).decode()
        if not control or self._control.decide(control, status) is None:
            return ""
        return mrn.decode()


def _key(raw: bytes, header: Header) -> _Key:
    """Give what tells shapes apart: charset, encoding characters, and how each line begins."""
    lines = raw.rstrip(AFTER).split(b"\r")
    return (header.fields[18], header.fields[2], *[line[:HEAD] for line in lines])


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
