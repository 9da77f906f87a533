"""Scopes: the parts of a message that rules read: one for each ORC/OBR group, or for each patient.

Positions alone: the texts are the message's, and are split when a rule first asks for a field.

A scope sees its own segments and, where it has none of a kind, those of the header
(MSH to the first ORC). Segments anywhere else than the standard wants them are normal
(HL7 v2.5.1 §2.12; Z segments, NTE, ZDS in mid group). Knows no tags.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple, Protocol

from mappings.hl7.delimiters import Delimiters
from mappings.hl7.message import Message
from mappings.language.code_tables import UnmappedCode

Positions = Sequence[int]


class SegmentPositions:
    """Which segments of a message belong together: their positions in order, and by their name."""

    __slots__ = ("filed", "order")

    def __init__(self, order: Positions, filed: Mapping[str, Positions]) -> None:
        """Take positions in the message, and the same by name."""
        self.order = order
        self.filed = filed

    @classmethod
    def of(cls, order: Positions, names: Sequence[str]) -> "SegmentPositions":
        """File positions in the message; `names` are those of all its segments."""
        filed: dict[str, list[int]] = {}
        for place in order:
            filed.setdefault(names[place], []).append(place)
        return cls(order, filed)


class PositionLookup(Protocol):
    """Positions of segments by their name: a dict, or several in turn."""

    def get(self, name: str, /) -> Positions | None:
        """Return the positions of a name's segments; None or nothing where there is none."""


class FallbackLookup:
    """Positions by name: the first of two that has any."""

    __slots__ = ("_far", "_near")

    def __init__(self, near: PositionLookup, far: PositionLookup) -> None:
        self._near = near
        self._far = far

    def get(self, name: str, /) -> Positions | None:
        """Return the positions of a name's segments."""
        return self._near.get(name) or self._far.get(name)


def following(places: Positions, anchor: str, names: Sequence[str]) -> Iterator[int]:
    """Choose those that follow a segment of another name, alone or after others of their own."""
    before, followed = -1, ""
    for place in places:
        if place - 1 != before or before < 0:
            back = place - 1
            while back >= 0 and names[back] == names[place]:
                back -= 1
            followed = names[back] if back >= 0 else ""
        before = place
        if followed == anchor:
            yield place


NON_IMAGING = frozenset({"RQD", "RQ1", "RXO", "ODS", "ODT"})
"""Order details of ORM^O01 other than OBR (HL7 v2.5.1 §4.4.1): diet, supplies, pharmacy."""

SHARED_TAIL = "ZDS"
"""IHE RAD-4 sends one ZDS behind all ORC/OBR pairs of one accession."""

_ACCESSION_FIELD = 18


Selects = Callable[[str], bool]


class ListenerDefaults(NamedTuple):
    """What the listener knows where a message is silent."""

    site: str
    time_zone: str
    now: datetime
    missed: list[UnmappedCode] | None = None
    """Where codes are noted that no table has; None: nobody wants to know."""


class MessageSetting(Protocol):
    """What values are read with, beside their text."""

    @property
    def delimiters(self) -> Delimiters:
        """The separators of the message."""

    @property
    def encoding(self) -> str:
        """Its codec."""

    @property
    def defaults(self) -> ListenerDefaults:
        """What the listener knows."""


_NOWHERE = SegmentPositions((), {})


