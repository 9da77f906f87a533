"""The header, parsed from the bytes of the first line."""

import pytest

from mappings.hl7.header import peek
from mappings.hl7.message import Message
from mappings.hl7.refusals import MalformedMessage, MalformedReason

FULL = (
    b"MSH|^~\\&|RIS^1.2^ISO|NORD |PACS|S\xfcd|20260102030405+0100|sec|ORM^O01^ORM_O01|\xfc7 |P^T"
    b"|2.5.1^DEU|12|ptr|AL|NE|DEU|8859/1~ISO IR87|de|ISO 2022-1994|prof"
)


def test_every_field() -> None:
    """Fields are unchanged bytes; codes are trimmed texts."""
    header = peek(FULL + b"\rPID|1")
    assert header.sending_application == b"RIS^1.2^ISO"
    assert header.sending_facility == b"NORD "
    assert header.receiving_application == b"PACS"
    assert header.receiving_facility == b"S\xfcd"
    assert (header.message_code, header.trigger, header.structure) == ("ORM", "O01", "ORM_O01")
    assert header.control_id == b"\xfc7 "
    assert (header.processing_id, header.version) == ("P", "2.5.1")
    assert (header.sequence_number, header.accept_ack, header.application_ack) == (
        b"12",
        b"AL",
        b"NE",
    )
    assert header.enhanced
    assert header.charset == b"8859/1~ISO IR87"
    assert header.fields[1] == b"|"
    assert header.fields[2] == b"^~\\&"
    assert header.fields[21] == b"prof"


@pytest.mark.parametrize("raw", [b"MSH|^~\\&", b"MSH|^~\\&|", b"msh|^~\\&", b"MSH|^~\\&\rPID|"])
def test_short_headers(raw: bytes) -> None:
    """Missing fields are empty."""
    header = peek(raw)
    assert header.control_id == b""
    assert header.message_code == ""
    assert not header.enhanced


@pytest.mark.parametrize("end", [b"\r", b"\n", b"\r\n"])
def test_ends_at_any_line_end(end: bytes) -> None:
    """Any line end terminates MSH, whatever the message uses."""
    assert peek(FULL + end + b"PID|1\rOBR|1").fields[21] == b"prof"


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        (b"", MalformedReason.NOT_HL7),
        (b"hello", MalformedReason.NOT_HL7),
        (b"GET / HTTP/1.1\r\n", MalformedReason.NOT_HL7),
        (b"PID|1||7", MalformedReason.NOT_HL7),
        (b"MSH", MalformedReason.FIELD_SEPARATOR),
        (b"MSHA^~\\&", MalformedReason.FIELD_SEPARATOR),
        (b"MSH||A", MalformedReason.ENCODING_CHARACTERS),
        (b"FHS|^~\\&|A\rMSH|^~\\&", MalformedReason.BATCH),
        (b"BHS|^~\\&|A\rMSH|^~\\&", MalformedReason.BATCH),
    ],
)
def test_refused(raw: bytes, reason: MalformedReason) -> None:
    with pytest.raises(MalformedMessage) as raised:
        peek(raw)
    assert raised.value.reason is reason


def test_separator_inside_a_character() -> None:
    """GB 18030 characters may end in the byte of `|`; they do not split the facility's name."""
    name = "丂亅"  # their second bytes look like @ and |
    assert b"|" in name.encode("gb18030")
    raw = f"MSH|^~\\&|RIS|{name}|C|D|2026||ORM^O01|77|P|2.5||||||GB 18030-2000\rPID|1".encode(
        "gb18030"
    )
    header = peek(raw)
    assert header.control_id == b"77"
    assert header.sending_facility == name.encode("gb18030")
    assert Message.parse(raw).value("MSH-4") == name
