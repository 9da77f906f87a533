"""
Read one place of a message that has been found by its outline: plain values, and nothing else.

What is unusual in any way raises `Unusual`: whoever asks lets the full check decide.
"""

from collections.abc import Sequence
from typing import NamedTuple

from mappings.hl7.delimiters import Delimiters
from mappings.origins import Source
from mappings.scope import Scope

LONGEST = 200  # bytes of an identifier that needs no second look
LARGEST = 256 * 2**10  # bytes of a message; one look at a larger one holds up all others
_NULL = b'""'
_ESCAPE = b"\x1b"  # of ISO 2022: what follows is not ASCII

Place = tuple[int, int]
"""Line and field."""


class Probe(NamedTuple):
    """A source in messages of one shape: the place of its field among those that are read."""

    at: int
    component: int
    match: tuple[int, bytes] | None


class Marks(NamedTuple):
    """What parts a field; of `unusual` none must stand in one that is read."""

    component: bytes
    repetition: bytes
    unusual: tuple[bytes, ...]


class Unusual(Exception):  # noqa: N818  # no error: the full check is asked
    """Something that this file does not judge."""


def may_be_plain(raw: bytes) -> bool:
    """Whether a message is short enough for one look, and CR ends its lines."""
    return len(raw) <= LARGEST and b"\n" not in raw and _ESCAPE not in raw


def is_in(raw: bytes, *, utf_8: bool) -> bool:
    """Whether the bytes are what they are said to be: ASCII, or `utf_8`."""
    if raw.isascii():
        return True
    try:
        raw.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return utf_8


def marks_of(delimiters: Delimiters) -> Marks:
    """Give what parts the fields of a message."""
    unusual = delimiters.escape, delimiters.subcomponent
    return Marks(
        delimiters.component.encode(),
        delimiters.repetition.encode(),
        tuple(each.encode() for each in unusual if each),
    )


def place_of(source: Source, scope: Scope) -> Place | None:
    """Give line and field of a source whose segment a group has."""
    rows = scope.rows[source.segment]
    return (rows[0].index, source.field) if rows else None


def probes_of(
    sources: Sequence[Source], scope: Scope, places: Sequence[Place]
) -> tuple[Probe, ...]:
    """Say where in the groups of a pattern the sources are that a message has."""
    return tuple(
        Probe(places.index(place), each.component, each.match)
        for each in sources
        if (place := place_of(each, scope))
    )


def first(probes: Sequence[Probe], fields: tuple[bytes, ...], marks: Marks) -> bytes:
    """Read the first place that says something. Raises Unusual."""
    for probe in probes:
        if value := read(probe, fields, marks):
            return value
    return b""


def read(probe: Probe, fields: tuple[bytes, ...], marks: Marks) -> bytes:
    """Read one place. Raises Unusual for what is not plain."""
    at, component, match = probe
    text = fields[at]
    if not text:
        return b""
    if len(text) > LONGEST:
        raise Unusual
    if match is None and text.isalnum():  # nearly always: nothing in it can part it
        return text if component <= 1 else b""
    return _parted(text, component, match, marks)


def _parted(text: bytes, component: int, match: tuple[int, bytes] | None, marks: Marks) -> bytes:
    for mark in marks.unusual:
        if mark in text:
            raise Unusual
    if not marks.repetition or marks.repetition not in text:
        return of_one(text, component, match, marks)
    if match is None:
        raise Unusual
    for each in text.split(marks.repetition):
        if value := of_one(each, component, match, marks):
            return value
    return b""


def of_one(text: bytes, component: int, match: tuple[int, bytes] | None, marks: Marks) -> bytes:
    """Read one repetition."""
    parts = text.split(marks.component) if marks.component else [text]
    if match is not None and (len(parts) < match[0] or parts[match[0] - 1].strip() != match[1]):
        return b""
    if not component:
        if len(parts) > 1:
            raise Unusual
        value = text
    else:
        value = parts[component - 1] if component <= len(parts) else b""
    if value.isalnum():  # nearly always
        return value
    value = value.strip()
    if value == _NULL or not value.isascii() or not value.decode("ascii").isprintable():
        raise Unusual
    return value
