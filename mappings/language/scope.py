"""
Scopes: the parts of a message that rules read, one for each ORC/OBR group or patient.

A scope contains positions only. The texts belong to the message, which splits a segment when a rule
first reads it.

A scope sees its own segments and, for names that it does not have, those of the header (MSH to the
first ORC). Segments in other positions than those of the standard are accepted (HL7 v2.5.1 §2.12; Z
segments, NTE, ZDS inside a group).
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from itertools import pairwise
from typing import Any, NamedTuple, Protocol

from mappings.hl7.message import Message
from mappings.hl7.refusals import TooMuchShared
from mappings.language.code_tables import UnmappedCode

Positions = Sequence[int]


class SegmentPositions:
    """The positions of segments that belong together, in order and by segment name."""

    __slots__ = ("by_name", "order")

    def __init__(self, order: Positions, by_name: Mapping[str, Positions]) -> None:
        self.order = order
        self.by_name = by_name

    @classmethod
    def of(cls, order: Positions, names: Sequence[str]) -> "SegmentPositions":
        """Group positions by name; `names` are the names of all segments of the message."""
        by_name: dict[str, list[int]] = {}
        for position in order:
            by_name.setdefault(names[position], []).append(position)
        return cls(order, by_name)


class PositionLookup(Protocol):
    """Returns the positions of segments by name: a dict or a `FallbackLookup`."""

    def get(self, name: str, /) -> Positions | None:
        """Return the positions of the segments with a name, None or empty if there are none."""


class FallbackLookup:
    """A lookup with a second lookup for the names that the first one does not have."""

    __slots__ = ("_primary", "_secondary")

    def __init__(self, primary: PositionLookup, secondary: PositionLookup) -> None:
        self._primary = primary
        self._secondary = secondary

    def get(self, name: str, /) -> Positions | None:
        return self._primary.get(name) or self._secondary.get(name)


def following(positions: Positions, anchor: str, names: Sequence[str]) -> Iterator[int]:
    """Yield the positions after a segment `anchor`, directly or after others of their name."""
    before, followed = -1, ""
    for position in positions:
        if position - 1 != before or before < 0:
            back = position - 1
            while back >= 0 and names[back] == names[position]:
                back -= 1
            followed = names[back] if back >= 0 else ""
        before = position
        if followed == anchor:
            yield position


NON_IMAGING = frozenset({"RQD", "RQ1", "RXO", "ODS", "ODT"})
"""Order details of ORM^O01 other than OBR (HL7 v2.5.1 §4.4.1): diet, supplies, pharmacy."""

SHARED_TAIL = "ZDS"
"""IHE RAD-4 sends one ZDS after all ORC/OBR pairs of one accession."""

_ACCESSION_FIELD = 18


NamePredicate = Callable[[str], bool]


class ListenerDefaults(NamedTuple):
    """The values of a listener that apply if a message does not have them."""

    site: str
    time_zone: str
    now: datetime
    unmapped_codes: list[UnmappedCode] | None = None
    """Receives the codes that no code table contains; None: they are not collected."""


_NO_SEGMENTS = SegmentPositions((), {})


class MessageScope:
    """
    The segments of one event: positions of its own segments and of the header.

    `place` is the location of the group for issues and events, such as `ORC[2]`.

    A path reads the segments of `lookup`, or those of `fallback` if `lookup` does not have the
    name.
    """

    __slots__ = (
        *("_singles", "condition_results", "defaults", "delimiters", "encoding", "fallback"),
        *("fields", "header", "known_values", "lookup", "message", "own", "place", "split"),
        "parsed",
    )

    def __init__(
        self,
        message: Message,
        defaults: ListenerDefaults,
        own: SegmentPositions,
        header: SegmentPositions = _NO_SEGMENTS,
        place: str = "",
    ) -> None:
        self.message = message
        self.delimiters = message.delimiters
        self.encoding = message.encoding
        self.fields = message.lines.fields
        """The fields of all segments of the message, None for a segment that was not split yet."""
        self.split = message.lines.split
        """Splits the segment at a position."""
        self.defaults = defaults
        self.header = header
        self.own = own
        self.place = place
        self.lookup: PositionLookup = own.by_name
        self.fallback: PositionLookup = header.by_name
        self.known_values: dict[str, str] = {}
        """The values of tags and order codes that were computed already."""
        self.parsed: dict[tuple[str, int], Any] = {}  # fields that were parsed already
        self.condition_results: dict[Callable[[MessageScope], bool], bool] = {}
        """The results of conditions that were evaluated already."""
        self._singles: dict[int, MessageScope] | None = None

    def select_positions(self, selects: NamePredicate) -> list[int]:
        """Return the positions of the segments with selected names, those of the header first."""
        header, own = self.header, self.own
        found = {*filter(selects, header.by_name), *filter(selects, own.by_name)}
        if not found:
            return []
        names = self.message.names
        return [position for position in (*header.order, *own.order) if names[position] in found]

    def select_lines(self, selects: NamePredicate) -> list[str]:
        """Return the segments with selected names as sent, those of the header first."""
        return [self.message.lines.text(position) for position in self.select_positions(selects)]

    def visible_positions(self, name: str) -> Positions:
        """Return the positions of the segments that a path sees: the scope's, else the header's."""
        return self.lookup.get(name) or self.fallback.get(name) or ()

    def all_positions(self, key: str) -> Positions:
        """
        Return the positions of all segments of a name, the header's first; `PID>NTE`: NTE after
        PID.
        """
        if ">" in key:
            anchor, _, name = key.rpartition(">")
            return tuple(following(self.all_positions(name), anchor, self.message.names))
        header, own = self.header.by_name.get(key), self.own.by_name.get(key)
        return (*header, *own) if header and own else own or header or ()

    def single(self, position: int) -> "MessageScope":
        """Return a scope that sees one segment instead of all with its name. Results are cached."""
        singles = self._singles
        if singles is None:
            singles = self._singles = {}
        one = singles.get(position)
        if one is None:
            own = SegmentPositions((position,), {self.message.names[position]: (position,)})
            one = singles[position] = MessageScope(
                self.message, self.defaults, own, place=self.place
            )
            one.fallback = FallbackLookup(self.lookup, self.fallback)
        return one

    def restricted_to(self, positions: Positions) -> "MessageScope":
        """Return a scope whose rules over all segments of a name see only these positions."""
        own = SegmentPositions.of(positions, self.message.names)
        restricted = MessageScope(self.message, self.defaults, own, place=self.place)
        restricted.lookup, restricted.fallback = self.lookup, self.fallback
        return restricted

    def has_own(self, name: str) -> bool:
        """True if the scope itself, not the header, has a segment of this name."""
        return name in self.own.by_name

    def locate(self, path: str) -> str:
        """Return a path with the number of its segment in this message: OBR[2]-18."""
        name, _, rest = path.partition("-")
        own = self.own.by_name.get(name)
        number = self.message.numbers[own[0]] if own else 1
        return f"{name}[{number}]-{rest}" if number > 1 and rest else path


class MessageGroups(NamedTuple):
    """
    The groups of a message: the headers, and for each group the index of its header, its
    positions and its name.
    """

    headers: tuple[SegmentPositions, ...]
    groups: tuple[tuple[int, SegmentPositions, str], ...]


MAX_SHARED_SEGMENTS = 50_000
MAX_SHARED_BYTES = 32 * 2**20
MAX_SHARED_PARTS = 200_000
"""
Limits of the segments that groups share, counted once for each further group.

