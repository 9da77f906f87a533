"""
Tree: the segments, fields, repetitions, components and subcomponents of a message, each with its
name, its type, the meaning of its code, and its position in the message.

A field with one repetition has components as children, and a part without separators is a leaf.
A path that reads below a leaf (`OBR-18.1` where OBR-18 has no components) reads the leaf.

Names and types are those of the version in MSH-12. OBX-5 has the type that OBX-2 names.
"""

import codecs
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from mappings.hl7 import dictionary
from mappings.hl7.charset import UTF_8_WITH_STRAYS
from mappings.hl7.dictionary import VARIES, Dictionary, PartInfo
from mappings.hl7.escapes import unescape
from mappings.hl7.message import Message, Segment
from mappings.hl7.path import Path

MAX_PLACES: Final = 50_000
"""Fields and components of a message that are shown individually; each needs 400 bytes."""
MAX_SEGMENTS: Final = 2_000
MAX_TEXT: Final = 1_000
"""Characters of the text of a node; a longer text is cut and ends with `…`."""

_HEADERS: Final = frozenset({"MSH", "FHS", "BHS"})
_DELIMITER_FIELDS: Final = 2  # MSH-1 and MSH-2 are delimiters
_CODED: Final = frozenset({"CE", "CWE", "CNE", "CF"})
"""Types whose first component has the table of the field."""
_LAST_OF_PLANE_0: Final = "\uffff"
_ASTRAL_FROM: Final = 0x10000


@dataclass(frozen=True, slots=True)
class Node:
    """
    A part of a message.

    `place` is a path (`OBR[2]-16[2].1`); a repetition is named only if the field has several.
    `text` has escapes resolved. `start` and `end` are positions in the text of the tree, in UTF-16
    units, as browsers count. `first_byte` and `last_byte` are positions in `Message.raw`. Ends are
    exclusive.
    """

    place: str
    name: str
    type: str
    text: str
    meaning: str
    start: int
    end: int
    first_byte: int
    last_byte: int
    children: tuple["Node", ...] = ()

    def walk(self) -> Iterator["Node"]:
        """Yield this node and all nodes below it, in the order of the message."""
        yield self
        for child in self.children:
            yield from child.walk()


@dataclass(frozen=True, slots=True)
class MessageTree:
    """`text` is the whole message, one segment a line; `more`: segments are left out."""

    text: str
    segments: tuple[Node, ...]
    more: bool

    def nearest(self, path: Path) -> str:
        """
        Return the place of the node that a path names, or of the smallest one around it.

        '' if the message has no such segment. A path without a repetition names the first one.
        """
        number = max(path.occurrence, 1)
        place = path.segment if number == 1 else f"{path.segment}[{number}]"
        node = next((segment for segment in self.segments if segment.place == place), None)
        if node is None:
            return ""
        repetition = f"[{path.repetition or 1}]"
        steps = [f"-{path.field}", repetition, f".{path.component}", f".{path.subcomponent}"]
        for step, is_named in zip(
            steps, (path.field, True, path.component, path.subcomponent), strict=True
        ):
            if not is_named:
                break
            child = next(
                (child for child in node.children if child.place == node.place + step), None
            )
            if child is None and step is not repetition:
                break
            node = child or node
        return node.place


def message_tree(message: Message) -> MessageTree:
    """Return the tree of the first segments of a message."""
    known = dictionary.names(message.header.version)
    shown = first_segments(message)[:MAX_SEGMENTS]
    offset, byte = 0, 0
    nodes = []
    for segment, number in shown:
        spans = _Positions(segment, message, offset, byte)
        place = segment.id if number == 1 else f"{segment.id}[{number}]"
        nodes.append(_SegmentReader(segment, message, known, spans).read(place))
        offset, byte = spans.end + 1, spans.last_byte
    text = "\n".join([segment.text() for segment in message.segments])
    return MessageTree(text, tuple(nodes), more=len(shown) < len(message.names))


def first_segments(message: Message) -> list[tuple[Segment, int]]:
    """Return the first segments, up to MAX_PLACES fields and components, with their numbers."""
    used, places = message.delimiters, 0
    separators = (used.field, used.component, used.repetition, used.subcomponent)
    found: list[tuple[Segment, int]] = []
    for segment, number in zip(message.segments, message.numbers, strict=True):
        places += 1 + sum(segment.text().count(separator) for separator in separators if separator)
        if places > MAX_PLACES:
            break
        found.append((segment, number))
    return found


