"""The variables an outbound definition may name, and what they are at each moment.

`$control_id`, `$order.Accession`, `$line` …: a closed set. A frame is one moment of writing:
the message, within it an order, within that a row (a line of text, a Metadata key).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache
from zoneinfo import ZoneInfo

from mappings.hl7.times import format_moment
from mappings.language.tags import TAGS
from mappings.outbound.echo import Echo
from mappings.outbound.encoding import NOTHING, Encoded, components, plain, subcomponents
from mappings.outbound.hl7_versions import NEWEST_VERSION
from mappings.outbound.results import ResultContext, ResultOrder, Signer
from mappings.outbound.style import TEXT, OutputStyle

Variable = Callable[["RenderState"], Encoded]

_BELOW_AN_ORDER = ("OBX", "NTE")
_LOCAL_TIME = 14  # digits of a time to the second, without its offset


@dataclass(slots=True)
class RenderState:
    """One moment of writing a message."""

    context: ResultContext
    order: ResultOrder
    echo: Echo
    number: int
    """Of the order in this message, from 1."""
    statuses: Mapping[str, str]
    manner: OutputStyle = field(default_factory=OutputStyle)
    row: Mapping[str, Encoded] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)
    segment: str = ""

    def count(self, segment: str) -> None:
        """Note that a segment was written; what stands below an OBR is counted anew."""
        self.counts[segment] = self.counts.get(segment, 0) + 1
        if segment == "OBR":
            self.counts |= dict.fromkeys(_BELOW_AN_ORDER, 0)

    @property
    def last(self) -> bool:
        """Whether this is the last order of the message."""
        return self.number == len(self.context.orders)

    @property
    def in_child(self) -> bool:
        """Whether this message is the result of a child order, which holds an addendum."""
        return self.manner.layout.in_child(self.context)


@dataclass(frozen=True, slots=True)
class PersonParts:
    """A name as the report service has it, cut for HL7."""

    family: str
    given: str


def person(name: str) -> PersonParts:
    """Cut `FAMILY^GIVEN`, `Family, Given` or `Given Family`."""
    text = name.split(",", 1)
    if "^" in name:
        family, _, given = name.partition("^")
        return PersonParts(family.strip(), given.replace("^", " ").strip())
    if len(text) > 1 and len(text[1].split()) > 0 and " " not in text[0].strip():
        return PersonParts(text[0].strip(), text[1].strip())
    given, _, family = text[0].strip().rpartition(" ")
    return PersonParts(family, given)


def _time(moment: datetime | None, frame: RenderState) -> Encoded:
    if moment is None:
        return NOTHING
    written = _moment(moment, frame.context.time_zone)
    return plain(written if frame.manner.zoned else written[:_LOCAL_TIME])


@lru_cache(maxsize=16)  # every line of a text bears the same few
def _moment(moment: datetime, zone: str) -> str:
    return format_moment(moment, ZoneInfo(zone))


def _signer(frame: RenderState) -> Signer:
    """Who signed what this message is about: the last addendum's signer, else the report's."""
    addenda = frame.context.addenda
    latest = addenda[-1].signed_by if addenda else Signer()
    return latest if latest.name else frame.context.signed_by


def _released_at(frame: RenderState) -> datetime:
    addenda = frame.context.addenda
    latest = addenda[-1].signed_at if addenda else None
    return latest or frame.context.signed_at or frame.context.now


def _study_time(frame: RenderState) -> Encoded:
    tags = frame.order.tags
    day, time = tags.get("StudyDate", ""), tags.get("StudyTime", "")
    whole_day = 8
    if not day.isdigit():
        return NOTHING
    return plain(day + time if len(day) == whole_day and time.isdigit() else day)


def _xpn(frame: RenderState) -> Encoded:
    """PatientName in the order of XPN: family^given^further^suffix^prefix."""
    parts = [*frame.order.tags.get("PatientName", "").split("^"), "", "", "", "", ""][:5]
    family, given, further, prefix, suffix = (plain(part.strip()) for part in parts)
    return components([family, given, further, suffix, prefix])


def _interpreter(frame: RenderState) -> Encoded:
    """OBR-32 as the receiver reads it: NDL by the standard, or what others write there."""
    signer = _signer(frame)
    if not signer.name:
        return NOTHING
    name = person(signer.name)
    parts = [plain(signer.identifier), plain(name.family), plain(name.given)]
    if frame.manner.interpreter == "name":
        parts[0] = NOTHING
    return (components if frame.manner.interpreter == "xcn" else subcomponents)(parts)


def _order_control(frame: RenderState) -> str:
    """RE where observations follow, CN where they follow the last order, CH below a parent."""
    if frame.in_child:
        return "CH"
    return "RE" if frame.last or frame.manner.orders == "grouped" else "CN"


def _message_type(frame: RenderState) -> list[str]:
    return frame.statuses.get("message", "").split("^")


def _trigger(frame: RenderState) -> Encoded:
    return plain("".join(_message_type(frame)[1:2]))


def _observation_status(frame: RenderState) -> Encoded:
    """OBX-11: that of the message, but for what a row deletes."""
    own = frame.row.get("observation_status")
    return plain(frame.statuses.get("observation", "")) if own is None else own


def _presentation(frame: RenderState) -> str:
    """TXA-3 (table 0191): the type of the text; AP, other data, where files are all there is."""
    files_alone = TEXT not in frame.manner.content and frame.context.files
    return "AP" if files_alone else frame.manner.layout.value_type


def _tag(tag: str) -> Variable:
    return lambda frame: plain(frame.order.tags.get(tag, ""))


def _row(name: str) -> Variable:
    return lambda frame: frame.row.get(name, NOTHING)


VARIABLES: Mapping[str, Variable] = {
    "event": lambda frame: plain(frame.context.event),
    "control_id": lambda frame: plain(frame.context.control_id),
    "now": lambda frame: _time(frame.context.now, frame),
    "site": lambda frame: plain(frame.context.site),
    "report_status": lambda frame: plain(frame.context.report_status),
    "result_status": lambda frame: plain(frame.statuses.get("result", "")),
    "observation_status": _observation_status,
    "order_status": lambda frame: plain(frame.statuses.get("order", "")),
    "order_control": lambda frame: plain(_order_control(frame)),
    "version": lambda frame: plain(frame.manner.version or NEWEST_VERSION),
    "message": lambda frame: components([plain(part) for part in _message_type(frame)]),
    "trigger": _trigger,
    "completion": lambda frame: plain(frame.statuses.get("completion", "")),
    "availability": lambda frame: plain(frame.statuses.get("availability", "")),
    "document.number": lambda frame: plain(frame.context.document.number),
    "document.parent": lambda frame: plain(frame.context.document.parent),
    "document.presentation": lambda frame: plain(_presentation(frame)),
    "value_type": lambda frame: plain(frame.manner.layout.value_type),
    "interpreter": _interpreter,
    "child": lambda frame: plain("Y" if frame.in_child else ""),
    "addendum.suffix": lambda frame: plain(
        f"-A{len(frame.context.addenda)}" if frame.in_child else ""
    ),
    "set_id": lambda frame: plain(str(frame.counts.get(frame.segment, 0) + 1)),
    "signed_at": lambda frame: _time(_released_at(frame), frame),
    "signer.name": lambda frame: plain(_signer(frame).name),
    "signer.family": lambda frame: plain(person(_signer(frame).name).family),
    "signer.given": lambda frame: plain(person(_signer(frame).name).given),
    "signer.id": lambda frame: plain(_signer(frame).identifier),
    "signer.email": lambda frame: plain(_signer(frame).email),
    "placer": lambda frame: plain(frame.order.placer),
    "filler": lambda frame: plain(frame.order.filler),
    "order.number": lambda frame: plain(str(frame.number)),
    "order.study_time": _study_time,
    "order.xpn": _xpn,
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
"""`$destination.KEY` is whatever the destination's settings hold under KEY."""


def destination(key: str) -> Variable:
    """Read a setting of the destination."""
    return lambda frame: plain(frame.context.destination.get(key, ""))
