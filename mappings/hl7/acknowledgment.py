"""Acknowledgments: build them for received messages, read those that come back.

Up to 2.4 one ERR with a repetition for each error, from 2.5 one ERR for each. Bytes in, bytes
out are `mappings.hl7.acknowledgment`'s business; this file makes text.

Built with the sender's own delimiters and bytes; read with all the tolerance the field needs.
When to send which code is decided elsewhere. Texts name classes of errors and places only.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, tzinfo
from functools import lru_cache
from math import floor
from typing import NamedTuple

from mappings.hl7 import delimiters, lines
from mappings.hl7.delimiters import Delimiters
from mappings.hl7.escapes import escape
from mappings.hl7.header import Header, peek
from mappings.hl7.message import Message, Segment
from mappings.hl7.path import InvalidPath, Path
from mappings.hl7.refusals import MalformedMessage, MessageRefusal
from mappings.hl7.tables import AckCode, AckCondition, ErrorCode, ErrorSeverity

_TABLE = "HL70357"
_LONGEST_TEXT = 80  # ERR-1.4.2 and MSA-3 are ST of 80

NAMES = {
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
"""Table 0357's own words for the codes."""


def err_segments(
    refusals: Sequence[MessageRefusal], marks: Delimiters, *, version: tuple[int, ...]
) -> list[str]:
    """Return the ERR segments for refusals in the form of a version such as (2, 5, 1)."""
    if not refusals:
        return []
    if version < (2, 5):
        errors = marks.repetition.join(_eld(refusal, marks) for refusal in refusals)
        return [f"ERR{marks.field}{errors}"]
    return [_segment(refusal, marks) for refusal in refusals]


def short(text: str) -> str:
    """Cut a text to what MSA-3 and ERR-8 are sure to hold."""
    return text[:_LONGEST_TEXT]


def _segment(refusal: MessageRefusal, marks: Delimiters) -> str:
    """ERR of 2.5 and later: ERL, CWE, severity, diagnostics, user message (§2.15.5)."""
    code = marks.component.join(
        (refusal.error_code, escape(NAMES[refusal.error_code], marks), _TABLE)
    )
    location = marks.component.join(_location(refusal.place))
    text = escape(short(refusal.text), marks)
    fields = ("ERR", "", location, code, ErrorSeverity.ERROR, "", "", text, text)
    return marks.field.join(fields)


def _eld(refusal: MessageRefusal, marks: Delimiters) -> str:
    """ELD of 2.4 and earlier: segment, sequence, field, code (HL7 v2.4 §2.16.5.1)."""
    code = (refusal.error_code, escape(NAMES[refusal.error_code], marks), _TABLE)
    where = [*_location(refusal.place), "", "", ""][:3]
    return marks.component.join((*where, marks.subcomponent.join(code)))


def _location(place: str) -> list[str]:
    """`PID-3[2].1` as ERL: segment, sequence, field, repetition, component, subcomponent."""
    try:
        path = Path.parse(place)
    except InvalidPath:
        return []
    numbers = [max(path.occurrence, 1)]
    if path.field:
        numbers += [path.field, path.repetition or 1]
        numbers += [number for number in (path.component, path.subcomponent) if number]
    return [path.segment, *map(str, numbers)]


