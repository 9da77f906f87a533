"""
Header: MSH alone, read from bytes in a few microseconds.

The hot path: it runs for every frame before the message is stored, so it looks at the first
line only. Whether the rest is a message is `mappings.hl7.message`'s question.
"""

from functools import lru_cache
from typing import NamedTuple

from mappings.hl7 import charset, delimiters, lines
from mappings.hl7.delimiters import Delimiters
from mappings.hl7.refusals import MalformedMessage, MalformedReason

_LAST_FIELD = 21  # MSH-21; later ones exist, nobody routes by them
_ENOUGH = 40  # fields to split: a line of nothing but separators must not cost more
_LONGEST_CHARSET = 99
_LONGEST_CODES = 99
_TRAILING = tuple(lines.AFTER[at : at + 1] for at in range(len(lines.AFTER)))
_make = tuple.__new__  # what a NamedTuple does itself, without its detour


class Header(NamedTuple):
    """
    MSH, field by field. Bytes are raw and verbatim; `str` are plain codes, stripped of blanks.

    `fields[n]` is MSH-n verbatim for n from 1 to 21, empty where the message has none.
    """

    delimiters: Delimiters
    fields: tuple[bytes, ...]
    message_code: str
    trigger: str
    structure: str
    processing_id: str
    version: str

    @property
    def sending_application(self) -> bytes:
        """MSH-3."""
        return self.fields[3]

    @property
    def sending_facility(self) -> bytes:
        """MSH-4."""
        return self.fields[4]

    @property
    def receiving_application(self) -> bytes:
        """MSH-5."""
        return self.fields[5]

    @property
    def receiving_facility(self) -> bytes:
        """MSH-6."""
        return self.fields[6]

    @property
    def control_id(self) -> bytes:
        """MSH-10."""
        return self.fields[10]

    @property
    def sequence_number(self) -> bytes:
        """MSH-13."""
        return self.fields[13]

    @property
    def accept_ack(self) -> bytes:
        """MSH-15, table 0155; a null says no more than nothing does."""
        return _unless_null(self.fields[15])

    @property
    def application_ack(self) -> bytes:
        """MSH-16, as MSH-15."""
        return _unless_null(self.fields[16])

    @property
    def charset(self) -> bytes:
        """MSH-18, repetitions and all."""
        return self.fields[18]

    @property
    def enhanced(self) -> bool:
        """True when MSH-15 or MSH-16 is valued: enhanced mode (HL7 v2.5.1 §2.9.3)."""
        return bool(self.accept_ack.strip() or self.application_ack.strip())


def _unless_null(field: bytes) -> bytes:
    return b"" if field.strip() == b'""' else field


def peek(raw: bytes) -> Header:
    """Read MSH. Raises Malformed; agrees with `Message.parse` wherever that succeeds."""
    end = raw.find(b"\r")
    line = raw[: max(end, 0)]
    if line[:3] != b"MSH" or b"\n" in line or line.endswith(_TRAILING):  # hardly ever
        line = lines.first_line(lines.trim(raw)[0])
    return read(line)


def read(line: bytes) -> Header:
    """Read MSH from its own line. Raises Malformed."""
    if line[:3] != b"MSH" and line[:3].upper() != b"MSH":
        batch = line[:3] in {b"FHS", b"BHS"}
        raise MalformedMessage(MalformedReason.BATCH if batch else MalformedReason.NOT_HL7)
    separator = line[3:4]
    end = line.find(separator, 4) if separator else -1
    found = delimiters.read(line[3:_ENOUGH] if end < 0 else line[3 : min(end, _ENOUGH)])
    parts = line.split(separator, _ENOUGH)
    if not line.isascii() or b"\x1b" in line:
        parts = _split_decoded(line, separator, parts)
    fields = (b"MSH", separator, *parts[1:_LAST_FIELD])
    fields += (b"",) * (_LAST_FIELD + 1 - len(fields))
    kind = fields[9], fields[11], fields[12]
    # Senders repeat themselves; what is longer than codes are is not worth remembering.
    short = len(fields[9]) + len(fields[11]) + len(fields[12]) <= _LONGEST_CODES
    codes = _known_codes if short else _codes
    return _make(Header, (found, fields, *codes(*kind, found.component)))


def _codes(
    kind: bytes, processing: bytes, version: bytes, component: str
) -> tuple[str, str, str, str, str]:
    """Read MSH-9.1 to 9.3, 11.1 and 12.1."""
    mark = component.encode()
    code, trigger, structure = (*kind.split(mark, 3), b"", b"", b"")[:3]
    return (
        _code(code),
        _code(trigger),
        _code(structure),
        _code(processing.split(mark, 1)[0]),
        _code(version.split(mark, 1)[0]),
    )


_known_codes = lru_cache(maxsize=1024)(_codes)


def _code(value: bytes) -> str:
    return value.decode("latin-1").strip()


def _split_decoded(line: bytes, separator: bytes, parts: list[bytes]) -> list[bytes]:
    """Split again after decoding where the charset lets a character end in the separator's byte."""
    for part in (one for one in parts[17:] if len(one) <= _LONGEST_CHARSET):
        codec = charset.known_codec(part.decode("latin-1"))
        if codec in charset.DELIMITERS_IN_CHARACTERS:
            try:
                text = line.decode(codec)
                again = [piece.encode(codec) for piece in text.split(separator.decode(), _ENOUGH)]
            except UnicodeError:
                return parts
            # Only when the bytes come out the same are these the sender's bytes.
            return again if separator.join(again) == line else parts
    return parts
