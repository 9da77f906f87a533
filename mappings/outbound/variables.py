"""
The variables of outbound definitions, such as `$control_id`, `$order.Accession` and `$line`.

The render state has the data of a message, of the current order, and of the current row (a line of
text, a Metadata key). Variables read it.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache
from zoneinfo import ZoneInfo

from mappings.hl7.times import format_moment
from mappings.hl7.versions import NEWEST_VERSION
from mappings.language.rules import TAGS
from mappings.outbound.echo import Echo
from mappings.outbound.encoding import (
    NOTHING,
    Encoded,
    components,
    plain,
    repeated,
    subcomponents,
)
from mappings.outbound.results import ResultContext, ResultOrder, Signer
from mappings.outbound.style import TEXT, OutputStyle

Variable = Callable[["RenderState"], Encoded]

_BELOW_AN_ORDER = ("OBX", "NTE")
_LOCAL_TIME = 14  # digits of a time to the second, without its offset


@dataclass(slots=True)
class RenderState:
    """The state of rendering: the message, the current order and the current row."""

    context: ResultContext
    order: ResultOrder
    echo: Echo
    number: int
    """The number of the order in this message, from 1."""
    statuses: Mapping[str, str]
    style: OutputStyle = field(default_factory=OutputStyle)
    row: Mapping[str, Encoded] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)
    segment: str = ""
    others: Sequence["RenderState"] = ()
    """The states of all orders if one ORC and OBR names them all (`orders: repeated`)."""

    def count(self, segment: str) -> None:
        """Count a written segment. Counts of segments below an OBR start again with each OBR."""
        self.counts[segment] = self.counts.get(segment, 0) + 1
        if segment == "OBR":
            self.counts |= dict.fromkeys(_BELOW_AN_ORDER, 0)

    @property
    def last(self) -> bool:
        """Whether this is the last order of the message."""
        return self.number == len(self.context.orders) or bool(self.others)

    @property
    def in_child(self) -> bool:
        """Whether this message is the result of a child order, which contains an addendum."""
        return self.style.layout.in_child(self.context)


@dataclass(frozen=True, slots=True)
class PersonParts:
    """The name of an account of the report service, split for HL7."""

    family: str
    given: str


def person(name: str) -> PersonParts:
    """Split `FAMILY^GIVEN`, `Family, Given` or `Given Family`."""
    parts = name.split(",", 1)
    if "^" in name:
        family, _, given = name.partition("^")
        return PersonParts(family.strip(), given.replace("^", " ").strip())
    if len(parts) > 1 and len(parts[1].split()) > 0 and " " not in parts[0].strip():
        return PersonParts(parts[0].strip(), parts[1].strip())
    given, _, family = parts[0].strip().rpartition(" ")
    return PersonParts(family, given)


def _time(moment: datetime | None, state: RenderState) -> Encoded:
    if moment is None:
        return NOTHING
    written = _moment(moment, state.context.time_zone)
    return plain(written if state.style.zoned else written[:_LOCAL_TIME])


@lru_cache(maxsize=16)  # each line of a text repeats the same times
def _moment(moment: datetime, zone: str) -> str:
    return format_moment(moment, ZoneInfo(zone))


def _signer(state: RenderState) -> Signer:
    """Return the signer of the last addendum, else of the report."""
    addenda = state.context.addenda
    latest = addenda[-1].signed_by if addenda else Signer()
    return latest if latest.name else state.context.signed_by


def _released_at(state: RenderState) -> datetime:
    addenda = state.context.addenda
    latest = addenda[-1].signed_at if addenda else None
    return latest or state.context.signed_at or state.context.now


def _study_time(state: RenderState) -> Encoded:
    tags = state.order.tags
    day, time = tags.get("StudyDate", ""), tags.get("StudyTime", "")
    whole_day = 8
    if not day.isdigit():
        return NOTHING
    return plain(day + time if len(day) == whole_day and time.isdigit() else day)


def _xpn(state: RenderState) -> Encoded:
    """
    Return PatientName in the order of XPN: family^given^further^suffix^prefix.

    The groups of a DICOM name become repetitions with XPN.8.
    """
    groups = state.order.tags.get("PatientName", "").split("=")[: len(_FORMS)]
    if len(groups) == 1:
        return components(_xpn_parts(groups[0]))
    return repeated(
        [
            components([*_xpn_parts(group), NOTHING, plain("L"), plain(form)])
            for group, form in zip(groups, _FORMS, strict=False)
            if group.strip("^ ")
        ]
    )


_MADE_HERE = "2.25."


def _made_study_uid(state: RenderState) -> Encoded:
    """Return the StudyInstanceUID if it was made here: no segment of the order has it."""
    uid = state.order.tags.get("StudyInstanceUID", "")
    if not uid.startswith(_MADE_HERE) or any(uid in line for line in state.order.echo):
        return NOTHING
    return plain(uid)


_FORMS = ("A", "I", "P")  # alphabetic, ideographic, phonetic (XPN.8, table 4000)


def _xpn_parts(group: str) -> list[Encoded]:
    parts = [*group.split("^"), "", "", "", "", ""][:5]
    family, given, further, prefix, suffix = (plain(part.strip()) for part in parts)
    return [family, given, further, suffix, prefix]


def _interpreter(state: RenderState) -> Encoded:
    """Return OBR-32 in the form of the receiver: NDL as in the standard, XCN, or a name."""
    signer = _signer(state)
    if not signer.name:
        return NOTHING
    name = person(signer.name)
    parts = [plain(signer.identifier), plain(name.family), plain(name.given)]
    if state.style.interpreter == "name":
        parts[0] = NOTHING
    return (components if state.style.interpreter == "xcn" else subcomponents)(parts)


def _order_control(state: RenderState) -> str:
    """Return RE, CN if observations follow only the last order, CH for a child order."""
    if state.in_child:
        return "CH"
    return "RE" if state.last or state.style.orders == "grouped" else "CN"


def _message_type(state: RenderState) -> list[str]:
    return state.statuses.get("message", "").split("^")


def _trigger(state: RenderState) -> Encoded:
    return plain("".join(_message_type(state)[1:2]))


def _observation_status(state: RenderState) -> Encoded:
    """Return OBX-11: the status of the message, or of a row that deletes."""
    own = state.row.get("observation_status")
    return plain(state.statuses.get("observation", "")) if own is None else own


def _presentation(state: RenderState) -> str:
    """Return TXA-3 (table 0191): the type of the text; AP (other data) for files without text."""
    files_alone = TEXT not in state.style.content and state.context.files
    return "AP" if files_alone else state.style.layout.value_type


def _tag(tag: str) -> Variable:
    return lambda state: plain(state.order.tags.get(tag, ""))


def _row(name: str) -> Variable:
    return lambda state: state.row.get(name, NOTHING)


VARIABLES: Mapping[str, Variable] = {
    "event": lambda state: plain(state.context.event),
    "control_id": lambda state: plain(state.context.control_id),
    "now": lambda state: _time(state.context.now, state),
    "site": lambda state: plain(state.context.site),
    "report_status": lambda state: plain(state.context.report_status),
    "result_status": lambda state: plain(state.statuses.get("result", "")),
    "observation_status": _observation_status,
    "order_status": lambda state: plain(state.statuses.get("order", "")),
    "order_control": lambda state: plain(_order_control(state)),
    "version": lambda state: plain(state.style.version or NEWEST_VERSION),
    "message": lambda state: components([plain(part) for part in _message_type(state)]),
    "trigger": _trigger,
    "completion": lambda state: plain(state.statuses.get("completion", "")),
    "availability": lambda state: plain(state.statuses.get("availability", "")),
    "document.number": lambda state: plain(state.context.document.number),
    "document.parent": lambda state: plain(state.context.document.parent),
    "document.presentation": lambda state: plain(_presentation(state)),
    "value_type": lambda state: plain(state.style.layout.value_type),
    "interpreter": _interpreter,
    "child": lambda state: plain("Y" if state.in_child else ""),
    "addendum.suffix": lambda state: plain(
        f"-A{len(state.context.addenda)}" if state.in_child else ""
    ),
    "set_id": lambda state: plain(str(state.counts.get(state.segment, 0) + 1)),
    "signed_at": lambda state: _time(_released_at(state), state),
    "signer.name": lambda state: plain(_signer(state).name),
    "signer.family": lambda state: plain(person(_signer(state).name).family),
    "signer.given": lambda state: plain(person(_signer(state).name).given),
    "signer.id": lambda state: plain(_signer(state).identifier),
    "signer.email": lambda state: plain(_signer(state).email),
    "placer": lambda state: plain(state.order.placer),
    "filler": lambda state: plain(state.order.filler),
    "order.number": lambda state: plain(str(state.number)),
    "order.study_time": _study_time,
    "order.xpn": _xpn,
    "order.made_study_uid": _made_study_uid,
    **{f"order.{tag}": _tag(tag) for tag in TAGS},
    **{
        name: _row(name)
        for name in (
            *("line", "section", "section.code", "section.text", "section.system", "sub_id"),
            *("key", "value", "entry", "target", "format", "data"),
        )
    },
}
DESTINATION = "destination."
"""`$destination.KEY` is the value of KEY in the settings of the destination."""


def destination(key: str) -> Variable:
    return lambda state: plain(state.context.destination.get(key, ""))
