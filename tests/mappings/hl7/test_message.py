"""Messages: values, repetitions, components, nulls, escapes, deviations."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mappings.hl7 import lines
from mappings.hl7.escapes import escape
from mappings.hl7.header import peek
from mappings.hl7.lines import MAX_SEGMENTS
from mappings.hl7.message import (
    MAX_COMPONENTS,
    MAX_ESCAPES,
    MAX_FIELDS,
    MAX_LINES,
    MAX_REPETITIONS,
    MAX_SUBCOMPONENTS,
    NULL,
    Message,
    find_nul,
    is_null,
)
from mappings.hl7.path import EVERY, Path
from mappings.hl7.refusals import MalformedMessage, MalformedReason

RAW = (
    b"MSH|^~\\&|RIS|NORD|PACS|SUED|20260102||ORM^O01|42|P|2.5.1\r"
    b'PID|1|""|100^^^H&1.2.3&ISO^PI~  200 ^^^H^MR~300^^^G^MR ||DOE^JOHN^M~ROE^JOHN||1970|M|||A&B\r'
    b"ZZ1|before anything|x\r"
    b"ORC|NW|P1\r"
    b"OBR|1|P1||CT^CT \\T\\ contrast\r"
    b"NTE|1||first\\.br\\second~third\r"
    b"ORC|NW|P2\r"
    b"OBR|2|P2||MR^Head\r"
    b"OBX|1|TX|H^HISTORY||S&I ^ or so||||||O\r"
    b"zds|1.2.3^X^Application^DICOM\r"
)


@pytest.fixture(name="read")
def _read() -> Message:
    return Message.parse(RAW)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("MSH-1", "|"),
        ("MSH-2", "^~\\&"),
        ("MSH-3", "RIS"),
        ("MSH-9.2", "O01"),
        ("MSH-12", "2.5.1"),
        ("PID-1", "1"),
        ("PID-2", '""'),
        ("PID-3", "100^^^H&1.2.3&ISO^PI"),
        ("PID-3.1", "100"),
        ("PID-3.4", "H&1.2.3&ISO"),
        ("PID-3.4.2", "1.2.3"),
        ("PID-3.1.1", "100"),
        ("PID-3.1.2", ""),
        ("PID-3[2].1", "  200 "),
        ("PID-3[9].1", ""),
        ("PID-3[CX-5=MR].1", "  200 "),
        ("PID-3[CX-5=MR][CX-4.1=G].1", "300"),
        ("PID-3[CX-5=XX].1", ""),
        ("PID-4", ""),
        ("PID-5.2", "JOHN"),
        ("PID-99", ""),
        ("PV1-3.1", ""),
        ("ORC[2]-2", "P2"),
        ("OBR[2]-4.2", "Head"),
        ("OBR[3]-4.2", ""),
        ("OBR-4.2", "CT & contrast"),
        ("NTE-3", "first\nsecond"),
        ("OBX-5", "S&I ^ or so"),
        ("ZDS-1.1", "1.2.3"),
        ("ZZ1-1", "before anything"),
        ("PID", "PID"),
    ],
)
def test_value(read: Message, path: str, value: str) -> None:
    """A path returns one text; absent values are empty."""
    assert read.value(path) == value
    assert read.value(Path.parse(path)) == value


@pytest.mark.parametrize("end", ["\r", "\n", "\r\n", "\r\r\n"])
@pytest.mark.parametrize(
    ("charset", "codec", "name"),
    [
        ("", "ascii", "DOE"),
        ("UNICODE UTF-8", "utf-8", "MÜLLER"),
        ("8859/2", "iso8859-2", "ŻÓŁĆ"),
        ("SHIFT-JIS", "shift_jis", "表示"),
        ("ISO IR87", "iso2022_jp", "山田"),
    ],
)
def test_line_ends_and_charsets_do_not_mix(end: str, charset: str, codec: str, name: str) -> None:
    """Each segment has its own text, for all line ends and encodings."""
    header = f"MSH|^~\\&|RIS|H|B|R|20260101||ORM^O01|1|P|2.5.1||||||{charset}"
    segments = [header, f"PID|1||7||{name}", f"NTE|1||{name}", "ORC|NW|P1"]
    message = Message.parse(end.join(segments).encode(codec) + end.encode())
    assert [segment.text() for segment in message.segments] == segments
    assert [message.value(path) for path in ("PID-5", "NTE-3", "ORC-2")] == [name, name, "P1"]


@pytest.mark.parametrize(
    ("path", "values"),
    [
        ("PID-3.1", ["100", "  200 ", "300"]),
        ("PID-3[CX-5=MR].1", ["  200 ", "300"]),
        ("PID-3[3].1", ["300"]),
        ("NTE-3", ["first\nsecond", "third"]),
        ("ORC[*]-2", ["P1", "P2"]),
        ("ORC-2", ["P1"]),
        ("PV1-3", []),
        ("PID-4", []),
        ("MSH-2", ["^~\\&"]),
    ],
)
def test_values(read: Message, path: str, values: list[str]) -> None:
    """All repetitions are returned, and all segments if the path selects them."""
    assert read.values(path) == values


def test_bytes_are_the_record(read: Message) -> None:
    """The message keeps the bytes object of which it was parsed."""
    assert read.raw is RAW


def test_segments_are_a_stream(read: Message) -> None:
    """Z segments and lower-case names keep their position."""
    assert " ".join(segment.id for segment in read.segments) == (
        "MSH PID ZZ1 ORC OBR NTE ORC OBR OBX ZDS"
    )
    assert [segment.index for segment in read.named("OBR")] == [4, 7]
    assert read.first("ZDS") is read.segments[9]
    assert read.first("PV1") is None
    assert read.segments[9].raw == b"zds|1.2.3^X^Application^DICOM"


def test_null_is_not_empty(read: Message) -> None:
    """`""` is a null; an absent field is empty."""
    pid = read.segments[1]
    assert pid.field(2).is_null
    assert is_null(read.value("PID-2"))
    assert not pid.field(4)
    assert not pid.field(4).is_null


def test_elements(read: Message) -> None:
    """Fields, repetitions, components and subcomponents can be iterated."""
    field = read.segments[1].field(3)
    assert [one.component(1).text() for one in field.repetitions] == ["100", "  200 ", "300"]
    assert field.repetition(2).component(5).text() == "MR"
    assert field.repetition().component(4).subcomponent(2).text() == "1.2.3"
    subs = field.repetition().component(4).subcomponents
    assert [sub.text() for sub in subs] == ["H", "1.2.3", "ISO"]
    assert len(field.repetition(3).components) == 5
    assert field.value("[3].1") == "300"
    assert field.value("[CX-5=MR].4") == "H"
    assert field.values("5") == ["PI", "MR", "MR "]
    assert field.repetition(7).component(1).text() == ""
    assert read.segments[1].field(50).repetitions == ()


def test_unescaped_delimiters_in_prose_are_rejoined(read: Message) -> None:
    """Text such as `S&I ^ or so` is not lost (HL7 v2.5.1 §2.7)."""
    assert read.segments[8].field(5).text() == "S&I ^ or so"
    assert read.segments[5].field(3).text() == "first\nsecond~third"


def test_segment_values_are_relative(read: Message) -> None:
    """In a segment a path needs no segment name; a path of another segment has no value."""
    obr = read.named("OBR")[1]
    assert obr.value("4.1") == "MR"
    assert obr.value("OBR-4.1") == "MR"
    assert obr.value("ORC-2") == ""
    assert obr.values("ORC-2") == []
    assert len(obr) == 4


@pytest.mark.parametrize(
    ("raw", "component", "value"),
    [
        (b"MSH^~|\\&^A\rPID^1^^7~~~H", "PID-3.4", "H"),
        (b"MSH@~&#\\@A\rPID@1@@7~~~H", "PID-3.4", "H"),
        (b"MSH|^~\\\\&|A\rPID|1||7^^^H&X", "PID-3.4.2", "X"),
        (b"MSH|^~|A\rPID|1||7^^^H&X\\F\\", "PID-3.4", "H&X\\F\\"),
        (b"MSH|^|A\rPID|1||7^^^H~8", "PID-3.4", "H~8"),
        (b"MSH|^~\\&#|A\rPID|1||7^^^H\\P\\", "PID-3.4", "H#"),
    ],
)
def test_other_delimiters(raw: bytes, component: str, value: str) -> None:
    """Only the delimiters of MSH-1 and MSH-2 split a message."""
    assert Message.parse(raw).value(component) == value


def test_line_feed_in_a_note_is_text() -> None:
    """A line feed in a note is read as a line break, and is an escape in the segment's line."""
    read = Message.parse(b"MSH|^~\\&|A\rNTE|1||first\nsecond\rPID|1")
    assert read.value("NTE-3") == "first\nsecond"
    assert read.segments[1].text() == "NTE|1||first\\X0A\\second"
    assert read.first("PID") is not None


