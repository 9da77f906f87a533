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
from mappings.hl7.elements import Field, MessageSyntax, chosen, narrow, texts
from mappings.hl7.escapes import unescape
from mappings.hl7.header import Header
from mappings.hl7.path import EVERY, WHOLE, Path
from mappings.hl7.refusals import MalformedMessage, MalformedReason

_make = tuple.__new__  # what a NamedTuple does itself, without its detour
_HEADERS = frozenset({"MSH", "FHS", "BHS"})  # their field 1 is the separator itself


class Lines:
    """The segments of one message: bytes, text and fields, each made when first asked for."""

    __slots__ = ("_texts", "fields", "names", "raw", "reading")

    def __init__(
        self,
        raw: list[bytes],
        names: Sequence[str],
        reading: MessageSyntax,
        text: str | None = None,
    ) -> None:
        """Take the bytes and the names; `text` is all of it, CR between lines, where known."""
        self.raw = raw
        self.names = names
        self.reading = reading
        self.fields: list[list[str] | None] = [None] * len(raw)
        """The fields of the segments that were split already; `split` gives those of others."""
        texts: list[str | None] = []
        if text is not None and "\n" not in text:
            texts += text.split("\r")
        if texts and not texts[-1]:
            texts.pop()
        # Where lines are missing, or were joined, each is decoded by itself.
        self._texts: list[str | None] = texts if len(texts) == len(raw) else [None] * len(raw)

    def text(self, index: int) -> str:
        r"""
        Return a decoded segment, as one line that can stand in a message again.

        A line end that is data (a bare LF in a note) is written as its escape `\X0A\`.
        """
        text = self._texts[index]
        if text is None:
            try:
                text = self.raw[index].decode(self.reading.codec)
            except UnicodeDecodeError:  # of several lines: ISO 2022 states end with each of them
                lines = self.raw[index].split(b"\n")
                text = "\n".join(each.decode(self.reading.codec) for each in lines)
            if "\n" in text:
                mark = self.reading.delimiters.escape
                text = text.replace("\n", f"{mark}X0A{mark}" if mark else " ")
            self._texts[index] = text
        return text

    def split(self, index: int) -> list[str]:
        """Return the fields of a segment as sent, by their numbers; field 0 is its name."""
        fields = self.fields[index]
        if fields is None:
            separator = self.reading.delimiters.field
            fields = self.text(index).split(separator)
            if self.names[index] in _HEADERS:
                fields.insert(1, separator)
            self.fields[index] = fields
        return fields


class Segment:
    """One segment of a message. Immutable."""

    __slots__ = ("_lines", "id", "index")

    def __init__(self, lines: Lines, index: int) -> None:
        """Take the message's lines, and the segment's place among them, counted from 0."""
        self._lines = lines
        self.id = lines.names[index]
        self.index = index

    @property
    def raw(self) -> bytes:
        """The segment's bytes."""
        return self._lines.raw[self.index]

    def text(self) -> str:
        """Return the decoded segment, as one line that can stand in a message again."""
        return self._lines.text(self.index)

    def field(self, number: int) -> Field:
        """Return the n-th field, as the standard counts: MSH-1 is the field separator."""
        return Field(self.field_text(number), self._lines.reading)

    @property
    def fields(self) -> Sequence[str]:
        """The text of all fields as sent, by their numbers; the name of the segment is field 0."""
        return self._lines.split(self.index)

    def field_text(self, number: int) -> str:
        """Return the n-th field's text as sent, '' when absent."""
        fields = self._lines.split(self.index)
        return fields[number] if number < len(fields) else ""

    def __len__(self) -> int:
        """Return the number of the last field sent."""
        return len(self._lines.split(self.index)) - 1

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
        found = chosen(raw, parsed, self._lines.reading)
        marks, codec = self._lines.reading
        return unescape(narrow(found[0], parsed, marks), marks, codec) if found else ""

    def values(self, path: str | Path) -> list[str]:
        """Return the text of every repetition the path allows, [] when the field is absent."""
        parsed = path if isinstance(path, Path) else Path.parse(path)
        if parsed.segment and parsed.segment != self.id:
            return []
        raw = self.field_text(parsed.field)
        if self._verbatim(parsed):
            return [raw] if raw else []
        return texts(raw, parsed, self._lines.reading)

    def _verbatim(self, path: Path) -> bool:
        """MSH-1 and MSH-2 are delimiters, not text; field 0 is the segment's name."""
        return path.field == WHOLE or (path.field <= 2 and self.id in _HEADERS)  # noqa: PLR2004


class Message:
    """One message. Immutable; make it with `Message.parse`."""

    __slots__ = (
        *("_made", "_named", "_numbers"),
        *("charset_suspect", "delimiters", "encoding", "header", "lines", "names", "raw"),
    )

    lines_type: ClassVar[type[Lines]] = Lines

    def __init__(self, raw: bytes, head: Header, lines: Lines, *, suspect: bool) -> None:
        """Take what `parse` found out."""
        self.raw = raw
        self.header = head
        self.delimiters = head.delimiters
        """The separators it declared."""
        self.lines = lines
        self.encoding = lines.reading.codec
        self.charset_suspect = suspect
        self.names: Sequence[str] = lines.names
        """The ids of all segments, in order."""
        self._made: list[Segment | None] | None = None
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
        if b"\n" in body:
            body = lines.with_one_end(body)
        if head is None:
            head = header.read(lines.first_line(body))
        marks = head.delimiters
        segments, names = lines.segments(body, head.fields[1])
        if len(segments[0]) != lines.first_length(body):
            raise MalformedMessage(MalformedReason.STRAY_LINE)
        if names.count("MSH") > 1:
            raise MalformedMessage(MalformedReason.SECOND_HEADER, "MSH[2]")
        said = charset.declared(head.charset, marks.repetition)
        codec, suspect, text = charset.decoded(body, said, fallback, marked=marked)
        found = cls.lines_type(segments, names, _make(MessageSyntax, (marks, codec)), text)
        return cls(raw, head, found, suspect=suspect)

    @property
    def segments(self) -> Sequence[Segment]:
        """All segments, in order."""
        return tuple([self.segment(index) for index in range(len(self.names))])

    def segment(self, index: int) -> Segment:
        """Return the segment at a place, counted from 0; the same one each time."""
        if self._made is None:
            self._made = [None] * len(self.names)
        made = self._made[index]
        if made is None:
            made = self._made[index] = Segment(self.lines, index)
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
