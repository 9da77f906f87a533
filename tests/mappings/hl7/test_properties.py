"""Properties of any bytes."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mappings.hl7.acknowledgment import build_ack, read_ack, unframed_nak
from mappings.hl7.batch import join_acks, split
from mappings.hl7.elements import NULL
from mappings.hl7.escapes import escape
from mappings.hl7.header import peek
from mappings.hl7.message import Message
from mappings.hl7.path import EVERY, Path
from mappings.hl7.refusals import MalformedMessage, MalformedReason
from mappings.hl7.tables import AckCode

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
_pieces = st.sampled_from(
    [
        *(
            b"MSH|^~\\&|",
            b"MSH^~|\\&^",
            b"MSH",
            b"PID|",
            b"\rPID|1||7^^^H~8",
            b"OBX|1|TX|||",
            b"NTE",
        ),
        *(
            b"\r",
            b"\n",
            b"\r\n",
            b"|",
            b"^",
            b"~",
            b"\\",
            b"&",
            b'""',
            b"\\F\\",
            b"\\X0D\\",
            b"\\E\\",
        ),
        *(b"8859/1", b"ISO IR87", b"GB 18030-2000", b"UNICODE UTF-8", b"\x1b$B", b"\xc3\xa9"),
        *(b"\xfc", b"\x0b", b"\x1c\r", b"\xef\xbb\xbf", b"\x00", b"FHS|^~\\&", b"BHS|^~\\&", b"A"),
    ]
)
_likely = st.lists(_pieces, max_size=30).map(b"".join)
_header = st.lists(st.binary(max_size=4) | _pieces, max_size=25).map(
    lambda fields: b"MSH|^~\\&|" + b"|".join(fields)
)
_bytes = st.binary(max_size=80) | _likely | _header


@given(_bytes)
def test_read_or_malformed(raw: bytes) -> None:
    """Any bytes are parsed or raise MalformedMessage; parsing does not change them."""
    try:
        read = Message.parse(raw)
    except MalformedMessage:
        return
    assert read.raw == raw
    for segment in read.segments:
        assert b"\r" not in segment.raw
        for number in range(len(segment) + 1):
            assert isinstance(segment.field(number).text(), str)


@given(_bytes)
def test_peek_agrees_with_parse(raw: bytes) -> None:
    """If a message can be parsed, `peek` returns its header."""
    try:
        header = Message.parse(raw).header
    except MalformedMessage:
        return
    assert peek(raw) == header


@given(_bytes)
def test_any_bytes_get_a_negative_ack(raw: bytes) -> None:
    """A NAK to any bytes is one valid negative message."""
    nak = unframed_nak(raw, MalformedMessage(MalformedReason.NOT_HL7), control_id="B1", now=NOW)
    assert read_ack(nak).code is AckCode.REJECT
    assert nak.count(b"\r") == 3
    assert b"\n" not in nak


@given(_bytes)
def test_acks_echo_the_control_id(raw: bytes) -> None:
    """MSA-2 is MSH-10 for any bytes."""
    try:
        header = peek(raw)
    except MalformedMessage:
        return
    ack = build_ack(header, AckCode.ERROR, control_id="B1", now=NOW)
    separator = header.fields[1]
    assert ack.split(b"\r")[1] == separator.join((b"MSA", b"AE", header.control_id))


@given(_bytes)
def test_batches_split_or_not(raw: bytes) -> None:
    """Splitting and answering a batch raises only MalformedMessage."""
    try:
        found = split(raw)
    except MalformedMessage:
        return
    for one in found or []:
        assert one in raw
        assert one.startswith(b"MSH")
    if found is not None:
        assert isinstance(join_acks(raw, [], control_id="R1", now=NOW), bytes)


_CONTROLS = [chr(code) for code in (*range(0x20), 0x7F) if chr(code) not in "\t\r\n"]
_text = st.text(st.characters(exclude_categories=["Cs"], exclude_characters=_CONTROLS), max_size=30)


@given(st.lists(st.lists(_text, min_size=1, max_size=4), min_size=1, max_size=4))
def test_any_text_survives_a_message(rows: list[list[str]]) -> None:
    """Escaped components are read as the same texts in any field."""
    fields = "|".join("^".join(map(escape, row)) for row in rows)
    raw = f"MSH|^~\\&|A|||||||1|P|2.5||||||UNICODE UTF-8\rZZZ|{fields}|end\r".encode()
    read = Message.parse(raw)
    for number, row in enumerate(rows, start=1):
        for component, text in enumerate(row, start=1):
            assert read.value(Path("ZZZ", number, component)) == text
    assert read.value(Path("ZZZ", len(rows) + 1)) == "end"


@pytest.mark.parametrize("control", _CONTROLS, ids=lambda control: f"{ord(control):02X}")
def test_a_control_character_stays_as_it_is_written(control: str) -> None:
    """It does not get into the text; the escape is visible."""
    raw = f"MSH|^~\\&|A|||||||1|P|2.5\rZZZ|a{escape(control)}b\r".encode()
    read = Message.parse(raw).value(Path("ZZZ", 1))
    assert read == f"a{escape(control)}b"


@given(_likely)
def test_every_segment_can_be_addressed(raw: bytes) -> None:
    """A path returns what is in the message, and `""` is unchanged."""
    try:
        read = Message.parse(raw)
    except MalformedMessage:
        return
    for segment in read.segments:
        nth = read.named(segment.id).index(segment) + 1
        for number in range(1, len(segment) + 1):
            path = Path.parse(str(Path(segment.id, number, occurrence=nth)))
            repetitions = read.values(path)
            assert read.value(path) == (repetitions[0] if repetitions else "")
            every = read.values(Path(segment.id, number, occurrence=EVERY))
            assert len(every) >= len(repetitions)
            if segment.field(number).raw == NULL:
                assert read.value(path) == NULL
