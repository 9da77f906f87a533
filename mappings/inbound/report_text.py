"""
The content of an outside report: its text and its PDF files, from the OBX segments of a message.

TX, FT and ST are lines of text, and so are other simple types and SN; each repetition of OBX-5 is a
line, and so is a comment (NTE) below an OBX. Consecutive OBX with one OBX-3 are a section. If there
are several sections, each has the name of its OBX-3, because the text itself may not say where the
impression begins. OBX-11 O describes the order, D deletes the OBX, W says that it was wrong, for
example of another patient: none of them is in the report.

RTF is converted to text, in an ED or in the text itself. Of an ED, the first bytes decide what it
is, because senders name types and subtypes differently. What is neither text, RTF nor PDF is
named, and left out. A character set that is not known stays in the text as it was sent, and is
named. Sizes are limited, before data is decoded.

A sender whose fields have a limit divides a PDF: the ED of the next repetition or OBX continues it,
with the same type. Base64 is divided before or after the encoding.
"""

import base64
import binascii
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from striprtf.striprtf import rtf_to_text

from mappings.hl7.escapes import unread_sets
from mappings.hl7.message import NULL, Repetition, Segment
from mappings.hl7.refusals import ValueTooLong, WrongDataType
from mappings.language.scope import MessageScope
from parsers.pdf import MAX_PDF_BYTES, is_complete, is_pdf

MAX_TEXT_CHARACTERS: Final = 1_000_000
MAX_RTF_CHARACTERS: Final = 4_000_000
"""Limits of a report. RTF is longer than its text: it may contain pictures."""
MAX_OMITTED: Final = 20
"""Parts that are named as left out."""
MAX_PDF_FILES: Final = 20
"""PDF files of a report; together they have at most MAX_PDF_BYTES."""

_RTF: Final = "{\\rtf"
_END_CHARACTERS: Final = 2048
_END_TEXTS: Final = 200
"""The encoded end of a file: characters, and texts that may contain them."""
_TEXTS: Final = frozenset({"", "TX", "FT", "ST", "NM", "DT", "TM", "TS", "DTM", "SI", "IS", "ID"})
_PROSE: Final = frozenset({"TX", "FT", "ED"})
_NOT_ENCODED: Final = frozenset({"A", "ASCII", "TEXT"})
"""ED.4: table 0299, and what senders write in its place."""
_CODED: Final = frozenset({"CE", "CWE", "CNE", "CF"})
_BLANKS: Final = re.compile(r"\s+")
_CONTROLS: Final = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ufffe\uffff\ud800-\udfff]")
_LINE_ENDS: Final = re.compile(r"\r\n?|\u2028|\u2029|\x0b|\x0c|\x85")


@dataclass(frozen=True, slots=True)
class ReportContent:
    """
    The text and the PDF files of a report; `omitted` names the parts that are left out.

    `is_deleted`: each OBX was deleted or is wrong.
    """

    text: str = ""
    pdfs: tuple[bytes, ...] = ()
    omitted: tuple[str, ...] = ()
    is_deleted: bool = False

    def __bool__(self) -> bool:
        return bool(self.text or self.pdfs or self.omitted)


def read_content(scope: MessageScope) -> ReportContent:
    """
    Read the content from the OBX segments of a group.

    Raises WrongDataType for data that is not in its encoding, and for RTF that cannot be read.
    Raises ValueTooLong for text and data above the limits.
    """
    sections: list[_Section] = []
    pdfs, omitted, characters = list[bytes](), list[str](), 0
    place = scope.locate("OBX-5")
    for observation, part in _joined(_parts_of_all(scope)):
        value = part.content() if isinstance(part, _EncodedData) else part
        if isinstance(value, str):
            if not sections or not sections[-1].continues_with(observation):
                sections.append(_Section(observation))
            sections[-1].lines.append(value)
            characters += len(value) + 1
            if characters > MAX_RTF_CHARACTERS:
                raise ValueTooLong(place)
        elif isinstance(value, bytes) and len(pdfs) < MAX_PDF_FILES:
            pdfs.append(value)
            if sum(map(len, pdfs)) > MAX_PDF_BYTES:
                raise ValueTooLong(place)
        elif len(omitted) < MAX_OMITTED:
            omitted.append("PDF" if isinstance(value, bytes) else value.name)
    text = _text_of(sections, place)
    if len(text) > MAX_TEXT_CHARACTERS:
        raise ValueTooLong(place)
    omitted += unread_sets(text, scope.delimiters)[:MAX_OMITTED]
    found = ReportContent(text, tuple(pdfs), tuple(dict.fromkeys(omitted)))
    return found or ReportContent(is_deleted=_is_deleted(scope))


