"""
Places: where in a message a path reads, with offsets in the bytes as received.

    PID-5.1   OBR[2]-18   PID-3[2].1 (a repetition, if the field has several)   PID-3.4.2

A part without separators is named as a whole: `OBR-18.1` reads OBR-18 if it has no components.

`locate` and `locate_all` find the texts that the functions of `mappings.language.accessors` return.
They are for people who look at one message, and are slower.
"""

import codecs
from collections.abc import Sequence
from dataclasses import dataclass

from mappings.hl7.charset import UTF_8_WITH_STRAYS
from mappings.hl7.header import Delimiters
from mappings.hl7.message import Message, pick
from mappings.hl7.path import EVERY, Path
from mappings.language.accessors import finish, passes_filters, whole
from mappings.language.scope import MessageScope

_HEADERS = frozenset({"MSH", "FHS", "BHS"})
_LAST_DELIMITER_FIELD = 2
_MAX_ENCODED = 2**26  # bytes of segments that are decoded again for offsets
_SLOWER = 64  # each character of UTF-8 with stray bytes is examined
_CHUNK = 4096
_LINE_FEED_LENGTH = len("|X0A|")  # the escape in the text of a segment instead of a line feed
UNKNOWN = -1
"""The offset of a place in a message with too much text that is not ASCII."""


