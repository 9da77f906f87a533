"""Parsing the acknowledgments of receivers, which deviate from the standard."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mappings.hl7.acknowledgment import ReceivedAck, ReceivedError, read_ack
from mappings.hl7.tables import AckCode

HEAD = b"MSH|^~\\&|RIS|NORD|PACS|SUED|20260102||ACK|9|P|2.3\r"


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        (HEAD + b"MSA|AA|7", ReceivedAck(AckCode.ACCEPT, b"7")),
        (HEAD + b"MSA|aa| 7 \r\n", ReceivedAck(AckCode.ACCEPT, b"7")),
        (HEAD.replace(b"\r", b"\n") + b"MSA|CA|7\n", ReceivedAck(AckCode.COMMIT_ACCEPT, b"7")),
        (HEAD + b"MSA|AA", ReceivedAck(AckCode.ACCEPT, b"")),
        (HEAD + b"MSA||7", ReceivedAck(None, b"7")),
        (HEAD + b"MSA|OK|7", ReceivedAck(None, b"7")),
        (HEAD + b"MSA|AE|7|no patient||204", ReceivedAck(AckCode.ERROR, b"7", (), "no patient")),
        (
            HEAD + b"MSA|AE|7|bad|5||204^Unknown key",
            ReceivedAck(AckCode.ERROR, b"7", (ReceivedError("204", "Unknown key"),), "bad", "5"),
        ),
        (
            HEAD + b"MSA|AR|7\rERR|PID^1^3^101&missing&HL70357~MSH^1^9^200&x&HL70357",
            ReceivedAck(
                AckCode.REJECT,
                b"7",
                (
                    ReceivedError("101", "missing", place="PID-3"),
                    ReceivedError("200", "x", place="MSH-9"),
                ),
                "missing",
            ),
        ),
        (
            HEAD + b"MSA|AE|7\rERR|OBR^2^16^102^Data type error",
            ReceivedAck(
                AckCode.ERROR, b"7", (ReceivedError("102", "Data type error", place="OBR[2]-16"),)
            ),
        ),
        (
            HEAD + b"MSA|AE|7\rERR||OBR^1^16^2^3^1~PID^^5|E47^Long^L^102^Data type error^HL70357|w",
            ReceivedAck(
                AckCode.ERROR,
                b"7",
                (ReceivedError("102", "Data type error", "w", "OBR-16[2].3.1, PID-5"),),
                "Long",
            ),
        ),
        (
            HEAD + b"MSA|AE|7\rERR||PID^1^3|101^missing|E|||diagnosis|for people\rERR|||207^x|E",
            ReceivedAck(
                AckCode.ERROR,
                b"7",
                (
                    ReceivedError("101", "missing", "E", "PID-3", "for people"),
                    ReceivedError("207", "x", "E"),
                ),
                "for people",
            ),
        ),
        (b"MSH^~|\\&^A\rMSA^AA^7~x", ReceivedAck(AckCode.ACCEPT, b"7~x")),
        (HEAD + b"MSA|AA|\xfc7", ReceivedAck(AckCode.ACCEPT, b"\xfc7")),
        (b"\xef\xbb\xbf" + HEAD + b"MSA|AA|7", ReceivedAck(AckCode.ACCEPT, b"7")),
        (
            HEAD + b"MSA|AE|7\rERR||\x0b^x^-1|||||only text",
            ReceivedAck(AckCode.ERROR, b"7", (ReceivedError("", text="only text"),), "only text"),
        ),
        (HEAD + b"PID|1", ReceivedAck()),
        (HEAD, ReceivedAck()),
        (b"HTTP/1.1 200 OK\r\n\r\n", ReceivedAck()),
        (b"MSA|AA|7", ReceivedAck()),
        (b"", ReceivedAck()),
    ],
)
def test_tolerant(reply: bytes, expected: ReceivedAck) -> None:
    """Any version and case is accepted; a reply that is not an acknowledgment has no code."""
    assert read_ack(reply) == expected


@given(st.binary(max_size=60))
def test_never_fails_and_never_agrees(reply: bytes) -> None:
    """Random bytes are not a positive acknowledgment, and raise no exception."""
    assert read_ack(reply).code is None
    assert read_ack(HEAD + reply).code is None