class MessageScope:
    """
    The segments one event is made of: positions in the message, and what the header has.

    Rules read `fields` at the positions that `filed` has of a name, else those that `beyond` has.
    """

    __slots__ = (
        *("_ones", "beyond", "defaults", "delimiters", "encoding", "fields", "filed", "held"),
        *("header", "message", "own", "place", "split", "values"),
    )

    def __init__(
        self,
        message: Message,
        defaults: ListenerDefaults,
        own: SegmentPositions,
        header: SegmentPositions = _NOWHERE,
        place: str = "",
    ) -> None:
        self.message = message
        self.delimiters = message.delimiters
        self.encoding = message.encoding
        self.fields = message.lines.fields
        """The fields of all segments of the message; None for one that was not split yet."""
        self.split = message.lines.split
        """Splits the segment at a position."""
        self.defaults = defaults
        self.header = header
        self.own = own
        self.place = place
        self.filed: PositionLookup = own.filed
        self.beyond: PositionLookup = header.filed
        self.values: dict[str, str] = {}
        """Tags, and codes of the order, that have been asked for already."""
        self.held: dict[Callable[[MessageScope], bool], bool] = {}
        """Conditions that have been asked already."""
        self._ones: dict[int, MessageScope] | None = None

    def chosen(self, selects: Selects) -> list[int]:
        """Return the positions of the segments of chosen names, the header's first."""
        shared, mine = self.header, self.own
        found = {*filter(selects, shared.filed), *filter(selects, mine.filed)}
        if not found:
            return []
        names = self.message.names
        return [each for each in (*shared.order, *mine.order) if names[each] in found]

    def texts(self, selects: Selects) -> list[str]:
        """Return the segments of chosen names as the sender wrote them, the header's first."""
        return [self.message.lines.text(place) for place in self.chosen(selects)]

    def rows(self, name: str) -> Positions:
        """Return the positions of the segments that a path sees: its own, else the header's."""
        return self.filed.get(name) or self.beyond.get(name) or ()

    def every(self, key: str) -> Positions:
        """Return all segments of a kind, the header's first; `PID>NTE` are the notes of a PID."""
        if ">" in key:
            anchor, _, name = key.rpartition(">")
            return tuple(following(self.every(name), anchor, self.message.names))
        shared, mine = self.header.filed.get(key), self.own.filed.get(key)
        return (*shared, *mine) if shared and mine else mine or shared or ()

    def only(self, place: int) -> "MessageScope":
        """See one segment instead of all of its kind; the same scope each time."""
        ones = self._ones
        if ones is None:
            ones = self._ones = {}
        one = ones.get(place)
        if one is None:
            own = SegmentPositions((place,), {self.message.names[place]: (place,)})
            one = ones[place] = MessageScope(self.message, self.defaults, own, place=self.place)
            one.beyond = FallbackLookup(self.filed, self.beyond)
        return one

    def among(self, places: Positions) -> "MessageScope":
        """See no more than these segments wherever all of a kind are asked for."""
        own = SegmentPositions.of(places, self.message.names)
        few = MessageScope(self.message, self.defaults, own, place=self.place)
        few.filed, few.beyond = self.filed, self.beyond
        return few

    def owns(self, name: str) -> bool:
        """Whether a segment of this name is its own, and not the header's."""
        return name in self.own.filed

    def locate(self, path: str) -> str:
        """Write a path with the number of its segment in this message: OBR[2]-18."""
        name, _, rest = path.partition("-")
        mine = self.own.filed.get(name)
        number = self.message.numbers[mine[0]] if mine else 1
        return f"{name}[{number}]-{rest}" if number > 1 and rest else path


class MessageGroups(NamedTuple):
    """How a message falls into groups: headers, and for each group its header, places, name."""

    headers: tuple[SegmentPositions, ...]
    groups: tuple[tuple[int, SegmentPositions, str], ...]


_Cutter = Callable[[tuple[str, ...]], MessageGroups]
_LONGEST_SHAPE = 100  # segments of a message whose cut is worth remembering


def split_orders(message: Message, defaults: ListenerDefaults) -> list[MessageScope]:
    """Cut an order message at each ORC, and at each further OBR of the same ORC."""
    scopes = _scopes(message, defaults, order_cut, _known_order_cut)
    _share_tail(scopes)
    return scopes


def split_patients(message: Message, defaults: ListenerDefaults) -> list[MessageScope]:
    """Cut an ADT message at each PID: A39/A40 may merge several pairs."""
    return _scopes(message, defaults, _patient_cut, _known_patient_cut)


def split_merges(scope: MessageScope) -> list[MessageScope]:
    """Cut a patient's group at each MRG: ADT^A45 may move several visits."""
    names, order = scope.message.names, scope.own.order
    starts = [at for at, place in enumerate(order) if names[place] == "MRG"]
    if not starts[1:]:
        return [scope]
    cuts = [
        SegmentPositions.of([*order[: starts[0]], *order[start:end]], names)
        for start, end in pairwise([*starts, len(order)])
    ]
    return [
        MessageScope(scope.message, scope.defaults, own, scope.header, scope.place) for own in cuts
    ]


def _scopes(
    message: Message, defaults: ListenerDefaults, cut: _Cutter, known: _Cutter
) -> list[MessageScope]:
    """Make the scopes of a cut. Senders repeat themselves: the same names are cut but once."""
    names = tuple(message.names)
    headers, groups = (known if len(names) <= _LONGEST_SHAPE else cut)(names)
    return [MessageScope(message, defaults, own, headers[at], label) for at, own, label in groups]


def order_cut(names: tuple[str, ...]) -> MessageGroups:
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


def _patient_cut(names: tuple[str, ...]) -> MessageGroups:
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
) -> MessageGroups:
    return MessageGroups(
        tuple(SegmentPositions.of(places, names) for places in headers),
        tuple((at, SegmentPositions.of(own, names), label) for at, own, label in groups),
    )


_known_order_cut = lru_cache(maxsize=512)(order_cut)
_known_patient_cut = lru_cache(maxsize=512)(_patient_cut)


def _share_tail(scopes: list[MessageScope]) -> None:
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
            own = SegmentPositions.of([*scope.own.order, *tail], scope.message.names)
            scopes[at] = MessageScope(scope.message, scope.defaults, own, scope.header, scope.place)


def _accession(scope: MessageScope) -> str:
    places = scope.own.filed.get("OBR")
    fields = scope.split(places[0]) if places else ()
    return fields[_ACCESSION_FIELD] if len(fields) > _ACCESSION_FIELD else ""


def is_imaging(scope: MessageScope) -> bool:
    """Whether a group orders an observation: an OBR, or no order detail at all."""
    own = scope.own.filed
    return "OBR" in own or NON_IMAGING.isdisjoint(own)
