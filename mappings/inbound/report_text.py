"""
The content of an outside report: its text and its PDF, from the OBX segments of a message.

TX, FT and ST are lines of text, and so are other simple types; each repetition of OBX-5 is a line.
RTF is converted to text, in an ED or in the text itself. Of an ED, the first bytes decide what it
is, because senders name types and subtypes differently. What is neither text, RTF nor PDF is
named, and left out. Sizes are limited, before data is decoded.
"""

import base64
import binascii
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from striprtf.striprtf import rtf_to_text

from mappings.hl7.message import NULL, Repetition, Segment
from mappings.hl7.refusals import ValueTooLong, WrongDataType
from mappings.language.scope import MessageScope
from parsers.pdf import MAX_PDF_BYTES, is_pdf

MAX_TEXT_CHARACTERS: Final = 1_000_000
MAX_RTF_CHARACTERS: Final = 4_000_000
"""Limits of a report. RTF is longer than its text: it may contain pictures."""
MAX_OMITTED: Final = 20
"""Parts that are named as left out."""

_RTF: Final = "{\\rtf"
_TEXTS: Final = frozenset({"", "TX", "FT", "ST", "NM", "DT", "TM", "TS", "DTM", "SI", "IS", "ID"})
_CODED: Final = frozenset({"CE", "CWE", "CNE", "CF"})
_BLANKS: Final = re.compile(r"\s+")
_CONTROLS: Final = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ufffe\uffff\ud800-\udfff]")
_LINE_ENDS: Final = re.compile(r"\r\n?|\u2028|\u2029|\x0b|\x0c|\x85")


@dataclass(frozen=True, slots=True)
class ReportContent:
    """The text and the PDF of a report; `omitted` names the parts that are left out."""

    text: str = ""
    pdf: bytes = b""
    omitted: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.text or self.pdf or self.omitted)


def read_content(scope: MessageScope) -> ReportContent:
    """
    Read the content from the OBX segments of a group.

    Raises WrongDataType for data that is not in its encoding, and for RTF that cannot be read.
    Raises ValueTooLong for text and data above the limits.
    """
    lines: list[str] = []
    pdf, omitted, characters = b"", list[str](), 0
    for position in scope.own.by_name.get("OBX", ()):
        segment = scope.message.segment(position)
        place = _place(scope, position)
        for found in _parts(segment, place):
            if isinstance(found, str):
                lines.append(found)
                characters += len(found) + 1
                if characters > MAX_RTF_CHARACTERS:
                    raise ValueTooLong(place)
            elif isinstance(found, bytes) and not pdf:
                pdf = found
            elif len(omitted) < MAX_OMITTED:
                omitted.append("PDF" if isinstance(found, bytes) else found.name)
    place = scope.locate("OBX-5")
    text = _as_text("\n".join(lines), place)
    if len(text) > MAX_TEXT_CHARACTERS:
        raise ValueTooLong(place)
    return ReportContent(text, pdf, tuple(dict.fromkeys(omitted)))


@dataclass(frozen=True, slots=True)
class _Omitted:
    name: str


def _place(scope: MessageScope, position: int) -> str:
    number = scope.message.numbers[position]
    return f"OBX[{number}]-5" if number > 1 else "OBX-5"


def _parts(segment: Segment, place: str) -> Iterator[str | bytes | _Omitted]:
    """Yield the lines of text, PDF files and omitted parts of an OBX."""
    data_type = segment.value("2").strip().upper()
    field = segment.field(5)
    if data_type == "ED":
        for repetition in field.repetitions:
            yield from _encapsulated(repetition, place)
    elif data_type in _TEXTS:
        texts = [repetition.text() for repetition in field.repetitions] or [""]  # an empty line
        yield from ("" if text.strip() == NULL else text for text in texts)
    elif data_type in _CODED:
        for repetition in field.repetitions:
            yield repetition.component(2).text() or repetition.component(1).text()
    elif field:
        yield _Omitted(data_type[:20])


def _encapsulated(repetition: Repetition, place: str) -> Iterator[str | bytes | _Omitted]:
    """Yield the content of an ED: type (2), subtype (3), encoding (4) and data (5)."""
    kind, subtype, encoding = (repetition.component(number).text().strip() for number in (2, 3, 4))
    data = repetition.component(5)
    if not data or data.is_null:
        return
    if encoding.upper() in ("", "A"):
        # A sender that writes no encoding means base64 if the data is neither text nor RTF.
        text = data.text()
        if encoding or text.lstrip().startswith(_RTF) or not _is_base64(text):
            yield text
            return
    content = _decoded(data.text(), encoding.casefold(), place)
    if is_pdf(content):
        yield content
    elif content.lstrip()[: len(_RTF)] == _RTF.encode():
        if len(content) > MAX_RTF_CHARACTERS:
            raise ValueTooLong(place)
        yield _as_text(content.decode("latin-1"), place)
    elif _is_plain(kind, subtype):
        yield _plain(content, repetition.syntax.codec)
    else:
        yield _Omitted(" ".join(filter(None, (kind, subtype)))[:40] or "ED")


def _is_base64(text: str) -> bool:
    try:
        base64.b64decode(_BLANKS.sub("", text[:400])[:200], validate=True)
    except (binascii.Error, ValueError):
        return False
    return len(text) > 100  # noqa: PLR2004  # a word may be base64 too


def _decoded(text: str, encoding: str, place: str) -> bytes:
    compact = _BLANKS.sub("", text)
    if encoding == "hex":
        if len(compact) > 2 * MAX_PDF_BYTES:
            raise ValueTooLong(place)
        try:
            return bytes.fromhex(compact)
        except ValueError:
            raise WrongDataType(place) from None
    if len(compact) > MAX_PDF_BYTES // 3 * 4 + 4:
        raise ValueTooLong(place)
    try:
        return base64.b64decode(compact + "=" * (-len(compact) % 4), validate=True)
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
