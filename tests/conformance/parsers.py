"""Two independent parsers: hl7apy, which knows the structures of the standard, and python-hl7."""

import hl7
from hl7apy.consts import VALIDATION_LEVEL
from hl7apy.core import Message as TheirMessage
from hl7apy.exceptions import HL7apyException
from hl7apy.parser import get_message_info, parse_message, parse_segments

from mappings.hl7.message import Message

# Not 2.1: there hl7apy requires a second component of every date.
KNOWN_VERSIONS = frozenset(
    {"2.2", "2.3", "2.3.1", "2.4", "2.5", "2.5.1", "2.6", "2.7", "2.8", "2.8.1", "2.8.2"}
)

UNNAMED: dict[str | None, str] = {
    None: "ACK",
    **{f"MDM_{trigger}": "MDM_T02" for trigger in ("T04", "T06", "T08", "T10")},
    "MDM_T11": "MDM_T01",
}
"""The structures of messages without MSH-9.3: in 2.3 MSH-9 has two components (table 0354)."""


def decoded(raw: bytes) -> str:
    return "\r".join(segment.text() for segment in Message.parse(raw).segments) + "\r"


def parsed(raw: bytes, level: int = VALIDATION_LEVEL.TOLERANT) -> TheirMessage:
    """Parse a message with hl7apy, with groups; pass a structure that MSH-9 does not name."""
    text = decoded(raw)
    marks, structure, version = get_message_info(text)
    if structure not in UNNAMED:
        return parse_message(text, validation_level=level, find_groups=True)
    name = UNNAMED[structure]
    message = TheirMessage(name, version=version, validation_level=level, encoding_chars=marks)
    message.children = parse_segments(text, version, marks, level, message.reference, True)
    return message


def structure_errors(raw: bytes, level: int = VALIDATION_LEVEL.TOLERANT) -> str:
    message = Message.parse(raw)
    if message.value("MSH-12.1") not in KNOWN_VERSIONS:
        return ""
    try:
        parsed(raw, level).validate()
    except HL7apyException as error:
        return f"{type(error).__name__}: {error}"
    return ""


def agree(raw: bytes) -> bool:
    ours = Message.parse(raw)
    theirs = hl7.parse(decoded(raw))
    if [str(segment[0]) for segment in theirs] != [segment.id for segment in ours.segments]:
        return False
    separator = ours.delimiters.field
    return all(
        [str(field) for field in segment][1:] == own.text().split(separator)[1:]
        for own, segment in zip(ours.segments[1:], list(theirs)[1:], strict=True)
    )