def _is_deleted(scope: MessageScope) -> bool:
    rows = [
        scope.message.segment(position)
        for position in scope.own.order
        if scope.message.names[position] == "OBX"
    ]
    codes = {row.value("11").strip().upper() for row in rows} - _OF_ORDER
    return bool(codes) and codes <= _DELETED


_SUFFIXES: Final = {
    "IMP": "Impression",
    "REC": "Recommendation",
    "GDT": "Description",
    "MDT": "Secondary description",
    "ADT": "Addendum",
    "CNP": "Confirming procedure",
    "TCM": "Technician's comment",
}
"""Suffixes of OBX-3, its second subcomponent (HL7 v2.3.1 §7.1.3)."""
_OF_ORDER: Final = frozenset({"O"})
_DELETED: Final = frozenset({"D", "W"})
_NO_RESULT: Final = _OF_ORDER | _DELETED
"""OBX-11 (table 0085) of an OBX that describes the order, and of a deleted or wrong one."""


@dataclass(frozen=True, slots=True)
class _Observation:
    """What an OBX is about: OBX-3, and whether its value is prose."""

    code: str
    name: str
    is_prose: bool

    @classmethod
    def of(cls, segment: Segment, data_type: str) -> "_Observation":
        identifier = segment.field(3).repetition()
        code, suffix = (identifier.component(1).subcomponent(number).text() for number in (1, 2))
        texts = (identifier.component(number).text().strip() for number in (2, 5))
        name = next(filter(None, texts), "") or _SUFFIXES.get(suffix.strip().upper(), "")
        is_prose = data_type in _PROSE or suffix.strip().upper() in _SUFFIXES
        return cls(f"{code}&{suffix}", name[:_MAX_NAME], is_prose)


_MAX_NAME: Final = 200


class _Section:
    """Consecutive lines about one observation."""

    def __init__(self, observation: _Observation) -> None:
        self.observation = observation
        self.lines: list[str] = []

    def continues_with(self, other: _Observation) -> bool:
        own = self.observation
        return (own.code, own.name) == (other.code, other.name)

    def text(self, place: str) -> str:
        return _as_text("\n".join(self.lines), place)

    def begins_with_its_name(self, text: str) -> bool:
        name, first = self.observation.name.casefold(), text.lstrip().partition("\n")[0].casefold()
        words = first.partition(":")[0].strip()
        return first.startswith(name) or (bool(words) and words in name)


def _text_of(sections: Sequence[_Section], place: str) -> str:
    """Return the text of all sections; several are named. Raises WrongDataType, ValueTooLong."""
    texts = [(section, section.text(place)) for section in sections]
    if len({section.observation.name for section, text in texts if text}) < 2:  # noqa: PLR2004
        return "\n".join(text for _, text in texts).strip("\n")
    blocks: list[str] = []
    for section, text in texts:
        name = section.observation.name
        is_line = not section.observation.is_prose and "\n" not in text
        if is_line and name:
            blocks.append(f"{name}: {text}".rstrip())
            continue
        heading = "" if not name or section.begins_with_its_name(text) else f"{name}\n"
        blocks += ["", heading + text, ""]
    return re.sub(r"\n{3,}", "\n\n", "\n".join(blocks)).strip("\n")


@dataclass(frozen=True, slots=True)
class _Omitted:
    name: str


