"""
Message: one HL7 v2 message, read lazily, lossless.

The bytes are the record: `raw` is what came, and nothing here ever writes it again. Segments
are a stream, not a tree: Z segments and surprises in order disturb nobody. Whether a message
is complete or makes sense is a mapping definition's question.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import ClassVar, Self

from mappings.hl7 import charset, header, lines
from mappings.hl7.delimiters import Delimiters
from mappings.hl7.elements import Field, Reading, chosen, narrow, texts
from mappings.hl7.escapes import unescape
from mappings.hl7.header import Header
from mappings.hl7.path import EVERY, WHOLE, Path
from mappings.hl7.refusals import Malformation, Malformed

__all__ = ["Delimiters", "Message", "Segment"]

_HEADERS = frozenset({"MSH", "FHS", "BHS"})  # their field 1 is the separator itself


class Segment:
    """One segment. Immutable; splits its fields when first asked."""

    __slots__ = ("_fields", "_reading", "_text", "id", "index", "raw")

    def __init__(self, raw: bytes, name: str, index: int, reading: Reading) -> None:
        """Take the segment's bytes, its id, and its place in the message, counted from 0."""
        self.raw = raw
        self.index = index
        self.id = name
        self._reading = reading
        self._fields: list[str] | None = None
        self._text: str | None = None

    def text(self) -> str:
        r"""
        Return the decoded segment, as one line that can stand in a message again.

        A line end that is data (a bare LF in a note) is written as its escape `\X0A\`.
        """
        text = self._text
        if text is None:
            text = self.raw.decode(self._reading.codec)
            if "\n" in text:
                mark = self._reading.delimiters.escape
                text = text.replace("\n", f"{mark}X0A{mark}" if mark else " ")
            self._text = text
        return text

    def field(self, number: int) -> Field:
        """Return the n-th field, as the standard counts: MSH-1 is the field separator."""
        return Field(self.field_text(number), self._reading)

    @property
    def fields(self) -> Sequence[str]:
        """The text of all fields as sent, by their numbers; the name of the segment is field 0."""
        fields = self._fields
        if fields is None:
            fields = self._fields = self._split()
        return fields

    def field_text(self, number: int) -> str:
        """Return the n-th field's text as sent, '' when absent."""
        fields = self._fields
        if fields is None:
            fields = self._fields = self._split()
        return fields[number] if number < len(fields) else ""

    def _split(self) -> list[str]:
        separator = self._reading.delimiters.field
        fields = self.text().split(separator)
        if self.id in _HEADERS:
            fields.insert(1, separator)
        return fields

    def __len__(self) -> int:
        """Return the number of the last field sent."""
        self.field_text(0)
        return len(self._fields or ()) - 1

    def value(self, path: str | Path) -> str:
        """
        Return the text at a path relative to this segment (`3.1`), '' when absent.

        A full path (`PID-3.1`) works too; it finds nothing in a segment of another name.
        """
        parsed = path if isinstance(path, Path) else Path.parse(path)
        if parsed.segment and parsed.segment != self.id:
            return ""
        raw = self.field_text(parsed.field)
        if not raw or self._verbatim(parsed):
            return raw
        found = chosen(raw, parsed, self._reading)
        marks = self._reading.delimiters
        return (
            unescape(narrow(found[0], parsed, marks), marks, self._reading.codec) if found else ""
        )

    def values(self, path: str | Path) -> list[str]:
        """Return the text of every repetition the path allows, [] when the field is absent."""
        parsed = path if isinstance(path, Path) else Path.parse(path)
        if parsed.segment and parsed.segment != self.id:
            return []
        raw = self.field_text(parsed.field)
        if self._verbatim(parsed):
            return [raw] if raw else []
        return texts(raw, parsed, self._reading)

    def _verbatim(self, path: Path) -> bool:
        """MSH-1 and MSH-2 are delimiters, not text; field 0 is the segment's name."""
        return path.field == WHOLE or (path.field <= 2 and self.id in _HEADERS)  # noqa: PLR2004


