"""
Segmentation: where a message starts in its bytes, and where its segments end.

This module works on bytes, before the character set is known. This is safe because CR and LF never
occur inside a character of a supported character set (UTF-16 is refused).
"""

import re
from functools import lru_cache

from mappings.hl7.refusals import MalformedMessage, MalformedReason

_BOM_UTF_8 = b"\xef\xbb\xbf"
_UTF_16 = (b"\xff\xfe", b"\xfe\xff", b"\x00\x00\xfe\xff", b"M\x00", b"\x00M\x00", b"\x00\x00\x00M")
_LEADING_BYTES = b"\x0b\x1c\x00 \t\r\n"
TRAILING_BYTES = b"\x0b\x1c\x1a\x00\r\n"
"""Bytes that transports append to a message."""
_TEXT_SEGMENTS = (b"NTE", b"OBX")
_HEADERS = (b"MSH", b"FHS", b"BHS")
_NAME_LENGTH = 3
MAX_SEGMENTS = 100_000
"""Limit of the segments of a message. Each segment needs up to 2,000 bytes while it is read."""


def trim(raw: bytes) -> tuple[bytes, bool]:
    """
    Strip the bytes that transports leave around a message.

    Returns the message, and whether it had a UTF-8 byte order mark. In front of the message, it
    strips byte order mark, framing bytes, NUL, blanks and line ends. Behind the message, it strips
    framing bytes, NUL, Ctrl-Z and line ends. Raises MalformedMessage for UTF-16 and UTF-32.
    """
    if raw.startswith(_HEADERS):
        return raw.rstrip(TRAILING_BYTES), False
    if raw.lstrip(b"\x0b").startswith(_UTF_16):
        raise MalformedMessage(MalformedReason.UTF_16)
    body = raw.lstrip(_LEADING_BYTES)
    has_bom = body.startswith(_BOM_UTF_8)
    if has_bom:
        body = body[len(_BOM_UTF_8) :].lstrip(_LEADING_BYTES)
    return body.rstrip(TRAILING_BYTES), has_bom


def trim_except_last_cr(raw: bytes) -> tuple[bytes, bool]:
    """
    Strip as `trim` does, but keep a single CR after the last segment.

    To strip this CR, Python would copy the whole message.
    """
    if raw.startswith(_HEADERS) and raw.endswith(b"\r") and raw[-2:-1] not in TRAILING_BYTES:
        return raw, False
    return trim(raw)


def first_line(body: bytes) -> bytes:
    """Return the header segment. It contains no text, so any line end terminates it."""
    return body[: first_length(body)]


def first_length(body: bytes) -> int:
    """Return the length of `first_line`."""
    end = body.find(b"\r")
    if end < 0:
        end = len(body)
    line_feed = body.find(b"\n", 0, end)
    return end if line_feed < 0 else line_feed


@lru_cache(maxsize=64)
def _segment_ends(separator: bytes, *, carriage_returns: bool) -> re.Pattern[bytes]:
    """
    Return the pattern of a segment end.

    If the message contains CR, a bare LF is text, unless a segment name follows it: some senders
    mix line ends, others put LF into notes.
    """
    if not carriage_returns:
        return re.compile(rb"\n+")
    # Possessive, and not started inside a run of LFs: the search takes linear time.
    run_with_return = rb"(?<!\n)\n*+\r[\r\n]*+|\r[\r\n]*+"
    before_segment = rb"(?<!\n)\n++(?=[A-Z][A-Z0-9]{2}" + re.escape(separator) + rb")"
    return re.compile(run_with_return + rb"|" + before_segment)


class _SegmentNames(dict[bytes, str]):
    """Segment names by the first four bytes of a line; "" if it is not a segment with fields."""

    _MAX_ENTRIES = 4096  # entries; when full, the cache is cleared, so that memory is bounded

    def __init__(self, separator: bytes) -> None:
        super().__init__()
        self._separator = separator

    def __missing__(self, head: bytes) -> str:
        if len(self) >= self._MAX_ENTRIES:
            self.clear()
        known = head[_NAME_LENGTH:] == self._separator and _is_name(head[:_NAME_LENGTH])
        self[head] = found = name(head[:_NAME_LENGTH]) if known else ""
        return found


@lru_cache(maxsize=64)
def _segment_names(separator: bytes) -> _SegmentNames:
    """Return the cache of one field separator."""
    return _SegmentNames(separator)


def with_cr_ends(body: bytes) -> bytes:
    """Make CR the only line end of a message from `trim_except_last_cr`, unless LF may be text."""
    if b"\r" not in body:
        return body.replace(b"\n", b"\r")
    changed = body.replace(b"\r\n", b"\r")
    return body if b"\n" in changed else changed


def segments(body: bytes, separator: bytes) -> tuple[list[bytes], list[str]]:
    """
    Split a message from `trim_except_last_cr` into segments; return them and their names.

    Raises MalformedMessage.
    """
    lines, names = _split_with_names(body, separator)
    if len(lines) > MAX_SEGMENTS:
        raise MalformedMessage(MalformedReason.TOO_MANY_SEGMENTS)
    return lines, names


def _split_with_names(body: bytes, separator: bytes) -> tuple[list[bytes], list[str]]:
    if b"\n" not in body:
        lines = body.split(b"\r")
        if not lines[-1]:
            lines.pop()
        known = _segment_names(separator)
        names = [known[line[:4]] for line in lines]
        if "" not in names:  # the usual case: each line is a segment with fields
            return lines, names
    lines = split(body, separator)
    return lines, [name(line[:_NAME_LENGTH]) for line in lines]


def split(body: bytes, separator: bytes) -> list[bytes]:
    r"""
    Split a message from `trim_except_last_cr` into its segments; blank lines are dropped.

    A line that is not a segment is kept as text of the OBX or NTE before it
    (`NTE|1||first\rsecond`: the sender did not escape a line end). After any other segment it
    raises MalformedMessage, because a guess could lose a field.
    """
    if b"\n" not in body:
        lines = body.split(b"\r")
    else:
        lines = _segment_ends(separator, carriage_returns=b"\r" in body).split(body)
    found: list[bytes] = []
    texts: dict[int, list[bytes]] = {}
    for line in lines:
        if line[_NAME_LENGTH : _NAME_LENGTH + 1] == separator and _is_name(line[:_NAME_LENGTH]):
            found.append(line)
        elif line and not line.isspace():
            _keep_other(line, found, texts)
    for index, text in texts.items():
        found[index] = b"\n".join((found[index], *text))
    return found


@lru_cache(maxsize=1024)
def _is_name(text: bytes) -> bool:
    """True if a text is a segment name: a letter, then letters or digits, in any case."""
    return text.isalnum() and text[:1].isalpha()


@lru_cache(maxsize=1024)
def name(text: bytes) -> str:
    """Return the name of a segment, from its first three bytes."""
    return text.decode("ascii").upper()


def _keep_other(line: bytes, found: list[bytes], texts: dict[int, list[bytes]]) -> None:
    """Keep a line that does not start like a segment with fields, or raise MalformedMessage."""
    if len(line) == _NAME_LENGTH and _is_name(line) and line.isupper():
        found.append(line)
    elif found and found[-1][:_NAME_LENGTH].upper() in _TEXT_SEGMENTS:
        texts.setdefault(len(found) - 1, []).append(line)
    else:
        place = found[-1][:_NAME_LENGTH].upper().decode("ascii") if found else "MSH"
        raise MalformedMessage(MalformedReason.STRAY_LINE, place)
