"""Batches and files of messages (HL7 v2.5.1 §2.10.3)."""

from datetime import UTC, datetime

import pytest

from mappings.hl7.acknowledgment import build_ack, read_ack
from mappings.hl7.batch import MAX_MESSAGES, find_stray_lines, find_wrong_count, join_acks, split
from mappings.hl7.header import peek
from mappings.hl7.message import Message
from mappings.hl7.refusals import AckCode, MalformedMessage, MalformedReason
from tests.peak_memory import peak_memory

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
ONE = b"MSH|^~\\&|A|B|C|D|2026||ORM^O01|1|P|2.5\rNTE|1||MSH in the text\r"
TWO = b"MSH|^~\\&|A|B|C|D|2026||ORM^O01|2|P|2.5\rPID|1||9\r"
FILE = b"FHS|^~\\&|A|B|C|D|2026||name|comment|F1\r"
FILE_ANSWER = b"FHS|^~\\&|C|D|A|B|20260102030405+0000||||R1|F1\r"
BATCH_ANSWER = b"BHS|^~\\&|C|D|A|B|20260102030405+0000||||R1|B1\r"
BATCH = b"BHS|^~\\&|A|B|C|D|2026||name|comment|B1\r"


@pytest.mark.parametrize(
    "raw",
    [
        FILE + BATCH + ONE + TWO + b"BTS|2\rFTS|1\r",
        BATCH + ONE + TWO + b"BTS|2",
        BATCH + ONE + TWO,
        FILE + ONE + TWO + b"FTS|1\r",
        FILE + BATCH + ONE + b"BTS|1\r" + BATCH + TWO + b"BTS|1\rFTS|2\r",
    ],
)
def test_split(raw: bytes) -> None:
    """Each message is returned with its bytes unchanged, without the envelope."""
    found = split(raw)
    assert found is not None
    assert b"".join(one.removesuffix(b"\r") + b"\r" for one in found) == ONE + TWO
    assert [Message.parse(one).header.control_id for one in found] == [b"1", b"2"]


@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
def test_other_line_ends(end: bytes) -> None:
    raw = (FILE + BATCH + ONE + TWO + b"BTS|2\rFTS|1\r").replace(b"\r", end)
    assert split(raw) == [ONE.replace(b"\r", end), TWO.replace(b"\r", end)]


@pytest.mark.parametrize("raw", [ONE, ONE + TWO, b"", b"FHSA", b"hello", b"PID|1"])
def test_no_batch(raw: bytes) -> None:
    """Without FHS or BHS in front, several headers are not a batch."""
    assert split(raw) is None


@pytest.mark.parametrize(
    ("raw", "place"),
    [
        (BATCH + ONE + TWO + b"BTS|3\r", "BTS-1"),
        (BATCH + ONE + TWO + b"BTS|02|comment\r", ""),
        (BATCH + ONE + TWO + b"BTS\r", ""),
        (BATCH + ONE + TWO + b"BTS|two\r", ""),
        (BATCH + b"BTS|1\r", "BTS-1"),
        (b"BHS$^~\\&$A\r" + ONE + b"BTS$2\r", "BTS-1"),
        (FILE + BATCH + ONE + b"BTS|1\r" + BATCH + TWO + b"BTS|2\rFTS|2\r", "BTS-1"),
        (FILE + BATCH + ONE + b"BTS|1\r" + BATCH + TWO + b"BTS|1\rFTS|3\r", "FTS-1"),
        (FILE + BATCH + ONE + TWO + b"BTS|2\rFTS|2\r", ""),
        (FILE + ONE + TWO + b"FTS|1\r", ""),
        (FILE + ONE + TWO + b"FTS|3\r", "FTS-1"),
        (FILE + b"FTS|0\r", ""),
    ],
)
def test_announced_numbers(raw: bytes, place: str) -> None:
    """BTS-1 counts the messages of a batch; FTS-1 counts batches or messages."""
    assert find_wrong_count(raw) == place


