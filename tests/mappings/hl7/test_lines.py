"""Segmentation: start of a message and ends of segments."""

import time

import pytest

from mappings.hl7 import lines
from mappings.hl7.refusals import MalformedMessage, MalformedReason

HEAD = b"MSH|^~\\&|A|B|C|D|20260101||ORM^O01|1|P|2.5.1"
PID = b"PID|1||77^^^H^MR||DOE^JOHN"
NOTE = b"NTE|1||first"


def segments(raw: bytes) -> list[bytes]:
    body, _ = lines.trim(raw)
    return lines.split(body, b"|")


@pytest.mark.parametrize("end", [b"\r", b"\n", b"\r\n", b"\n\r", b"\r\r", b"\r\n\r\n", b"\r \r"])
@pytest.mark.parametrize(
    "last", [b"", b"\r", b"\n", b"\r\n", b"\r\r\r", b"\x1c\r", b"\x00", b"\x1a"]
)
def test_any_segment_end(end: bytes, last: bytes) -> None:
    """CR, LF, CRLF, repeated line ends and blank lines separate segments."""
    raw = end.join([HEAD, PID, NOTE]) + last
    assert segments(raw) == [HEAD, PID, NOTE]
    assert lines.segments(lines.trim_except_last_cr(raw)[0], b"|") == (
        [HEAD, PID, NOTE],
        ["MSH", "PID", "NTE"],
    )


def test_a_message_that_ends_as_it_should_is_not_copied() -> None:
    """A message with one CR at its end is not copied, because copying large messages takes time."""
    raw = b"\r".join([HEAD, PID, NOTE]) + b"\r"
    assert lines.trim_except_last_cr(raw)[0] is raw


def test_mixed_segment_ends() -> None:
    """One message may have all three line ends."""
    assert segments(HEAD + b"\r" + PID + b"\n" + b"ORC|NW\r\n" + NOTE) == [
        HEAD,
        PID,
        b"ORC|NW",
        NOTE,
    ]


def test_line_feed_is_text_where_carriage_returns_end_segments() -> None:
    """A bare LF inside a segment is data unless a segment follows it."""
    assert segments(HEAD + b"\r" + NOTE + b"\nsecond|x\r" + PID) == [
        HEAD,
        NOTE + b"\nsecond|x",
        PID,
    ]


@pytest.mark.parametrize("end", [b"\r", b"\n"])
def test_unescaped_line_end_in_a_note_stays_its_text(end: bytes) -> None:
    """Lines that are not segments belong to the NTE or OBX before them."""
    raw = end.join([HEAD, PID, NOTE, b"second, with | and all", b"970|ml", b"OBR|1"])
    assert segments(raw) == [HEAD, PID, NOTE + b"\nsecond, with | and all\n970|ml", b"OBR|1"]


@pytest.mark.parametrize("before", [HEAD, PID])
def test_stray_line_elsewhere_is_malformed(before: bytes) -> None:
    """After another segment a stray line may be part of an identifier: it is refused."""
    with pytest.raises(MalformedMessage) as raised:
        segments(HEAD + b"\r" + before + b"\r^^^H^MR||DOE")
    assert raised.value.reason is MalformedReason.STRAY_LINE
    assert raised.value.place == before[:3].decode()


def test_segment_without_fields() -> None:
    assert segments(HEAD + b"\rPV1\r" + PID) == [HEAD, b"PV1", PID]


@pytest.mark.parametrize(
    "front", [b"", b"\x0b", b"\xef\xbb\xbf", b"\x0b\xef\xbb\xbf", b"\r\n", b" \t", b"\x00"]
)
def test_bytes_before_the_message(front: bytes) -> None:
    """Framing bytes, byte order mark, blanks and line ends before a message are ignored."""
    body, has_bom = lines.trim(front + HEAD)
    assert body == HEAD
    assert has_bom is (b"\xef\xbb\xbf" in front)


@pytest.mark.parametrize("codec", ["utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-be"])
def test_wide_encodings_are_refused(codec: str) -> None:
    """UTF-16 and UTF-32 are refused with an instruction, with and without byte order mark."""
    with pytest.raises(MalformedMessage, match="send UTF-8"):
        lines.trim(HEAD.decode().encode(codec))


@pytest.mark.parametrize("filler", [b"\n", b"\r", b"\n\r", b"x\n", b"\r\n"])
def test_time_is_linear(filler: bytes) -> None:
    """A megabyte of line ends takes little of the processor."""
    started = time.thread_time()
    for before in (b"\r", b""):
        segments(HEAD + b"\r" + NOTE + before + filler * (2**20 // len(filler)) + b"x")
    assert time.thread_time() - started < 3
