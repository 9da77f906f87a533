"""Code for a value that stands in one place: repetition, component, subcomponent, escapes."""

from collections.abc import Sequence
from typing import NamedTuple

from mappings.fetch import narrowed, whole
from mappings.forms.form import Form, Given
from mappings.forms.ground import Ground, Lines, Mark
from mappings.forms.said import part, read
from mappings.forms.writer import NOTHING, Text, Unwritable, Writer
from mappings.hl7.escapes import named
from mappings.hl7.path import Match, Path
from mappings.meaning import Fetched

DEFAULTS, SENT, LINES = "D", "M", "L"
"""The parameters of what is written."""
_LAST_DELIMITER_FIELD = 2


class Desk(NamedTuple):
    """What everybody who writes code for one form needs."""

    writer: Writer
    lines: Lines
    form: Form

    @property
    def setting(self) -> str:
        """Write what values are read with, for those few that want to know."""
        constant, manner = self.writer.constant, self.form.manner
        given = (constant(manner.delimiters), constant(manner.codec), DEFAULTS)
        return f"{constant(tuple.__new__)}({constant(Given)}, ({', '.join(given)}))"


class Piece(NamedTuple):
    """The variable of a field or a repetition, and which marks may be in it."""

    name: str
    repeated: bool
    escaped: bool
    parted: bool


class Fields:
    """Writes how places are read in messages of one form."""

    def __init__(self, desk: Desk) -> None:
        self._writer, self._lines = desk.writer, desk.lines
        self._marks = desk.form.manner.delimiters
        self._nullable = desk.form.quoted
        self._setting = desk.setting
        self._named = desk.writer.constant(named(self._marks))

    def fetched(self, ground: Ground, what: Fetched) -> Text:
        """Write how one value is read."""
        path = what.path
        piece = self.field(ground, path, max(path.occurrence, 1) - 1)
        if piece is None:
            return NOTHING
        if path.matches:
            return self._picked(piece, path, raw=what.raw)
        wanted = path.repetition or 1
        whole_field = what.raw and not path.component and path.repetition is None
        if piece.repeated and not whole_field:
            piece = piece._replace(name=self._repetition(piece.name, wanted))
        elif wanted > 1:
            return NOTHING
        return self.narrowed(piece, path, raw=what.raw)

    def field(self, ground: Ground, path: Path, index: int = 0) -> Piece | None:
        """Give the variable of a field; None where it is taken for empty."""
        segment, number = path.segment, path.field
        if segment == "MSH" and number <= _LAST_DELIMITER_FIELD:
            raise Unwritable  # delimiters, and read otherwise
        if segment == ground.segment:
            if index:
                return None
            self._lines.several(ground.lines, number)
            name = self._let(f"{ground.row}[{number}] if len({ground.row}) > {number} else ''")
            return Piece(name, *self._may_have(ground.lines))
        rows = ground.rows(segment)
        if len(rows) <= index:
            return None
        said = self._lines.field(rows[index], number)
        return None if said is None else Piece(self._let(said), *self._may_have([rows[index]]))

    def _may_have(self, lines: Sequence[int]) -> tuple[bool, bool, bool]:
        return (
            self._lines.marked(lines, Mark.REPETITION),
            self._lines.marked(lines, Mark.ESCAPE),
            self._lines.marked(lines, Mark.SUBCOMPONENT),
        )

    def _let(self, expression: str) -> str:
        """Give an expression a variable, once."""
        name: str | None = self._writer.known(expression)
        if name is None:
            name = self._writer.let(expression)
            self._writer.know(expression, name)
        return name

    def _repetition(self, name: str, wanted: int) -> str:
        separator = self._writer.constant(self._marks.repetition)
        if wanted == 1:
            first = f"{name}.partition({separator})[0]"
            return self._let(f"{first} if {separator} in {name} else {name}")
        return self._let(f"{self._writer.constant(part)}({name}, {wanted}, {separator})")

    def _picked(self, piece: Piece, path: Path, *, raw: bool) -> Text:
        value = self._writer.let("''")
        if not piece.repeated:
            self.take(value, piece, path, raw=raw)
            return Text(None, value, self._nullable)
        each, separator = self._writer.fresh(), self._writer.constant(self._marks.repetition)
        with self._writer.under(f"for {each} in {piece.name}.split({separator}):"):
            self.take(value, piece._replace(name=each), path, raw=raw)
            self._writer.put(f"if {value}: break")
        return Text(None, value, self._nullable)

    def take(self, value: str, piece: Piece, path: Path, *, raw: bool) -> None:
        """Write how a repetition is taken, if it meets the conditions of a pick."""
        met = " and ".join([self._matching(piece.name, match) for match in path.matches])
        with self._writer.under(f"if {met or True}:"):
            self._writer.put(f"{value} = {self._writer.of(self.narrowed(piece, path, raw=raw))}")

    def _matching(self, name: str, match: Match) -> str:
        value, component = self._writer.constant(match.value), self._marks.component
        if match.subcomponent or not component:
            constant = self._writer.constant
            numbers = f"{match.component}, {match.subcomponent}"
            said = f"{constant(narrowed)}({name}, {numbers}, {constant(self._marks)})"
            return f"{said}.strip() == {value}"
        return f"({self._component(name, match.component)}).strip() == {value}"

    def _component(self, name: str, number: int) -> str:
        parts = self._let(f"{name}.split({self._writer.constant(self._marks.component)})")
        at = f"{parts}[{number - 1}]"
        return at if number == 1 else f"{at} if len({parts}) >= {number} else ''"

    def narrowed(self, piece: Piece, path: Path, *, raw: bool) -> Text:
        """Write what a path takes of a repetition, unescaped and trimmed."""
        component, subcomponent, name = path.component, path.subcomponent, piece.name
        said = name
        if not component:
            said = self._whole(piece)
        elif self._marks.component:
            said = self._component(name, component)
        elif component > 1:
            return NOTHING
        if subcomponent and not piece.parted:
            if subcomponent > 1:
                return NOTHING
        elif subcomponent:
            separator = self._writer.constant(self._marks.subcomponent)
            said = f"{self._writer.constant(part)}({self._let(said)}, {subcomponent}, {separator})"
        finished = self._finished(said, escaped=piece.escaped and not raw)
        return Text(None, finished, self._nullable, marks=self._marks_in(piece) if raw else None)

    def _marks_in(self, piece: Piece) -> tuple[str, ...]:
        marks, quotes = self._marks, '"' if self._nullable else ""
        may_be = (
            marks.repetition if piece.repeated else "",
            marks.escape if piece.escaped else "",
            marks.subcomponent if piece.parted else "",
            quotes,
        )
        return tuple(filter(None, may_be))

    def _whole(self, piece: Piece) -> str:
        """Write that nothing but separators is nothing; without any there is nothing to look at."""
        name, constant = piece.name, self._writer.constant
        chosen = f"{constant(whole)}({name}, {constant(self._marks)})"
        plainly = f"{name}[:1].isalnum()"
        if self._marks.component and not piece.parted:
            plainly = f"{constant(self._marks.component)} not in {name} or {plainly}"
        return f"{name} if {plainly} else {chosen}"

    def _finished(self, said: str, *, escaped: bool) -> str:
        if not escaped:
            return self._let(f"({said}).strip()")
        name, mark = self._let(said), self._writer.constant(self._marks.escape)
        reading = f"{self._writer.constant(read)}({name}, {mark}, {self._named}, {self._setting})"
        return self._let(f"{reading} if {mark} in {name} else {name}.strip()")