@pytest.mark.parametrize(
    ("raw", "reason", "place"),
    [
        (b"MSH|^~\\&|A\rMSH|^~\\&|B", MalformedReason.SECOND_HEADER, "MSH[2]"),
        (b"MSH|^~\\&|A\rPID|1\rmsh|^~\\&|B", MalformedReason.SECOND_HEADER, "MSH[2]"),
        (b"MSH|^~\\&|A\rsome text", MalformedReason.STRAY_LINE, "MSH"),
        (b"MSH|^~\\&|A\nsome text\rPID|1", MalformedReason.STRAY_LINE, "MSH"),
        (b"MSH|^~\\&|A\rPID|1\rORC NW", MalformedReason.STRAY_LINE, "PID"),
        (b"", MalformedReason.NOT_HL7, "MSH"),
    ],
)
def test_malformed(raw: bytes, reason: MalformedReason, place: str) -> None:
    """Bytes that are not one message are refused, with reason and location."""
    with pytest.raises(MalformedMessage) as raised:
        Message.parse(raw)
    assert (raised.value.reason, raised.value.place) == (reason, place)


@pytest.mark.parametrize("end", [b"\r", b"\n", b"\r\n"])
def test_a_segment_costs_memory_however_short_it_is(end: bytes) -> None:
    """A message with more segments than the limit is refused before it is parsed."""
    head = b"MSH|^~\\&|A" + end
    assert len(Message.parse(head + (b"OBX|1" + end) * (MAX_SEGMENTS - 1)).names) == MAX_SEGMENTS
    with pytest.raises(MalformedMessage) as raised:
        Message.parse(head + (b"OBX|1" + end) * MAX_SEGMENTS)
    assert raised.value.reason is MalformedReason.TOO_MANY_SEGMENTS


