"""Code for rules over every segment and repetition of one field: `all` and `first`."""

from collections.abc import Callable, Sequence

from mappings.forms.fields import Desk, Fields, Piece
from mappings.forms.ground import Ground
from mappings.forms.said import gathered
from mappings.forms.writer import NOTHING, Text, Unwritable
from mappings.meaning import Gathered, Meaning

Ask = Callable[[Ground, Meaning], bool | str]


class Gathering:
    """Writes what gathers values in messages of one form."""

    def __init__(self, desk: Desk, fields: Fields, condition: Ask) -> None:
        """`condition` writes a condition."""
        self._writer, self._lines = desk.writer, desk.lines
        self._nullable = desk.form.quoted
        self._separator = desk.form.manner.delimiters.repetition
        self._fields = fields
        self._condition = condition

    def gathered(self, ground: Ground, what: Gathered) -> Text:
        """Write how the values of a field are gathered. Raises Unwritable."""
        segment = what.paths[0].segment
        if ground.row:
            if what.after != ("",):
                raise Unwritable
            return self._of_one(ground, what) if segment == ground.segment else NOTHING
        lines: list[int] = []
        for anchor in what.after:
            lines += ground.every(f"{anchor}>{segment}" if anchor else segment)
        if not lines:
            return NOTHING
        if len(lines) == 1 and tuple(ground.rows(segment)) == tuple(lines):
            return self._of_one(ground, what)
        return self._of_several(ground, lines, what)

    def _of_one(self, ground: Ground, what: Gathered) -> Text:
        """Write for the one segment that there is."""
        piece = self._fields.field(ground, what.paths[0])
        if piece is None:
            return NOTHING
        met = True if what.where is None else self._condition(ground, what.where)
        if met is False:
            return NOTHING
        if met is True and not piece.repeated:
            return self._alternatives(piece, what)
        values = self._writer.let("[]")
        if met is True:
            self._add(values, piece, what)
        else:
            with self._writer.under(f"if {met}:"):
                self._add(values, piece, what)
        return self._together(values, what)

    def _of_several(self, ground: Ground, lines: Sequence[int], what: Gathered) -> Text:
        segment, number = what.paths[0].segment, what.paths[0].field
        rows, row = self._lines.several(lines, number), self._writer.fresh()
        values = self._writer.let("[]")
        with self._writer.under(f"for {row} in {rows}:"):
            one = ground.alone(segment, row, lines)
            met = True if what.where is None else self._condition(one, what.where)
            if met is False:
                return NOTHING
            if met is not True:
                self._writer.put(f"if not {met}: continue")
            piece = self._fields.field(one, what.paths[0])
            if piece is None:
                raise Unwritable
            self._add(values, piece, what)
        return self._together(values, what)

    def _add(self, values: str, piece: Piece, what: Gathered) -> None:
        """Write how the values of one field are added."""
        if not piece.repeated:
            self._add_one(values, piece, what)
            return
        each, separator = self._writer.fresh(), self._writer.constant(self._separator)
        with self._writer.under(f"for {each} in {piece.name}.split({separator}):"):
            self._add_one(values, piece._replace(name=each), what)

    def _add_one(self, values: str, piece: Piece, what: Gathered) -> None:
        found = self._alternatives(piece, what)
        if found.said is None:
            self._writer.put(f"if {found.name}: {values}.append({found.name})")

    def _alternatives(self, piece: Piece, what: Gathered) -> Text:
        """Write which of several paths into one repetition has a value."""
        first, *others = what.paths
        if first.matches:
            value = self._writer.let("''")
            self._fields.take(value, piece, first, raw=what.raw)
        else:
            found = self._fields.narrowed(piece, first, raw=what.raw)
            if not others:
                return found
            value = self._writer.let(self._writer.of(found))
        for path in others:
            with self._writer.under(f"if not {value}:"):
                self._fields.take(value, piece, path, raw=what.raw)
        return Text(None, value, self._nullable)

    def _together(self, values: str, what: Gathered) -> Text:
        separator = self._writer.constant(what.separator)
        if self._nullable:
            helper = self._writer.constant(gathered)
            said = f"{helper}({values}, {separator}, only_first={what.only_first})"
        elif what.only_first:
            said = f"{values}[0] if {values} else ''"
        else:
            said = f"{separator}.join({values})"
        nullable = self._nullable or '"' in what.separator
        return Text(None, self._writer.let(said), nullable)
