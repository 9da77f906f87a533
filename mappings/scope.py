"""
A message cut into the places rules look at: one scope per ORC/OBR group, or per patient.

A scope sees its own segments and, where it has none of a kind, those of the header
(MSH to the first ORC). Segments anywhere else than the standard wants them are normal
(HL7 v2.5.1 §2.12; Z segments, NTE, ZDS in mid group). Knows no tags.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple, Protocol

from mappings.codes import Missed
from mappings.hl7.delimiters import Delimiters
from mappings.hl7.message import Message, Segment
from mappings.rows import Beyond, Firsts, Nothing, Places, Rows, behind

NON_IMAGING = frozenset({"RQD", "RQ1", "RXO", "ODS", "ODT"})
"""Order details of ORM^O01 other than OBR (HL7 v2.5.1 §4.4.1): diet, supplies, pharmacy."""

SHARED_TAIL = "ZDS"
"""IHE RAD-4 sends one ZDS behind all ORC/OBR pairs of one accession."""

_ACCESSION_FIELD = 18


class Defaults(NamedTuple):
    """What the listener knows where a message is silent."""

    site: str
    time_zone: str
    now: datetime
    missed: list[Missed] | None = None
    """Where codes are noted that no table has; None: nobody wants to know."""


class Setting(Protocol):
    """What values are read with, beside their text."""

    @property
    def delimiters(self) -> Delimiters:
        """The separators of the message."""

    @property
    def encoding(self) -> str:
        """Its codec."""

    @property
    def defaults(self) -> Defaults:
        """What the listener knows."""


class Scope:
    """The segments one event is made of: places in the message, and what the header has."""

    __slots__ = (
        *("_every", "_ones", "defaults", "delimiters", "encoding", "first", "header"),
        *("message", "own", "place", "rows", "values"),
    )

    def __init__(
        self,
        message: Message,
        defaults: Defaults,
        header: "Header",
        own: Places,
        place: str,
        rows: Mapping[str, Sequence[Segment]] | None = None,
    ) -> None:
        self.message = message
        self.delimiters = message.delimiters
        self.encoding = message.encoding
        self.defaults = defaults
        self.header = header
        self.own = own
        self.place = place
        self.rows = Rows(message, own, header.rows) if rows is None else rows
        """What a path sees: own segments, else the header's."""
        self.first = Firsts(self.rows)
        """The fields of the first of each."""
        self.values: dict[str, str] = {}
        """Tags that have been asked for already."""
        self._every: dict[str, Sequence[Segment]] = {}
        self._ones: dict[int, Scope] = {}

    @property
    def segments(self) -> list[Segment]:
        """The header's segments, then its own."""
        places = (*self.header.places.order, *self.own.order)
        return [self.message.segment(place) for place in places]

    def every(self, key: str) -> Sequence[Segment]:
        """All segments of a kind, the header's first; `PID>NTE` are the notes of a PID."""
        found = self._every.get(key)
        if found is None:
            anchor, _, name = key.rpartition(">")
            found = [*self.header.rows[name], *self.own.named(self.message, name)]
            if anchor and found:
                found = list(behind(found, anchor, self.message.names))
            self._every[key] = found
        return found

    def only(self, row: Segment) -> "Scope":
        """See one segment instead of all of its kind; the same scope each time."""
        one = self._ones.get(row.index)
        if one is None:
            rows = Beyond({row.id: (row,)})
            rows.beyond = self.rows
            one = self._ones[row.index] = self._few([row.index], rows)
        return one

    def among(self, rows: Sequence[Segment]) -> "Scope":
        """See no more than these segments wherever all of a kind are asked for."""
        return self._few([row.index for row in rows], self.rows)

    def _few(self, order: Sequence[int], rows: Mapping[str, Sequence[Segment]]) -> "Scope":
        places = Places(order, self.message.names)
        return Scope(self.message, self.defaults, _NO_HEADER, places, self.place, rows)

    def owns(self, name: str) -> bool:
        """Whether a segment of this name is its own, and not the header's."""
        return name in self.own.filed

    def locate(self, path: str) -> str:
        """Write a path with the number of its segment in this message: OBR[2]-18."""
        name, _, rest = path.partition("-")
        mine = self.own.filed.get(name)
        number = self.message.numbers[mine[0]] if mine else 1
        return f"{name}[{number}]-{rest}" if number > 1 and rest else path


_NOWHERE = Places((), ())


class Header:
    """What several scopes have in common."""

    __slots__ = ("places", "rows")

    def __init__(self, places: Places, rows: Mapping[str, Sequence[Segment]]) -> None:
        self.places = places
        self.rows = rows

    @classmethod
    def of(cls, message: Message, places: Places) -> "Header":
        """Have these places of a message in common."""
        return cls(places, Rows(message, places))


_NO_HEADER = Header(_NOWHERE, Nothing())


def whole(message: Message, defaults: Defaults) -> Scope:
    """See the whole message as one scope."""
    everything = Places(range(len(message.names)), message.names)
    return Scope(message, defaults, Header.of(message, everything), _NOWHERE, "MSH")


