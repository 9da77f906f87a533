"""
Differences: what one message has, by place, that another one has not.

Segments and repetitions are aligned by their content, so that one that was inserted does not make
all later ones differ. Within an aligned pair, fields and components are compared by number. Values
are compared as text, so delimiters, escapes and character sets make no difference.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from enum import StrEnum
from itertools import islice, zip_longest
from typing import Final

from mappings.hl7 import dictionary
from mappings.hl7.escapes import unescape
from mappings.hl7.message import Message, MessageSyntax, cut
from mappings.hl7.tree import MAX_TEXT

MAX_DIFFERENCES: Final = 1_000
"""Limit of the differences that are returned."""
_MAX_ALIGNED: Final = 400
"""Segments between the common beginning and end that are aligned; more are paired in order."""
_DELIMITER_FIELDS: Final = 2  # MSH-1 and MSH-2 are no values


class DifferenceKind(StrEnum):
    """
    What happened to the part at a place.

    `REMOVED`: the place is that of the earlier message.
    """

    CHANGED = "changed"
    ADDED = "added"
    REMOVED = "removed"


@dataclass(frozen=True, slots=True)
class PlaceDifference:
    """
    A component, subcomponent or field with another value, or a whole segment or repetition.

    `place` is a path as in `mappings.hl7.tree`. The texts are values with escapes resolved, of
    whole segments and repetitions the texts as sent. Long ones are cut and end with `…`.
    """

    place: str
    name: str
    before: str
    after: str
    kind: DifferenceKind


def differences(before: Message, after: Message) -> list[PlaceDifference]:
    """Return the differences between two messages in the order of the second one."""
    return list(islice(_Comparison(before, after).differences(), MAX_DIFFERENCES))


Pair = tuple[int | None, int | None]
"""The indexes of two parts that belong together; None: the part was added or removed."""


def _align(before: Sequence[str], after: Sequence[str], key: Callable[[str], str]) -> list[Pair]:
    """
    Pair equal parts in their order, and between them those with the same key.

    The time is bounded: long stretches without equal beginning and end are only paired by key.
    """
    first = 0
    while first < min(len(before), len(after)) and before[first] == after[first]:
        first += 1
    last = 0
    while last < min(len(before), len(after)) - first and before[-1 - last] == after[-1 - last]:
        last += 1
    old, new = before[first : len(before) - last], after[first : len(after) - last]
    pairs: list[Pair] = [(index, index) for index in range(first)]
    for old_range, new_range in _stretches(old, new):
        pairs += [
            (None if a is None else a + first, None if b is None else b + first)
            for a, b in _paired(old, new, old_range, new_range, key)
        ]
    pairs += [(len(before) - last + index, len(after) - last + index) for index in range(last)]
    return pairs


def _stretches(old: Sequence[str], new: Sequence[str]) -> Iterator[tuple[range, range]]:
    if max(len(old), len(new)) > _MAX_ALIGNED:
        yield range(len(old)), range(len(new))
        return
    matcher = SequenceMatcher(None, old, new, autojunk=False)
    for _, old_begin, old_end, new_begin, new_end in matcher.get_opcodes():
        yield range(old_begin, old_end), range(new_begin, new_end)


def _paired(
    old: Sequence[str],
    new: Sequence[str],
    old_range: range,
    new_range: range,
    key: Callable[[str], str],
) -> list[Pair]:
    """Pair the parts of a stretch by key, each with the first of its key that is left."""
    left: dict[str, list[int]] = {}
    for index in reversed(old_range):
        left.setdefault(key(old[index]), []).append(index)
    pairs: list[Pair] = []
    for index in new_range:
        candidates = left.get(key(new[index]))
        pairs.append((candidates.pop() if candidates else None, index))
    rest = sorted(index for indexes in left.values() for index in indexes)
    return [*((index, None) for index in rest), *pairs]


class _Comparison:
    """Compares two messages from left to right."""

    def __init__(self, before: Message, after: Message) -> None:
        self._before, self._after = before, after
        self._version = after.header.version
        self._old = MessageSyntax(before.delimiters, before.encoding)
        self._new = MessageSyntax(after.delimiters, after.encoding)

    def differences(self) -> Iterator[PlaceDifference]:
        old = [segment.text() for segment in self._before.segments]
        new = [segment.text() for segment in self._after.segments]
        for earlier, later in _align(old, new, lambda text: text[:3].upper()):
            if earlier is None and later is not None:
                place = _segment_place(self._after, later)
                yield self._whole(place, new[later], DifferenceKind.ADDED)
            elif later is None and earlier is not None:
                place = _segment_place(self._before, earlier)
                yield self._whole(place, old[earlier], DifferenceKind.REMOVED)
            elif earlier is not None and later is not None:
                yield from self._fields(earlier, later)

    def _whole(self, place: str, text: str, kind: DifferenceKind) -> PlaceDifference:
        name = dictionary.SEGMENT_NAMES.get(place[:3], "")
        if "-" in place:
            name = dictionary.field_name(place, self._version)
        before, after = (
            ("", _cut_off(text)) if kind is DifferenceKind.ADDED else (_cut_off(text), "")
        )
        return PlaceDifference(place, name, before, after, kind)

    def _fields(self, earlier: int, later: int) -> Iterator[PlaceDifference]:
        old, new = self._before.segment(earlier), self._after.segment(later)
        place = _segment_place(self._after, later)
        same = self._old.delimiters == self._new.delimiters
        first = _DELIMITER_FIELDS + 1 if new.id == "MSH" else 1
        for number in range(first, max(len(old), len(new)) + 1):
            before, after = old.field_text(number), new.field_text(number)
            if before != after or not same:
                yield from self._repetitions(f"{place}-{number}", before, after)

    def _repetitions(self, place: str, before: str, after: str) -> Iterator[PlaceDifference]:
        old = cut(before, self._old.delimiters.repetition)
        new = cut(after, self._new.delimiters.repetition)
        for earlier, later in _align(old, new, lambda text: ""):
            if later is None and earlier is not None:
                if old[earlier]:
                    spot = _repetition_place(place, earlier, len(old))
                    yield self._whole(spot, old[earlier], DifferenceKind.REMOVED)
            elif later is not None:
                spot = _repetition_place(place, later, len(new))
                if earlier is not None:
                    yield from self._components(spot, old[earlier], new[later])
                elif new[later]:
                    yield self._whole(spot, new[later], DifferenceKind.ADDED)

    def _components(self, place: str, before: str, after: str) -> Iterator[PlaceDifference]:
        old, new = self._old.delimiters, self._new.delimiters
        parts = zip_longest(cut(before, old.component), cut(after, new.component), fillvalue="")
        several = _has(before, old.component) or _has(after, new.component)
        for number, (earlier, later) in enumerate(parts, start=1):
            below = _has(earlier, old.subcomponent) or _has(later, new.subcomponent)
            component = f"{place}.{number}" if several or below else place
            if not below:
                yield from self._value(component, earlier, later)
                continue
            texts = cut(earlier, old.subcomponent), cut(later, new.subcomponent)
            for index, pair in enumerate(zip_longest(*texts, fillvalue=""), start=1):
                yield from self._value(f"{component}.{index}", *pair)

    def _value(self, place: str, before: str, after: str) -> Iterator[PlaceDifference]:
        old = unescape(before, *self._old)
        new = unescape(after, *self._new)
        if old != new:
            name = dictionary.place_name(place, self._version)
            kind = DifferenceKind.CHANGED
            yield PlaceDifference(place, name, _cut_off(old), _cut_off(new), kind)


def _segment_place(message: Message, index: int) -> str:
    number = message.numbers[index]
    name = message.names[index]
    return name if number == 1 else f"{name}[{number}]"


def _has(text: str, separator: str) -> bool:
    return bool(separator) and separator in text


def _repetition_place(place: str, index: int, count: int) -> str:
    return place if count == 1 else f"{place}[{index + 1}]"


def _cut_off(text: str) -> str:
    return text if len(text) <= MAX_TEXT else f"{text[:MAX_TEXT]}…"
