"""
Cut a report's text into its sections, and name each by the code of a receiver.

A line that begins with a known heading (a code table: heading, section) opens a section. Every
line is kept, headings too: what a receiver shows is what was signed.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from mappings.nodes import Node
from mappings.workshop import Workshop

REPORT = "report"
ADDENDUM = "addendum"
NONE = "none"
_LONGEST_HEADING = 60
_HEADING = re.compile(r"[\s*#]*([^\s*#:：][^:：]*?)[\s*]*(?:[:：].*)?")  # noqa: RUF001  # the colon of Chinese and Japanese texts

Code = tuple[str, str, str]
WHOLE: Code = ("18748-4", "Diagnostic imaging report", "LN")
"""OBX-3 of a text that is not cut into sections (LOINC)."""


@dataclass(frozen=True, slots=True)
class Part:
    """Lines of one section, under its name."""

    name: str
    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Sections:
    """The sections a receiver has codes for; without any the text stays whole."""

    codes: Mapping[str, Code] = field(default_factory=dict)
    section_of: Callable[[str], str | None] = lambda heading: None

    def cut(self, lines: Sequence[str]) -> list[Part]:
        """Cut a text at its headings; what stands before the first is the report's own."""
        parts: list[Part] = []
        name, taken = REPORT, list[str]()
        for line in lines:
            opened = self._opened(line) if self.codes else None
            if opened is not None:
                parts.append(Part(name, tuple(taken)))
                name, taken = opened, []
            taken.append(line)
        parts.append(Part(name, tuple(taken)))
        return [each for part in parts if (each := _trimmed(part)) is not None]

    def code(self, name: str) -> Code:
        """Give OBX-3 of a section: its own code, else that of the whole report."""
        return self.codes.get(name) or self.codes.get(REPORT, WHOLE)

    def _opened(self, line: str) -> str | None:
        found = _HEADING.fullmatch(line)
        if found is None or len(found[1]) > _LONGEST_HEADING:
            return None
        return self.section_of(found[1])


def _trimmed(part: Part) -> Part | None:
    """Leave out the blank lines around a section; a section of nothing else is none."""
    lines = list(part.lines)
    while lines and not lines[-1].strip():
        lines.pop()
    while lines and not lines[0].strip():
        lines.pop(0)
    return Part(part.name, tuple(lines)) if lines else None


def compile_sections(entries: Mapping[str, Node], shop: Workshop) -> Sections:
    """Read `sections`, `codes` and `headings` of `text:`."""
    chosen = entries.get("sections")
    codings = dict(_codings(entries["codes"], shop)) if "codes" in entries else {}
    if chosen is None or chosen.value == NONE:
        return Sections()
    name = shop.notebook.choice(chosen, "coding", (*codings, NONE))
    headings = entries.get("headings")
    if headings is None:
        shop.notebook.error(chosen, "sections", "needs `headings`: a code table of headings")
        return Sections()
    table = shop.table(headings)
    if name is None or table is None:
        return Sections()
    return Sections(codings[name], table.value)


def _codings(node: Node, shop: Workshop) -> Iterator[tuple[str, dict[str, Code]]]:
    for coding, below in shop.notebook.mapping(node).items():
        sections = shop.notebook.mapping(below)
        for needed in {REPORT, ADDENDUM} - sections.keys():
            shop.notebook.error(below, "codes", f"{coding} has no code for {needed}")
        yield coding, {name: _code(code, shop) for name, code in sections.items()}


def _code(node: Node, shop: Workshop) -> Code:
    texts = shop.notebook.texts(node)
    if len(texts) != len(WHOLE):
        shop.notebook.error(node, "code", "write [code, text, coding system]")
        return WHOLE
    return texts[0], texts[1], texts[2]
