"""
A message cut into the places rules look at: one scope per ORC/OBR group, or per patient.

A scope sees its own segments and, where it has none of a kind, those of the header
(MSH to the first ORC). Segments anywhere else than the standard wants them are normal
(HL7 v2.5.1 §2.12; Z segments, NTE, ZDS in mid group). Knows no tags.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from mappings.hl7.message import Message, Segment

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


class Rows(dict[str, Sequence[Segment]]):
    """Segments by their id, those at some places, else those beyond. Looks when first asked."""

    __slots__ = ("_beyond", "_filed", "_message", "_places")

    def __init__(
        self, message: Message, places: Sequence[int], beyond: "Rows | None" = None
    ) -> None:
        super().__init__()
        self._message = message
        self._places = places
        self._beyond = beyond
        self._filed: dict[str, list[int]] | None = None

    def __missing__(self, name: str) -> Sequence[Segment]:
        """Find the segments of a name; none is an answer too, and remembered."""
        filed = self._file() if self._filed is None else self._filed
        rows: Sequence[Segment] = ()
        if name in filed:
            rows = [self._message.segment(place) for place in filed[name]]
        elif self._beyond is not None:
            rows = self._beyond[name]
        self[name] = rows
        return rows

    def _file(self) -> dict[str, list[int]]:
        names = self._message.names
        filed = self._filed = {}
        for place in self._places:
            filed.setdefault(names[place], []).append(place)
        return filed


def _named(message: Message, places: Sequence[int], name: str) -> list[Segment]:
    names = message.names
    return [message.segment(place) for place in places if names[place] == name]


def _behind(rows: Sequence[Segment], anchor: str, names: Sequence[str]) -> Iterator[Segment]:
    """Choose those that follow a segment of another name, alone or after others of their own."""
    before, followed = -1, ""
    for row in rows:
        if row.index - 1 != before or before < 0:
            back = row.index - 1
            while back >= 0 and names[back] == row.id:
                back -= 1
            followed = names[back] if back >= 0 else ""
        before = row.index
        if followed == anchor:
            yield row


class Scope:
    """The segments one event is made of: places in the message, and what the header has."""

    __slots__ = (
        *("defaults", "delimiters", "header", "message"),
        *("own", "place", "rows", "values"),
    )

    def __init__(
        self, message: Message, defaults: Defaults, header: "Header", own: list[int], place: str
    ) -> None:
        """Take places; they may be added to until the first question."""
        self.message = message
        self.delimiters = message.delimiters
        self.defaults = defaults
        self.header = header
        self.own = own
        self.place = place
        self.rows = Rows(message, own, header.rows)
        """What a path sees: own segments, else the header's."""
        self.values: dict[str, str] = {}
        """Tags that have been asked for already."""

    @property
    def segments(self) -> list[Segment]:
        """The header's segments, then its own."""
        return [self.message.segment(place) for place in (*self.header.places, *self.own)]

    def every(self, key: str) -> Sequence[Segment]:
        """All segments of a kind, the header's first; `PID>NTE` are the notes of a PID."""
        anchor, _, name = key.rpartition(">")
        found = [*self.header.rows[name], *_named(self.message, self.own, name)]
        return list(_behind(found, anchor, self.message.names)) if anchor else found

    def only(self, key: str, row: Segment) -> "Scope":
        """See one segment of its kind instead of all."""
        one = self.among([row])
        one.rows = Rows(self.message, (), self.rows)
        one.rows[key] = (row,)
        return one

    def among(self, rows: Sequence[Segment]) -> "Scope":
        """See no more than these segments wherever all of a kind are asked for."""
        places = [row.index for row in rows]
        few = Scope(self.message, self.defaults, Header(self.message, []), places, self.place)
        few.rows = self.rows
        return few

    def owns(self, name: str) -> bool:
        """Whether a segment of this name is its own, and not the header's."""
        names = self.message.names
        return any(names[place] == name for place in self.own)

    def locate(self, path: str) -> str:
        """Write a path with the number of its segment in this message: OBR[2]-18."""
        name, _, rest = path.partition("-")
        names = self.message.names
        first = next((place for place in self.own if names[place] == name), None)
        number = 1 if first is None else self.message.numbers[first]
        return f"{name}[{number}]-{rest}" if number > 1 and rest else path


class Header:
    """What several scopes have in common."""

    __slots__ = ("places", "rows")

    def __init__(self, message: Message, places: list[int]) -> None:
        """Take places; they may be added to until the first question."""
        self.places = places
        self.rows = Rows(message, places)


def whole(message: Message, defaults: Defaults) -> Scope:
    """See the whole message as one scope."""
    return Scope(message, defaults, Header(message, [*range(len(message.names))]), [], "MSH")


def order_groups(message: Message, defaults: Defaults) -> list[Scope]:
    """Cut an order message at each ORC, and at each further OBR of the same ORC."""
    scopes: list[Scope] = []
    names = message.names
    header = Header(message, [])
    own = header.places  # where the next segment goes
    orders = details = 0
    detailed = True  # whether an OBR begins a group
    for place, name in enumerate(names):
        if name == "ORC":
            orders += 1
            own, detailed = [], False
            scopes.append(Scope(message, defaults, header, own, f"ORC[{orders}]"))
        elif name == "OBR":
            details += 1
            if detailed:
                own = [] if own is header.places else _governing(own, names)
                scopes.append(Scope(message, defaults, header, own, f"OBR[{details}]"))
            detailed = True
        elif name == "PID" and own is not header.places:
            header = _next_header(message, header)
            own, detailed = header.places, True
        own.append(place)
    _share_tail(scopes)
    return scopes


def _governing(before: list[int], names: Sequence[str]) -> list[int]:
    """Begin a group for an OBR that has no ORC of its own: the last ORC governs it."""
    return [place for place in before if names[place] == "ORC"]


def _next_header(message: Message, header: Header) -> Header:
    """Begin a new header: only MSH is common to two patients of one message."""
    return Header(message, [place for place in header.places if message.names[place] == "MSH"])


def _share_tail(scopes: list[Scope]) -> None:
    """Give the one ZDS behind the last group to the earlier groups of its accession."""
    if len(scopes) < 2 or any(scope.owns(SHARED_TAIL) for scope in scopes[:-1]):  # noqa: PLR2004  # "several"
        return
    last = scopes[-1]
    tail = [place for place in last.own if last.message.names[place] == SHARED_TAIL]
    accession = _accession(last)
    if not tail or not accession:
        return
    for scope in scopes[:-1]:
        if scope.header is last.header and _accession(scope) == accession:
            scope.own += tail


def _accession(scope: Scope) -> str:
    rows = _named(scope.message, scope.own, "OBR")
    return rows[0].field_text(_ACCESSION_FIELD) if rows else ""


def patient_groups(message: Message, defaults: Defaults) -> list[Scope]:
    """Cut an ADT message at each PID: A39/A40 may merge several pairs."""
    scopes: list[Scope] = []
    header = Header(message, [])
    own = header.places
    for place, name in enumerate(message.names):
        if name == "PID":
            own = []
            scopes.append(Scope(message, defaults, header, own, f"PID[{len(scopes) + 1}]"))
        own.append(place)
    return scopes


def is_imaging(scope: Scope, details: Collection[str] = NON_IMAGING) -> bool:
    """Whether a group orders an observation: an OBR, or no order detail at all."""
    return scope.owns("OBR") or not any(scope.owns(detail) for detail in details)