@pytest.mark.parametrize(
    ("raw", "place"),
    [
        (FILE + BATCH + ONE + TWO + b"BTS|2\rFTS|1\r", ""),
        (BATCH + b"XMSH|^~\\&|A|B\rPID|1||9\r" + ONE + b"BTS\r", "BHS"),
        (BATCH + b"PID|1\r", "BHS"),
        (BATCH + ONE + b"BTS\rPID|1||9\r", "BTS"),
        (FILE + b"hello\r" + BATCH + ONE + b"BTS|1\rFTS|1\r", "FHS"),
        ((BATCH + ONE + b"BTS|1\rORC|NW\r").replace(b"\r", b"\r\n"), "BTS"),
        ((BATCH + ONE + b"BTS|1\r").replace(b"\r", b"\r\n") + b"\x1a\x00", ""),
        (FILE + b"SFT|Maker\rZFH|1\r\r" + BATCH + b"UAC|X\r" + ONE + b"BTS|1\r", ""),
        (BATCH.replace(b"comment", b"a\ncomment") + ONE + b"BTS|1\r", ""),
    ],
)
def test_lines_without_a_message(raw: bytes, place: str) -> None:
    """Lines after a damaged header are reported, segments of v2.7 and of vendors are not."""
    assert find_stray_lines(raw) == place


def test_empty_batch() -> None:
    assert split(BATCH + b"BTS|0\r") == []


def test_wide_encoding() -> None:
    """UTF-16 is refused."""
    with pytest.raises(MalformedMessage):
        split(BATCH.decode().encode("utf-16"))


@pytest.mark.parametrize(
    ("envelope", "opening", "closing"),
    [
        (
            FILE + BATCH,
            FILE_ANSWER + BATCH_ANSWER,
            b"BTS|2\rFTS|1\r",
        ),
        (BATCH, BATCH_ANSWER, b"BTS|2\r"),
        (b"FHS|\r", b"FHS|^~\\&|||||20260102030405+0000||||R1|\r", b"FTS|1\r"),
        (
            b"BHS^~|\\&^A^B^C^D\r",
            b"BHS^~|\\&^C^D^A^B^20260102030405+0000^^^^R1^\r",
            b"BTS^2\r",
        ),
    ],
)
def test_answers_are_wrapped_alike(envelope: bytes, opening: bytes, closing: bytes) -> None:
    """The answer has the envelope of the batch and refers to its control ids."""
    raw = envelope + ONE + TWO
    acks = [
        build_ack(peek(one), AckCode.ACCEPT, control_id=f"K{index}", now=NOW)
        for index, one in enumerate(split(raw) or [])
    ]
    joined = join_acks(raw, acks, control_id="R1", now=NOW)
    assert joined == opening + b"".join(acks) + closing
    assert [read_ack(ack).control_id for ack in split(joined) or []] == [b"1", b"2"]


@pytest.mark.parametrize("header", [b"FHS", b"BHS"])
def test_a_header_without_fields_is_answered(header: bytes) -> None:
    """A header that ends before its separator is answered with the standard separator."""
    raw = header + b"\r" + ONE
    ack = build_ack(peek(ONE), AckCode.ACCEPT, control_id="K1", now=NOW)
    joined = join_acks(raw, [ack], control_id="R1", now=NOW)

    assert split(raw) == [ONE.rstrip(b"\r")]
    assert joined.startswith(header + b"|^~\\&|")
    assert split(joined) == [ack]


@pytest.mark.parametrize("raw", [b"FHS\x0c\\~|\r", b"BHS \r"])
def test_a_separator_that_cannot_be_one(raw: bytes) -> None:
    """A text that only starts like a batch is not a batch."""
    assert split(raw + ONE) is None


@pytest.mark.parametrize("header", [BATCH, FILE + BATCH, FILE])
@pytest.mark.parametrize("messages", [MAX_MESSAGES - 1, MAX_MESSAGES, MAX_MESSAGES + 1])
def test_the_most_messages_of_a_batch(header: bytes, messages: int) -> None:
    """10,000 messages are accepted; with one more the batch is refused as a whole."""
    raw = header + ONE * messages + b"BTS|%d\r" % messages
    if messages <= MAX_MESSAGES:
        assert split(raw) == [ONE] * messages
    else:
        with pytest.raises(MalformedMessage):
            split(raw)


@pytest.mark.parametrize("line", [b"MSH|\r", b"BTS\r", b"BHS|^~\\&\r"])
def test_the_parts_of_a_batch_cost_memory_however_short_they_are(line: bytes) -> None:
    """A batch with too many messages, headers or trailers is refused before it is split."""
    many = BATCH + line * (100 * MAX_MESSAGES)
    with peak_memory() as peak, pytest.raises(MalformedMessage) as raised:
        split(many)
    assert raised.value.reason is MalformedReason.TOO_MANY_MESSAGES
    assert peak.bytes < 20 * 2**20


def test_lines_beside_the_messages_are_examined_one_by_one() -> None:
    """The memory for a header with many lines is the memory of one line."""
    many = BATCH + b"Z11\r" * 1_000_000
    with peak_memory() as peak:
        assert find_stray_lines(many) == ""
    assert peak.bytes < 10 * 2**20
