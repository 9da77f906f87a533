"""
MSH: its delimiters, and its fields, parsed from bytes in a few microseconds.

Parsing tolerates deviations whose meaning is certain, and refuses all others.
"""

from dataclasses import dataclass
from functools import lru_cache
from string import punctuation
from typing import NamedTuple

from mappings.hl7 import charset, lines
from mappings.hl7.refusals import MalformedMessage, MalformedReason

_STANDARD = "^~\\&"  # component, repetition, escape, subcomponent (HL7 v2.5.1 §2.5.4)
_SPARE = "$*+%!?"  # replacements if a sender uses a standard character for something else
_MAX_ENCODING_CHARACTERS = 5  # the fifth is the truncation character of v2.7
_PUNCTUATION = frozenset(punctuation.encode())


@dataclass(frozen=True, slots=True)
class Delimiters:
    """The separators of one message. An empty one was not declared and never matches."""

    field: str = "|"
    component: str = "^"
    repetition: str = "~"
    escape: str = "\\"
    subcomponent: str = "&"
    truncation: str = ""

    @property
    def encoding_characters(self) -> str:
        """MSH-2 of these delimiters."""
        return self.component + self.repetition + self.escape + self.subcomponent + self.truncation

    @lru_cache(maxsize=256)  # noqa: B019  # immutable, few, and needed for each ACK
    def completed(self) -> "Delimiters":
        r"""
        Return delimiters with every character set, so that any text can be written.

        For example, `^~` becomes `^~\&`.
        """
        chosen: list[str] = []
        declared = (self.component, self.repetition, self.escape, self.subcomponent)
        taken = {self.field, *declared}
        for character, standard in zip(declared, _STANDARD, strict=True):
            free = (spare for spare in standard + _SPARE if spare not in taken)
            chosen.append(character or next(free))
            taken.add(chosen[-1])
        component, repetition, escape, subcomponent = chosen
        return Delimiters(self.field, component, repetition, escape, subcomponent, self.truncation)


STANDARD = Delimiters()


@lru_cache(maxsize=256)
def read_delimiters(declaration: bytes) -> Delimiters:
    r"""
    Parse the delimiters from MSH-1 and MSH-2: `|^~\&`.

    * Fewer than four encoding characters: the others are not declared.
    * Five: the last one is the truncation character (HL7 v2.7 §2.5.5).
    * `^~\\&` is read as `^~\&`: some senders double the backslash.
    * No character, a repeated one, more than five, letters, digits, blanks and other bytes raise
      MalformedMessage.
    """
    separator, encoding = declaration[:1], declaration[1:].rstrip(b" ")
    if not separator or separator[0] not in _PUNCTUATION:
        raise MalformedMessage(MalformedReason.FIELD_SEPARATOR, "MSH-1")
    if len(encoding) == _MAX_ENCODING_CHARACTERS and encoding[2] == encoding[3]:
        encoding = encoding[:3] + encoding[4:]
    distinct = {*encoding, *separator}
    if (
        not 1 <= len(encoding) <= _MAX_ENCODING_CHARACTERS
        or len(distinct) != len(encoding) + 1
        or not distinct <= _PUNCTUATION
    ):
        raise MalformedMessage(MalformedReason.ENCODING_CHARACTERS, "MSH-2")
    characters = list(encoding.decode("ascii"))
    characters += [""] * (_MAX_ENCODING_CHARACTERS - len(characters))
    return Delimiters(chr(separator[0]), *characters)


_LAST_FIELD = 21  # MSH-21; later fields are not used for routing
_MAX_FIELDS = 40  # fields to split, so that a line of separators stays cheap
_LONGEST_CHARSET = 99
_LONGEST_CODES = 99
_TRAILING = tuple(lines.TRAILING_BYTES[at : at + 1] for at in range(len(lines.TRAILING_BYTES)))
_make = tuple.__new__  # faster than the constructor of a NamedTuple


class Header(NamedTuple):
    """
    The fields of MSH. Bytes are as sent; `str` are codes without surrounding blanks.

    `fields[n]` is MSH-n for n from 1 to 21, empty if the message does not have it.
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
        """MSH-15, table 0155. A null counts as empty."""
        return _unless_null(self.fields[15])

    @property
    def application_ack(self) -> bytes:
        """MSH-16, table 0155. A null counts as empty."""
        return _unless_null(self.fields[16])

    @property
    def charset(self) -> bytes:
        """MSH-18 with all its repetitions."""
        return self.fields[18]

    @property
    def enhanced(self) -> bool:
        """
        Whether MSH-15 or MSH-16 has a value: enhanced acknowledgment mode (HL7 v2.5.1
        §2.9.3).
        """
        return bool(self.accept_ack.strip() or self.application_ack.strip())


def _unless_null(field: bytes) -> bytes:
    return b"" if field.strip() == b'""' else field


def peek(raw: bytes) -> Header:
    """Parse the header of a message. Raises MalformedMessage. Agrees with `Message.parse`."""
    end = raw.find(b"\r")
    line = raw[: max(end, 0)]
    if line[:3] != b"MSH" or b"\n" in line or line.endswith(_TRAILING):  # rare
        line = lines.first_line(lines.trim(raw)[0])
    return read(line)


def read(line: bytes) -> Header:
    """Parse a header from the bytes of its line. Raises MalformedMessage."""
    if line[:3] != b"MSH" and line[:3].upper() != b"MSH":
        batch = line[:3] in {b"FHS", b"BHS"}
        raise MalformedMessage(MalformedReason.BATCH if batch else MalformedReason.NOT_HL7)
    separator = line[3:4]
    end = line.find(separator, 4) if separator else -1
    marks = read_delimiters(line[3:_MAX_FIELDS] if end < 0 else line[3 : min(end, _MAX_FIELDS)])
    parts = line.split(separator, _MAX_FIELDS)
    if not line.isascii() or b"\x1b" in line:
        parts = _split_decoded(line, separator, parts)
    fields = (b"MSH", separator, *parts[1:_LAST_FIELD])
    fields += (b"",) * (_LAST_FIELD + 1 - len(fields))
    coded = fields[9], fields[11], fields[12]
    # Senders use few combinations; values longer than codes are not cached.
    short = len(fields[9]) + len(fields[11]) + len(fields[12]) <= _LONGEST_CODES
    codes = _known_codes if short else _codes
    return _make(Header, (marks, fields, *codes(*coded, marks.component)))


def _codes(
    message_type: bytes, processing: bytes, version: bytes, component: str
) -> tuple[str, str, str, str, str]:
    """Parse MSH-9.1 to MSH-9.3, MSH-11.1 and MSH-12.1."""
    mark = component.encode()
    code, trigger, structure = (*message_type.split(mark, 3), b"", b"", b"")[:3]
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
    # MSH-18 is part 17, or a later one if a character before it was split.
    for part in (one for one in parts[17:] if len(one) <= _LONGEST_CHARSET):
        codec = charset.known_codec(part.decode("latin-1"))
        if codec in charset.DELIMITERS_IN_CHARACTERS:
            try:
                text = line.decode(codec)
                again = [
                    piece.encode(codec) for piece in text.split(separator.decode(), _MAX_FIELDS)
                ]
            except UnicodeError:
                return parts
            # The encoding must reproduce the sender's bytes.
            return again if separator.join(again) == line else parts
    return parts