OUR_VERSION = "2.5.1"  # where a sender names none, or something that is no version
_VERSION = re.compile(r"2(?:\.\d{1,2}){0,2}")
_LAST_LIFTED = 10  # MSH-10
_LONGEST_NAMES = 400
_MOST_FORMS = 512
_BEFORE_MSA_4 = 4  # MSA itself and three fields
_MOMENT = len("2026-11-21T12:00:00")
_MARKS = 4  # encoding characters up to 2.6; from 2.7 the truncation character may follow


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
    Build the ACK to a message (HL7 v2.5.1 §2.9.2).

    MSA-2 is MSH-10 byte for byte; MSH-3, 4 and 5, 6 swap verbatim; MSH-11, 12 and 18 are copied
    (absent ones: P, 2.5.1, nothing). `control_id` becomes MSH-10, `now` (aware) MSH-7. Refusals
    become ERR. `text`, else the first refusal's, becomes MSA-3 up to 2.6, where it ends.
    `expects`: what the receiver of an application ACK of enhanced mode shall answer (MSH-15).
    `expected_sequence_number` becomes MSA-4.
    """
    more = text or refusals or expects or expected_sequence_number
    if code is AckCode.ACCEPT and not more and control_id.isalnum():
        return AckTemplate(header)(time_stamp(now), control_id, header.control_id)
    form = _form_for(header)
    marks, version = form.marks, form.version
    separator = header.fields[1]
    # Delimiters are punctuation: what has none needs no escape.
    number = control_id if control_id.isalnum() else escape(control_id, marks)
    head = [form.before, time_stamp(now), form.between, number.encode("ascii"), form.after]
    head += _after_version(expects, header.charset)
    msa = [b"MSA", code.encode(), header.control_id]
    said = text or (refusals[0].text if refusals else "")
    if said and version < (2, 7):
        msa.append(escape(short(said), marks).encode("ascii", "replace"))
    if expected_sequence_number:
        msa += [*[b""] * (_BEFORE_MSA_4 - len(msa)), expected_sequence_number]
    errors = [] if code.positive else err_segments(refusals, marks, version=version)
    segments = [separator.join(head), separator.join(msa)]
    segments += [line.encode("ascii", "replace") for line in errors]
    return b"\r".join([*segments, b""])


class AckTemplate:
    """Says AA and nothing else, to messages whose MSH differs in nothing that an ACK repeats."""

    __slots__ = ("_behind", "_middle", "_start")

    def __init__(self, header: Header) -> None:
        """Take a header; MSH-10 is each message's own."""
        form, separator, charset = _form_for(header), header.fields[1], header.fields[18]
        self._start, self._middle = form.start, form.middle
        named = separator * 6 + charset if charset else b""
        self._behind = b"%s%s\rMSA%sAA%s" % (form.end, named, separator, separator)

    def __call__(self, stamp: bytes, number: str, control_id: bytes) -> bytes:
        """
        Build the ACK to the message with this MSH-10.

        `stamp` becomes MSH-7, `number` MSH-10: ASCII letters and digits.
        """
        return b"".join(
            (self._start, stamp, self._middle, number.encode(), self._behind, control_id, b"\r")
        )


class _Form(NamedTuple):
    """What is the same in every answer to one kind of message of one sender."""

    marks: Delimiters
    version: tuple[int, ...]
    before: bytes
    """MSH-1 to MSH-6: delimiters, and the addresses swapped."""
    between: bytes
    """MSH-8 and MSH-9."""
    after: bytes
    """MSH-11 and MSH-12."""
    start: bytes
    middle: bytes
    end: bytes
    """The same three with the separators next to them."""


_forms: dict[tuple[object, ...], _Form] = {}  # beyond _MOST_FORMS all are forgotten


def _form_for(header: Header) -> _Form:
    fields = header.fields
    # All that a form depends on, raw: MSH-1 to 6, 9, 11, 12.
    key = fields[1:7], fields[9], fields[11:13]
    form = _forms.get(key)
    if form is None:
        form = _form(header)
        # Senders repeat themselves; what is longer than names are is not worth remembering.
        if sum(map(len, (*key[0], key[1], *key[2]))) <= _LONGEST_NAMES:
            if len(_forms) >= _MOST_FORMS:
                _forms.clear()
            _forms[key] = form
    return form


def _form(header: Header) -> _Form:
    delimiters, copied, named = header.delimiters, header.fields[11:13], header.version
    marks = delimiters.completed()
    version = _read_version(named) or _read_version(OUR_VERSION)
    separator = delimiters.field.encode()
    encoding = marks.encoding_characters[: _MARKS if version < (2, 7) else None].encode()
    application, facility, our_application, our_facility = header.fields[3:7]
    before = [b"MSH", encoding, our_application, our_facility, application, facility]
    between = [b"", _message_type(header.trigger, marks.component, version)]
    after = [copied[0] or b"P", copied[1] if _read_version(named) else OUR_VERSION.encode()]
    first, second, third = map(separator.join, (before, between, after))
    return _Form(
        *(marks, version, first, second, third),
        *(first + separator, separator + second + separator, separator + third),
    )


