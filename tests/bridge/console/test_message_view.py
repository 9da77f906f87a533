"""A message as a person edits it: back to bytes without loss, or refused with its place."""

import pytest

from bridge.console.errors import InvalidEdit
from bridge.console.message_view import editable_message, encode_edit, segment_tree

MESSAGE = (
    b"MSH|^~\\&|RIS|HOSP|BRIDGE|RAD|20260102||ORM^O01|C1|P|2.5.1||||||8859/15\r"
    b"PID|1||M1^^^HOSP^MR||D\xd6E^JANE \xa4\r"
    b"ORC|NW|P1|F1\r"
)


def edited(before: str, after: str, message: bytes = MESSAGE) -> bytes:
    """What becomes of a message when a text in it is written over."""
    lines = [each.replace(before, after) for each in editable_message(message, "utf-8").segments]
    return encode_edit(message, lines, "utf-8")


def test_what_was_not_touched_stays_byte_for_byte() -> None:
    """In the message's own character set; blank lines are none."""
    assert edited("M1", "M2") == MESSAGE.replace(b"M1", b"M2")
    lines = [*editable_message(MESSAGE, "utf-8").segments, "", "NTE|1||more"]
    assert encode_edit(MESSAGE, lines, "utf-8") == MESSAGE + b"NTE|1||more\r"


def test_bytes_that_are_no_text_of_their_character_set_survive() -> None:
    """A message whose declaration lies is read byte for byte, and written so."""
    liar = MESSAGE.replace(b"8859/15", b"UNICODE UTF-8")
    assert edited("M1", "M2", liar) == liar.replace(b"M1", b"M2")
    unreadable = b"MSH|\xff\rPID|1\r"
    assert editable_message(unreadable, "utf-8").segments == ("MSH|\xff", "PID|1")


@pytest.mark.parametrize(
    ("before", "after", "place"),
    [
        ("M1", "M1", "MSH"),
        ("^~\\&", "#~\\&", "MSH-2"),
        ("MSH|", "MSH!", "MSH-2"),
        ("PID|", "PID!", "line 2"),
        ("PID|", "pid|", "line 2"),
        ("PID|", "MSH|", "line 2"),
        ("M1", "M\x0b1", "line 2"),
        ("M1", "M1\rZZZ|1", "line 2"),
        ("M1", "\u4e2d", "line 2"),
        ("8859/15", "UNICODE UTF-8", "MSH-18"),
    ],
)
def test_what_cannot_be_written_is_refused_with_its_place(
    before: str, after: str, place: str
) -> None:
    """Delimiters stay, segments are segments, and no character is lost or replaced."""
    with pytest.raises(InvalidEdit) as refused:
        edited(before, after)
    assert refused.value.more == {"place": place}


def test_what_is_no_message_is_refused() -> None:
    """Without a segment, or one that does not begin with MSH."""
    for lines in ([], ["  "], ["PID|1"]):
        with pytest.raises(InvalidEdit):
            encode_edit(MESSAGE, lines, "utf-8")


ORDERS = (
    b"MSH|^~\\&|RIS|HOSP|BRIDGE|RAD|20260102||ORM^O01|C1|P|2.5.1\r"
    b"PID|1||M1^^^HOSP^MR~N2^^^NHS||DOE^JANE\r"
    b"ORC|NW|P1|F1\rOBR|1|P1|F1|71250^CT\rOBR|2|P2|F2|71260^CT|||||||||||||||A2\r"
)


def test_the_tree_names_each_place() -> None:
    """Repetitions and components as the mapping language writes them."""
    pid = segment_tree(ORDERS)[1]
    parts = {each["place"]: each["text"] for field in pid["fields"] for each in field["parts"]}
    assert parts["PID-3(2).1"] == "N2"
    assert parts["PID-5.2"] == "JANE"
    assert segment_tree(ORDERS)[4]["place"] == "OBR[2]"
