"""Code for a value that stands in one place: repetition, component, subcomponent, escapes."""

from typing import NamedTuple

from mappings.fetch import narrowed, narrowing, picked, whole
from mappings.forms.form import Form
from mappings.forms.ground import Ground, Lines
from mappings.forms.said import part, read
from mappings.forms.writer import NOTHING, Text, Unwritable, Writer
from mappings.hl7.path import Match, Path
from mappings.meaning import Fetched

SETTING = "W"
"""The variable of what values are read with."""
_LAST_DELIMITER_FIELD = 2


class Desk(NamedTuple):
    """What everybody who writes code for one form needs."""

    writer: Writer
    lines: Lines
    form: Form

    @property
    def nullable(self) -> bool:
        """Whether a value of the message may be the null; an escape may hide one."""
        return self.form.quoted or self.form.escaped


class Fields:
    """Writes how places are read in messages of one form."""

    def __init__(self, desk: Desk) -> None:
        self._writer, self._lines, self._form = desk.writer, desk.lines, desk.form
        self._marks = desk.form.manner.delimiters
        self._nullable = desk.nullable

    def fetched(self, ground: Ground, what: Fetched) -> Text:
        """Write how one value is read."""
        path = what.path
        name = self.field(ground, path, max(path.occurrence, 1) - 1)
        if name is None:
            return NOTHING
        if path.matches:
            return self._picked(name, path, raw=what.raw)
        wanted = path.repetition or 1
        whole_field = what.raw and not path.component and path.repetition is None
        if self._form.repeated and not whole_field:
            name = self._repetition(name, wanted)
        elif wanted > 1:
            return NOTHING
        return self.narrowed(name, path, raw=what.raw)

    def field(self, ground: Ground, path: Path, index: int = 0) -> str | None:
        """Give the variable of a field; None where it is taken for empty."""
        segment, number = path.segment, path.field
        if segment == "MSH" and number <= _LAST_DELIMITER_FIELD:
            raise Unwritable  # delimiters, and read otherwise
        if segment == ground.segment:
            if index:
                return None
            self._lines.several(ground.lines, number)
            return self._let(f"{ground.row}[{number}] if len({ground.row}) > {number} else ''")
        rows = ground.rows(segment)
        if len(rows) <= index:
            return None
        read = self._lines.field(rows[index], number)
        return None if read is None else self._let(read)

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
            whole_field = f"{name}.partition({separator})[0] if {separator} in {name} else {name}"
            return self._let(whole_field)
        return self._let(f"{self._writer.constant(part)}({name}, {wanted}, {separator})")

    def _picked(self, name: str, path: Path, *, raw: bool) -> Text:
        if not self._form.repeated:
            met = self.matching(name, path.matches)
            value = self._writer.let("''")
            with self._writer.under(f"if {met}:"):
                self._writer.put(f"{value} = {self._writer.of(self.narrowed(name, path, raw=raw))}")
            return Text(None, value, self._nullable)
        constant = self._writer.constant
        arguments = (name, constant(path.matches), constant(narrowing(path)), SETTING)
        expression = f"{constant(picked)}({', '.join(arguments)}, raw={raw})"
        return Text(None, self._let(expression), self._nullable)

    def matching(self, name: str, matches: tuple[Match, ...]) -> str:
        """Write whether a repetition meets the conditions of a pick."""
        return " and ".join([self._matching(name, match) for match in matches])

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

    def narrowed(self, name: str, path: Path, *, raw: bool) -> Text:
        """Write what a path takes of a repetition, unescaped and trimmed."""
        component, subcomponent = path.component, path.subcomponent
        said = name
        if not component:
            choose = f"{self._writer.constant(whole)}({name}, {self._writer.constant(self._marks)})"
            said = f"{name} if {name}[:1].isalnum() else {choose}"
        elif self._marks.component:
            said = self._component(name, component)
        elif component > 1:
            return NOTHING
        if subcomponent and not (self._form.parted and self._marks.subcomponent):
            if subcomponent > 1:
                return NOTHING
        elif subcomponent:
            separator = self._writer.constant(self._marks.subcomponent)
            said = f"{self._writer.constant(part)}({self._let(said)}, {subcomponent}, {separator})"
        return Text(None, self._finished(said, raw=raw), self._nullable)

    def _finished(self, said: str, *, raw: bool) -> str:
        if raw or not self._form.escaped:
            return self._let(f"({said}).strip()")
        name, mark = self._let(said), self._writer.constant(self._marks.escape)
        reading = self._writer.constant(read)
        return self._let(f"{reading}({name}, {SETTING}) if {mark} in {name} else {name}.strip()")
