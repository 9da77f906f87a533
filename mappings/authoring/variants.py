"""
Variants of a message: copies in which one value is removed or changed.

A definition uses a value if the result for a variant differs. `sort_parts` examines the repetitions
and components of fields. `bridge mapping try`, the page of a message and the preview of the console
use it.
"""

import time
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass

from mappings.hl7.message import Message

HEADER = "MSH"
MAX_PARTS = 300
"""Limit of the separators in the fields of a message that are examined."""
_OTHER = "7"  # in front of a value, it makes another value

MAX_SECONDS = 2.0
"""Time limit for the parts of a message, because messages may be large and a user waits."""

Late = Callable[[], bool]
"""Tells whether a time limit has expired."""
Differs = Callable[[bytes], bool]
"""Tells whether the result for a variant differs from that for the message."""


def never() -> bool:
    """Return False: there is no time limit."""
    return False


def deadline(seconds: float) -> Late:
    """Start a time limit; return a function that tells whether it has expired."""
    until = time.monotonic() + seconds
    return lambda: time.monotonic() > until


@dataclass(frozen=True, slots=True)
class FieldVariants:
    """
    A field with a value, and its variants; `place` has the number of the segment: `OBR[2]-4`.

    A variant is created on access, because messages may be large.
    """

    place: str
    text: str
    _lines: Sequence[str]
    _values: Sequence[str]
    _at: tuple[int, int]  # line and field
    _message: Message

    def with_text(self, text: str) -> bytes:
        """Return the message with another text in this field."""
        line, index = self._at
        values = [*self._values[:index], text, *self._values[index + 1 :]]
        written = self._message.delimiters.field.join(values)
        whole = "\r".join([*self._lines[:line], written, *self._lines[line + 1 :], ""])
        return whole.encode(self._message.encoding, "replace")

    def variants(self) -> Iterator[bytes]:
        """
        Yield the message without this field, and with another value in it.

        The changed value shows that the first of two fields with equal values is used.
        """
        yield self.with_text("")
        yield self.with_text(f"{_OTHER}{self.text}")


def fields_of(message: Message) -> Iterator[FieldVariants]:
    """Yield each field with a value, except those of the header, which select the definition."""
    lines = [each.text() for each in message.segments]
    for at, (segment, number) in enumerate(zip(message.segments, message.numbers, strict=True)):
        if segment.id == HEADER:
            continue
        name = segment.id if number == 1 else f"{segment.id}[{number}]"
        values = lines[at].split(message.delimiters.field)
        for index in range(1, len(values)):
            if values[index]:
                yield FieldVariants(
                    f"{name}-{index}", values[index], lines, values, (at, index), message
                )


class _FieldParts:
    """The repetitions and components of a field, sorted by use."""

    def __init__(
        self, field: FieldVariants, message: Message, differs: Differs, late: Late
    ) -> None:
        self._field = field
        self._repeat = message.delimiters.repetition
        self._join = message.delimiters.component
        self._texts = field.text.split(self._repeat) if self._repeat else [field.text]
        self._differs = differs
        self._late = late
        self.used: list[str] = []
        self.unused: list[str] = []

    def sort(self) -> None:
        """Fill `used` and `unused`."""
        for at, text in enumerate(self._texts):
            if text:
                self._sort_repetition(at, text.split(self._join) if self._join else [text])

    def _sort_repetition(self, at: int, parts: Sequence[str]) -> None:
        place = f"{self._field.place}[{at + 1}]"
        if len(self._texts) > 1:
            other = self._join.join(f"{_OTHER}{part}" for part in parts)
            has_effect = self._has_effect(at, "", other)
            if len(parts) == 1 or not has_effect:
                (self.used if has_effect else self.unused).append(place)
                return
        if len(parts) == 1:
            return
        for nth, part in enumerate(parts):
            if part:
                without, other = (
                    self._join.join([*parts[:nth], text, *parts[nth + 1 :]])
                    for text in ("", f"{_OTHER}{part}")
                )
                has_effect = self._has_effect(at, without, other)
                name = f"{place if at else self._field.place}.{nth + 1}"
                (self.used if has_effect else self.unused).append(name)

    def _has_effect(self, at: int, *others: str) -> bool:
        for other in others:
            text = self._repeat.join([*self._texts[:at], other, *self._texts[at + 1 :]])
            if not self._late() and self._differs(self._field.with_text(text)):
                return True
        return False


def sort_parts(
    message: Message, places: Collection[str], differs: Differs, late: Late | None = None
) -> tuple[list[str], list[str]]:
    """
    Return the repetitions and components of fields that are used, and those that are not.

    `PID-3[2]` is a repetition, `PID-3[2].1` a component of it; components of the first repetition
    are named `PID-3.1`. Components of an unused repetition are not listed. A field is examined as a
    whole or not at all. Fields that are not reached before the time limit are skipped.
    """
    late = late or deadline(MAX_SECONDS)
    used: list[str] = []
    unused: list[str] = []
    left = MAX_PARTS
    marks = [each for each in (message.delimiters.repetition, message.delimiters.component) if each]
    for field in fields_of(message):
        separators = sum(field.text.count(mark) for mark in marks)
        if field.place not in places or separators > left:
            continue
        left -= separators
        parts = _FieldParts(field, message, differs, late)
        parts.sort()
        if late():
            break
        used += parts.used
        unused += parts.unused
    return used, unused
