"""Properties of any bytes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mappings.hl7.elements import NULL
from mappings.hl7.escapes import escape
from mappings.hl7.message import Message
from mappings.hl7.path import EVERY, Path
from mappings.hl7.refusals import MalformedMessage

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
