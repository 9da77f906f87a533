"""Two parsers that are not ours: hl7apy, which knows the standard's structures, and python-hl7."""

import hl7
from hl7apy.consts import VALIDATION_LEVEL
from hl7apy.core import Message as TheirMessage
from hl7apy.exceptions import HL7apyException
from hl7apy.parser import get_message_info, parse_message, parse_segments

from mappings.hl7.message import Message

# Not 2.1: hl7apy asks for a second component of every date there.
KNOWN_VERSIONS = frozenset(
    {"2.2", "2.3", "2.3.1", "2.4", "2.5", "2.5.1", "2.6", "2.7", "2.8", "2.8.1", "2.8.2"}
)

UNNAMED: dict[str | None, str] = {
    None: "ACK",
    **{f"MDM_{trigger}": "MDM_T02" for trigger in ("T04", "T06", "T08", "T10")},
    "MDM_T11": "MDM_T01",
}
"""Structures of messages that cannot name them: MSH-9 has two components in 2.3 (table 0354)."""


def decoded(raw: bytes) -> str:
    """The text of a message of ours, by its own charset."""
    return "\r".join(segment.text() for segment in Message.parse(raw).segments) + "\r"


def parsed(raw: bytes, level: int = VALIDATION_LEVEL.TOLERANT) -> TheirMessage:
    """A message as hl7apy reads it, groups found; structures that MSH-9 does not name are told."""
    text = decoded(raw)
    marks, structure, version = get_message_info(text)
    if structure not in UNNAMED:
        return parse_message(text, validation_level=level, find_groups=True)
    name = UNNAMED[structure]
    message = TheirMessage(name, version=version, validation_level=level, encoding_chars=marks)
    message.children = parse_segments(text, version, marks, level, message.reference, True)
    return message


def structure_errors(raw: bytes, level: int = VALIDATION_LEVEL.TOLERANT) -> str:
    """What hl7apy objects to; '' when nothing, or when it does not know the version."""
    message = Message.parse(raw)
    if message.value("MSH-12.1") not in KNOWN_VERSIONS:
        return ""
    try:
        parsed(raw, level).validate()
    except HL7apyException as error:
        return f"{type(error).__name__}: {error}"
    return ""


def agree(raw: bytes) -> bool:
    """Whether python-hl7 sees the same segments and the same fields."""
    ours = Message.parse(raw)
    theirs = hl7.parse(decoded(raw))
    if [str(segment[0]) for segment in theirs] != [segment.id for segment in ours.segments]:
        return False
    separator = ours.delimiters.field
    return all(
        [str(field) for field in segment][1:] == mine.text().split(separator)[1:]
        for mine, segment in zip(ours.segments[1:], list(theirs)[1:], strict=True)
    )
