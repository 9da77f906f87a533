"""Building acknowledgments: exact bytes, and agreement of two other parsers."""

from collections.abc import Sequence
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mappings.hl7.acknowledgment import (
    ReceivedAck,
    ReceivedError,
    build_ack,
    read_ack,
    unframed_nak,
)
from mappings.hl7.header import peek
from mappings.hl7.refusals import (
    AckCode,
    AckCondition,
    DuplicateKeyIdentifier,
    InternalError,
    MalformedMessage,
    MalformedReason,
    MessageRefusal,
    MissingField,
    TableValueNotFound,
    UnknownKeyIdentifier,
    UnsupportedEvent,
    UnsupportedMessage,
    UnsupportedProcessingId,
    UnsupportedVersion,
    WrongDataType,
    strictest,
)

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
REFUSALS: Sequence[MessageRefusal] = (
    MalformedMessage(MalformedReason.SECOND_HEADER, "MSH[2]"),
    UnsupportedMessage(),
    UnsupportedEvent(),
    UnsupportedProcessingId(),
    UnsupportedVersion(),
    MissingField("PID-3[2].1"),
    WrongDataType("OBR[2]-7.1"),
    TableValueNotFound("ORC-1"),
    UnknownKeyIdentifier("PID-3"),
    DuplicateKeyIdentifier("MRG-1"),
    InternalError(),
    MissingField("not a place"),
)


def order(version: str = "2.5.1", encoding: str = "^~\\&") -> bytes:
    kind = f"ORM{encoding[0]}O01"
    return f"MSH|{encoding}|RIS|NORD|PACS|SUED|2026||{kind}|ID7|P|{version}\rPID|1".encode()


def answer(raw: bytes, *refusals: MessageRefusal) -> bytes:
    code = strictest(refusals)
    return build_ack(peek(raw), code, control_id="B1", now=NOW, refusals=refusals)


def test_positive() -> None:
    """Addresses are swapped; MSH-11, MSH-12 and the control id are copied."""
    assert answer(order()) == (
        b"MSH|^~\\&|PACS|SUED|RIS|NORD|20260102030405+0000||ACK^O01^ACK|B1|P|2.5.1\rMSA|AA|ID7\r"
    )


@pytest.mark.parametrize(
    ("before", "after", "shown"),
    [
        (b"|RIS|", b"|LIS|", b"|LIS|NORD|"),
        (b"|NORD|", b"|WEST|", b"|RIS|WEST|"),
        (b"|PACS|", b"|VNA|", b"|VNA|SUED|"),
        (b"|SUED|", b"|OST|", b"|PACS|OST|"),
        (b"ORM^O01", b"ADT^A08", b"|ACK^A08^ACK|"),
        (b"|P|", b"|T|", b"|T|2.5.1"),
        (b"|2.5.1", b"|2.6", b"|P|2.6"),
    ],
)
def test_messages_that_differ_in_one_field(before: bytes, after: bytes, shown: bytes) -> None:
    """Each acknowledgment repeats its own message, not an earlier one of the same sender."""
    assert shown not in answer(order())
    assert shown in answer(order().replace(before, after))


@pytest.mark.parametrize("version", ["2.5", "2.5.1", "2.6"])
def test_negative_from_2_5(version: str) -> None:
    """ERR-2 has the location, ERR-3 the code, ERR-4 E, ERR-7 and ERR-8 the text."""
    patient, control = b"required field missing: PID-3[2].1", b"table value not found: ORC[2]-1"
    refusals = MissingField("PID-3[2].1"), TableValueNotFound("ORC[2]-1")
    assert answer(order(version), *refusals).split(b"\r")[1:] == [
        b"MSA|AE|ID7|" + patient,
        b"ERR||PID^1^3^2^1|101^Required field missing^HL70357|E|||%b|%b" % (patient, patient),
        b"ERR||ORC^2^1^1|103^Table value not found^HL70357|E|||%b|%b" % (control, control),
        b"",
    ]


