"""
Batches and files of messages (HL7 v2.5.1 §2.10.3), and message files on disk.

Splitting works on bytes, so that each message is unchanged. Only headers are parsed. A batch (FHS
or BHS first) is received as one frame, and its receiver answers it as a whole.
"""

import re
from collections.abc import Sequence
from datetime import datetime
from itertools import islice
from typing import Final

from mappings.hl7 import lines
from mappings.hl7.charset import codec_for
from mappings.hl7.header import STANDARD, peek, read_delimiters
from mappings.hl7.refusals import MalformedMessage, MalformedReason

_SEGMENT = re.compile(rb"(?:(?<=[\r\n])|\A)(?:MSH|BHS|BTS|FHS|FTS)(?=[^\w\s]|[\r\n]|\Z)")
_HARMLESS = re.compile(rb"(?:SFT|UAC|NTE|DSC|Z[A-Z0-9]{2})(?=[^\w\s]|\Z)")
"""
Segments that may follow a header or trailer. v2.7 allows SFT and UAC. The other ones
contain no order.
"""
_BLANKS = bytes(range(33))  # control characters and the blank
_LONGEST_TRAILER = 64
"""Bytes of a trailer that are read. Its first field is the count, the rest is a comment."""
MAX_MESSAGES = 10_000
"""Limit of the messages of a batch: 10,000 messages of 1.6 kB fill a frame of the default size."""
_MAX_HEADERS = 5 * MAX_MESSAGES
"""Limit of the headers and trailers: each message may have its own FHS, BHS, BTS and FTS."""
_CONTROL_ID = 11  # FHS-11, BHS-11; field 12 of the reply repeats it


def split(raw: bytes) -> list[bytes] | None:
    """
    Return the messages of a batch with their bytes unchanged, None if this is not a batch.

    A batch may be empty. Raises MalformedMessage for UTF-16, UTF-32 and too many messages.
    """
    body, _ = lines.trim(raw)
    if not body.startswith((b"FHS", b"BHS")) or _SEGMENT.match(body) is None:
        return None
    starts = _headers(body)
    if sum(name == b"MSH" for _, name in starts) > MAX_MESSAGES:
        raise MalformedMessage(MalformedReason.TOO_MANY_MESSAGES, "BHS")
    ends = [start for start, _ in starts[1:]] + [len(body)]
    return [
        body[start:end] for (start, name), end in zip(starts, ends, strict=True) if name == b"MSH"
    ]


def _headers(body: bytes) -> list[tuple[int, bytes]]:
    """Return position and name of all headers and trailers. Raises MalformedMessage."""
    found = islice(_SEGMENT.finditer(body), _MAX_HEADERS + 1)
    headers = [(match.start(), match.group()) for match in found]
    if len(headers) > _MAX_HEADERS:
        raise MalformedMessage(MalformedReason.TOO_MANY_MESSAGES, "BHS")
    return headers


def find_stray_lines(raw: bytes) -> str:
    """
    Return the first header or trailer that lines outside of a message follow; '' if none.

    Such lines may be a message whose MSH was damaged; without this check it would be lost silently.
    """
    body, _ = lines.trim(raw)
    starts = _headers(body)
    ends = [start for start, _ in starts[1:]] + [len(body)]
    end_of_line = b"\r" if b"\r" in body else b"\n"
    line_after = re.compile(end_of_line + rb"([^" + end_of_line + rb"]+)")
    for (start, name), end in zip(starts, ends, strict=True):
        if name != b"MSH":
            following = (match[1] for match in line_after.finditer(body, start, end))
            if any(line.strip(_BLANKS) and _HARMLESS.match(line) is None for line in following):
                return name.decode("ascii")
    return ""


def find_wrong_count(raw: bytes) -> str:
    """
    Return the field with a wrong count, BTS-1 or FTS-1; '' if the counts are right.

    Values that are not digits are ignored. FTS-1 counts batches (HL7 v2.5.1 §2.15.7.1); a count of
    the messages is accepted as well because many senders write it.
    """
    body, _ = lines.trim(raw)
    batches = messages = in_batch = 0
    for found in _SEGMENT.finditer(body):
        name = found.group()
        if name == b"BHS":
            batches, in_batch = batches + 1, 0
        elif name == b"MSH":
            messages, in_batch = messages + 1, in_batch + 1
        elif name == b"BTS" and _announced(body, found.end()) not in {None, in_batch}:
            return "BTS-1"
        elif name == b"FTS":
            counts = {None, messages, batches or min(messages, 1)}
            if _announced(body, found.end()) not in counts:
                return "FTS-1"
    return ""