@lru_cache(maxsize=8)
def _stamp_of(second: int, zone: tzinfo | None) -> bytes:
    """Write a time as HL7 does, `20261121120000+0000`: `strftime` takes ten times as long."""
    text = datetime.fromtimestamp(second, zone).isoformat(timespec="seconds")
    moment = text[:_MOMENT].replace("-", "").replace("T", "") + text[_MOMENT:]
    return moment.replace(":", "").encode()


def time_stamp(now: datetime) -> bytes:
    """Write a time to the second; many are answered in the same one."""
    return _stamp_of(floor(now.timestamp()), now.tzinfo)


def _after_version(expects: AckCondition | None, charset: bytes) -> list[bytes]:
    """MSH-13 to MSH-18, none of them when there is nothing to say."""
    if expects is None and not charset:
        return []
    conditions = [b"", b""] if expects is None else [expects.encode(), b"NE"]
    return [b"", b"", *conditions, b"", charset] if charset else [b"", b"", *conditions]


@lru_cache(maxsize=64)
def _read_version(text: str) -> tuple[int, ...]:
    return tuple(map(int, text.split("."))) if _VERSION.fullmatch(text) else ()


def _message_type(trigger: str, component: str, version: tuple[int, ...]) -> bytes:
    """MSH-9 of an ACK: `ACK^A01^ACK` from 2.3.1 (`ACK^^ACK` to no known event), `ACK` before."""
    if version < (2, 3, 1):
        return b"ACK"
    return component.join(("ACK", trigger, "ACK")).encode("latin-1")


def unframed_nak(head: bytes, refusal: MessageRefusal, *, control_id: str, now: datetime) -> bytes:
    """
    Answer what could not be read as a message, so that the sender sees something readable.

    `head` is its beginning, or all of it. With a readable MSH the answer is an ordinary ACK;
    with one that at least uses `|` control id and addresses are lifted; else MSH is our own.
    """
    try:
        header = peek(head)
    except MalformedMessage:
        header = _rescued(head)
    return build_ack(header, refusal.ack_code, control_id=control_id, now=now, refusals=[refusal])


def _rescued(head: bytes) -> Header:
    """Return what can be known of an unreadable MSH, in standard delimiters."""
    try:
        line = lines.first_line(lines.trim(head)[0])
    except MalformedMessage:
        line = b""
    parts = line.split(b"|") if line.upper().startswith(b"MSH|") else []
    lifted = [*parts[2:_LAST_LIFTED], *[b""] * _LAST_LIFTED][: _LAST_LIFTED - 2]
    fields = (b"MSH", b"|", b"^~\\&", *lifted, *[b""] * 11)
    return Header(delimiters.STANDARD, fields, "", "", "", "", "")


@dataclass(frozen=True, slots=True)
class ReceivedAck:
    """
    What a reply says. `code` is None when it says nothing we know (or is no reply at all).

    `control_id` is MSA-2 as bytes, empty where the peer sends none; `error_codes` are the
    codes of ERR-3.1, ERR-1.4 or MSA-6, remarks last (ERR-4 I and W); `text` is MSA-3, else the
    first ERR-8 or ERR-7. It is the peer's text and may speak of patients: store it, do not log it.
    """

    code: AckCode | None = None
    control_id: bytes = b""
    error_codes: tuple[str, ...] = ()
    text: str = ""
    expected_sequence_number: str = ""


def read_ack(raw: bytes) -> ReceivedAck:
    """Read a reply; tolerant: any version, any case, MSA-2 empty. Never raises."""
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
        error_codes=_error_codes(message),
        text=_text(message),
        expected_sequence_number=msa.value("4").strip(),
    )


def _error_codes(message: Message) -> tuple[str, ...]:
    reasons = sorted(message.named("ERR"), key=_is_remark)
    newer = [each.value("3.1") for each in reasons]
    found = newer if any(newer) else message.values("ERR[*]-1.4.1")
    found = [code.strip() for code in found if code.strip()]
    return tuple(found) or tuple(filter(None, [message.value("MSA-6.1").strip()]))


def _is_remark(error: Segment) -> bool:
    """Whether an ERR informs or warns (ERR-4, table 0516): it names no reason of a refusal."""
    return error.value("4").strip().upper() in {"I", "W"}


def _text(message: Message) -> str:
    candidates = ("MSA-3", "ERR-8", "ERR-7", "ERR-3.2", "ERR-1.4.2")
    return next((text for path in candidates if (text := message.value(path))), "")