def test_msa_from_2_7() -> None:
    """MSA-3 is withdrawn in v2.7: ERR has the text."""
    assert answer(order("2.7"), MissingField("PID-3")).split(b"\r")[1] == b"MSA|AE|ID7"


def test_negative_up_to_2_4() -> None:
    """One ERR has a repetition for each error: segment, sequence, field, code."""
    event = b"MSH^1^9^201&Unsupported event code&HL70357"
    ack = answer(order("2.3"), MissingField("PID-3"), UnsupportedEvent())
    assert ack.split(b"\r")[0].endswith(b"||ACK|B1|P|2.3")
    assert ack.split(b"\r")[1:] == [
        b"MSA|AR|ID7|required field missing: PID-3",
        b"ERR|PID^1^3^101&Required field missing&HL70357~%b" % event,
        b"",
    ]


def test_verbatim_bytes() -> None:
    """Control id, addresses, MSH-11, 12 and 18 are copied byte for byte."""
    raw = (
        b"MSH|^~\\&|R\xfcS^1.2^ISO| NORD |P\\T\\S|\xff|2026||ORM^O01|\xfc 7\\F\\^x|T^T|2.4^DEU|||||"
        b"|8859/1~ISO IR87\rPID"
    )
    head, msa = answer(raw).split(b"\r")[:2]
    fields = head.split(b"|")
    assert fields[2:6] == [b"P\\T\\S", b"\xff", b"R\xfcS^1.2^ISO", b" NORD "]
    assert fields[10:12] == [b"T^T", b"2.4^DEU"]
    assert fields[17] == b"8859/1~ISO IR87"
    assert msa == b"MSA|AA|\xfc 7\\F\\^x"


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (
            b"MSH^~|\\&^A^B^C^D^2026^^ORM~O01^7^P^2.3.1",
            b"MSH^~|\\&^C^D^A^B^20260102030405+0000^^ACK~O01~ACK^B1^P^2.3.1\rMSA^AA^7\r",
        ),
        (
            b"MSH|^~|A|B|C|D|2026||ORM^O01|7|P|2.5",
            b"MSH|^~\\&|C|D|A|B|20260102030405+0000||ACK^O01^ACK|B1|P|2.5\rMSA|AA|7\r",
        ),
        (
            b"MSH|^~\\&#|A|B|C|D|2026||ORM^O01|7|P|2.7",
            b"MSH|^~\\&#|C|D|A|B|20260102030405+0000||ACK^O01^ACK|B1|P|2.7\rMSA|AA|7\r",
        ),
        (
            b"MSH|^~\\\\&|A|B|C|D|2026||ORM^O01|7|P|2.3",
            b"MSH|^~\\&|C|D|A|B|20260102030405+0000||ACK|B1|P|2.3\rMSA|AA|7\r",
        ),
    ],
    ids=["VistA's", "only two", "truncation", "doubled backslash"],
)
def test_delimiters_of_the_sender(raw: bytes, expected: bytes) -> None:
    """The acknowledgment uses the sender's delimiters; missing ones are completed."""
    assert answer(raw) == expected


def test_texts_are_escaped_in_odd_delimiters() -> None:
    """A location such as PID-3.1 is escaped if a sender uses - and . as delimiters."""
    raw = b"MSH-.~\\&-A-B-C-D-2026--ORM.O01-7-P-2-6"
    msa = answer(raw, MissingField("PID-3.1")).split(b"\r")[1]
    assert msa == b"MSA-AE-7-required field missing: PID\\F\\3\\S\\1"
    assert read_ack(answer(raw, MissingField("PID-3.1"))).text == "required field missing: PID-3.1"