class _SegmentReader:
    """Reads the nodes of one segment, from left to right."""

    def __init__(
        self, segment: Segment, message: Message, known: Dictionary, positions: "_Positions"
    ) -> None:
        self._segment = segment
        self._text = segment.text()
        self._marks = message.delimiters
        self._codec = message.encoding
        self._known = known
        self._positions = positions

    def read(self, place: str) -> Node:
        start = self._positions.at(0)
        children = tuple(self._fields(place))
        end = self._positions.at(len(self._text))
        name = dictionary.SEGMENT_NAMES.get(self._segment.id, "")
        return Node(place, name, "", "", "", start[0], end[0], start[1], end[1], children)

    def _fields(self, place: str) -> Iterator[Node]:
        # The text of the segment name, then one part after each separator.
        parts = _cut(self._text, self._marks.field, 0, len(self._text))[1:]
        if self._segment.id in _HEADERS and parts:
            parts.insert(0, (parts[0][0] - 1, parts[0][0]))  # the separator itself is field 1
        for number, (begin, end) in enumerate(parts, start=1):
            info = self._info(number)
            if self._segment.id in _HEADERS and number <= _DELIMITER_FIELDS:
                yield self._leaf(f"{place}-{number}", info, begin, end, verbatim=True)
            else:
                yield self._field(f"{place}-{number}", info, begin, end)

    def _info(self, number: int) -> PartInfo:
        info = self._known.field(self._segment.id, number)
        if info.type == VARIES and self._segment.id == "OBX":
            kind = self._segment.value("2").strip()
            return PartInfo(info.name, kind if kind.isalnum() else "", info.table)
        return info

    def _field(self, place: str, info: PartInfo, begin: int, end: int) -> Node:
        repetitions = _cut(self._text, self._marks.repetition, begin, end)
        if len(repetitions) == 1:
            return self._repetition(place, info, begin, end)
        return self._branch(
            place,
            info,
            begin,
            end,
            (
                self._repetition(f"{place}[{number}]", info, *repetition)
                for number, repetition in enumerate(repetitions, start=1)
            ),
        )

    def _repetition(self, place: str, info: PartInfo, begin: int, end: int) -> Node:
        components = _cut(self._text, self._marks.component, begin, end)
        if len(components) == 1 and self._is_plain(begin, end):
            return self._leaf(place, info, begin, end)
        return self._branch(place, info, begin, end, self._components(place, info, components))

    def _is_plain(self, begin: int, end: int) -> bool:
        mark = self._marks.subcomponent
        return not mark or self._text.find(mark, begin, end) < 0

    def _components(
        self, place: str, info: PartInfo, components: Sequence[tuple[int, int]]
    ) -> Iterator[Node]:
        for number, (begin, end) in enumerate(components, start=1):
            part = self._known.component(info.type, number)
            if number == 1 and info.type in _CODED and info.table:
                part = PartInfo(part.name, part.type, info.table)
            below = _cut(self._text, self._marks.subcomponent, begin, end)
            name = f"{place}.{number}"
            if len(below) == 1:
                yield self._leaf(name, part, begin, end)
            else:
                yield self._branch(name, part, begin, end, self._subcomponents(name, part, below))

    def _subcomponents(
        self, place: str, info: PartInfo, parts: Sequence[tuple[int, int]]
    ) -> Iterator[Node]:
        for number, (begin, end) in enumerate(parts, start=1):
            part = self._known.component(info.type, number)
            yield self._leaf(f"{place}.{number}", part, begin, end)

    def _branch(
        self, place: str, info: PartInfo, begin: int, end: int, children: Iterator[Node]
    ) -> Node:
        start, first_byte = self._positions.at(begin)
        read = tuple(children)  # before the end: positions are read from left to right
        stop, last_byte = self._positions.at(end)
        text = _shortened(self._text, begin, end)
        kind = _shown(info.type)
        return Node(place, info.name, kind, text, "", start, stop, first_byte, last_byte, read)

    def _leaf(
        self, place: str, info: PartInfo, begin: int, end: int, *, verbatim: bool = False
    ) -> Node:
        start, first_byte = self._positions.at(begin)
        stop, last_byte = self._positions.at(end)
        text = _shortened(self._text, begin, end)
        if not verbatim:
            text = unescape(text, self._marks, self._codec)
        meaning = dictionary.meaning(info.table, text.strip()) if info.table and text else ""
        kind = _shown(info.type)
        return Node(place, info.name, kind, text, meaning, start, stop, first_byte, last_byte)


