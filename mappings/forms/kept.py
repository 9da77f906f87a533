"""What of a message's form decides by itself: its groups, and which lines are kept whole."""

from collections.abc import Mapping, Sequence
from dataclasses import MISSING, dataclass, fields

from mappings.events import OrderEvent
from mappings.forms.ground import Ground, Lines, Rows
from mappings.forms.writer import Unwritable
from mappings.hl7.message import Message
from mappings.orders import OrderPlan
from mappings.rows import Places, behind
from mappings.scope import NON_IMAGING, SHARED_TAIL, Cut, order_cut

MOST_GROUPS = 8
_HEADERS = frozenset({"FHS", "BHS"})  # their fields are counted as MSH's are

DEFAULTS: Mapping[str, object] = {
    each.name: None if each.default is MISSING else each.default for each in fields(OrderEvent)
}
"""The values of an event of which nothing is known."""


@dataclass(frozen=True, slots=True)
class Kept:
    """By group: whether it is an examination, its name, and the lines to keep."""

    lines: Lines
    imaging: Sequence[bool]
    places: Sequence[str]
    echo: Sequence[Sequence[int]]
    whole: Sequence[Mapping[str, Sequence[int]]]
    """For Metadata, by the segment's name."""
    defaults: Mapping[str, object]

    def number(self, group: int) -> int:
        """Count the examinations before a group."""
        return sum(self.imaging[:group])


def kept(message: Message, plan: OrderPlan, lines: Lines) -> tuple[Kept, list[Ground]]:
    """Cut a message. Raises Unwritable where its values decide how it is cut."""
    cut = order_cut(tuple(message.names))
    if not 0 < len(cut.groups) <= MOST_GROUPS or not _HEADERS.isdisjoint(message.names):
        raise Unwritable
    if _tail_decides(cut):
        raise Unwritable
    grounds = [
        _ground(number, message, cut.headers[at], own)
        for number, (at, own, _) in enumerate(cut.groups)
    ]
    chosen = [[*cut.headers[at].order, *own.order] for at, own, _ in cut.groups]
    names = message.names
    known = Kept(
        lines,
        [_is_imaging(own) for _, own, _ in cut.groups],
        [label for _, _, label in cut.groups],
        [[line for line in each if plan.echo.has(names[line])] for each in chosen],
        [
            Places([line for line in each if plan.metadata.keep.has(names[line])], names).filed
            for each in chosen
        ],
        DEFAULTS,
    )
    return known, grounds


def _tail_decides(cut: Cut) -> bool:
    """Whether a ZDS behind the last group may be others' too: their accessions say so."""
    *earlier, (_, last, _) = cut.groups
    return (
        bool(earlier)
        and SHARED_TAIL in last.filed
        and not any(SHARED_TAIL in own.filed for _, own, _ in earlier)
    )


def _is_imaging(own: Places) -> bool:
    return "OBR" in own.filed or NON_IMAGING.isdisjoint(own.filed)


def _ground(number: int, message: Message, header: Places, own: Places) -> Ground:
    def rows(segment: str) -> Sequence[int]:
        found = own.filed.get(segment) or header.filed.get(segment)
        return found or ()

    return Ground(number, rows, _every(message, header, own))


def _every(message: Message, header: Places, own: Places) -> Rows:
    def every(key: str) -> Sequence[int]:
        anchor, _, name = key.rpartition(">")
        found = [*header.filed.get(name, ()), *own.filed.get(name, ())]
        if not anchor:
            return found
        segments = [message.segment(line) for line in found]
        return [each.index for each in behind(segments, anchor, message.names)]

    return every
