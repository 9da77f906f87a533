"""
Edits of messages: the text to edit, the bytes of the edited message, and the edits of a message.

`encode_edit` refuses text that it cannot encode without loss, with its place in the message. The
content contains patient data: do not log it.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import text

from bridge.admin.errors import InvalidEdit
from bridge.store.database import Database
from mappings.hl7.charset import LAST_RESORT
from mappings.hl7.message import Message
from mappings.hl7.refusals import MessageRefusal

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
    return EditableMessage(tuple(each.text() for each in message.segments), message.encoding)


def encode_edit(original: bytes, segments: Sequence[str], charset: str) -> bytes:
    """
    Return the bytes of an edited message, in the character set of the original.

    `charset` applies to messages without MSH-18. Raises InvalidEdit.
    """
    lines = [each.rstrip("\r\n") for each in segments if each.strip()]
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


_EDITS_OF_MESSAGE = text("""
    SELECT message_id, origin_id, at, email, reason FROM message_edit
    WHERE message_id = :id OR origin_id = :id ORDER BY message_id
""")


def edits_of(database: Database, message_id: int) -> list[dict[str, Any]]:
    """Return the edits that created a message or were made from it; times in ms."""
    with database.read() as connection:
        return [
            dict(row)
            for row in connection.execute(_EDITS_OF_MESSAGE, {"id": message_id}).mappings()
        ]
