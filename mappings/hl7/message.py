"""
Message: one HL7 v2 message, parsed lazily and without loss.

`raw` holds the bytes as received; they are never rewritten. Segments are a flat list, so that Z
segments and segments in unusual order are accepted. Whether a message is complete is decided by
mapping definitions.

Fields, repetitions, components and subcomponents split their text on access. They count from 1. An
absent element is empty, so that a chain of lookups does not fail.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple, Self

from mappings.hl7 import charset, header, lines
from mappings.hl7.escapes import unescape
from mappings.hl7.header import Delimiters, Header
from mappings.hl7.path import EVERY, WHOLE, Path, RepetitionFilter, within_field
from mappings.hl7.refusals import MalformedMessage, MalformedReason

NULL = '""'  # deletes the stored value (HL7 v2.5.1 §2.5.3)


def is_null(text: str) -> bool:
    """True if a value is the HL7 null `""`, which deletes the stored value."""
    return text.strip() == NULL


def without_null(text: str) -> str:
    """Return a value without surrounding blanks, "" for a null."""
    text = text.strip()
    return "" if text == NULL else text


class MessageSyntax(NamedTuple):
    """The delimiters and the character encoding with which the text of a message is read."""

    delimiters: Delimiters
    codec: str


def cut(raw: str, separator: str) -> list[str]:
    """Split a text at a separator; an undeclared separator does not split."""
    return raw.split(separator) if separator else [raw]


def pick(raw: str, separator: str, number: int) -> str:
    """Return the n-th part of a text, '' if there is none."""
    if not separator or separator not in raw:
        return raw if number == 1 else ""
    parts = raw.split(separator, number)
    return parts[number - 1] if number <= len(parts) else ""


def narrow(raw: str, path: Path, delimiters: Delimiters) -> str:
    """Return the component or subcomponent that a path names in the text of one repetition."""
    if path.component == WHOLE:
        return raw
    component = pick(raw, delimiters.component, path.component)
    if path.subcomponent == WHOLE:
        return component
    return pick(component, delimiters.subcomponent, path.subcomponent)


def selected_repetitions(raw: str, path: Path, syntax: MessageSyntax) -> list[str]:
    """Return the repetitions that a path selects in the text of a field."""
    repetitions = cut(raw, syntax.delimiters.repetition)
    if path.repetition is not None:
        return repetitions[path.repetition - 1 : path.repetition]
    for repetition_filter in path.filters:
        repetitions = [one for one in repetitions if _passes(one, repetition_filter, syntax)]
    return repetitions


def _passes(repetition: str, condition: RepetitionFilter, syntax: MessageSyntax) -> bool:
    place = Path(component=condition.component, subcomponent=condition.subcomponent)
    raw = narrow(repetition, place, syntax.delimiters)
    return unescape(raw, syntax.delimiters, syntax.codec).strip() == condition.value


@dataclass(frozen=True, slots=True)
class Element:
    """An element of a message. `raw` is its text as sent, with escapes and separators."""

    raw: str
    syntax: MessageSyntax

    def text(self) -> str:
        """
        Return the text with escapes resolved. Separators inside it are kept.

        An unescaped `&` or `^` in a sender's text is therefore not lost (HL7 v2.5.1 §2.7).
        """
        return unescape(self.raw, self.syntax.delimiters, self.syntax.codec)

    @property
    def is_null(self) -> bool:
        """Whether the value is `""`, which deletes the stored value."""
        return is_null(self.raw)

    def __bool__(self) -> bool:
        return bool(self.raw)


class SubComponent(Element):
    """A subcomponent, such as PID-3.4.2."""

    __slots__ = ()


class Component(Element):
    """A component, such as PID-5.1."""

    __slots__ = ()

    @property
    def subcomponents(self) -> tuple[SubComponent, ...]:
        parts = cut(self.raw, self.syntax.delimiters.subcomponent)
        return tuple(SubComponent(part, self.syntax) for part in parts)

    def subcomponent(self, number: int) -> SubComponent:
        part = pick(self.raw, self.syntax.delimiters.subcomponent, number)
        return SubComponent(part, self.syntax)


class Repetition(Element):
    __slots__ = ()

    @property
    def components(self) -> tuple[Component, ...]:
        parts = cut(self.raw, self.syntax.delimiters.component)
        return tuple(Component(part, self.syntax) for part in parts)

    def component(self, number: int) -> Component:
        return Component(pick(self.raw, self.syntax.delimiters.component, number), self.syntax)


class Field(Element):
    __slots__ = ()

    @property
    def repetitions(self) -> tuple[Repetition, ...]:
        """All repetitions, in order. An empty field has none."""
        parts = cut(self.raw, self.syntax.delimiters.repetition) if self.raw else []
        return tuple(Repetition(part, self.syntax) for part in parts)

    def repetition(self, number: int = 1) -> Repetition:
        return Repetition(pick(self.raw, self.syntax.delimiters.repetition, number), self.syntax)

    def value(self, relative: str | Path = "") -> str:
        """Return the text at `1`, `4.2`, `[2].1` or `[CX-5=MR].1` of this field, '' if absent."""
        return next(iter(self.values(relative)), "")

    def values(self, relative: str | Path = "") -> list[str]:
        """Return the text of each repetition at a location inside this field."""
        path = relative if isinstance(relative, Path) else within_field(relative)
        return texts(self.raw, path, self.syntax)


def texts(raw: str, path: Path, syntax: MessageSyntax) -> list[str]:
    """Return the value of a path in each repetition that it selects; `raw` is the whole field."""
    if not raw:
        return []
    marks = syntax.delimiters
    return [
        unescape(narrow(one, path, marks), marks, syntax.codec)
        for one in selected_repetitions(raw, path, syntax)
    ]


_make = tuple.__new__  # faster than the constructor of a NamedTuple
_HEADERS = frozenset({"MSH", "FHS", "BHS"})  # field 1 is the separator


MAX_LINES = 300_000
"""Limit of the lines of a message. Text with unescaped line ends, as in base64, has many lines."""
MAX_FIELDS = MAX_COMPONENTS = 2_000_000
"""Limits of the separators of a message. Each part needs up to 100 bytes while it is read."""
MAX_REPETITIONS = MAX_SUBCOMPONENTS = 500_000
MAX_ESCAPES = 400_000
"""Limit of the escape characters of a message: each sequence takes a microsecond to be read."""


def _require_few_parts(body: bytes, marks: Delimiters) -> None:
    """Raise MalformedMessage for too many lines or delimiters. They are counted, not split."""
    if len(body) < MAX_LINES:  # the smallest limit: a shorter message cannot exceed any
        return
    if body.count(b"\r") + body.count(b"\n") >= MAX_LINES:
        raise MalformedMessage(MalformedReason.TOO_MANY_SEGMENTS)
    limits = {
        marks.field: (MAX_FIELDS, MalformedReason.TOO_MANY_FIELDS),
        marks.component: (MAX_COMPONENTS, MalformedReason.TOO_MANY_FIELDS),
        marks.repetition: (MAX_REPETITIONS, MalformedReason.TOO_MANY_FIELDS),
        marks.subcomponent: (MAX_SUBCOMPONENTS, MalformedReason.TOO_MANY_FIELDS),
        marks.escape: (MAX_ESCAPES, MalformedReason.TOO_MANY_ESCAPES),
    }
    for mark, (limit, reason) in limits.items():
        if mark and body.count(mark.encode("latin-1")) > limit:
            raise MalformedMessage(reason)


class SegmentLines:
    """The segments of one message: bytes, text and fields, each computed on first access."""

    __slots__ = ("_texts", "fields", "names", "raw", "syntax")

    def __init__(
        self, raw: list[bytes], names: Sequence[str], syntax: MessageSyntax, text: str | None = None
    ) -> None:
        """`text` is the whole decoded message with CR between segments, if it is known."""
        self.raw = raw
        self.names = names
        self.syntax = syntax
        self.fields: list[list[str] | None] = [None] * len(raw)
        """The fields of the segments that were split already, None for the others."""
        texts: list[str | None] = []
        if text is not None and "\n" not in text:
            texts += text.split("\r")
        if texts and not texts[-1]:
            texts.pop()
        # If lines were dropped or joined, each segment is decoded separately.
        self._texts: list[str | None] = texts if len(texts) == len(raw) else [None] * len(raw)

    def text(self, index: int) -> str:
        r"""
        Return a decoded segment as one line that can be part of a message.

        A line end that is data (a bare LF in a note) becomes its escape `\X0A\`.
        """
        text = self._texts[index]
        if text is None:
            try:
                text = self.raw[index].decode(self.syntax.codec)
            except UnicodeDecodeError:  # ISO 2022 shift states end with each line
                parts = self.raw[index].split(b"\n")
                text = "\n".join(part.decode(self.syntax.codec) for part in parts)
            if "\n" in text:
                mark = self.syntax.delimiters.escape
                text = text.replace("\n", f"{mark}X0A{mark}" if mark else " ")
            self._texts[index] = text
        return text

    def split(self, index: int) -> list[str]:
        """Return the fields of a segment as sent, by their numbers. Field 0 is the segment name."""
        fields = self.fields[index]
        if fields is None:
            separator = self.syntax.delimiters.field
            fields = self.text(index).split(separator)
            if self.names[index] in _HEADERS:
                fields.insert(1, separator)
            self.fields[index] = fields
        return fields


class Segment:
    __slots__ = ("_lines", "id", "index")

    def __init__(self, segment_lines: SegmentLines, index: int) -> None:
        """`index` is the position of the segment in the message, counted from 0."""
        self._lines = segment_lines
        self.id = segment_lines.names[index]
        self.index = index

    @property
    def raw(self) -> bytes:
        """The bytes of the segment."""
        return self._lines.raw[self.index]

    def text(self) -> str:
        """Return the decoded segment as one line that can be part of a message."""
        return self._lines.text(self.index)

    def field(self, number: int) -> Field:
        """Return the n-th field as the standard counts: MSH-1 is the field separator."""
        return Field(self.field_text(number), self._lines.syntax)

    @property
    def fields(self) -> Sequence[str]:
        """The texts of all fields as sent, by their numbers. Field 0 is the segment name."""
        return self._lines.split(self.index)

    def field_text(self, number: int) -> str:
        """Return the text of the n-th field as sent, '' if absent."""
        fields = self._lines.split(self.index)
        return fields[number] if number < len(fields) else ""

    def __len__(self) -> int:
        """Return the number of the last field."""
        return len(self._lines.split(self.index)) - 1

    def value(self, path: str | Path) -> str:
        """
        Return the text at a path relative to this segment (`3.1`), '' if absent.

        A full path (`PID-3.1`) works too; it is absent in a segment with another name.
        """
        parsed = path if isinstance(path, Path) else Path.parse(path)
        if parsed.segment and parsed.segment != self.id:
            return ""
        raw = self.field_text(parsed.field)
        if not raw or self._verbatim(parsed):
            return raw
        found = selected_repetitions(raw, parsed, self._lines.syntax)
        marks, codec = self._lines.syntax
        return unescape(narrow(found[0], parsed, marks), marks, codec) if found else ""

    def values(self, path: str | Path) -> list[str]:
        """Return the text of each repetition that the path selects, [] if the field is absent."""
        parsed = path if isinstance(path, Path) else Path.parse(path)
        if parsed.segment and parsed.segment != self.id:
            return []
        raw = self.field_text(parsed.field)
        if self._verbatim(parsed):
            return [raw] if raw else []
        return texts(raw, parsed, self._lines.syntax)

    def _verbatim(self, path: Path) -> bool:
        """True if a field is read as sent: MSH-1, MSH-2 and the segment name."""
        return path.field == WHOLE or (path.field <= 2 and self.id in _HEADERS)  # noqa: PLR2004


class Message:
    """One message. Immutable; created by `Message.parse`."""

    __slots__ = (
        *("_named", "_numbers", "_segments"),
        *("charset_suspect", "delimiters", "encoding", "header", "lines", "names", "raw"),
    )

    lines_type: ClassVar[type[SegmentLines]] = SegmentLines

    def __init__(
        self, raw: bytes, head: Header, segment_lines: SegmentLines, *, suspect: bool
    ) -> None:
        """Store the result of `parse`; `suspect`: the text is not as MSH-18 declares."""
        self.raw = raw
        self.header = head
        self.delimiters = head.delimiters
        """The delimiters that the message declares."""
        self.lines = segment_lines
        self.encoding = segment_lines.syntax.codec
        self.charset_suspect = suspect
        self.names: Sequence[str] = segment_lines.names
        """The names of all segments, in order."""
        self._segments: list[Segment | None] | None = None
        self._named: dict[str, list[Segment]] | None = None
        self._numbers: list[int] | None = None

    @classmethod
    def parse(cls, raw: bytes, *, fallback: str = "utf-8", head: Header | None = None) -> Self:
        """
        Parse a message. Raises MalformedMessage and no other exception.

        `fallback` is the codec if MSH-18 is empty or unknown. `head` is the result of `peek` for
        the same bytes, if it is known.
        """
        body, has_bom = lines.trim_except_last_cr(raw)
        if b"\n" in body:
            body = lines.with_cr_ends(body)
        if head is None:
            head = header.read(lines.first_line(body))
        marks = head.delimiters
        _require_few_parts(body, marks)
        segments, names = lines.segments(body, head.fields[1])
        if len(segments[0]) != lines.first_length(body):
            raise MalformedMessage(MalformedReason.STRAY_LINE)
        if names.count("MSH") > 1:
            raise MalformedMessage(MalformedReason.SECOND_HEADER, "MSH[2]")
        declared = charset.decode_msh18(head.charset, marks.repetition)
        codec, suspect, text = charset.decode_body(body, declared, fallback, has_bom=has_bom)
        syntax = _make(MessageSyntax, (marks, codec))
        return cls(raw, head, cls.lines_type(segments, names, syntax, text), suspect=suspect)

    @property
    def segments(self) -> Sequence[Segment]:
        return tuple([self.segment(index) for index in range(len(self.names))])

    def segment(self, index: int) -> Segment:
        """Return the segment at a position, counted from 0. Each call returns the same object."""
        if self._segments is None:
            self._segments = [None] * len(self.names)
        segment = self._segments[index]
        if segment is None:
            segment = self._segments[index] = Segment(self.lines, index)
        return segment

    @property
    def numbers(self) -> Sequence[int]:
        """The number of each segment among those with its name, counted from 1."""
        if self._numbers is None:
            counts: Counter[str] = Counter()
            self._numbers = []
            for name in self.names:
                counts[name] += 1
                self._numbers.append(counts[name])
        return self._numbers

    def named(self, name: str) -> list[Segment]:
        named = self._named
        if named is None:
            named = self._named = {}
            for segment in self.segments:
                named.setdefault(segment.id, []).append(segment)
        return named.get(name, [])

    def first(self, name: str) -> Segment | None:
        """Return the first segment with a name."""
        return next(iter(self.named(name)), None)

    def value(self, path: str | Path) -> str:
        """
        Return the text at a path with escapes resolved, '' if absent. Blanks are kept.

        A path without component means the whole repetition with its separators (`PID-5` reads
        `DOE^JOHN`). Null reads `""`: see `mappings.hl7.message.is_null`.
        """
        parsed = path if isinstance(path, Path) else Path.parse(path)
        return next((segment.value(parsed) for segment in self._at(parsed)), "")

    def values(self, path: str | Path) -> list[str]:
        """Return the text of all repetitions, for `OBX[*]-5` of all segments."""
        parsed = path if isinstance(path, Path) else Path.parse(path)
        return [text for segment in self._at(parsed) for text in segment.values(parsed)]

    def _at(self, path: Path) -> Iterator[Segment]:
        found = self.named(path.segment)
        if path.occurrence != EVERY:
            found = found[path.occurrence - 1 : path.occurrence]
        return iter(found)


_NUL = b"\0"


def find_nul(payload: bytes, head: Header) -> str:
    """
    Return the first location of a message with a NUL byte, such as `OBX[2]-5.1`; '' without NUL.

    Databases and reports cannot hold it. NUL bytes around a message come from transports and are
    ignored. Raises MalformedMessage.
    """
    marks = head.delimiters
    _require_few_parts(payload, marks)
    if _NUL not in payload:
        return ""
    body, _ = lines.trim(payload)
    numbers: dict[bytes, int] = {}
    for line in lines.split(body, marks.field.encode("latin-1")):
        name = line[:3].upper()
        numbers[name] = numbers.get(name, 0) + 1
        if (at := line.find(_NUL)) >= 0:
            return _location_after(line[:at], name.decode("ascii"), numbers[name], marks)
    return ""


def _location_after(before: bytes, name: str, number: int, marks: Delimiters) -> str:
    """Return the location of the character after `before`, the beginning of a segment."""
    text = before.decode("latin-1")
    field = text.count(marks.field) + (name == "MSH")
    if not field:
        return name
    rest = text.rpartition(marks.field)[2]
    if marks.repetition:
        rest = rest.rpartition(marks.repetition)[2]
    component = rest.count(marks.component) + 1 if marks.component else 1
    segment = f"{name}[{number}]" if number > 1 else name
    return f"{segment}-{field}.{component}" if component > 1 else f"{segment}-{field}"