@pytest.mark.parametrize(
    ("raw", "code", "kind", "processing", "version"),
    [
        (b"MSH|^~\\&|A|B|C|D", b"AA", b"ACK^^ACK", b"P", b"2.5.1"),
        (b"MSH|^~\\&|A|B|C|D|||ORM|1|D|2.9", b"AA", b"ACK^^ACK", b"D", b"2.9"),
        (b"MSH|^~\\&|A|B|C|D|||ORM^O01|1|T|two", b"AA", b"ACK^O01^ACK", b"T", b"2.5.1"),
        (b"MSH|^~\\&|A|B|C|D|||ORM^O01|1|T|2.4 ", b"AA", b"ACK^O01^ACK", b"T", b"2.4 "),
        (b"MSH|^~\\&|A|B|C|D|||ORM^O01|1|T|2", b"AA", b"ACK", b"T", b"2"),
        (b"MSH|^~\\&|A|B|C|D|||ORM^O01|1|T|3.0", b"AA", b"ACK^O01^ACK", b"T", b"2.5.1"),
    ],
)
def test_missing_header_fields(
    raw: bytes, code: bytes, kind: bytes, processing: bytes, version: bytes
) -> None:
    """Absent or invalid values become P in MSH-11 and 2.5.1 in MSH-12; MSA-2 is empty."""
    head, msa = answer(raw).split(b"\r")[:2]
    assert head.split(b"|")[8] == kind
    assert head.split(b"|")[10:12] == [processing, version]
    assert msa.split(b"|")[1:] == [code, peek(raw).control_id]


def test_enhanced_mode() -> None:
    """The accept acknowledgment has a commit code; the application acknowledgment has MSH-15."""
    header = peek(order())
    assert AckCode.REJECT.commit is AckCode.COMMIT_REJECT
    assert AckCode.COMMIT_ERROR.application is AckCode.ERROR
    commit = build_ack(header, AckCode.COMMIT_ACCEPT, control_id="B1", now=NOW)
    assert b"\rMSA|CA|ID7\r" in commit
    application = build_ack(
        header, AckCode.ACCEPT, control_id="B2", now=NOW, expects=AckCondition.ALWAYS
    )
    assert application.split(b"\r")[0].endswith(b"|B2|P|2.5.1|||AL|NE")


def test_a_positive_ack_bears_no_errors() -> None:
    """An accepted message has no ERR segments, also with refusals."""
    ack = build_ack(peek(order()), AckCode.ACCEPT, control_id="B1", now=NOW, refusals=REFUSALS[:1])
    assert b"ERR" not in ack


@pytest.mark.parametrize("version", ["2.3", "2.5.1", "2.7"])
@pytest.mark.parametrize("refusal", REFUSALS, ids=lambda refusal: type(refusal).__name__)
def test_reading_our_own(version: str, refusal: MessageRefusal) -> None:
    """The parser reads the values that the builder wrote."""
    read = read_ack(answer(order(version), refusal))
    assert read.code is refusal.ack_code
    assert read.control_id == b"ID7"
    assert read.error_codes == (refusal.error_code,)
    assert read.text == refusal.text[:80]


@pytest.mark.parametrize(
    ("head", "control_id", "sender"),
    [
        (b"", b"", b""),
        (b"GET / HTTP/1.1", b"", b""),
        (b"MSH", b"", b""),
        (b"MSH|^^\\&|RIS|N|P|S|2026||ORM^O01|77|P|2.5\rPID", b"77", b"RIS"),
        (b"MSH|^\xcb\x9c\\&|RIS|N|P|S|2026||ORM^O01|77|P|2.5\nPID", b"77", b"RIS"),
        (b"MSH|^~\\&|RIS|N|P|S|2026||ORM^O01|77|P|2.5\rMSH|", b"77", b"RIS"),
        (b"MSH|^~\\&|RIS|N|P|S|20", b"", b"RIS"),
        (b"MSH|", b"", b""),
        ("MSH|^~\\&|RIS".encode("utf-16"), b"", b""),
        (b"\x00\xff" * 99, b"", b""),
    ],
)
def test_unreadable_messages_get_a_valid_negative_ack(
    head: bytes, control_id: bytes, sender: bytes
) -> None:
    refusal = MalformedMessage(MalformedReason.NOT_HL7)
    nak = unframed_nak(head, refusal, control_id="B1", now=NOW)
    assert read_ack(nak).code is AckCode.REJECT
    assert read_ack(nak).control_id == control_id
    assert nak.split(b"\r")[0].split(b"|")[4] == sender
    assert read_ack(nak).error_codes == ("100",)


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