class Message:
    """One message. Immutable; make it with `Message.parse`."""

    __slots__ = (
        *("_lines", "_made", "_named", "_numbers", "_reading"),
        *("charset_suspect", "encoding", "header", "names", "raw"),
    )

    segment_type: ClassVar[type[Segment]] = Segment

    def __init__(
        self, raw: bytes, head: Header, segments: list[bytes], names: list[str], encoding: str
    ) -> None:
        """Take what `parse` found out."""
        self.raw = raw
        self.header = head
        self.encoding = encoding
        self.charset_suspect = False
        self.names: Sequence[str] = names
        """The ids of all segments, in order."""
        self._lines = segments
        self._reading = Reading(head.delimiters, encoding)
        self._made: list[Segment | None] = [None] * len(segments)
        self._named: dict[str, list[Segment]] | None = None
        self._numbers: list[int] | None = None

    @classmethod
    def parse(cls, raw: bytes, *, fallback: str = "utf-8", head: Header | None = None) -> Self:
        """
        Read a message; `fallback` is the codec where MSH-18 is silent or unknown.

        `head`: what `peek` made of the same bytes, where that is known already. Raises
        Malformed, and nothing else.
        """
        body, marked = lines.untrailed(raw)
        first = lines.first_line(body)
        head = header.read(first) if head is None else head
        segments, names = lines.segments(body, head.fields[1])
        if segments[0] != first:
            raise Malformed(Malformation.STRAY_LINE)
        if names.count("MSH") > 1:
            raise Malformed(Malformation.SECOND_HEADER, "MSH[2]")
        said = charset.declared(head.charset, head.delimiters.repetition)
        encoding, suspect = charset.detect(body, said, fallback, marked=marked)
        message = cls(raw, head, segments, names, encoding)
        message.charset_suspect = suspect
        return message

    @property
    def segments(self) -> Sequence[Segment]:
        """All segments, in order."""
        return tuple([self.segment(index) for index in range(len(self._lines))])

    def segment(self, index: int) -> Segment:
        """Return the segment at a place, counted from 0; the same one each time."""
        made = self._made[index]
        if made is None:
            made = self.segment_type(self._lines[index], self.names[index], index, self._reading)
            self._made[index] = made
        return made

    @property
    def numbers(self) -> Sequence[int]:
        """For every segment, how many of its name have come so far, itself included."""
        if self._numbers is None:
            counts: Counter[str] = Counter()
            self._numbers = []
            for name in self.names:
                counts[name] += 1
                self._numbers.append(counts[name])
        return self._numbers

    @property
    def delimiters(self) -> Delimiters:
        """The separators it declared."""
        return self.header.delimiters

    def named(self, name: str) -> list[Segment]:
        """Return all segments of a name, in order."""
        named = self._named
        if named is None:
            named = self._named = {}
            for segment in self.segments:
                named.setdefault(segment.id, []).append(segment)
        return named.get(name, [])

    def first(self, name: str) -> Segment | None:
        """Return the first segment of a name."""
        return next(iter(self.named(name)), None)

    def value(self, path: str | Path) -> str:
        """
        Return the text at a path, escapes resolved, '' when absent; blanks are kept.

        A path without a component means the whole repetition, separators as they stand
        (`PID-5` reads `DOE^JOHN`). Null reads `""`: see `mappings.hl7.values.is_null`.
        """
        parsed = path if isinstance(path, Path) else Path.parse(path)
        return next((segment.value(parsed) for segment in self._at(parsed)), "")

    def values(self, path: str | Path) -> list[str]:
        """Return the text of all repetitions; of all segments too for `OBX[*]-5`."""
        parsed = path if isinstance(path, Path) else Path.parse(path)
        return [text for segment in self._at(parsed) for text in segment.values(parsed)]

    def _at(self, path: Path) -> Iterator[Segment]:
        found = self.named(path.segment)
        if path.occurrence != EVERY:
            found = found[path.occurrence - 1 : path.occurrence]
        return iter(found)
