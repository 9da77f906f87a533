"""Messages of every shape are parsed, or refused with reason and location; two parsers agree."""

import csv
import re
from datetime import UTC, datetime
from pathlib import Path as File

import hl7
import pytest
from hl7apy.consts import VALIDATION_LEVEL
from hl7apy.parser import parse_segment
from hypothesis import given
from hypothesis import strategies as st

from mappings.hl7.acknowledgment import build_ack, read_ack, unframed_nak
from mappings.hl7.batch import split
from mappings.hl7.header import peek
from mappings.hl7.message import Message, Segment
from mappings.hl7.refusals import AckCode, ErrorCode, MalformedMessage, MalformedReason
from tests.corpus import CORPUS, SHAPES

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
REFUSED = {
    "adt-two-headers": (MalformedReason.SECOND_HEADER, "MSH[2]"),
    "batch-of-two": (MalformedReason.BATCH, "MSH"),
    "oru-small-tilde": (MalformedReason.ENCODING_CHARACTERS, "MSH-2"),
    "cosyte-duplicate-required-segment": (MalformedReason.SECOND_HEADER, "MSH[2]"),
    "cosyte-single-batch": (MalformedReason.BATCH, "MSH"),
    # its repetition separator is a small tilde, U+02DC in UTF-8
    "ansforge-message_ORU_CR_Bio_RPLC_N1_Base64_N3_Base64": (
        MalformedReason.ENCODING_CHARACTERS,
        "MSH-2",
    ),
}
READ = [file for file in CORPUS if file.stem not in REFUSED]
HL7APY_IS_SLOW = 15_000  # bytes


@pytest.mark.parametrize("file", CORPUS, ids=lambda file: file.stem)
def test_read_or_refused(file: File) -> None:
    """Each message is parsed, or refused with reason, location and a reply with its id."""
    raw = file.read_bytes()
    if file.stem in REFUSED:
        with pytest.raises(MalformedMessage) as raised:
            Message.parse(raw)
        assert (raised.value.reason, raised.value.place) == REFUSED[file.stem]
        nak = read_ack(unframed_nak(raw, raised.value, control_id="B1", now=NOW))
        assert nak.code is AckCode.REJECT
        assert nak.error_codes == (ErrorCode.SEGMENT_SEQUENCE,)
        return
    read = Message.parse(raw)
    assert read.raw == raw
    assert peek(raw) == read.header
    assert read.header.control_id


@pytest.mark.parametrize("file", READ, ids=lambda file: file.stem)
def test_acknowledged_with_its_own_control_id(file: File) -> None:
    """MSA-2 is the control id as sent."""
    header = peek(file.read_bytes())
    ack = read_ack(build_ack(header, AckCode.ACCEPT, control_id="B1", now=NOW))
    assert (ack.code, ack.control_id) == (AckCode.ACCEPT, header.control_id)


@pytest.mark.parametrize("file", READ, ids=lambda file: file.stem)
def test_python_hl7_reads_the_same_fields(file: File) -> None:
    """python-hl7 splits the same text into the same fields."""
    read = Message.parse(file.read_bytes())
    lines = [segment.text() for segment in read.segments]
    theirs = hl7.parse("\r".join(lines).replace("\\\\&", "\\&", 1))
    assert len(theirs) == len(read.segments)
    for segment, their in zip(read.segments, theirs, strict=True):
        assert str(their[0]).upper() == segment.id
        first = 3 if segment.id == "MSH" else 1
        for number in range(first, len(segment) + 1):
            assert str(their(number)) == segment.field(number).raw


@pytest.mark.parametrize(
    "file",
    [file for file in READ if file.stat().st_size < HL7APY_IS_SLOW],
    ids=lambda file: file.stem,
)
def test_hl7apy_reads_the_same_texts(file: File) -> None:
    read = Message.parse(file.read_bytes())
    for segment in filter(comparable, read.segments):
        line = segment.id + segment.text()[3:]
        their = parse_segment(line, "2.6", None, VALIDATION_LEVEL.TOLERANT)
        for number in range(1, len(segment) + 1):
            name = f"{segment.id}_{number}"
            found = [child.to_er7() for child in their.children if child.name == name]
            ours = [one.raw for one in segment.field(number).repetitions]
            assert not found or leaves(found) == leaves(ours)


def comparable(segment: Segment) -> bool:
    """Remove what hl7apy does not know (Z segments, PRT of v2.7) or rewrites (escapes)."""
    name = segment.id
    return name not in {"MSH", "PRT"} and not name.startswith("Z") and "\\" not in segment.text()


def leaves(repetitions: list[str]) -> list[list[str]]:
    """Return the smallest texts, sorted: hl7apy moves components and drops zeros of numbers."""
    texts = [re.split("[\\^&]", one) for one in repetitions]
    return [sorted(filter(None, (text.lstrip("0") for text in row))) for row in texts]


BATCHES = {
    "batch-of-two": [b"SHB0001", b"SHB0002"],
    "cosyte-single-batch": [b"MSGA0001", b"MSGA0002"],
}


@pytest.mark.parametrize(
    "file", [file for file in CORPUS if file.stem in BATCHES], ids=lambda file: file.stem
)
def test_the_batch(file: File) -> None:
    """A batch contains two valid messages."""
    found = split(file.read_bytes()) or []
    ids = [Message.parse(one).header.control_id for one in found]
    assert ids == BATCHES[file.stem]


@given(data=st.data())
def test_damaged_messages(data: st.DataObject) -> None:
    """A message with parts removed, overwritten or repeated is parsed or refused, and answered."""
    small = [file for file in CORPUS if file.stat().st_size < HL7APY_IS_SLOW]
    raw = bytearray(data.draw(st.sampled_from(small)).read_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        start = data.draw(st.integers(0, min(len(raw), 200)) | st.integers(0, len(raw)))
        end = start + data.draw(st.integers(0, 20))
        raw[start:end] = data.draw(st.binary(max_size=6) | st.sampled_from([b"\r", b"\n", b"|"]))
    damaged = bytes(raw)
    try:
        read = Message.parse(damaged)
    except MalformedMessage as refusal:
        nak = unframed_nak(damaged, refusal, control_id="B1", now=NOW)
        assert read_ack(nak).code is AckCode.REJECT
        return
    assert read.raw == damaged
    assert peek(damaged) == read.header
    for segment in read.segments:
        assert isinstance(read.value(f"{segment.id}-1"), str)
        assert "\r" not in segment.text()
    ack = build_ack(read.header, AckCode.ACCEPT, control_id="B1", now=NOW)
    assert read_ack(ack).code is AckCode.ACCEPT
    assert read_ack(ack).control_id == read.header.control_id.strip()


def test_the_list_of_shapes_is_complete() -> None:
    """`shapes.csv` says of each message of ours what is special about it."""
    with (SHAPES[0].parents[1] / "shapes.csv").open(encoding="utf-8", newline="") as table:
        listed = [row["file"] for row in csv.DictReader(table)]
    assert sorted(listed) == sorted(file.stem for file in SHAPES)
