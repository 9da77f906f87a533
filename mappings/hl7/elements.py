"""
Elements of a segment: fields, repetitions, components and subcomponents over the text as sent.

Elements split their text on access. They count from 1. An absent element is empty, so that a chain
of lookups does not fail.
"""

from dataclasses import dataclass
from typing import NamedTuple

from mappings.hl7.delimiters import Delimiters
from mappings.hl7.escapes import unescape
from mappings.hl7.path import WHOLE, Path, RepetitionFilter, within_field

NULL = '""'  # deletes the stored value (HL7 v2.5.1 §2.5.3)


def is_null(text: str) -> bool:
    """True if a value is the HL7 null `""`, which deletes the stored value."""
    return text.strip() == NULL


def without_null(text: str) -> str:
    """Return a value without surrounding blanks, "" for a null."""
    text = text.strip()
    return "" if text == NULL else text


class MessageSyntax(NamedTuple):
    """The delimiters and the character encoding with which the text of a message is read."""

    delimiters: Delimiters
    codec: str


def cut(raw: str, separator: str) -> list[str]:
    """Split a text at a separator; an undeclared separator does not split."""
    return raw.split(separator) if separator else [raw]


def pick(raw: str, separator: str, number: int) -> str:
    """Return the n-th part of a text, '' if there is none."""
    if not separator or separator not in raw:
        return raw if number == 1 else ""
    parts = raw.split(separator, number)
    return parts[number - 1] if number <= len(parts) else ""


def narrow(raw: str, path: Path, delimiters: Delimiters) -> str:
    """Return the component or subcomponent that a path names in the text of one repetition."""
    if path.component == WHOLE:
        return raw
    component = pick(raw, delimiters.component, path.component)
    if path.subcomponent == WHOLE:
        return component
    return pick(component, delimiters.subcomponent, path.subcomponent)


def selected_repetitions(raw: str, path: Path, syntax: MessageSyntax) -> list[str]:
    """Return the repetitions that a path selects in the text of a field."""
    repetitions = cut(raw, syntax.delimiters.repetition)
    if path.repetition is not None:
        return repetitions[path.repetition - 1 : path.repetition]
    for each in path.filters:
        repetitions = [one for one in repetitions if _passes(one, each, syntax)]
    return repetitions


def _passes(repetition: str, condition: RepetitionFilter, syntax: MessageSyntax) -> bool:
    place = Path(component=condition.component, subcomponent=condition.subcomponent)
    raw = narrow(repetition, place, syntax.delimiters)
    return unescape(raw, syntax.delimiters, syntax.codec).strip() == condition.value


@dataclass(frozen=True, slots=True)
class Element:
    """An element of a message. `raw` is its text as sent, with escapes and separators."""

    raw: str
    syntax: MessageSyntax

    def text(self) -> str:
        """
        Return the text with escapes resolved. Separators inside it are kept.

        An unescaped `&` or `^` in a sender's text is therefore not lost (HL7 v2.5.1 §2.7).
        """
        return unescape(self.raw, self.syntax.delimiters, self.syntax.codec)

    @property
    def is_null(self) -> bool:
        """Whether the value is `""`, which deletes the stored value."""
        return is_null(self.raw)

    def __bool__(self) -> bool:
        return bool(self.raw)


class SubComponent(Element):
    """A subcomponent, such as PID-3.4.2."""

    __slots__ = ()


class Component(Element):
    """A component, such as PID-5.1."""

    __slots__ = ()

    @property
    def subcomponents(self) -> tuple[SubComponent, ...]:
        parts = cut(self.raw, self.syntax.delimiters.subcomponent)
        return tuple(SubComponent(part, self.syntax) for part in parts)

    def subcomponent(self, number: int) -> SubComponent:
        part = pick(self.raw, self.syntax.delimiters.subcomponent, number)
        return SubComponent(part, self.syntax)


class Repetition(Element):
    __slots__ = ()

    @property
    def components(self) -> tuple[Component, ...]:
        parts = cut(self.raw, self.syntax.delimiters.component)
        return tuple(Component(part, self.syntax) for part in parts)

    def component(self, number: int) -> Component:
        return Component(pick(self.raw, self.syntax.delimiters.component, number), self.syntax)


class Field(Element):
    __slots__ = ()

    @property
    def repetitions(self) -> tuple[Repetition, ...]:
        """All repetitions, in order. An empty field has none."""
        parts = cut(self.raw, self.syntax.delimiters.repetition) if self.raw else []
        return tuple(Repetition(part, self.syntax) for part in parts)

    def repetition(self, number: int = 1) -> Repetition:
        return Repetition(pick(self.raw, self.syntax.delimiters.repetition, number), self.syntax)

    def value(self, relative: str | Path = "") -> str:
        """Return the text at `1`, `4.2`, `[2].1` or `[CX-5=MR].1` of this field, '' if absent."""
        return next(iter(self.values(relative)), "")

    def values(self, relative: str | Path = "") -> list[str]:
        """Return the text of each repetition at a location inside this field."""
        path = relative if isinstance(relative, Path) else within_field(relative)
        return texts(self.raw, path, self.syntax)


def texts(raw: str, path: Path, syntax: MessageSyntax) -> list[str]:
    """Return the value of a path in each repetition that it selects; `raw` is the whole field."""
    if not raw:
        return []
    marks = syntax.delimiters
    return [
        unescape(narrow(one, path, marks), marks, syntax.codec)
        for one in selected_repetitions(raw, path, syntax)
    ]