def test_lines_of_a_text_are_no_segments() -> None:
    """16 MiB of unescaped base64 are accepted; an unlimited number of blank lines is not."""
    text = b"QUJD" * 16 + b"\r"
    many = b"MSH|^~\\&|A\rOBX|1|ED|x||" + text * (2**24 // len(text))
    assert len(Message.parse(many).names) == 2
    with pytest.raises(MalformedMessage) as raised:
        Message.parse(b"MSH|^~\\&|A" + b"\r" * MAX_LINES + b"PID|1")
    assert raised.value.reason is MalformedReason.TOO_MANY_SEGMENTS


@pytest.mark.parametrize(
    ("mark", "most"),
    [
        (b"|", MAX_FIELDS),
        (b"^", MAX_COMPONENTS),
        (b"~", MAX_REPETITIONS),
        (b"&", MAX_SUBCOMPONENTS),
    ],
)
def test_parts_of_a_message_cost_memory_however_short_they_are(mark: bytes, most: int) -> None:
    """A message with too many fields, components or repetitions is refused before it is read."""
    many = b"MSH|^~\\&|A\rPID|" + (b"ab" + mark) * (most + 1)
    for read in (Message.parse, lambda raw: find_nul(raw, peek(raw))):
        with pytest.raises(MalformedMessage) as raised:
            read(many)
        assert raised.value.reason is MalformedReason.TOO_MANY_FIELDS


def test_escape_sequences_cost_time() -> None:
    """A message with too many escape sequences is refused before it is read."""
    head = b"MSH|^~\\&|A\rNTE|1||"
    most = head + b"\\T\\" * (MAX_ESCAPES // 2 - 1)
    assert Message.parse(most).value("NTE-3").count("&") == MAX_ESCAPES // 2 - 1
    for read in (Message.parse, lambda raw: find_nul(raw, peek(raw))):
        with pytest.raises(MalformedMessage) as raised:
            read(most + b"\\T\\")
        assert raised.value.reason is MalformedReason.TOO_MANY_ESCAPES


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
