"""
The content of a message for display: its segments and fields, or its text.

The content contains patient data: show it to users who may read content, and do not log it.
"""

from collections.abc import Iterator
from typing import Any

from mappings.hl7.elements import Component, Field
from mappings.hl7.message import Message, Segment
from mappings.hl7.refusals import MessageRefusal

_HEADERS = frozenset({"MSH", "FHS", "BHS"})
_DELIMITER_FIELDS = 2  # MSH-1 and MSH-2 are delimiters


MAX_PLACES = 50_000
"""Fields and components of a message that are shown individually; each needs 400 bytes."""


def segment_tree(payload: bytes, charset: str = "utf-8") -> list[dict[str, Any]]:
    """
    Return the segments with their non-empty fields; [] if the payload is not HL7.

    Segments beyond MAX_PLACES are replaced by one with the name "…".
    """
    try:
        message = Message.parse(payload, fallback=charset)
    except MessageRefusal:
        return []
    shown = first_segments(message)
    tree = [_segment(segment, number) for segment, number in shown]
    rest = {"name": "…", "place": "…", "fields": list[Any]()}
    return tree if len(shown) == len(message.names) else [*tree, rest]


def first_segments(message: Message) -> list[tuple[Segment, int]]:
    """Return the first segments, up to MAX_PLACES fields and components, with their numbers."""
    used, places = message.delimiters, 0
    separators = (used.field, used.component, used.repetition, used.subcomponent)
    found = []
    for segment, number in zip(message.segments, message.numbers, strict=True):
        places += 1 + sum(segment.text().count(each) for each in separators if each)
        if places > MAX_PLACES:
            break
        found.append((segment, number))
    return found


def message_text(data: bytes | None, charset: str = "utf-8") -> str:
    """
    Return a message as text, one segment per line.

    The character set is that of MSH-18, or `charset` if MSH-18 is empty. Data that is not HL7 is
    decoded as UTF-8; invalid bytes become escapes.
    """
    if data is None:
        return ""
    try:
        message = Message.parse(data, fallback=charset)
    except MessageRefusal:
        pass
    else:
        return "\n".join(segment.text() for segment in message.segments)
    return data.replace(b"\r", b"\n").decode("utf-8", "backslashreplace").strip("\n")


def _segment(segment: Segment, number: int) -> dict[str, Any]:
    name = segment.id if number == 1 else f"{segment.id}[{number}]"
    fields = [
        _field(segment, f"{name}-{index}", index)
        for index in range(1, len(segment) + 1)
        if segment.field_text(index)
    ]
    return {"name": segment.id, "place": name, "fields": fields}


def _field(segment: Segment, place: str, number: int) -> dict[str, Any]:
    raw = segment.field_text(number)
    if segment.id in _HEADERS and number <= _DELIMITER_FIELDS:
        return {"place": place, "text": raw, "parts": []}
    field = segment.field(number)
    parts = [
        {"place": f"{start}.{index}", "text": component.text()}
        for start, components in _repetitions(field, place)
        for index, component in enumerate(components, start=1)
        if component.text()
    ]
    return {"place": place, "text": raw if parts else field.text(), "parts": parts}


def _repetitions(field: Field, place: str) -> Iterator[tuple[str, tuple[Component, ...]]]:
    """Yield place and components of each repetition; nothing if the field is one plain value."""
    repetitions = field.repetitions
    for count, repetition in enumerate(repetitions, start=1):
        components = repetition.components
        if len(repetitions) > 1 or len(components) > 1:
            yield (place if len(repetitions) == 1 else f"{place}({count})"), components