Each group reads the segments before the first group, and its order is stored with them. Parts are
separators and escape characters: rules visit the repetitions of a field in each group.
"""
MAX_MERGE_PARTS = 50_000
"""Limit of the parts before the MRG of a patient. Each merge visits PID-3 several times."""


def require_little_shared(message: Message, scopes: Sequence["MessageScope"]) -> None:
    """Raise TooMuchShared if the groups read much more than the message has."""
    raw, groups = message.lines.raw, len(scopes)
    few = groups * len(raw) <= MAX_SHARED_SEGMENTS and groups * len(message.raw) <= MAX_SHARED_PARTS
    if groups <= 1 or few:  # the usual case: a part is at least a byte
        return
    _require_at_most(MAX_SHARED_SEGMENTS, [1] * len(raw), scopes)
    _require_at_most(MAX_SHARED_BYTES, list(map(len, raw)), scopes)
    _require_at_most(MAX_SHARED_PARTS, _parts_by_position(message), scopes)


def _require_at_most(limit: int, sizes: Sequence[int], scopes: Sequence["MessageScope"]) -> None:
    """Raise TooMuchShared if the groups share more; `sizes` has the size of each segment."""
    headers = {id(scope.header): scope.header for scope in scopes}
    header_sizes = {key: _total(header.order, sizes) for key, header in headers.items()}
    shared = -sum(sizes)
    for scope in scopes:
        shared += header_sizes[id(scope.header)] + _total(scope.own.order, sizes)
        if shared > limit:
            raise TooMuchShared(scope.place)


def _parts_by_position(message: Message) -> list[int]:
    marks = message.delimiters
    known = (marks.repetition, marks.component, marks.subcomponent, marks.escape)
    encoded = [mark.encode("latin-1") for mark in known if mark]
    return [sum(map(raw.count, encoded)) for raw in message.lines.raw]


def _total(positions: Positions, sizes: Sequence[int]) -> int:
    return sum([sizes[position] for position in positions])


_Grouping = Callable[[tuple[str, ...]], MessageGroups]
_LONGEST_CACHED = 100  # segments of a message whose groups are cached


def split_orders(message: Message, defaults: ListenerDefaults) -> list[MessageScope]:
    """Split an order message at each ORC, and at each further OBR of the same ORC."""
    scopes = _scopes(message, defaults, order_groups, _cached_order_groups)
    _share_tail(scopes)
    return scopes


def split_patients(message: Message, defaults: ListenerDefaults) -> list[MessageScope]:
    """Split an ADT message at each PID: A39 and A40 may merge several pairs."""
    return _scopes(message, defaults, _patient_groups, _cached_patient_groups)


def split_merges(groups: Sequence[MessageScope]) -> list[MessageScope]:
    """
    Split the group of each patient at each MRG: ADT^A45 may move several visits.

    Raises TooMuchShared.
    """
    found: list[MessageScope] = []
    parts: list[int] = []
    shared = shared_parts = 0
    for scope in groups:
        names, order = scope.message.names, scope.own.order
        starts = [index for index, position in enumerate(order) if names[position] == "MRG"]
        if not starts[1:]:
            found.append(scope)
            continue
        parts = parts or _parts_by_position(scope.message)
        shared += starts[0] * len(starts)
        shared_parts += _total(order[: starts[0]], parts) * len(starts)
        if shared > MAX_SHARED_SEGMENTS or shared_parts > MAX_MERGE_PARTS:
            raise TooMuchShared(scope.place)
        for start, end in pairwise([*starts, len(order)]):
            own = SegmentPositions.of([*order[: starts[0]], *order[start:end]], names)
            one = MessageScope(scope.message, scope.defaults, own, scope.header, scope.place)
            found.append(one)
    return found


def _scopes(
    message: Message, defaults: ListenerDefaults, grouping: _Grouping, cached: _Grouping
) -> list[MessageScope]:
    names = tuple(message.names)
    headers, groups = (cached if len(names) <= _LONGEST_CACHED else grouping)(names)
    return [MessageScope(message, defaults, own, headers[at], label) for at, own, label in groups]


def order_groups(names: tuple[str, ...]) -> MessageGroups:
    """Return the groups of an order message with such segment names."""
    headers: list[list[int]] = [[]]
    groups: list[tuple[int, list[int], str]] = []
    own = headers[0]  # the group of the next segment
    orders = details = 0
    obr_begins_group = True  # false until the first OBR after an ORC
    for position, name in enumerate(names):
        if name == "ORC":
            orders += 1
            own, obr_begins_group = [], False
            groups.append((len(headers) - 1, own, f"ORC[{orders}]"))
        elif name == "OBR":
            details += 1
            if obr_begins_group:
                own = [] if own is headers[-1] else _shared_orc(own, names)
                groups.append((len(headers) - 1, own, f"OBR[{details}]"))
            obr_begins_group = True
        elif name == "PID" and own is not headers[-1]:
            # Two patients of one message share only the MSH.
            own = [at for at in headers[-1] if names[at] == "MSH"]
            obr_begins_group = True
            headers.append(own)
        own.append(position)
    return _grouped(headers, groups, names)


def _shared_orc(before: list[int], names: Sequence[str]) -> list[int]:
    """Return the start of a group for an OBR without ORC: the previous ORC applies to it."""
    return [position for position in before if names[position] == "ORC"]


def _patient_groups(names: tuple[str, ...]) -> MessageGroups:
    header: list[int] = []
    groups: list[tuple[int, list[int], str]] = []
    own = header
    for position, name in enumerate(names):
        if name == "PID":
            own = []
            groups.append((0, own, f"PID[{len(groups) + 1}]"))
        own.append(position)
    return _grouped([header], groups, names)


def _grouped(
    headers: list[list[int]], groups: list[tuple[int, list[int], str]], names: Sequence[str]
) -> MessageGroups:
    return MessageGroups(
        tuple(SegmentPositions.of(header, names) for header in headers),
        tuple((at, SegmentPositions.of(own, names), label) for at, own, label in groups),
    )


_cached_order_groups = lru_cache(maxsize=512)(order_groups)
_cached_patient_groups = lru_cache(maxsize=512)(_patient_groups)


def _share_tail(scopes: list[MessageScope]) -> None:
    """Add the one ZDS after the last group to the earlier groups with the same accession."""
    if len(scopes) < 2 or any(scope.has_own(SHARED_TAIL) for scope in scopes[:-1]):  # noqa: PLR2004  # several groups
        return
    last = scopes[-1]
    tail = last.own.by_name.get(SHARED_TAIL)
    accession = _accession(last)
    if tail is None or len(tail) != 1 or not accession:
        return
    for at, scope in enumerate(scopes[:-1]):
        if scope.header is last.header and _accession(scope) == accession:
            own = SegmentPositions.of([*scope.own.order, *tail], scope.message.names)
            scopes[at] = MessageScope(scope.message, scope.defaults, own, scope.header, scope.place)


def _accession(scope: MessageScope) -> str:
    positions = scope.own.by_name.get("OBR")
    fields = scope.split(positions[0]) if positions else ()
    return fields[_ACCESSION_FIELD] if len(fields) > _ACCESSION_FIELD else ""


def is_imaging(scope: MessageScope) -> bool:
    """True if a group orders an observation: it has an OBR, or no order detail at all."""
    own = scope.own.by_name
    return "OBR" in own or NON_IMAGING.isdisjoint(own)
