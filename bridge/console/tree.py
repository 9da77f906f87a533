"""
A message as people read it: segments, fields, repetitions, components, each with its place.

Pure. Holds patient data: for a screen, and no log.
"""

from collections.abc import Iterator
from typing import Any

from mappings.hl7.elements import Component, Field
from mappings.hl7.message import Message, Segment
from mappings.hl7.refusals import Refusal

_HEADERS = frozenset({"MSH", "FHS", "BHS"})
_VERBATIM = 2  # MSH-1 and MSH-2 are delimiters


def tree(payload: bytes, charset: str = "utf-8") -> list[dict[str, Any]]:
    """Give the segments in order with the fields that have a value; [] for what is not HL7."""
    try:
        message = Message.parse(payload, fallback=charset)
    except Refusal:
        return []
    pairs = zip(message.segments, message.numbers, strict=True)
    return [_segment(segment, number) for segment, number in pairs]


def readable(data: bytes | None, charset: str = "utf-8") -> str:
    """
    Return a message as text, one segment per line, in its own character set.

    `charset` is its listener's, where MSH-18 is empty. Bytes that are no HL7 message are shown as
    UTF-8, others among them as escapes.
    """
    if data is None:
        return ""
    try:
        message = Message.parse(data, fallback=charset)
    except Refusal:
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
    if segment.id in _HEADERS and number <= _VERBATIM:
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
    """Give each repetition's place and components; none where there is just one value."""
    repetitions = field.repetitions
    for count, repetition in enumerate(repetitions, start=1):
        components = repetition.components
        if len(repetitions) > 1 or len(components) > 1:
            yield (place if len(repetitions) == 1 else f"{place}({count})"), components
