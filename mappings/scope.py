"""
A message cut into the places rules look at: one scope per ORC/OBR group, or per patient.

A scope sees its own segments and, where it has none of a kind, those of the header
(MSH to the first ORC). Segments anywhere else than the standard wants them are normal
(HL7 v2.5.1 §2.12; Z segments, NTE, ZDS in mid group). Knows no tags.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from datetime import datetime

from mappings.hl7.delimiters import Delimiters
from mappings.hl7.message import Message, Segment

Row = list[str]
"""A segment split at the field separator; index n is field n (MSH-1 is restored)."""

NON_IMAGING = frozenset({"RQD", "RQ1", "RXO", "ODS", "ODT"})
"""Order details of ORM^O01 other than OBR (HL7 v2.5.1 §4.4.1): diet, supplies, pharmacy."""

SHARED_TAIL = "ZDS"
"""IHE RAD-4 sends one ZDS behind all ORC/OBR pairs of one accession."""

_ACCESSION_FIELD = 18


@dataclass(frozen=True, slots=True)
class Defaults:
    """What the listener knows where a message is silent."""

    site: str
    time_zone: str
    now: datetime


@dataclass(slots=True)
class Scope:
    """The segments one event is made of, split into fields, by segment id."""

    message: Message
    delimiters: Delimiters
    defaults: Defaults
    header: dict[str, list[Row]]
    place: str = ""
    own: dict[str, list[Row]] = field(default_factory=dict)
    first: dict[str, int] = field(default_factory=dict)
    """The number within the message of the first own segment of a kind."""
    segments: list[Segment] = field(default_factory=list)
    rows: dict[str, list[Row]] = field(default_factory=dict)
    """What a path sees: own segments, else the header's. Filled by `close`."""

    def close(self) -> None:
        """Finish reading: from here on paths may be asked for."""
        self.rows = {**self.header, **self.own}

    def every(self, key: str) -> Iterator[Row]:
        """All segments of a kind, the header's first."""
        yield from self.header.get(key, ())
        yield from self.own.get(key, ())

    def only(self, key: str, row: Row) -> "Scope":
        """See one segment of its kind instead of all."""
        one = {key: [row]}
        return Scope(
            self.message, self.delimiters, self.defaults, {}, self.place, one, rows=self.rows | one
        )

    def locate(self, path: str) -> str:
        """Write a path with the number of its segment in this message: OBR[2]-18."""
        segment, _, rest = path.partition("-")
        number = self.first.get(segment, 1)
        return f"{segment}[{number}]-{rest}" if number > 1 and rest else path


class _Cutter:
    """Walk over the segments once, opening scopes."""

    def __init__(self, message: Message, defaults: Defaults) -> None:
        self._message = message
        self._delimiters = message.delimiters
        self._defaults = defaults
        self._counts: dict[str, int] = {}
        self._anchor = ""
        self.header: dict[str, list[Row]] = {}
        self.header_segments: list[Segment] = []
        self.scopes: list[Scope] = []

    def open(self, place: str) -> Scope:
        """Begin a scope under the present header."""
        scope = Scope(self._message, self._delimiters, self._defaults, self.header, place)
        scope.segments = [*self.header_segments]
        self.scopes.append(scope)
        return scope

    def number(self, segment: Segment) -> int:
        """Count a segment: how many of its kind have been seen, this one included."""
        count = self._counts.get(segment.id, 0) + 1
        self._counts[segment.id] = count
        return count

    def add(self, segment: Segment, number: int, scope: Scope | None) -> None:
        """File a segment under its id, a note also under what it follows (`PID>NTE`)."""
        row = split(segment, self._delimiters)
        rows = self.header if scope is None else scope.own
        rows.setdefault(segment.id, []).append(row)
        if segment.id == "NTE":
            rows.setdefault(f"{self._anchor}>NTE", []).append(row)
        else:
            self._anchor = segment.id
        if scope is None:
            self.header_segments.append(segment)
        else:
            scope.first.setdefault(segment.id, number)
            scope.segments.append(segment)


def split(segment: Segment, delimiters: Delimiters) -> Row:
    """Split a segment into fields, so that index n is field n."""
    row = segment.text().split(delimiters.field)
    if segment.id == "MSH":
        row.insert(1, delimiters.field)
    return row


def whole(message: Message, defaults: Defaults) -> Scope:
    """See the whole message as one scope."""
    cutter = _Cutter(message, defaults)
    for segment in message.segments:
        cutter.add(segment, cutter.number(segment), None)
    scope = cutter.open("MSH")
    scope.close()
    return scope


def order_groups(message: Message, defaults: Defaults) -> list[Scope]:
    """Cut an order message at each ORC, and at each further OBR of the same ORC."""
    cutter = _Cutter(message, defaults)
    scope: Scope | None = None
    for segment in message.segments:
        number = cutter.number(segment)
        if segment.id == "ORC":
            scope = cutter.open(f"ORC[{number}]")
        elif segment.id == "OBR" and (scope is None or "OBR" in scope.own):
            scope = _next_detail(cutter, scope, number)
        elif segment.id == "PID" and scope is not None:
            _begin_patient(cutter)
            scope = None
        cutter.add(segment, number, scope)
    _share_tail(cutter.scopes)
    for each in cutter.scopes:
        each.close()
    return cutter.scopes


def _next_detail(cutter: _Cutter, before: Scope | None, number: int) -> Scope:
    """Open a group for an OBR that has no ORC of its own: the last ORC governs it."""
    scope = cutter.open(f"OBR[{number}]")
    if before is not None and "ORC" in before.own:
        scope.own["ORC"] = before.own["ORC"]
        scope.first["ORC"] = before.first["ORC"]
        scope.segments += [s for s in before.segments if s.id == "ORC"]
    return scope


def _begin_patient(cutter: _Cutter) -> None:
    """Begin a new header: only MSH is common to two patients of one message."""
    cutter.header = {"MSH": cutter.header.get("MSH", [])}
    cutter.header_segments = [s for s in cutter.header_segments if s.id == "MSH"]


def _share_tail(scopes: list[Scope]) -> None:
    """Give the one ZDS behind the last group to the earlier groups of its accession."""
    if len(scopes) < 2 or any(SHARED_TAIL in scope.own for scope in scopes[:-1]):  # noqa: PLR2004  # "several"
        return
    last = scopes[-1]
    tail = last.own.get(SHARED_TAIL)
    if tail is None or not _accession(last):
        return
    for scope in scopes[:-1]:
        if scope.header is last.header and _accession(scope) == _accession(last):
            scope.own[SHARED_TAIL] = tail
            scope.segments += [s for s in last.segments if s.id == SHARED_TAIL]


def _accession(scope: Scope) -> str:
    rows = scope.own.get("OBR")
    return rows[0][_ACCESSION_FIELD] if rows and len(rows[0]) > _ACCESSION_FIELD else ""


def patient_groups(message: Message, defaults: Defaults) -> list[Scope]:
    """Cut an ADT message at each PID: A39/A40 may merge several pairs."""
    cutter = _Cutter(message, defaults)
    scope: Scope | None = None
    for segment in message.segments:
        number = cutter.number(segment)
        if segment.id == "PID":
            scope = cutter.open(f"PID[{number}]")
        cutter.add(segment, number, scope)
    for each in cutter.scopes:
        each.close()
    return cutter.scopes


def is_imaging(scope: Scope, details: Collection[str] = NON_IMAGING) -> bool:
    """Whether a group orders an observation: an OBR, or no order detail at all."""
    return "OBR" in scope.own or not any(detail in scope.own for detail in details)