class _EncodedData:
    """The data of an ED, and of those that continue it."""

    def __init__(self, kind: str, subtype: str, encoding: str, codec: str, place: str) -> None:
        self.type = (kind, subtype)
        self.encoding = encoding.casefold()
        self._codec = codec
        self._place = place
        self.files: list[list[str]] = []
        """Texts that are encoded together; padding ends one."""
        self._size = 0  # characters

    def add(self, text: str) -> None:
        """Add data. Raises ValueTooLong."""
        text = _BLANKS.sub("", text)
        self._size += len(text)
        width = 2 * MAX_PDF_BYTES if self.encoding == "hex" else MAX_PDF_BYTES // 3 * 4 + 4
        if self._size > width:
            raise ValueTooLong(self._place)
        if not self.files or self.files[-1][-1].endswith("="):
            self.files.append([])
        self.files[-1].append(text)

    def continues(self, other: "_EncodedData") -> bool:
        """True if `other` is a PDF without its end, and this is no file of its own."""
        if (self.type, self.encoding) != (other.type, other.encoding):
            return False
        return other.is_open() and not _is_file(self._begin())

    def is_open(self) -> bool:
        """True if it is a PDF without its end."""
        if not is_pdf(self._begin()):
            return False
        whole = sum(map(len, self.files[-1]))
        end = "".join(self.files[-1][-_END_TEXTS:])[-_END_CHARACTERS:]
        even = end[(len(end) - whole) % 4 :]  # begins where four characters begin
        return not is_complete(_lenient(even, self.encoding))

    def extend(self, other: "_EncodedData") -> None:
        for text in (text for file in other.files for text in file):
            self.add(text)

    def content(self) -> "str | bytes | _Omitted":
        """Return a text, or a PDF. Raises WrongDataType, ValueTooLong."""
        texts = map("".join, self.files)
        content = b"".join(_decoded(text, self.encoding, self._place) for text in texts)
        if is_pdf(content):
            return content
        if _is_rtf(content):
            if len(content) > MAX_RTF_CHARACTERS:
                raise ValueTooLong(self._place)
            return _as_text(content.decode("latin-1"), self._place)
        if _is_plain(*self.type):
            return _plain(content, self._codec)
        return _Omitted(" ".join(filter(None, self.type))[:40] or "ED")

    def _begin(self) -> bytes:
        return _lenient(self.files[0][0][:_END_CHARACTERS], self.encoding)


_Part = str | _EncodedData | _Omitted


def _joined(
    parts: Iterable[tuple[_Observation, _Part]],
) -> Iterator[tuple[_Observation, _Part]]:
    """Join data that continues the data before it."""
    last: tuple[_Observation, _EncodedData] | None = None
    for observation, part in parts:
        if isinstance(part, _EncodedData):
            if last is not None and part.continues(last[1]):
                last[1].extend(part)
                continue
            if last is not None:
                yield last
            last = observation, part
            continue
        if last is not None:
            yield last
            last = None
        yield observation, part
    if last is not None:
        yield last


def _place(scope: MessageScope, position: int) -> str:
    number = scope.message.numbers[position]
    return f"OBX[{number}]-5" if number > 1 else "OBX-5"


def _parts_of_all(scope: MessageScope) -> Iterator[tuple[_Observation, _Part]]:
    """Yield the parts of each OBX, and the comments below it."""
    own: _Observation | None = None
    for position in scope.own.order:
        name = scope.message.names[position]
        if name == "OBX":
            segment = scope.message.segment(position)
            data_type = segment.value("2").strip().upper()
            is_result = segment.value("11").strip().upper() not in _NO_RESULT
            own = _Observation.of(segment, data_type) if is_result else None
            if own is not None:
                units = "" if own.is_prose else segment.value("6.1").strip()[:_MAX_NAME]
                for part in _parts(segment, data_type, _place(scope, position)):
                    yield own, f"{part} {units}" if units and isinstance(part, str) else part
        elif name == "NTE" and own is not None:
            for repetition in scope.message.segment(position).field(3).repetitions:
                yield own, repetition.text()
        elif name != "NTE":
            own = None


