"""
The content of a message: its text for display and to edit, and the reasons for which a receiver did
not accept it.

`encode_edit` refuses text that it cannot encode without loss, with its place in the message.

The content contains patient data, and so may the texts of a receiver: show both to users who may
read content only, and do not log them.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import or_, select

from bridge.admin.errors import InvalidEdit
from bridge.admin.messages.dicom_content import text_of_documents
from bridge.delivery.dicom_objects import boundary_of
from bridge.queue.attempts import Attempt
from bridge.store.database import Database
from bridge.store.tables import MESSAGE_EDITS
from mappings.hl7.acknowledgment import ERROR_DESCRIPTIONS, ReceivedError, read_ack
from mappings.hl7.charset import LAST_RESORT
from mappings.hl7.dictionary import field_name
from mappings.hl7.message import Message
from mappings.hl7.refusals import MessageRefusal
from mappings.hl7.tree import first_segments


def is_shown_whole(payload: bytes, charset: str) -> bool:
    """True if the tree of a message shows all its segments."""
    try:
        message = Message.parse(payload, fallback=charset)
    except MessageRefusal:
        return True
    return len(first_segments(message)) == len(message.names)


def message_text(data: bytes | None, charset: str = "utf-8") -> str:
    """
    Return a message as text, one segment per line, or DICOM objects, one attribute per line.

    The character set is that of MSH-18, or `charset` if MSH-18 is empty. Data that is not HL7 is
    decoded as UTF-8; invalid bytes become escapes.
    """
    if data is None:
        return ""
    if boundary_of(data):
        return text_of_documents(data)
    try:
        message = Message.parse(data, fallback=charset)
    except MessageRefusal:
        pass
    else:
        return "\n".join(segment.text() for segment in message.segments)
    return data.replace(b"\r", b"\n").decode("utf-8", "backslashreplace").strip("\n")


_MAX_HEADER = 8  # MSH, the field separator, and at most four more characters
_CONTROL_CHARACTER = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")
_SEGMENT_NAME = re.compile(r"[A-Z][A-Z0-9]{2}")
_MAX_SEGMENTS = 5000


@dataclass(frozen=True, slots=True)
class EditableMessage:
    """The segments of a message as text, and the codec of the message."""

    segments: tuple[str, ...]
    codec: str


def editable_message(payload: bytes, charset: str) -> EditableMessage:
    """Return a message for editing; if it is not HL7, each line is a segment, byte for byte."""
    try:
        message = Message.parse(payload, fallback=charset)
    except MessageRefusal:
        text = payload.decode(LAST_RESORT)
        return EditableMessage(tuple(re.split(r"[\r\n]+", text.strip("\r\n"))), LAST_RESORT)
    return EditableMessage(tuple(segment.text() for segment in message.segments), message.encoding)


def encode_edit(original: bytes, segments: Sequence[str], charset: str) -> bytes:
    """
    Return the bytes of an edited message, in the character set of the original.

    `charset` applies to messages without MSH-18. Raises InvalidEdit.
    """
    lines = [segment.rstrip("\r\n") for segment in segments if segment.strip()]
    if not lines or len(lines) > _MAX_SEGMENTS:
        raise InvalidEdit("MSH", "a message has 1 to 5000 segments")
    before = editable_message(original, charset)
    _require_same_delimiters(before, lines)
    for number, line in enumerate(lines, start=1):
        _require_valid_segment(line, number, lines[0][3:4])
    payload = _encode(lines, before.codec)
    if payload == _encode(before.segments, before.codec):
        raise InvalidEdit("MSH", "nothing was changed")
    if editable_message(payload, charset).segments != tuple(lines):
        raise InvalidEdit("MSH-18", "the character set of the message lacks a character")
    return payload


def _require_same_delimiters(before: EditableMessage, lines: Sequence[str]) -> None:
    """Refuse changed delimiters: they would change the meaning of every field."""
    first = before.segments[0] if before.segments else ""
    delimiters = _delimiters(first) if first.startswith("MSH") else None
    if not lines[0].startswith("MSH"):
        raise InvalidEdit("MSH", "a message begins with MSH")
    if delimiters is not None and _delimiters(lines[0]) != delimiters:
        raise InvalidEdit("MSH-2", "the delimiters must not change")


def _delimiters(line: str) -> str:
    return line[3:4] + line[4:].split(line[3:4], 1)[0] if len(line) > _MAX_HEADER else line


def _require_valid_segment(line: str, number: int, separator: str) -> None:
    name = line[:3]
    if not _SEGMENT_NAME.fullmatch(name) or line[3:4] not in {"", separator}:
        raise InvalidEdit(
            f"line {number}", "a segment begins with a name such as PID, and a separator"
        )
    if number > 1 and name == "MSH":
        raise InvalidEdit(f"line {number}", "a message has only one MSH")
    if _CONTROL_CHARACTER.search(line):
        raise InvalidEdit(f"line {number}", "a control character: write it as an escape")


def _encode(lines: Sequence[str], codec: str) -> bytes:
    payload = b""
    for number, line in enumerate(lines, start=1):
        try:
            payload += line.encode(codec) + b"\r"
        except UnicodeEncodeError:
            raise InvalidEdit(
                f"line {number}", f"{codec}, the character set in MSH-18, lacks a character"
            ) from None
    return payload


def edits_of(database: Database, message_id: int) -> list[dict[str, Any]]:
    """Return the edits that created a message or were made from it; times in ms."""
    edit = MESSAGE_EDITS.c
    related = or_(edit.message_id == message_id, edit.origin_id == message_id)
    with database.read() as connection:
        rows = connection.execute(select(MESSAGE_EDITS).where(related).order_by(edit.message_id))
        return [dict(row) for row in rows.mappings()]


MAX_SHOWN_BYTES = 512
"""Bytes of something that is not an acknowledgment that are shown."""

DESCRIPTIONS = {code.value: words for code, words in ERROR_DESCRIPTIONS.items()}
"""The descriptions of table 0357 by code."""


def reply_errors(reply: bytes, *, with_texts: bool) -> list[dict[str, Any]]:
    """Return the errors of a reply: code, description, severity, place, field name and text."""
    return [_error(error, with_texts=with_texts) for error in read_ack(reply).errors]


def _error(error: ReceivedError, *, with_texts: bool) -> dict[str, Any]:
    places = [place for place in error.place.split(", ") if place]
    described = error.description if with_texts else ""
    return {
        "code": error.code if with_texts or error.code in DESCRIPTIONS else "",
        "description": described or DESCRIPTIONS.get(error.code, ""),
        "severity": error.severity[:1],
        "place": error.place,
        "field": ", ".join(filter(None, dict.fromkeys(map(field_name, places)))),
        "text": error.text if with_texts else "",
    }


def attempt_view(attempt: Attempt, *, with_texts: bool) -> dict[str, Any]:
    """Return an attempt or further reply with its errors, and the reason in one line."""
    return {
        "kind": attempt.kind.value,
        "at": attempt.at,
        "code": attempt.code,
        "detail": attempt.detail,
        "retry_at": attempt.retry_at,
        "errors": reply_errors(attempt.reply, with_texts=with_texts),
        "reason": reason_of(attempt, with_texts=with_texts),
        "reply": shown_bytes(attempt.reply) if with_texts else "",
    }


def reason_of(attempt: Attempt, *, with_texts: bool) -> str:
    """Return why an attempt was not accepted, in one line."""
    errors = reply_errors(attempt.reply, with_texts=with_texts)
    if errors:
        return "; ".join(map(error_line, errors))
    text = read_ack(attempt.reply).text if with_texts else ""
    return text or attempt.detail


def error_line(error: dict[str, Any]) -> str:
    """Return one error in one line: `102 Data type error at OBR-16.2 (Ordering provider): …`."""
    line = f"{error['code']} {error['description']}".strip()
    if error["severity"] in {"W", "I"}:
        line += f" ({'warning' if error['severity'] == 'W' else 'information'})"
    if error["place"]:
        field = f" ({error['field']})" if error["field"] else ""
        line += f" at {error['place']}{field}"
    return f"{line}: {error['text']}".strip(": ") if error["text"] else line.strip()


def shown_bytes(data: bytes) -> str:
    """Return the first bytes that a receiver sent, with control characters as escapes."""
    text = data[:MAX_SHOWN_BYTES].decode("utf-8", "backslashreplace")
    shown = "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode()
        for character in text
    )
    return shown + ("…" if len(data) > MAX_SHOWN_BYTES else "")