class Cut(NamedTuple):
    """How a message falls into groups: headers, and for each group its header, places, name."""

    headers: tuple[Places, ...]
    groups: tuple[tuple[int, Places, str], ...]


_Cutter = Callable[[tuple[str, ...]], Cut]
_LONGEST_SHAPE = 100  # segments of a message whose cut is worth remembering


def order_groups(message: Message, defaults: Defaults) -> list[Scope]:
    """Cut an order message at each ORC, and at each further OBR of the same ORC."""
    scopes = _scopes(message, defaults, order_cut, _known_order_cut)
    _share_tail(scopes)
    return scopes


def patient_groups(message: Message, defaults: Defaults) -> list[Scope]:
    """Cut an ADT message at each PID: A39/A40 may merge several pairs."""
    return _scopes(message, defaults, _patient_cut, _known_patient_cut)


def by_merge(scope: Scope) -> list[Scope]:
    """Cut a patient's group at each MRG: ADT^A45 may move several visits."""
    names, order = scope.message.names, scope.own.order
    starts = [at for at, place in enumerate(order) if names[place] == "MRG"]
    if not starts[1:]:
        return [scope]
    cuts = [
        Places([*order[: starts[0]], *order[start:end]], names)
        for start, end in pairwise([*starts, len(order)])
    ]
    return [Scope(scope.message, scope.defaults, scope.header, own, scope.place) for own in cuts]


def _scopes(message: Message, defaults: Defaults, cut: _Cutter, known: _Cutter) -> list[Scope]:
    """Make the scopes of a cut. Senders repeat themselves: the same names are cut but once."""
    names = tuple(message.names)
    headers, groups = (known if len(names) <= _LONGEST_SHAPE else cut)(names)
    made = [Header.of(message, places) for places in headers]
    return [Scope(message, defaults, made[at], own, label) for at, own, label in groups]


def order_cut(names: tuple[str, ...]) -> Cut:
    """Say how an order message of such segments falls into groups."""
    headers: list[list[int]] = [[]]
    groups: list[tuple[int, list[int], str]] = []
    own = headers[0]  # where the next segment goes
    orders = details = 0
    detailed = True  # whether an OBR begins a group
    for place, name in enumerate(names):
        if name == "ORC":
            orders += 1
            own, detailed = [], False
            groups.append((len(headers) - 1, own, f"ORC[{orders}]"))
        elif name == "OBR":
            details += 1
            if detailed:
                own = [] if own is headers[-1] else _governing(own, names)
                groups.append((len(headers) - 1, own, f"OBR[{details}]"))
            detailed = True
        elif name == "PID" and own is not headers[-1]:
            # Only MSH is common to two patients of one message.
            own, detailed = [at for at in headers[-1] if names[at] == "MSH"], True
            headers.append(own)
        own.append(place)
    return _filed(headers, groups, names)


def _governing(before: list[int], names: Sequence[str]) -> list[int]:
    """Begin a group for an OBR that has no ORC of its own: the last ORC governs it."""
    return [place for place in before if names[place] == "ORC"]


def _patient_cut(names: tuple[str, ...]) -> Cut:
    header: list[int] = []
    groups: list[tuple[int, list[int], str]] = []
    own = header
    for place, name in enumerate(names):
        if name == "PID":
            own = []
            groups.append((0, own, f"PID[{len(groups) + 1}]"))
        own.append(place)
    return _filed([header], groups, names)


def _filed(
    headers: list[list[int]], groups: list[tuple[int, list[int], str]], names: Sequence[str]
) -> Cut:
    return Cut(
        tuple(Places(places, names) for places in headers),
        tuple((at, Places(own, names), label) for at, own, label in groups),
    )


_known_order_cut = lru_cache(maxsize=512)(order_cut)
_known_patient_cut = lru_cache(maxsize=512)(_patient_cut)


def _share_tail(scopes: list[Scope]) -> None:
    """Give the one ZDS behind the last group to the earlier groups of its accession."""
    if len(scopes) < 2 or any(scope.owns(SHARED_TAIL) for scope in scopes[:-1]):  # noqa: PLR2004  # "several"
        return
    last = scopes[-1]
    tail = last.own.filed.get(SHARED_TAIL)
    accession = _accession(last)
    if not tail or not accession:
        return
    for at, scope in enumerate(scopes[:-1]):
        if scope.header is last.header and _accession(scope) == accession:
            own = Places([*scope.own.order, *tail], scope.message.names)
            scopes[at] = Scope(scope.message, scope.defaults, scope.header, own, scope.place)


def _accession(scope: Scope) -> str:
    rows = scope.own.named(scope.message, "OBR")
    return rows[0].field_text(_ACCESSION_FIELD) if rows else ""


def is_imaging(scope: Scope, details: Collection[str] = NON_IMAGING) -> bool:
    """Whether a group orders an observation: an OBR, or no order detail at all."""
    return scope.owns("OBR") or not any(scope.owns(detail) for detail in details)
