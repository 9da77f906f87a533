"""
Elements: field, repetition, component, subcomponent, each over the text it was sent as.

They split when asked, and only then. An element counts from 1, and what is absent is an empty
element, so a chain of lookups never fails. Reads only; messages are written elsewhere.
"""

from dataclasses import dataclass
from typing import NamedTuple

from mappings.hl7.delimiters import Delimiters
from mappings.hl7.escapes import unescape
from mappings.hl7.path import WHOLE, Path, RepetitionFilter, within_field

NULL = '""'  # "delete what you have", not "nothing said" (HL7 v2.5.1 §2.5.3)


def is_null(text: str) -> bool:
    """Tell whether a value is the HL7 null `""`, which deletes the stored value."""
    return text.strip() == NULL


class MessageSyntax(NamedTuple):
    """How the text of one message is to be read."""

    delimiters: Delimiters
    codec: str


def cut(raw: str, separator: str) -> list[str]:
    """Split; a separator that was not declared splits nothing."""
    return raw.split(separator) if separator else [raw]


def pick(raw: str, separator: str, number: int) -> str:
    """Return the n-th part, empty when there is none."""
    if not separator or separator not in raw:
        return raw if number == 1 else ""
    parts = raw.split(separator, number)
    return parts[number - 1] if number <= len(parts) else ""


def narrow(raw: str, path: Path, delimiters: Delimiters) -> str:
    """Return the component or subcomponent a path names, of one repetition's text."""
    if path.component == WHOLE:
        return raw
    component = pick(raw, delimiters.component, path.component)
    if path.subcomponent == WHOLE:
        return component
    return pick(component, delimiters.subcomponent, path.subcomponent)


def chosen(raw: str, path: Path, reading: MessageSyntax) -> list[str]:
    """Return the repetitions of a field's text that a path allows, as they stand."""
    repetitions = cut(raw, reading.delimiters.repetition)
    if path.repetition is not None:
        return repetitions[path.repetition - 1 : path.repetition]
    for match in path.matches:
        repetitions = [one for one in repetitions if _matches(one, match, reading)]
    return repetitions


def _matches(repetition: str, match: RepetitionFilter, reading: MessageSyntax) -> bool:
    place = Path(component=match.component, subcomponent=match.subcomponent)
    raw = narrow(repetition, place, reading.delimiters)
    return unescape(raw, reading.delimiters, reading.codec).strip() == match.value


@dataclass(frozen=True, slots=True)
class Element:
    """A piece of a message; `raw` is its text as sent, escapes and separators included."""

    raw: str
    reading: MessageSyntax

    def text(self) -> str:
        """
        Return the text with escapes resolved; separators inside stay where they stand.

        So an unescaped `&` or `^` of the sender's prose is no loss (HL7 v2.5.1 §2.7).
        """
        return unescape(self.raw, self.reading.delimiters, self.reading.codec)

    @property
    def is_null(self) -> bool:
        """True for `""`, which asks to delete the stored value."""
        return is_null(self.raw)

    def __bool__(self) -> bool:
        """Tell whether anything was said, be it null."""
        return bool(self.raw)


class SubComponent(Element):
    """The smallest piece."""

    __slots__ = ()


class Component(Element):
    """A component, such as PID-5.1."""

    __slots__ = ()

    @property
    def subcomponents(self) -> tuple[SubComponent, ...]:
        """All of them, in order."""
        parts = cut(self.raw, self.reading.delimiters.subcomponent)
        return tuple(SubComponent(part, self.reading) for part in parts)

    def subcomponent(self, number: int) -> SubComponent:
        """Return the n-th."""
        part = pick(self.raw, self.reading.delimiters.subcomponent, number)
        return SubComponent(part, self.reading)


class Repetition(Element):
    """One repetition of a field."""

    __slots__ = ()

    @property
    def components(self) -> tuple[Component, ...]:
        """All of them, in order."""
        parts = cut(self.raw, self.reading.delimiters.component)
        return tuple(Component(part, self.reading) for part in parts)

    def component(self, number: int) -> Component:
        """Return the n-th."""
        return Component(pick(self.raw, self.reading.delimiters.component, number), self.reading)


class Field(Element):
    """A field with its repetitions."""

    __slots__ = ()

    @property
    def repetitions(self) -> tuple[Repetition, ...]:
        """All of them, in order; an empty field has none."""
        parts = cut(self.raw, self.reading.delimiters.repetition) if self.raw else []
        return tuple(Repetition(part, self.reading) for part in parts)

    def repetition(self, number: int = 1) -> Repetition:
        """Return the n-th."""
        return Repetition(pick(self.raw, self.reading.delimiters.repetition, number), self.reading)

    def value(self, relative: str | Path = "") -> str:
        """Return the text at `1`, `4.2`, `[2].1` or `[CX-5=MR].1` of this field; '' if absent."""
        return next(iter(self.values(relative)), "")

    def values(self, relative: str | Path = "") -> list[str]:
        """Return the text of every repetition at a place inside this field."""
        path = relative if isinstance(relative, Path) else within_field(relative)
        return texts(self.raw, path, self.reading)


def texts(raw: str, path: Path, reading: MessageSyntax) -> list[str]:
    """Return what a path reads in a field's text, one for each repetition it allows."""
    if not raw:
        return []
    marks = reading.delimiters
    return [
        unescape(narrow(one, path, marks), marks, reading.codec)
        for one in chosen(raw, path, reading)
    ]