def _parts(segment: Segment, data_type: str, place: str) -> Iterator[_Part]:
    """Yield the lines of text, the data and the omitted parts of an OBX."""
    field = segment.field(5)
    if data_type == "ED":
        for repetition in field.repetitions:
            part = _encapsulated(repetition, place)
            if part is not None:
                yield part
    elif data_type in _TEXTS:
        texts = [repetition.text() for repetition in field.repetitions] or [""]  # an empty line
        yield from ("" if text.strip() == NULL else text for text in texts)
    elif data_type in _CODED:
        for repetition in field.repetitions:
            yield repetition.component(2).text() or repetition.component(1).text()
    elif data_type == "SN":  # comparator, number, separator, number: `>^100`, `^1^:^128`
        for repetition in field.repetitions:
            yield "".join(repetition.component(number).text().strip() for number in range(1, 5))
    elif field:
        yield _Omitted(data_type[:20])


def _encapsulated(repetition: Repetition, place: str) -> _Part | None:
    """Return the content of an ED: type (2), subtype (3), encoding (4) and data (5)."""
    kind, subtype, encoding = (repetition.component(number).text().strip() for number in (2, 3, 4))
    data = repetition.component(5)
    if not data or data.is_null:
        return None
    text = data.text()
    # A sender that writes no encoding means base64 if the data is neither text nor RTF.
    is_text = encoding.upper() in _NOT_ENCODED or (
        not encoding and (text.lstrip().startswith(_RTF) or not _is_base64(text))
    )
    if is_text and text.lstrip().startswith("<?xml"):
        return _Omitted(" ".join(filter(None, (kind, subtype)))[:40] or "XML")
    if is_text:
        return text
    found = _EncodedData(kind, subtype, encoding, repetition.syntax.codec, place)
    found.add(text)
    return found


def _is_rtf(content: bytes) -> bool:
    return content.lstrip()[: len(_RTF)] == _RTF.encode()


def _is_file(content: bytes) -> bool:
    return is_pdf(content) or _is_rtf(content)


def _lenient(text: str, encoding: str) -> bytes:
    """Decode as much of a text as is encoded well; b'' for another text."""
    try:
        if encoding == "hex":
            return bytes.fromhex(text[: len(text) // 2 * 2])
        return base64.b64decode(text[: len(text) // 4 * 4])
    except (binascii.Error, ValueError):
        return b""


def _is_base64(text: str) -> bool:
    try:
        base64.b64decode(_BLANKS.sub("", text[:400])[:200], validate=True)
    except (binascii.Error, ValueError):
        return False
    return len(text) > 100  # noqa: PLR2004  # a word may be base64 too


def _decoded(text: str, encoding: str, place: str) -> bytes:
    if encoding == "hex":
        try:
            return bytes.fromhex(text)
        except ValueError:
            raise WrongDataType(place) from None
    try:
        return base64.b64decode(text + "=" * (-len(text) % 4), validate=True)
    except (binascii.Error, ValueError):
        raise WrongDataType(place) from None


def _is_plain(kind: str, subtype: str) -> bool:
    kind, subtype = kind.casefold(), subtype.casefold()
    return subtype in {"plain", "text", "txt"} or (kind in {"text", "tx", "ft"} and not subtype)


def _plain(content: bytes, codec: str) -> str:
    for candidate in ("utf-8", codec):
        try:
            return content.decode(candidate)
        except (UnicodeDecodeError, LookupError):
            continue
    return content.decode("latin-1")


def _as_text(text: str, place: str) -> str:
    """Return clean text: RTF is converted, line ends are LF, other controls are left out."""
    if text.lstrip().startswith(_RTF):
        text = _converted(text, place)
    text = _CONTROLS.sub("", _LINE_ENDS.sub("\n", text))
    return "\n".join(line.rstrip() for line in text.split("\n")).strip("\n")


def _converted(rtf: str, place: str) -> str:
    if len(rtf) > MAX_RTF_CHARACTERS:
        raise ValueTooLong(place)
    try:
        text: object = rtf_to_text(rtf, errors="ignore")  # type: ignore[no-untyped-call]
    except Exception:  # noqa: BLE001  # the library raises many kinds for RTF that is damaged
        raise WrongDataType(place) from None
    return text if isinstance(text, str) else ""
