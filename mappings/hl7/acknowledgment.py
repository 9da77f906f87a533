"""
Acknowledgments: build them for received messages, and parse those of receivers.

They are built with the delimiters and bytes of the sender. Up to v2.4 one ERR has a repetition for
each error, from v2.5 there is one ERR for each error. Texts name error classes and locations, never
values. Parsing tolerates deviations. The caller decides which code is sent. Senders of orders may
expect an order reply (ORR^O02, ORI^O24, ORG^O20) in place of a plain ACK.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, tzinfo
from functools import lru_cache
from math import floor
from typing import NamedTuple

from mappings.hl7 import lines
from mappings.hl7.escapes import escape
from mappings.hl7.header import STANDARD, Delimiters, Header, peek
from mappings.hl7.message import Message, Segment, is_null
from mappings.hl7.path import InvalidPath, Path
from mappings.hl7.refusals import (
    AckCode,
    AckCondition,
    ErrorCode,
    ErrorSeverity,
    MalformedMessage,
    MessageRefusal,
)

_TABLE = "HL70357"
_LONGEST_TEXT = 80  # ERR-1.4.2 and MSA-3 are ST of 80

ERROR_DESCRIPTIONS = {
    ErrorCode.ACCEPTED: "Message accepted",
    ErrorCode.SEGMENT_SEQUENCE: "Segment sequence error",
    ErrorCode.REQUIRED_FIELD_MISSING: "Required field missing",
    ErrorCode.DATA_TYPE: "Data type error",
    ErrorCode.TABLE_VALUE_NOT_FOUND: "Table value not found",
    ErrorCode.VALUE_TOO_LONG: "Value too long",
    ErrorCode.CARDINALITY: "Non-conformant cardinality",
    ErrorCode.OTHER: "Other HL7 error",
    ErrorCode.UNSUPPORTED_MESSAGE_TYPE: "Unsupported message type",
    ErrorCode.UNSUPPORTED_EVENT: "Unsupported event code",
    ErrorCode.UNSUPPORTED_PROCESSING_ID: "Unsupported processing id",
    ErrorCode.UNSUPPORTED_VERSION: "Unsupported version id",
    ErrorCode.UNKNOWN_KEY: "Unknown key identifier",
    ErrorCode.DUPLICATE_KEY: "Duplicate key identifier",
    ErrorCode.RECORD_LOCKED: "Application record locked",
    ErrorCode.INTERNAL: "Application internal error",
}
"""The descriptions of table 0357."""


def err_segments(
    refusals: Sequence[MessageRefusal], marks: Delimiters, *, version: tuple[int, ...]
) -> list[str]:
    """Return the ERR segments of refusals; `version` is the version as numbers: (2, 5, 1)."""
    if not refusals:
        return []
    if version < (2, 5):
        errors = marks.repetition.join(_eld(refusal, marks) for refusal in refusals)
        return [f"ERR{marks.field}{errors}"]
    return [_segment(refusal, marks) for refusal in refusals]


def shorten(text: str) -> str:
    """Cut a text to the length that MSA-3 and ERR-8 can hold."""
    return text[:_LONGEST_TEXT]


def _segment(refusal: MessageRefusal, marks: Delimiters) -> str:
    """Return an ERR of v2.5 or later: ERL, CWE, severity, diagnostics, user message (§2.15.5)."""
    code = marks.component.join(
        (refusal.error_code, escape(ERROR_DESCRIPTIONS[refusal.error_code], marks), _TABLE)
    )
    location = marks.component.join(_location(refusal.place))
    text = escape(shorten(refusal.text), marks)
    fields = ("ERR", "", location, code, ErrorSeverity.ERROR, "", "", text, text)
    return marks.field.join(fields)


def _eld(refusal: MessageRefusal, marks: Delimiters) -> str:
    """Return an ELD of v2.4 or earlier: segment, sequence, field, code (HL7 v2.4 §2.16.5.1)."""
    code = (refusal.error_code, escape(ERROR_DESCRIPTIONS[refusal.error_code], marks), _TABLE)
    location = [*_location(refusal.place), "", "", ""][:3]
    return marks.component.join((*location, marks.subcomponent.join(code)))


def _location(place: str) -> list[str]:
    """Convert a path to the components of ERL: `PID-3[2].1` is PID, 1, 3, 2, 1."""
    try:
        path = Path.parse(place)
    except InvalidPath:
        return []
    numbers = [max(path.occurrence, 1)]
    if path.field:
        numbers += [path.field, path.repetition or 1]
        numbers += [number for number in (path.component, path.subcomponent) if number]
    return [path.segment, *map(str, numbers)]


OUR_VERSION = "2.5.1"  # used if a sender names no valid version
_VERSION = re.compile(r"2(?:\.\d{1,2}){0,2}")
_LAST_COPIED = 10  # MSH-10
_LONGEST_NAMES = 400
_MAX_ACK_PARTS = 512
_BEFORE_MSA_4 = 4  # MSA itself and three fields
_MOMENT = len("2026-11-21T12:00:00")
_ENCODING_CHARACTERS = 4  # up to v2.6; from v2.7 the truncation character may follow


def build_ack(
    header: Header,
    code: AckCode,
    *,
    control_id: str,
    now: datetime,
    refusals: Sequence[MessageRefusal] = (),
    text: str = "",
    expects: AckCondition | None = None,
    expected_sequence_number: bytes = b"",
) -> bytes:
    """
    Build the acknowledgment of a message (HL7 v2.5.1 §2.9.2).

    MSA-2 is the received MSH-10. MSH-3, 4 and MSH-5, 6 are swapped. MSH-11, 12 and 18 are copied
    (if absent: P, 2.5.1, nothing). `control_id` becomes MSH-10; `now` (aware) becomes MSH-7.
    Refusals become ERR segments. `text`, else the text of the first refusal, becomes MSA-3 up to
    v2.6, which ends there. `expects` becomes MSH-15: the acknowledgment that the receiver of an
    application ACK shall return in enhanced mode. `expected_sequence_number` becomes MSA-4.
    """
    more = text or refusals or expects or expected_sequence_number
    if code is AckCode.ACCEPT and not more and control_id.isalnum():
        return AckTemplate(header)(time_stamp(now), control_id, header.control_id)
    parts = _ack_parts_for(header)
    marks, version = parts.marks, parts.version
    separator = header.fields[1]
    # Delimiters are punctuation: an alphanumeric text needs no escape.
    number = control_id if control_id.isalnum() else escape(control_id, marks)
    head = [parts.before, time_stamp(now), parts.between, number.encode("ascii"), parts.after]
    head += _after_version(expects, header.charset)
    msa = [b"MSA", code.encode(), header.control_id]
    reason = text or (refusals[0].text if refusals else "")
    if reason and version < (2, 7):
        msa.append(escape(shorten(reason), marks).encode("ascii", "replace"))
    if expected_sequence_number:
        msa += [*[b""] * (_BEFORE_MSA_4 - len(msa)), expected_sequence_number]
    errors = [] if code.positive else err_segments(refusals, marks, version=version)
    segments = [separator.join(head), separator.join(msa)]
    segments += [line.encode("ascii", "replace") for line in errors]
    return b"\r".join([*segments, b""])


class AckTemplate:
    """Builds AA acknowledgments of messages whose MSH agrees in all fields that an ACK repeats."""

    __slots__ = ("_end", "_middle", "_start")

    def __init__(self, header: Header) -> None:
        """`header` is the header of one such message; MSH-10 is supplied for each message."""
        parts, separator, charset = _ack_parts_for(header), header.fields[1], header.fields[18]
        self._start, self._middle = parts.start, parts.middle
        named = separator * 6 + charset if charset else b""
        self._end = b"%s%s\rMSA%sAA%s" % (parts.end, named, separator, separator)

    def __call__(self, stamp: bytes, number: str, control_id: bytes) -> bytes:
        """
        Build the ACK of the message with this MSH-10.

        `stamp` becomes MSH-7, `number` MSH-10. Both are ASCII letters and digits.
        """
        return b"".join(
            (self._start, stamp, self._middle, number.encode(), self._end, control_id, b"\r")
        )


class _AckParts(NamedTuple):
    """The parts that are equal in all acknowledgments for one kind of message of one sender."""

    marks: Delimiters
    version: tuple[int, ...]
    before: bytes
    """MSH-1 to MSH-6: delimiters, and the swapped addresses."""
    between: bytes
    """MSH-8 and MSH-9."""
    after: bytes
    """MSH-11 and MSH-12."""
    start: bytes
    middle: bytes
    end: bytes
    """`before`, `between` and `after` with the adjacent separators."""


_ack_parts: dict[tuple[object, ...], _AckParts] = {}  # cleared at _MAX_ACK_PARTS entries


def _ack_parts_for(header: Header) -> _AckParts:
    fields = header.fields
    # All fields that the parts depend on: MSH-1 to 6, 9, 11, 12.
    key = fields[1:7], fields[9], fields[11:13]
    parts = _ack_parts.get(key)
    if parts is None:
        parts = _build_ack_parts(header)
        # Senders use few combinations; values longer than names are not cached.
        if sum(map(len, (*key[0], key[1], *key[2]))) <= _LONGEST_NAMES:
            if len(_ack_parts) >= _MAX_ACK_PARTS:
                _ack_parts.clear()
            _ack_parts[key] = parts
    return parts


def _build_ack_parts(header: Header) -> _AckParts:
    processing_id, sent_version = header.fields[11:13]
    marks = header.delimiters.completed()
    is_known = bool(_read_version(header.version))
    version = _read_version(header.version) or _read_version(OUR_VERSION)
    separator = marks.field.encode()
    length = _ENCODING_CHARACTERS if version < (2, 7) else None
    encoding = marks.encoding_characters[:length].encode()
    application, facility, our_application, our_facility = header.fields[3:7]
    before = [b"MSH", encoding, our_application, our_facility, application, facility]
    between = [b"", _message_type(header.trigger, marks.component, version)]
    after = [processing_id or b"P", sent_version if is_known else OUR_VERSION.encode()]
    first, second, third = map(separator.join, (before, between, after))
    return _AckParts(
        *(marks, version, first, second, third),
        *(first + separator, separator + second + separator, separator + third),
    )


@lru_cache(maxsize=8)
def _stamp_of(second: int, zone: tzinfo | None) -> bytes:
    """Format a time as HL7: `20261121120000+0000`. `strftime` takes ten times as long."""
    text = datetime.fromtimestamp(second, zone).isoformat(timespec="seconds")
    moment = text[:_MOMENT].replace("-", "").replace("T", "") + text[_MOMENT:]
    return moment.replace(":", "").encode()


def time_stamp(now: datetime) -> bytes:
    """
    Format a time to the second.

    The result is cached because many messages arrive in one second.
    """
    return _stamp_of(floor(now.timestamp()), now.tzinfo)


def _after_version(expects: AckCondition | None, charset: bytes) -> list[bytes]:
    """Return MSH-13 to MSH-18, nothing if all are empty."""
    if expects is None and not charset:
        return []
    conditions = [b"", b""] if expects is None else [expects.encode(), b"NE"]
    return [b"", b"", *conditions, b"", charset] if charset else [b"", b"", *conditions]


@lru_cache(maxsize=64)
def _read_version(text: str) -> tuple[int, ...]:
    return tuple(map(int, text.split("."))) if _VERSION.fullmatch(text) else ()


def _message_type(trigger: str, component: str, version: tuple[int, ...]) -> bytes:
    """Return MSH-9: `ACK^A01^ACK` (`ACK^^ACK` to an unknown event); before v2.3.1 `ACK`."""
    if version < (2, 3, 1):
        return b"ACK"
    return component.join(("ACK", trigger, "ACK")).encode("latin-1")


def unframed_nak(head: bytes, refusal: MessageRefusal, *, control_id: str, now: datetime) -> bytes:
    """
    Build a negative acknowledgment for bytes that are not a message.

    `head` is the beginning of the bytes, or all of them. If it has a valid MSH, the result is an
    ordinary acknowledgment. If it has an MSH with `|`, control id and addresses are copied.
    Otherwise the result has standard delimiters and no addresses.
    """
    try:
        header = peek(head)
    except MalformedMessage:
        header = _rescued(head)
    return build_ack(header, refusal.ack_code, control_id=control_id, now=now, refusals=[refusal])


def _rescued(head: bytes) -> Header:
    """Return the values that can be read from an invalid MSH, with standard delimiters."""
    try:
        line = lines.first_line(lines.trim(head)[0])
    except MalformedMessage:
        line = b""
    parts = line.split(b"|") if line.upper().startswith(b"MSH|") else []
    copied = [*parts[2:_LAST_COPIED], *[b""] * _LAST_COPIED][: _LAST_COPIED - 2]
    fields = (b"MSH", b"|", b"^~\\&", *copied, *[b""] * 11)
    return Header(STANDARD, fields, "", "", "", "", "")


REMARK_SEVERITIES = frozenset({"I", "W"})
"""Information and warning (ERR-4, table 0516)."""


@dataclass(frozen=True, slots=True)
class ReceivedError:
    """
    One error of a reply: an ERR from v2.5 on, before that a repetition of ERR-1, or MSA-6.

    `code` and `description` are those of table 0357 where the receiver names both its own code and
    the standard one. `severity` is ERR-4. `place` is a path of the message that was sent, such as
    `OBR-16.2`; several are separated by commas. `text` is ERR-8, else ERR-7.
    """

    code: str
    description: str = ""
    severity: str = ""
    place: str = ""
    text: str = ""

    @property
    def is_remark(self) -> bool:
        """True if the receiver calls it information or a warning."""
        return self.severity.upper() in REMARK_SEVERITIES


@dataclass(frozen=True, slots=True)
class ReceivedAck:
    """
    The content of a reply. `code` is None if the reply is not an acknowledgment.

    `control_id` is MSA-2, empty if absent. In `errors`, information and warnings (ERR-4 I and W)
    are last. `text` is MSA-3, else the first ERR-8 or ERR-7. Texts come from the receiver and may
    contain patient data: store them, but do not log them.
    """

    code: AckCode | None = None
    control_id: bytes = b""
    errors: tuple[ReceivedError, ...] = ()
    text: str = ""
    expected_sequence_number: str = ""

    @property
    def error_codes(self) -> tuple[str, ...]:
        return tuple(error.code for error in self.errors if error.code)


def read_ack(raw: bytes) -> ReceivedAck:
    """Parse a reply of any version, with codes in any letter case. Never raises."""
    try:
        message = Message.parse(raw, fallback="utf-8")
    except MalformedMessage:
        return ReceivedAck()
    msa = message.first("MSA")
    if msa is None:
        return ReceivedAck()
    code = msa.value("1").strip().upper()
    separator = message.delimiters.field.encode()
    fields = [*msa.raw.split(separator), b"", b""]
    return ReceivedAck(
        code=AckCode(code) if code in AckCode.__members__.values() else None,
        control_id=fields[2].strip(),
        errors=_errors(message),
        text=_text(message),
        expected_sequence_number=msa.value("4").strip(),
    )


_MAX_ERRORS = 100
"""Errors of one reply that are read."""


def _errors(message: Message) -> tuple[ReceivedError, ...]:
    segments = message.named("ERR")
    found = [_error(segment) for segment in segments if segment.value("3.1") or _text_of(segment)]
    if not any(error.code for error in found):  # up to v2.4
        earlier = [error for segment in segments for error in _earlier_errors(segment)]
        found = earlier or found
    if not found and (condition := message.value("MSA-6.1").strip()):
        found = [ReceivedError(condition, message.value("MSA-6.2").strip())]
    return tuple(sorted(found[:_MAX_ERRORS], key=lambda error: error.is_remark))


def _error(segment: Segment) -> ReceivedError:
    """Read an ERR of v2.5 or later."""
    code, description = segment.value("3.1"), segment.value("3.2")
    if segment.value("3.3") != _TABLE and segment.value("3.6") == _TABLE:
        code, description = segment.value("3.4"), segment.value("3.5")
    places = [
        _place([component.text() for component in repetition.components])
        for repetition in segment.field(2).repetitions
    ]
    return ReceivedError(
        code.strip(),
        description.strip(),
        segment.value("4").strip(),
        ", ".join(filter(None, places)),
        _text_of(segment),
    )


def _text_of(segment: Segment) -> str:
    return segment.value("8").strip() or segment.value("7").strip()


def _earlier_errors(segment: Segment) -> list[ReceivedError]:
    """Read the repetitions of ERR-1: segment, sequence, field, code (HL7 v2.4 §2.16.5.1)."""
    found = []
    for repetition in segment.field(1).repetitions:
        parts = list(repetition.components)
        code = [part.text().strip() for part in parts[3].subcomponents] if parts[3:] else [""]
        description = code[1:2] or [part.text().strip() for part in parts[4:5]]
        if code[0]:
            place = _place([part.text() for part in parts[:3]])
            found.append(ReceivedError(code[0], "".join(description), "", place))
    return found


def _place(parts: Sequence[str]) -> str:
    """Convert the components of ERL to a path: PID, 1, 3, 2, 1 is `PID-3[2].1`."""
    segment, *numbers = [part.strip() for part in parts]
    if not _SEGMENT_NAME.fullmatch(segment):
        return ""
    given = [int(number) if _PLACE_NUMBER.fullmatch(number) else 0 for number in numbers]
    occurrence, field, repetition, component, subcomponent = [*given, 0, 0, 0, 0, 0][:5]
    path = Path(
        segment,
        field,
        component if field else 0,
        subcomponent if field and component else 0,
        max(occurrence, 1),
        repetition if field and repetition > 1 else None,
    )
    return str(path)


_SEGMENT_NAME = re.compile(r"[A-Z][A-Z0-9]{2}")
_PLACE_NUMBER = re.compile(r"[0-9]{1,4}")


def _text(message: Message) -> str:
    candidates = ("MSA-3", "ERR-8", "ERR-7", "ERR-3.2", "ERR-1.4.2")
    return next((text for path in candidates if (text := message.value(path))), "")


Reply = Callable[[str], str]
"""Returns ORC-1 of the reply to an order control code; '' if there is no reply."""

_ORDER_REPLIES = {"ORM": ("ORR", "O02"), "OMI": ("ORI", "O24"), "OMG": ("ORG", "O20")}
_DETAILS = frozenset({"OBR", "RQD", "RQ1", "RXO", "ODS", "ODT", "IPC"})
_KEPT_FIELDS = (2, 3, 4, 7)
_MSH_9 = 8  # index after splitting: MSH-1 is the separator
_MSH_12 = 11
_STRUCTURED = (2, 3, 1)  # from this version on MSH-9 names the message structure


def as_order_reply(ack: bytes, request: bytes, reply: Reply) -> bytes:
    """
    Convert an application acknowledgment into the reply to an order message.

    The reply contains the acknowledgment and, for each order, an ORC with its numbers and the
    sender's own order detail (HL7 v2.5.1 §4.4.2, §4.4.5, §4.4.7); `reply` supplies the control
    codes. The acknowledgment is returned unchanged if the request is not an order message or is
    malformed.
    """
    try:
        message = Message.parse(request)
    except MalformedMessage:
        return ack
    kind = _ORDER_REPLIES.get(message.header.message_code)
    orders = _orders(message, reply) if kind else []
    if kind is None or not orders:
        return ack
    head, *others = ack.rstrip(b"\r").split(b"\r")
    separator = message.header.fields[1]
    fields = head.split(separator)
    component = message.delimiters.completed().component
    fields[_MSH_9] = component.join(_reply_type(kind, fields[_MSH_12])).encode("latin-1")
    return b"\r".join([separator.join(fields), *others, *orders, b""])


def _reply_type(kind: tuple[str, str], version: bytes) -> tuple[str, ...]:
    """Return the parts of MSH-9."""
    numbers = tuple(int(part) for part in version.split(b".") if part.isdigit())
    return (*kind, "_".join(kind)) if numbers >= _STRUCTURED else kind


def _orders(message: Message, reply: Reply) -> list[bytes]:
    """Return an ORC for each order of the message, followed by its detail segments as received."""
    lines: list[bytes] = []
    for segment in message.segments:
        if segment.id == "ORC":
            code = reply(segment.value("1").strip().upper())
            if not code:
                return []
            lines.append(_orc(segment, code, message.header.fields[1]))
        elif lines and segment.id in _DETAILS:
            lines.append(segment.id.encode() + segment.raw[3:])
    return lines


def _orc(segment: Segment, code: str, separator: bytes) -> bytes:
    """
    Return the ORC of a reply: a new order control code; numbers and timing as received.

    Timing is required in v2.3.
    """
    fields = dict(enumerate(segment.raw.split(separator)))
    kept = [
        fields.get(at, b"") if at in _KEPT_FIELDS else b"" for at in range(2, _KEPT_FIELDS[-1] + 1)
    ]
    kept = [b"" if is_null(field.decode("latin-1")) else field for field in kept]
    return separator.join([b"ORC", code.encode("latin-1"), *kept]).rstrip(separator)