@dataclass(frozen=True, slots=True)
class MessagePlace:
    """A place with the offsets of its text in `Message.raw`; of an empty one they are equal."""

    place: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a field: the segment's position, the numbers, and offsets in the field's text."""

    position: int
    field: int
    start: int
    end: int
    repetition: int = 0
    component: int = 0
    subcomponent: int = 0

    def text(self, scope: MessageScope) -> str:
        """Return the text as sent."""
        return field_text(scope, self.position, self.field)[self.start : self.end]

    def value(self, scope: MessageScope, *, raw: bool) -> str:
        """Return the text as an accessor returns it: unescaped (unless `raw`) and trimmed."""
        return finish(self.text(scope), scope, raw=raw)


def field_text(scope: MessageScope, position: int, number: int) -> str:
    """Return a field as sent, "" if the segment is shorter."""
    fields = scope.split(position)
    return fields[number] if number < len(fields) else ""


def locate(path: Path, scope: MessageScope, *, raw: bool = False) -> Piece | None:
    """
    Return what a path reads, or the place where it looks for a value.

    None if there is no such segment.
    """
    positions = scope.visible_positions(path.segment)
    index = max(path.occurrence, 1) - 1 if path.occurrence != EVERY else 0
    if len(positions) <= index:
        return None
    position, text = positions[index], field_text(scope, positions[index], path.field)
    whole_field = Piece(position, path.field, 0, len(text))
    if path.filters:
        return _first_that_passes(whole_field, path, scope, raw=raw) or whole_field
    piece = whole_field
    selects_itself = raw and not path.component and path.repetition is None
    if _repeats(path) and not selects_itself:
        piece = _repetition(piece, text, path.repetition or 1, scope.delimiters)
    elif (path.repetition or 1) > 1:
        piece = _empty(piece)
    return _trimmed(_narrowed(piece, text, path, scope.delimiters), text)


def locate_all(
    paths: Sequence[Path], scope: MessageScope, *, after: str = "", raw: bool = False
) -> list[Piece]:
    """Return what paths into one field read, in all segments and repetitions with a value."""
    segment, number = paths[0].segment, paths[0].field
    found: list[Piece] = []
    for position in scope.all_positions(f"{after}>{segment}" if after else segment):
        text = field_text(scope, position, number)
        field = Piece(position, number, 0, len(text))
        for repetition in _repetitions(field, text, scope.delimiters) if text else ():
            piece = _first_of(paths, repetition, text, scope, raw=raw)
            if piece is not None:
                found.append(piece)
    return found


def _first_of(
    paths: Sequence[Path], repetition: Piece, text: str, scope: MessageScope, *, raw: bool
) -> Piece | None:
    """Return the value of the first path that has one in a repetition."""
    for path in paths:
        sent = text[repetition.start : repetition.end]
        if path.filters and not passes_filters(sent, path.filters, scope):
            continue
        piece = _trimmed(_narrowed(repetition, text, path, scope.delimiters), text)
        if piece.value(scope, raw=raw):
            return piece
    return None


def _first_that_passes(field: Piece, path: Path, scope: MessageScope, *, raw: bool) -> Piece | None:
    text = field_text(scope, field.position, field.field)
    for repetition in _repetitions(field, text, scope.delimiters) if text else ():
        piece = _first_of((path,), repetition, text, scope, raw=raw)
        if piece is not None:
            return piece
    return None


def _repeats(path: Path) -> bool:
    return path.segment != "MSH" or path.field > _LAST_DELIMITER_FIELD


def _repetitions(field: Piece, text: str, marks: Delimiters) -> list[Piece]:
    count = text.count(marks.repetition) + 1 if marks.repetition else 1
    if count == 1:
        return [field]
    found, start = [], 0
    for number, part in enumerate(text.split(marks.repetition), start=1):
        end = start + len(part)
        found.append(Piece(field.position, field.field, start, end, number))
        start = end + 1
    return found


def _repetition(field: Piece, text: str, number: int, marks: Delimiters) -> Piece:
    found = _repetitions(field, text, marks)
    if number <= len(found):
        return found[number - 1]
    return Piece(field.position, field.field, field.end, field.end, number)


def _narrowed(piece: Piece, text: str, path: Path, marks: Delimiters) -> Piece:
    """Return the component or subcomponent of a repetition; an empty piece if it is absent."""
    if not path.component:
        sent = text[piece.start : piece.end]
        return piece if whole(sent, marks) else _empty(piece)
    start, end = _part(text, piece.start, piece.end, marks.component, path.component)
    if path.subcomponent:
        start, end = _part(text, start, end, marks.subcomponent, path.subcomponent)
    return Piece(
        *(piece.position, piece.field, start, end, piece.repetition),
        *(path.component, path.subcomponent),
    )


def _part(text: str, start: int, end: int, mark: str, number: int) -> tuple[int, int]:
    """Return the extent of the n-th part; an empty one at the end if there are fewer."""
    for _ in range(number - 1):
        at = text.find(mark, start, end) if mark else -1
        if at < 0:
            return end, end
        start = at + len(mark)
    at = text.find(mark, start, end) if mark else -1
    return start, end if at < 0 else at


def _empty(piece: Piece) -> Piece:
    return Piece(piece.position, piece.field, piece.start, piece.start, piece.repetition)


def _trimmed(piece: Piece, text: str) -> Piece:
    """Leave out blanks around a value."""
    sent = text[piece.start : piece.end]
    start = piece.start + len(sent) - len(sent.lstrip())
    end = max(start, piece.end - (len(sent) - len(sent.rstrip())))
    return Piece(
        *(piece.position, piece.field, start, end, piece.repetition),
        *(piece.component, piece.subcomponent),
    )


def _within(piece: Piece, text: str, marks: Delimiters) -> str:
    """Return the numbers of a place inside its field, without those that make no difference."""
    several = bool(marks.repetition) and marks.repetition in text
    repetition = f"[{piece.repetition}]" if piece.repetition and several else ""
    if piece.repetition and several:
        text = pick(text, marks.repetition, piece.repetition)
    component, subcomponent = piece.component, piece.subcomponent
    if subcomponent == 1 and not _has(pick(text, marks.component, component), marks.subcomponent):
        subcomponent = 0
    if component == 1 and not subcomponent and not _has(text, marks.component):
        component = 0
    return repetition + "".join(f".{number}" for number in (component, subcomponent) if number)


def _has(text: str, mark: str) -> bool:
    return bool(mark) and mark in text


class PlaceNames:
    """Names the pieces of one message, and finds their offsets in its bytes."""

    def __init__(self, message: Message) -> None:
        self._message = message
        self._lines: list[list[tuple[int, int]]] | None = None
        self._measured: dict[int, Sequence[tuple[int, int, int]]] = {}
        self._left = _MAX_ENCODED

    def place(self, piece: Piece) -> MessagePlace:
        name = self.segment_name(piece.position)
        fields = self._message.lines.split(piece.position)
        text = fields[piece.field] if piece.field < len(fields) else ""
        start = self._start_of_field(piece.position, piece.field)
        return MessagePlace(
            f"{name}-{piece.field}{_within(piece, text, self._message.delimiters)}",
            self._offset(piece.position, start + piece.start),
            self._offset(piece.position, start + piece.end),
        )

    def segment(self, position: int) -> MessagePlace:
        """Return the place of a whole segment."""
        length = len(self._message.lines.text(position))
        return MessagePlace(
            self.segment_name(position), self._offset(position, 0), self._offset(position, length)
        )

    def segment_name(self, position: int) -> str:
        name, number = self._message.names[position], self._message.numbers[position]
        return name if number == 1 else f"{name}[{number}]"

    def _start_of_field(self, position: int, number: int) -> int:
        """Return the offset of a field in the text of its segment; its end if it is shorter."""
        fields = self._message.lines.split(position)
        if self._message.names[position] in _HEADERS:
            if number == 1:
                return len(fields[0])
            fields = [fields[0], *fields[2:]]
            number -= 1
        before = fields[:number]
        separators = len(before) if number < len(fields) else len(before) - 1
        return sum(map(len, before)) + separators

    def _offset(self, position: int, index: int) -> int:
        """Return the offset in the message of the n-th character of a segment's text."""
        shown = 0  # characters of the text before the line
        mark = _LINE_FEED_LENGTH if self._message.delimiters.escape else 1
        lines = self._lines_of(position)
        for number, (start, end, count) in enumerate(lines):
            if count < 0:
                return UNKNOWN
            if index <= shown + count or number == len(lines) - 1:
                return start + self._width(start, end, min(max(index - shown, 0), count), count)
            shown += count + mark
        return UNKNOWN

    def _lines_of(self, position: int) -> Sequence[tuple[int, int, int]]:
        """Return the lines of a segment: start, end, and number of characters (-1: unknown)."""
        if self._lines is None:
            self._lines = _find_lines(self._message)
        known = self._measured.get(position)
        if known is None:
            known = [
                (start, end, self._characters(start, end)) for start, end in self._lines[position]
            ]
            self._measured[position] = known
        return known

    def _characters(self, start: int, end: int) -> int:
        """Return the number of characters of a line, -1 if too much text was decoded."""
        data = self._message.raw[start:end]
        if data.isascii() and b"\x1b" not in data:  # ESC begins text of ISO 2022
            return len(data)
        slow = self._message.encoding == UTF_8_WITH_STRAYS
        self._left -= len(data) * (_SLOWER if slow else 1)
        if self._left < 0:
            return -1
        return len(data.decode(self._message.encoding, "replace"))

    def _width(self, start: int, end: int, count: int, characters: int) -> int:
        """Return the number of bytes of the first characters of a line."""
        if characters == end - start:
            return count
        if count == characters:
            return end - start
        data = self._message.raw[start:end]
        if self._message.encoding == UTF_8_WITH_STRAYS:
            return _width_with_strays(data, data.decode(UTF_8_WITH_STRAYS)[:count])
        decoder = codecs.getincrementaldecoder(self._message.encoding)("replace")
        done = at = 0
        while at < len(data):
            state = decoder.getstate()
            fresh = len(decoder.decode(data[at : at + _CHUNK]))
            if done + fresh > count:
                decoder.setstate(state)
                break
            done += fresh
            at += _CHUNK
        while done < count and at < len(data):
            done += len(decoder.decode(data[at : at + 1]))
            at += 1
        return min(at, len(data))


def _width_with_strays(data: bytes, text: str) -> int:
    """Return the number of bytes of a text whose characters are UTF-8 or stray bytes."""
    at = 0
    for character in text:
        encoded = character.encode()
        at += len(encoded) if data.startswith(encoded, at) else 1
    return at


def _find_lines(message: Message) -> list[list[tuple[int, int]]]:
    """Return the extent of the lines of each segment; only a text with line feeds has several."""
    found: list[list[tuple[int, int]]] = []
    at = 0
    for raw in message.lines.raw:
        lines: list[tuple[int, int]] = []
        for line in raw.split(b"\n"):
            start = max(message.raw.find(line, at), at)
            at = start + len(line)
            lines.append((start, at))
        found.append(lines)
    return found
