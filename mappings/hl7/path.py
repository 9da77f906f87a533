"""
Paths: locations in a message, written as in the standard.

    PID-3   PID-3.1   PID-3.4.2   PID-3[2].1   OBR[2]-4.2   OBX[*]-5   PID-3[CX-5=MR].1   MSH

A path inside a segment or a field omits the beginning: `3[2].1`, `[2].1`. Numbers count from 1.
Several filters may follow each other: `PID-3[CX-5=MR][CX-4.1=HOSP].1`. `Path.parse` and `str` are
inverse to each other.
"""

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from typing_extensions import override

EVERY: Final = 0  # as an occurrence: each segment of that name
WHOLE: Final = 0  # as a number: the whole segment, field or component

_NUMBER = r"[1-9]\d{0,4}"
_FILTER = rf"\[(?:([A-Z][A-Z0-9]{{1,3}})-)?({_NUMBER})(?:\.({_NUMBER}))?=([^\[\]=]*)\]"
_WITHIN = rf"(?:\[({_NUMBER})\]|((?:{_FILTER})+))?(?:\.({_NUMBER}))?(?:\.({_NUMBER}))?"
_PATH = re.compile(
    rf"(?:([A-Z][A-Z0-9]{{2}})(?:\[({_NUMBER}|\*)\])?(?:-|$))?(?:({_NUMBER}){_WITHIN})?", re.ASCII
)
_FILTERS = re.compile(_FILTER, re.ASCII)


class InvalidPath(ValueError):
    """
    A text that is not a path.

    The text comes from the author of a definition; it is not patient data.
    """

    def __init__(self, text: str) -> None:
        super().__init__(f"not an HL7 path: {text!r}")


@dataclass(frozen=True, slots=True)
class RepetitionFilter:
    """
    Selects repetitions of a field by a component: `[CX-5=MR]` selects those with MR in
    component 5.
    """

    component: int
    value: str
    subcomponent: int = WHOLE
    data_type: str = ""

    @override
    def __str__(self) -> str:
        """Format the filter in the syntax that `Path.parse` reads."""
        kind = f"{self.data_type}-" if self.data_type else ""
        within = f".{self.subcomponent}" if self.subcomponent else ""
        return f"[{kind}{self.component}{within}={self.value}]"


@dataclass(frozen=True, slots=True)
class Path:
    """
    A location in a message. With an empty `segment` it is relative to a segment.

    `repetition` None means the first repetition where one value is read, and all where many are
    read. `occurrence` EVERY (`OBX[*]`) means each segment of that name, any other number the n-th
    one.
    """

    segment: str = ""
    field: int = WHOLE
    component: int = WHOLE
    subcomponent: int = WHOLE
    occurrence: int = 1
    repetition: int | None = None
    filters: tuple[RepetitionFilter, ...] = ()

    @staticmethod
    def parse(text: str) -> "Path":
        """Parse a path; results are cached. Raises InvalidPath."""
        return _parse(text)

    @override
    def __str__(self) -> str:
        """Format the path; an occurrence of 1 is omitted."""
        parts = []
        if self.segment:
            occurrence = "*" if self.occurrence == EVERY else self.occurrence
            parts.append(self.segment if occurrence == 1 else f"{self.segment}[{occurrence}]")
        if self.field:
            parts.append(str(self.field) + self._within())
        return "-".join(parts)

    def _within(self) -> str:
        selection = "".join(map(str, self.filters))
        if self.repetition is not None:
            selection = f"[{self.repetition}]"
        below = (self.component, self.subcomponent)
        return selection + "".join(f".{number}" for number in below if number)


@lru_cache(maxsize=4096)
def _parse(text: str) -> Path:
    found = _PATH.fullmatch(text)
    if not text or found is None or text.endswith("-"):
        raise InvalidPath(text)
    segment, occurrence, field, repetition, filters = found.group(1, 2, 3, 4, 5)
    component, subcomponent = found.group(10, 11)
    return Path(
        segment=segment or "",
        field=int(field or WHOLE),
        component=int(component or WHOLE),
        subcomponent=int(subcomponent or WHOLE),
        occurrence=EVERY if occurrence == "*" else int(occurrence or 1),
        repetition=int(repetition) if repetition else None,
        filters=tuple(_read_filter(match) for match in _FILTERS.finditer(filters or "")),
    )


@lru_cache(maxsize=1024)
def within_field(text: str) -> Path:
    """
    Parse a path inside a field: `1`, `4.2`, `[2].1`, or an empty text for the field.

    Raises InvalidPath.
    """
    if not text:
        return Path(field=1)
    return _parse("1" + text) if text.startswith(("[", ".")) else _parse("1." + text)


def _read_filter(found: re.Match[str]) -> RepetitionFilter:
    data_type, component, subcomponent, value = found.groups()
    return RepetitionFilter(int(component), value, int(subcomponent or WHOLE), data_type or "")
