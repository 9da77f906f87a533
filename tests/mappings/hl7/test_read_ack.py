"""Reading what peers answer, with the tolerance the field needs (research, pitfall 32)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mappings.hl7 import AckCode, Acknowledgment, read_ack

HEAD = b"MSH|^~\\&|RIS|NORD|PACS|SUED|20260102||ACK|9|P|2.3\r"


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        (HEAD + b"MSA|AA|7", Acknowledgment(AckCode.ACCEPT, b"7")),
        (HEAD + b"MSA|aa| 7 \r\n", Acknowledgment(AckCode.ACCEPT, b"7")),
        (HEAD.replace(b"\r", b"\n") + b"MSA|CA|7\n", Acknowledgment(AckCode.COMMIT_ACCEPT, b"7")),
        (HEAD + b"MSA|AA", Acknowledgment(AckCode.ACCEPT, b"")),
        (HEAD + b"MSA||7", Acknowledgment(None, b"7")),
        (HEAD + b"MSA|OK|7", Acknowledgment(None, b"7")),
        (HEAD + b"MSA|AE|7|no patient||204", Acknowledgment(AckCode.ERROR, b"7", (), "no patient")),
        (
            HEAD + b"MSA|AE|7|bad|5||204^Unknown key",
            Acknowledgment(AckCode.ERROR, b"7", ("204",), "bad", "5"),
        ),
        (
            HEAD + b"MSA|AR|7\rERR|PID^1^3^101&missing&HL70357~MSH^1^9^200&x&HL70357",
            Acknowledgment(AckCode.REJECT, b"7", ("101", "200"), "missing"),
        ),
        (
            HEAD + b"MSA|AE|7\rERR||PID^1^3|101^missing|E|||diagnosis|for people\rERR|||207^x|E",
            Acknowledgment(AckCode.ERROR, b"7", ("101", "207"), "for people"),
        ),
        (b"MSH^~|\\&^A\rMSA^AA^7~x", Acknowledgment(AckCode.ACCEPT, b"7~x")),
        (HEAD + b"MSA|AA|\xfc7", Acknowledgment(AckCode.ACCEPT, b"\xfc7")),
        (b"\xef\xbb\xbf" + HEAD + b"MSA|AA|7", Acknowledgment(AckCode.ACCEPT, b"7")),
        (HEAD + b"PID|1", Acknowledgment()),
        (HEAD, Acknowledgment()),
        (b"HTTP/1.1 200 OK\r\n\r\n", Acknowledgment()),
        (b"MSA|AA|7", Acknowledgment()),
        (b"", Acknowledgment()),
    ],
)
def test_tolerant(reply: bytes, expected: Acknowledgment) -> None:
    """Any version and case; what is no acknowledgment has no code."""
    assert read_ack(reply) == expected


@given(st.binary(max_size=60))
def test_never_fails_and_never_agrees(reply: bytes) -> None:
    """Bytes at random are no positive answer, and no exception."""
    assert read_ack(reply).code is None
    assert read_ack(HEAD + reply).code is None