def _cut(text: str, separator: str, begin: int, end: int) -> list[tuple[int, int]]:
    """Return the begin and end of each part; an undeclared separator does not split."""
    if not separator:
        return [(begin, end)]
    parts = []
    while (at := text.find(separator, begin, end)) >= 0:
        parts.append((begin, at))
        begin = at + 1
    return [*parts, (begin, end)]


def _shortened(text: str, begin: int, end: int) -> str:
    return text[begin:end] if end - begin <= MAX_TEXT else f"{text[begin : begin + MAX_TEXT]}…"


def _shown(data_type: str) -> str:
    """Return the type as the standard writes it: hl7apy tells the CM types of v2.3 apart."""
    return data_type.partition("_")[0]


class _Positions:
    """
    The positions of the characters of one segment, asked for from left to right.

    The segment is in the message in one piece, or in several if line ends in its text were not
    escaped; the text of the segment has an escape in their place.
    """

    def __init__(self, segment: Segment, message: Message, offset: int, byte: int) -> None:
        """`offset` is where the text of the segment begins; `byte`: where to search its bytes."""
        self._text = segment.text()
        self._pieces = list(_pieces(segment, message, byte))
        self._piece = 0
        self._known = (0, offset)  # a position in the text, and the same in UTF-16 units
        self._astral = max(self._text, default="") > _LAST_OF_PLANE_0
        self.end = offset + len(self._text)
        if self._astral:
            self.end += _astral(self._text)
        self.last_byte = self._pieces[-1].last_byte

    def at(self, position: int) -> tuple[int, int]:
        """Return the offset in the text of the tree, and the byte, of a position in the segment."""
        before, offset = self._known
        offset += position - before
        if self._astral:
            offset += _astral(self._text[before:position])
        self._known = (position, offset)
        while self._piece + 1 < len(self._pieces):
            if self._pieces[self._piece + 1].begin > position:
                break
            self._piece += 1
        return offset, self._pieces[self._piece].byte_at(position)


def _astral(text: str) -> int:
    """Return the number of characters that need two UTF-16 units."""
    return sum(ord(character) >= _ASTRAL_FROM for character in text)


class _Piece:
    """A part of a segment that is contiguous in the message."""

    def __init__(self, begin: int, raw: bytes, first_byte: int, codec: str) -> None:
        """`begin` is its position in the text of the segment."""
        self.begin = begin
        self.last_byte = first_byte + len(raw)
        self._errors = "strict"
        if codec == UTF_8_WITH_STRAYS:
            codec, self._errors = "utf-8", "surrogateescape"
        self._codec = codec
        self._text = raw.decode(codec, self._errors)
        self.length = len(self._text)
        self._first_byte = first_byte
        self._known = (0, first_byte)
        self._table: Sequence[int] | None = None
        if self.length == len(raw):
            self._table = range(self.length + 1)
        elif self._text.encode(codec, self._errors) != raw:
            self._table = _table(raw, codec)

    def byte_at(self, position: int) -> int:
        within = min(position - self.begin, self.length)
        if self._table is not None:
            return self._first_byte + self._table[within]
        before, byte = self._known
        byte += len(self._text[before:within].encode(self._codec, self._errors))
        self._known = (within, byte)
        return byte


def _table(raw: bytes, codec: str) -> Sequence[int]:
    """
    Return the first byte of each character, and the length.

    For bytes that another encoder would write differently, as redundant shifts of ISO 2022.
    """
    decoder = codecs.getincrementaldecoder(codec)()
    first, table = 0, []
    for number in range(len(raw)):
        characters = len(decoder.decode(raw[number : number + 1]))
        if characters:
            table += [first] * characters
            first = number + 1
    table += [first] * len(decoder.decode(b"", final=True))
    return [*table, len(raw)]


def _pieces(segment: Segment, message: Message, byte: int) -> Iterator[_Piece]:
    mark = message.delimiters.escape
    replaced = len(f"{mark}X0A{mark}") if mark else 1  # as `SegmentLines.text` writes a line end
    begin = 0
    for raw in segment.raw.split(b"\n"):
        first = message.raw.index(raw, byte)
        piece = _Piece(begin, raw, first, message.encoding)
        yield piece
        begin += piece.length + replaced
        byte = piece.last_byte