def _announced(body: bytes, end: int) -> int | None:
    """Parse field 1 of the segment whose name ends at a position."""
    line = lines.first_line(body[end : end + _LONGEST_TRAILER])
    value = line[1:].split(line[:1], 1)[0].strip() if line else b""
    return int(value) if value.isdigit() else None


def join_acks(raw: bytes, acks: Sequence[bytes], *, control_id: str, now: datetime) -> bytes:
    """
    Wrap the acknowledgments of a batch in its headers and trailers.

    Sender and receiver are swapped. Field 12 of a header contains the control id of the received
    header.
    """
    body, _ = lines.trim(raw)
    headers = [
        line
        for line in map(lines.first_line, (body, body[len(lines.first_line(body)) :].lstrip()))
        if line.startswith((b"FHS", b"BHS"))
    ]
    opening = [_reply_header(line, control_id, now) for line in headers]
    counts = {b"FHS": b"FTS|1", b"BHS": b"BTS|%d" % len(acks)}
    closing = [counts[line[:3]].replace(b"|", line[3:4] or b"|") for line in reversed(headers)]
    whole = [line + b"\r" for line in opening]
    whole += [ack if ack.endswith(b"\r") else ack + b"\r" for ack in acks]
    return b"".join([*whole, *(line + b"\r" for line in closing)])


def _reply_header(line: bytes, control_id: str, now: datetime) -> bytes:
    separator = line[3:4] or b"|"
    fields = [*line.split(separator), *[b""] * _CONTROL_ID]
    try:
        marks = read_delimiters(separator + fields[1]).completed().encoding_characters.encode()
    except MalformedMessage:
        marks = STANDARD.encoding_characters.encode()
    reply = [
        fields[0],
        marks,
        fields[4],
        fields[5],
        fields[2],
        fields[3],
        now.strftime("%Y%m%d%H%M%S%z").encode(),
        b"",
        b"",
        b"",
        control_id.encode("ascii"),
        fields[_CONTROL_ID - 1],
    ]
    return separator.join(reply)


_BOM: Final = b"\xef\xbb\xbf"
_FRAMING: Final = re.compile(rb"[\x0b\x1c]+")
_BEFORE_MESSAGE: Final = (b"\r", b"\n", b"\x0b", b"\x1c")
_START: Final = re.compile(rb"(?:(?<=[\r\n])|^)(?=MSH[^A-Za-z0-9\r\n])")
_BATCH: Final = (b"FHS", b"BHS")


def messages_in_text(text: str) -> list[bytes]:
    """
    Return the messages of a pasted text as bytes.

    Each is encoded as its MSH-18 declares, or as UTF-8 if MSH-18 is empty or cannot encode the
    text.
    """
    found = []
    for message in messages_in(text.encode("utf-8", "replace")):
        try:
            declared = peek(message).charset.decode("latin-1")
            found.append(message.decode().encode(codec_for(declared)))
        except (MalformedMessage, UnicodeError):
            found.append(message)
    return found


def count_messages(data: bytes) -> int:
    """Return the number of lines of a file that begin with MSH; needs less time than a split."""
    text = data.removeprefix(_BOM).lstrip()
    later = sum(text.count(before + b"MSH") for before in _BEFORE_MESSAGE)
    return later + text.startswith(b"MSH")


def messages_in(data: bytes) -> list[bytes]:
    """Return the messages of a file with CR as segment end; empty ones are dropped."""
    text = _FRAMING.sub(b"\r", data.removeprefix(_BOM)).strip()
    text = text.replace(b"\r\n", b"\r").replace(b"\n", b"\r")
    text = re.sub(rb"\r{2,}", b"\r", text)
    if text.startswith(_BATCH):
        return [text + b"\r"]
    parts = [part.strip(b"\r") for part in _START.split(text)]
    return [part + b"\r" for part in parts if part]
