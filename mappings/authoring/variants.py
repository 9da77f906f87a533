"""Variants of a message: the same message with one value left out, or with another value there.

A value matters to a definition if what the definition makes of a variant differs. `sort_parts`
finds out for the repetitions and components of fields. `bridge mapping try`, the page of a
message, and the preview of the console share it.
"""

import time
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass

from mappings.hl7.message import Message

HEADER = "MSH"
MOST_PARTS = 300
"""Separators in the fields of a message that are tried; a field beyond them is not divided."""
_OTHER = "7"

MOST_SECONDS = 2.0
"""How long the parts of a message are tried: a message may be large, and somebody waits."""

Late = Callable[[], bool]
Differs = Callable[[bytes], bool]
"""Whether a definition makes something else of a variant than of the message."""


def never() -> bool:
    """Set no limit of time."""
    return False


def deadline(seconds: float) -> Late:
    """Begin a span of time; the answer says whether it is over."""
    until = time.monotonic() + seconds
    return lambda: time.monotonic() > until


@dataclass(frozen=True, slots=True)
class FieldVariants:
    """
    A field that has a value; `place` counts the segments of a name: `OBR[2]-4`.

    A variant is written when it is asked for: a stored message may be large.
    """

    place: str
    text: str
    _lines: Sequence[str]
    _values: Sequence[str]
    _at: tuple[int, int]
    _message: Message

    def with_text(self, text: str) -> bytes:
        """Write the message with another text in this field."""
        line, index = self._at
        values = [*self._values[:index], text, *self._values[index + 1 :]]
        written = self._message.delimiters.field.join(values)
        whole = "\r".join([*self._lines[:line], written, *self._lines[line + 1 :], ""])
        return whole.encode(self._message.encoding, "replace")

    def otherwise(self) -> Iterator[bytes]:
        """
        Write the message without this field, and with another value in it.

        The second one shows that the first of two fields with the same value is used.
        """
        yield self.with_text("")
        yield self.with_text(f"{_OTHER}{self.text}")


def fields_of(message: Message) -> Iterator[FieldVariants]:
    """Give each field that has a value, but none of the header: its fields decide who reads it."""
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


class _Parts:
    """The repetitions and components of a field, each left out and written otherwise."""

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
            matters = self._matters(at, "", other)
            if len(parts) == 1 or not matters:
                (self.used if matters else self.unused).append(place)
                return
        if len(parts) == 1:
            return
        for nth, part in enumerate(parts):
            if part:
                without, other = (
                    self._join.join([*parts[:nth], text, *parts[nth + 1 :]])
                    for text in ("", f"{_OTHER}{part}")
                )
                matters = self._matters(at, without, other)
                name = f"{place if at else self._field.place}.{nth + 1}"
                (self.used if matters else self.unused).append(name)

    def _matters(self, at: int, *others: str) -> bool:
        for other in others:
            text = self._repeat.join([*self._texts[:at], other, *self._texts[at + 1 :]])
            if not self._late() and self._differs(self._field.with_text(text)):
                return True
        return False


def sort_parts(
    message: Message, places: Collection[str], differs: Differs, late: Late | None = None
) -> tuple[list[str], list[str]]:
    """
    Name the repetitions and components of fields that matter, and those that do not.

    `PID-3[2]` is a repetition, `PID-3[2].1` a component of it; components of the first repetition
    are named `PID-3.1`. A repetition that does not matter is named without its components. A field
    is sorted as a whole or not at all. Fields that are not reached before it is `late`, after
    MOST_SECONDS, are left out.
    """
    late = late or deadline(MOST_SECONDS)
    used: list[str] = []
    unused: list[str] = []
    left = MOST_PARTS
    marks = [each for each in (message.delimiters.repetition, message.delimiters.component) if each]
    for field in fields_of(message):
        separators = sum(field.text.count(mark) for mark in marks)
        if field.place not in places or separators > left:
            continue
        left -= separators
        parts = _Parts(field, message, differs, late)
        parts.sort()
        if late():
            break
        used += parts.used
        unused += parts.unused
    return used, unused
