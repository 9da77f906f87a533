"""
Echo: the segments of an order, kept so that its result can repeat them.

The lines use the sender's delimiters, MSH first, as `OrderEvent.echo` stores them. Without an MSH
line the standard delimiters apply. Fields are read by path and written in our delimiters.
"""

from collections.abc import Sequence
from functools import cached_property

from mappings.hl7.charset import codec_for
from mappings.hl7.escapes import unescape
from mappings.hl7.header import STANDARD, Delimiters, read_delimiters
from mappings.hl7.message import Field, MessageSyntax, cut, is_null, pick, texts
from mappings.hl7.path import Path
from mappings.hl7.refusals import MalformedMessage
from mappings.hl7.times import parse_timestamp
from mappings.outbound.encoding import (
    NOTHING,
    Encoded,
    repeated,
    segment,
    translate_field,
    translate_untyped,
)

_MSH_7 = 7
_MSH_18 = 18
_PID_3 = 3


class Echo:
    """The segments of one order. A lookup without result returns an empty value; none raises."""

    def __init__(self, lines: Sequence[str], *, zoned: bool = True) -> None:
        """`lines` are the stored lines; `zoned`: times have the zone of MSH-7."""
        self._lines = lines
        self._zoned = zoned
        self._written: dict[tuple[Path, str, bool], Encoded] = {}

    @cached_property
    def marks(self) -> Delimiters:
        for line in self._lines:
            if line[:3].upper() == "MSH":
                declared = line[3:4] + line[4:].partition(line[3:4] or "|")[0]
                try:
                    return read_delimiters(declared.encode("latin-1", "replace"))
                except MalformedMessage:
                    break
        return STANDARD

    @cached_property
    def _codec(self) -> str:
        rows = self._rows.get("MSH", [[]])
        return codec_for(rows[0][_MSH_18] if len(rows[0]) > _MSH_18 else "")

    @cached_property
    def _offset(self) -> int | None:
        """The zone of times without zone, in minutes from UTC."""
        rows = self._rows.get("MSH", [[]])
        sent = parse_timestamp(rows[0][_MSH_7]) if len(rows[0]) > _MSH_7 else None
        return sent.offset if sent is not None and self._zoned else None

    @cached_property
    def _rows(self) -> dict[str, list[list[str]]]:
        rows: dict[str, list[list[str]]] = {}
        for line in self._lines:
            row = line.split(self.marks.field)
            name = row[0].upper()
            if name == "MSH":
                row.insert(1, self.marks.field)
            rows.setdefault(name, []).append(row)
        return rows

    def repetitions(self, path: Path) -> list[str]:
        """Return the repetitions of a field as sent, without nulls."""
        rows = self._rows.get(path.segment, ())
        index = max(path.occurrence, 1) - 1
        if len(rows) <= index or len(rows[index]) <= path.field:
            return []
        text = rows[index][path.field]
        if not text:
            return []
        parts = cut(text, self.marks.repetition)
        return [part for part in parts if part.strip() not in ("", '""')]

    def field(self, path: Path, kind: str, *, all_repetitions: bool) -> Encoded:
        """Write a field in our delimiters, in the form of a data type."""
        chosen = self.repetitions(path)
        if not chosen:  # most fields are absent
            return NOTHING
        key = (path, kind, all_repetitions)
        written = self._written.get(key)  # each line of a text repeats the same fields
        if written is None:
            written = self._field(path, kind, chosen, all_repetitions=all_repetitions)
            self._written[key] = written
        return written

    def _field(self, path: Path, kind: str, chosen: list[str], *, all_repetitions: bool) -> Encoded:
        if not all_repetitions:
            chosen = chosen[:1]
        if path.component and self.marks.component:
            chosen = [
                pick(repetition, self.marks.component, path.component) for repetition in chosen
            ]
        coded = [
            translate_field(
                _no_nulls(repetition, self.marks),
                self.marks,
                self._codec,
                kind=kind,
                offset=self._offset,
            )
            for repetition in chosen
        ]
        return repeated([repetition for repetition in coded if repetition])

    def texts(self, path: Path) -> set[str]:
        """Return each component and subcomponent of a field, unescaped."""
        found = set()
        for repetition in self.repetitions(path):
            for component in cut(repetition, self.marks.component):
                leaves = cut(component, self.marks.subcomponent)
                found |= {unescape(leaf, self.marks, self._codec).strip() for leaf in leaves}
        return found

    def _raw(self, path: Path) -> str:
        rows = self._rows.get(path.segment)
        if rows is None:
            return ""
        index = max(path.occurrence, 1) - 1
        row = rows[index] if index < len(rows) else ()
        return row[path.field] if path.field < len(row) else ""

    def read(self, path: Path) -> Field:
        """Return a field as sent; empty if it is absent."""
        return Field(self._raw(path), MessageSyntax(self.marks, self._codec))

    def values(self, path: Path) -> list[str]:
        """Return the text at a path in each repetition of its field; none is empty or a null."""
        raw = self._raw(path)
        if not raw:  # most fields are absent
            return []
        found = texts(raw, path, MessageSyntax(self.marks, self._codec))
        return [text for one in found if (text := one.strip()) not in ("", '""')]

    def with_field(self, path: Path, raw: str) -> tuple[str, ...]:
        """Return the lines with another text in a field of the first segment with its name."""
        changed = list(self._lines)
        for at, line in enumerate(changed):
            row = line.split(self.marks.field)
            if row[0].upper() == path.segment and path.field < len(row):
                row[path.field] = raw
                changed[at] = self.marks.field.join(row)
                break
        return tuple(changed)

    def segments(self, name: str) -> list[Encoded]:
        """Write all segments with a name in our delimiters."""
        return [
            segment(name, [translate_untyped(field, self.marks, self._codec) for field in row[1:]])
            for row in self._rows.get(name, ())
        ]


def _no_nulls(text: str, marks: Delimiters) -> str:
    """Remove nulls, which delete values of the recipient."""
    if '""' not in text or not marks.component:
        return text
    parts = text.split(marks.component)
    return marks.component.join("" if is_null(part) else part for part in parts)
