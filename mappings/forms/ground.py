"""
Where written code looks: the lines of a form, and which of their fields are taken for empty.

A field that no message of the form has filled so far is taken for empty, and nothing is written
for the rules that ask for it; the opening of the code makes sure of that for each message.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import IntFlag

from mappings.forms.form import Form
from mappings.forms.writer import Unwritable, Writer
from mappings.hl7.delimiters import Delimiters

Rows = Callable[[str], Sequence[int]]


class Mark(IntFlag):
    """What parts a field, or stands for something else in it."""

    REPETITION = 1
    ESCAPE = 2
    SUBCOMPONENT = 4

    def of(self, marks: Delimiters) -> str:
        """Give the character; empty where none was declared."""
        return (marks.repetition, marks.escape, marks.subcomponent)[self.bit_length() - 1]


@dataclass(slots=True)
class Sightings:
    """Which fields the messages of a form have filled: by line, and how many fields it has."""

    filled: list[int]
    """A bit for each field, counted from 0 as the line is split."""
    widths: list[int]
    marked: list[int]
    """A bit for each of the marks that stand anywhere in a line: see `Mark`."""

    @classmethod
    def none(cls, lines: int) -> "Sightings":
        """Have seen nothing."""
        return cls([0] * lines, [0] * lines, [0] * lines)

    def add(self, lines: Sequence[str], marks: Delimiters) -> bool:
        """See one more message; say whether it has something new."""
        before = [*self.filled, *self.widths, *self.marked]
        for at, line in enumerate(lines):
            fields = line.split(marks.field)
            self.filled[at] |= sum(1 << number for number, text in enumerate(fields) if text)
            self.widths[at] = max(self.widths[at], len(fields))
            self.marked[at] |= sum(kind for kind in Mark if kind.of(marks) in line)
        return [*self.filled, *self.widths, *self.marked] != before


@dataclass(frozen=True, slots=True)
class Ground:
    """What one rule sees: the lines of a group by the segment's name, or one row above them."""

    group: int
    rows: Rows
    """A group's own segments, else the header's."""
    every: Rows
    """The header's segments, and a group's own."""
    segment: str = ""
    row: str = ""
    """The variable with the fields of the one `segment` that is seen."""
    lines: tuple[int, ...] = ()
    """Of which lines it is one."""

    @property
    def key(self) -> tuple[int, str]:
        """What tells it from others."""
        return self.group, self.row

    def alone(self, segment: str, row: str, lines: Sequence[int]) -> "Ground":
        """See one segment instead of all of its kind."""
        return Ground(self.group, self.rows, self.every, segment, row, tuple(lines))


@dataclass(slots=True)
class _Cut:
    """What is read of one line, by the numbers of its parts."""

    read: set[int] = field(default_factory=set)
    empty: set[int] = field(default_factory=set)


class Lines:
    """The lines of a form as code reads them."""

    def __init__(self, writer: Writer, names: Sequence[str], seen: Sightings, form: Form) -> None:
        self._writer = writer
        self._marks = form.manner.delimiters
        self._anywhere = (
            Mark.REPETITION * form.repeated
            | Mark.ESCAPE * form.escaped
            | Mark.SUBCOMPONENT * form.parted
        )
        self._unmarked: set[tuple[int, Mark]] = set()
        self._names = names
        self._seen = seen
        self._cuts: dict[int, _Cut] = {}
        self._several: dict[tuple[int, ...], list[int]] = {}

    def field(self, line: int, number: int) -> str | None:
        """Give the expression of a field; None where it is taken for empty."""
        at = number - (self._names[line] == "MSH")
        cut = self._cuts.setdefault(line, _Cut())
        if not self._seen.filled[line] >> at & 1:
            cut.empty.add(at)
            return None
        cut.read.add(at)
        return f"a{line}[{at}]"

    def marked(self, lines: Sequence[int], mark: Mark) -> bool:
        """Whether a mark may stand in one of these lines; it is taken for absent if never seen."""
        if not self._anywhere & mark:
            return False
        if any(self._seen.marked[line] & mark for line in lines):
            return True
        self._unmarked.update((line, mark) for line in lines)
        return False

    def several(self, lines: Sequence[int], highest: int) -> str:
        """Give the variable of several lines, split far enough to read a field."""
        if any(self._names[line] == "MSH" for line in lines):
            raise Unwritable
        wanted = self._several.setdefault(tuple(lines), [0])
        wanted[0] = max(wanted[0], highest + 1)
        return "r" + "_".join(map(str, lines))

    def opening(self) -> list[str]:
        """Write how lines are split, and what must be empty in them or absent from them."""
        separator, written = self._writer.constant(self._marks.field), list[str]()
        for line, mark in sorted(self._unmarked):
            character = self._writer.constant(mark.of(self._marks))
            written.append(f"if {character} in L[{line}]: return None")
        for line, cut in self._cuts.items():
            written += self._split(line, cut, separator)
        for lines, (most,) in self._several.items():
            parts = [f"L[{line}].split({separator}, {most})" for line in lines]
            name = "r" + "_".join(map(str, lines))
            written.append(f"{name} = ({', '.join(parts)},)")
        return ["    " + each for each in written]

    def _split(self, line: int, cut: _Cut, separator: str) -> list[str]:
        width, name = self._seen.widths[line], f"a{line}"
        beyond = any(at >= width for at in cut.empty)
        within = sorted(at for at in cut.empty if at < width)
        reached = max([*cut.read, *within], default=0)
        needed = width if beyond else reached + 1
        written = [f"{name} = L[{line}].split({separator}, {needed})"]
        if beyond:
            written.append(f"if len({name}) > {width}: return None")
        if within or cut.read:
            written.append(f"if len({name}) <= {reached}: {name} += [''] * {reached + 1}")
        if within:
            written.append(f"if {' or '.join(f'{name}[{at}]' for at in within)}: return None")
        return written
