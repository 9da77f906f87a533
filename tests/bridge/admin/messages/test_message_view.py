"""A message for display and editing: edits become bytes without loss, or are refused."""

import pytest

from bridge.admin.errors import InvalidEdit
from bridge.admin.messages.message_content import (
    editable_message,
    encode_edit,
    is_shown_whole,
)
from mappings.hl7.tree import MAX_PLACES

MESSAGE = (
    b"MSH|^~\\&|RIS|HOSP|BRIDGE|RAD|20260102||ORM^O01|C1|P|2.5.1||||||8859/15\r"
    b"PID|1||M1^^^HOSP^MR||D\xd6E^JANE \xa4\r"
    b"ORC|NW|P1|F1\r"
)


def edited(before: str, after: str, message: bytes = MESSAGE) -> bytes:
    """Return a message after a replacement of text."""
    lines = [
        segment.replace(before, after) for segment in editable_message(message, "utf-8").segments
    ]
    return encode_edit(message, lines, "utf-8")


def test_unchanged_text_keeps_its_bytes() -> None:
    """In the message's own character set; blank lines are removed."""
    assert edited("M1", "M2") == MESSAGE.replace(b"M1", b"M2")
    lines = [*editable_message(MESSAGE, "utf-8").segments, "", "NTE|1||more"]
    assert encode_edit(MESSAGE, lines, "utf-8") == MESSAGE + b"NTE|1||more\r"


def test_bytes_outside_the_declared_character_set_are_kept() -> None:
    """A message with a wrong MSH-18 is decoded and encoded byte for byte."""
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
def test_an_edit_with_loss_is_refused_with_its_place(before: str, after: str, place: str) -> None:
    """Delimiters do not change, and no character is lost or replaced."""
    with pytest.raises(InvalidEdit) as refused:
        edited(before, after)
    assert refused.value.more == {"place": place}


def test_an_edit_must_begin_with_msh() -> None:
    """An empty message is refused too."""
    for lines in ([], ["  "], ["PID|1"]):
        with pytest.raises(InvalidEdit):
            encode_edit(MESSAGE, lines, "utf-8")


@pytest.mark.parametrize("mark", [b"|", b"^", b"~", b"&"])
def test_a_message_with_very_many_parts_is_not_shown_whole(mark: bytes) -> None:
    """A sender's message of 1 MiB would take 170 MB, each time that it is opened."""
    many = MESSAGE + b"NTE|1||" + (b"a" + mark) * MAX_PLACES + b"\rNTE|2\r"
    assert [is_shown_whole(item, "utf-8") for item in (many, MESSAGE)] == [False, True]
