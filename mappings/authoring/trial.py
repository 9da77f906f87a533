"""
Trial of a definition: what an inbound one makes of a message, what an outbound one renders for an
order with a sample report, and which worklist items an order becomes. And the comparison of two
versions of a definition.

A trial has the events, the issues, and the fields that rules read. `value_uses` finds the tags and
the report content that messages to receivers use: without such a value, or with another one, a
message differs.

`bridge mapping try` and the console use it. Results contain patient data and must not be logged;
sample results are never sent.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import zip_longest
from typing import Any, TypeVar

from typing_extensions import override

from mappings.hl7.differences import differences
from mappings.hl7.message import Message, MessageSyntax, SegmentLines
from mappings.hl7.refusals import MessageRefusal
from mappings.inbound.definition import InboundMapping
from mappings.inbound.events import OrderAction, OrderEvent
from mappings.language.code_tables import UnmappedCode
from mappings.language.diagnostics import Issue, MappingError, RuleFailed
from mappings.language.scope import ListenerDefaults
from mappings.outbound.definition import OutboundMapping
from mappings.outbound.results import ResultContext, ResultEvent, ResultOrder, Signer
from mappings.outbound.worklist_item import WorklistItem, WorklistMapping, described

HEADER = "MSH"
_PREFIX = "7"  # in front of a value, it makes another value

Late = Callable[[], bool]
"""True if a time limit has expired."""


def deadline(seconds: float) -> Late:
    """Start a time limit; return a function that is True once it has expired."""
    until = time.monotonic() + seconds
    return lambda: time.monotonic() > until


_MAX_FIELDS = 10_000
_DELIMITER_FIELDS = frozenset({"MSH-1", "MSH-2"})


@dataclass(frozen=True, slots=True)
class Trial:
    accepted: bool
    issues: tuple[Issue, ...]
    lanes: tuple[str, ...]
    events: tuple[dict[str, Any], ...]
    used: tuple[str, ...]
    """Fields with a value that a rule read, such as `OBR[2]-4`, in the order of the message."""
    unused: tuple[str, ...]
    """Fields with a value that no rule read."""
    parked: bool = False
    """
    Whether a hook or pattern failed that no identifier needs.

    The listener acknowledges such a message, and the worker parks it.
    """


class _TrackedFields(list[str]):
    """The fields of a segment; records which fields are read."""

    __slots__ = ("read",)

    read: set[int]

    @override
    def __getitem__(self, number: Any) -> Any:
        self.read.add(number)
        return super().__getitem__(number)


class _TrackedLines(SegmentLines):
    __slots__ = ("read",)

    def __init__(
        self, raw: list[bytes], names: Sequence[str], syntax: MessageSyntax, text: str | None = None
    ) -> None:
        super().__init__(raw, names, syntax, text)
        self.read: list[set[int]] = [set() for _ in raw]

    @override
    def split(self, index: int) -> list[str]:
        known = self.fields[index]
        if known is None:
            known = self.fields[index] = _TrackedFields(super().split(index))
            known.read = self.read[index]
        return known


class _TrackedMessage(Message):
    __slots__ = ()

    lines: _TrackedLines
    lines_type = _TrackedLines


def try_message(
    mapping: InboundMapping,
    raw: bytes,
    defaults: ListenerDefaults,
    charset: str = "utf-8",
) -> Trial:
    """
    Process a message as the listener does; raises nothing for malformed messages.

    `charset` is the codec if MSH-18 is empty.
    """
    try:
        message = Message.parse(raw, fallback=charset)
    except MessageRefusal as refusal:
        return _refused(refusal)
    pre_check = mapping.pre_check(message, defaults)
    issues = pre_check.issues
    if not mapping.accepts(message.header, charset):
        issues = (Issue("MSH-9", "accept", "this mapping does not accept the message"), *issues)
    accepted = not pre_check.refusals and mapping.accepts(message.header, charset)
    tracked = _TrackedMessage.parse(raw, fallback=charset)
    events: list[OrderEvent] = []
    unmapped: list[UnmappedCode] = []
    parked = False
    try:
        events = mapping.apply(tracked, defaults._replace(unmapped_codes=unmapped))
    except MessageRefusal:
        accepted = False  # the pre-check has a refusal
    except RuleFailed as failure:
        parked, accepted = accepted, False
        issues = (*issues, Issue("", "rule", str(failure)))
    if parked:
        issues = (*issues, Issue("", "parked", "the message is acknowledged, and parked"))
    issues += tuple(code.issue for code in dict.fromkeys(unmapped))
    used, unused = _fields(tracked)
    shown = tuple(_as_json(event) for event in events) if accepted else ()
    return Trial(accepted, issues, pre_check.lanes, shown, used, unused, parked)


def _refused(refusal: MessageRefusal) -> Trial:
    issue = Issue(refusal.place, refusal.error_code.value, refusal.text, refusal=refusal)
    return Trial(False, (issue,), (), (), (), ())


def _as_json(event: OrderEvent) -> dict[str, Any]:
    values = asdict(event)
    # A part of the definition, and what the known merges say: not of the message.
    for name in ("lists", "merged_into", "merged_into_info"):
        del values[name]
    for name in ("result_status", "other_mrns", "is_further", "is_mutual"):  # of few messages
        if not values[name]:
            del values[name]
    values["action"] = event.action.value
    values["link_signals"] = [f"{signal.kind}={signal.value}" for signal in event.link_signals]
    values["echo"] = list(event.echo)
    if event.outside is not None:
        values["outside"] |= {
            "pdfs": [f"{len(pdf)} bytes" for pdf in event.outside.pdfs],
            "omitted": list(event.outside.omitted),
        }
    for rare in ("visit", "renumbers", "outside"):
        if not values[rare]:
            del values[rare]
    return values


def _fields(message: _TrackedMessage) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the used and the unused fields with values, at most _MAX_FIELDS of each."""
    used: list[str] = []
    unused: list[str] = []
    counts: dict[str, int] = {}
    for segment in message.segments:
        number = counts[segment.id] = counts.get(segment.id, 0) + 1
        read = frozenset(message.lines.read[segment.index])
        name = segment.id if number == 1 else f"{segment.id}[{number}]"
        for index in range(1, len(segment) + 1):
            place = f"{name}-{index}"
            if segment.field_text(index) and place not in _DELIMITER_FIELDS:
                places = used if index in read else unused
                if len(places) < _MAX_FIELDS:
                    places.append(place)
    return tuple(used), tuple(unused)


@dataclass(frozen=True, slots=True)
class FieldDifference:
    """A field with different values. A text is empty if one version has no such field."""

    field: str
    """For example `accepted`, `issues`, `lanes`, or `ORC[2].clinical_info.PatientName`."""
    before: str
    after: str


def compare(
    before: InboundMapping,
    after: InboundMapping,
    raw: bytes,
    defaults: ListenerDefaults,
    charset: str = "utf-8",
) -> list[FieldDifference]:
    """Return the differences between the results of two versions for a message."""
    old = dict(_flat(try_message(before, raw, defaults, charset)))
    new = dict(_flat(try_message(after, raw, defaults, charset)))
    return text_differences(old, new)


def mapped_texts(
    mapping: InboundMapping, raw: bytes, defaults: ListenerDefaults, charset: str = "utf-8"
) -> dict[str, str]:
    """Return what a definition makes of a message, as texts by field, without issues and lanes."""
    found = dict(_flat(try_message(mapping, raw, defaults, charset)))
    return {field: text for field, text in found.items() if field not in {"issues", "lanes"}}


def text_differences(old: Mapping[str, str], new: Mapping[str, str]) -> list[FieldDifference]:
    """Return the fields whose texts differ."""
    return [
        FieldDifference(field, old.get(field, ""), new.get(field, ""))
        for field in {**old, **new}
        if old.get(field, "") != new.get(field, "")
    ]


def _flat(trial: Trial) -> Iterator[tuple[str, str]]:
    yield "accepted", "yes" if trial.accepted else "no"
    yield (
        "issues",
        "; ".join(f"{issue.path} {issue.message} [{issue.code}]" for issue in trial.issues),
    )
    yield "lanes", ", ".join(trial.lanes)
    for event in trial.events:
        place = event["place"]
        for name, value in event.items():
            yield from _leaves(f"{place}.{name}", value)


def _leaves(field: str, value: Any) -> Iterator[tuple[str, str]]:
    if isinstance(value, Mapping):
        for name, below in value.items():
            yield from _leaves(f"{field}.{name}", below)
    elif isinstance(value, list | tuple):
        yield field, "\n".join(map(str, value))
    else:
        yield field, str(value)


REPORT = "FINDINGS:\nNothing unusual.\n\nIMPRESSION:\nA specimen: no report."


def render_samples(
    mapping: OutboundMapping,
    reader: InboundMapping,
    raw: bytes,
    defaults: ListenerDefaults,
    charset: str,
) -> list[bytes]:
    """Render a result for each order of a message; none if it is refused or has no order."""
    contexts = sample_contexts(mapping, reader, raw, defaults, charset)
    return [mapping.render(context) for context in contexts]


def sample_contexts(
    mapping: OutboundMapping | WorklistMapping,
    reader: InboundMapping,
    raw: bytes,
    defaults: ListenerDefaults,
    charset: str,
) -> list[ResultContext]:
    """Return the context of each order of a message; that of a result has a sample report."""
    try:
        events = reader.apply(Message.parse(raw, fallback=charset), defaults)
    except (MessageRefusal, RuleFailed):
        return []
    orders = [
        event for event in events if event.accession and event.action is not OrderAction.IGNORE
    ]
    if isinstance(mapping, WorklistMapping):
        return [_with_study(_context(ResultEvent.ORDER_STATUS, one, defaults)) for one in orders]
    final = ResultEvent.FINAL
    event = final if final in mapping.events else min(mapping.events)
    return [_context(event, order, defaults) for order in orders]


SPECIMEN_UID = "2.25.1"
"""Stands for the StudyInstanceUID that is made for an order without one."""


def _with_study(context: ResultContext) -> ResultContext:
    (order,) = context.orders
    tags = {"StudyInstanceUID": SPECIMEN_UID, **order.tags}
    return replace(context, orders=(replace(order, tags=tags),))


def _context(event: ResultEvent, order: OrderEvent, defaults: ListenerDefaults) -> ResultContext:
    tags = {tag: str(value) for tag, value in order.clinical_info.items() if tag != "Metadata"}
    metadata = dict(order.clinical_info.get("Metadata", {}))
    return ResultContext(
        event=event,
        control_id="SPECIMEN",
        now=defaults.now,
        site=order.site,
        orders=(ResultOrder(tags, metadata, order.placer, order.filler, order.echo),),
        report_text=REPORT,
        signed_at=defaults.now,
        signed_by=Signer("Dr. Specimen", "specimen@example.org", "0"),
        time_zone=defaults.time_zone,
        unmapped_codes=[],
    )


def item_text(item: WorklistItem) -> str:
    """Return an item for a reader: its attributes in lines, its status, and what does not fit."""
    lines = [f"{name}: {text}" for name, text in described(item).items()]
    lines += [f"no valid value: {', '.join(item.problems)}"] if item.problems else []
    return "\n".join([f"status: {item.status}", *lines])


def compare_items(
    before: Sequence[WorklistItem], after: Sequence[WorklistItem]
) -> list[FieldDifference]:
    """Return the attributes that differ; those of a second item begin with its number: `2:`."""
    old, new = (dict(_flat_items(items)) for items in (before, after))
    return text_differences(old, new)


def _flat_items(items: Sequence[WorklistItem]) -> Iterator[tuple[str, str]]:
    for number, item in enumerate(items, start=1):
        prefix = f"{number}:" if number > 1 else ""
        for name, text in {**described(item), "status": item.status}.items():
            yield prefix + name, text


def compare_results(before: list[bytes], after: list[bytes]) -> list[FieldDifference]:
    """
    Return the differing places of the results of two versions for the same message.

    A place in the second or a later result begins with its number: `2:OBX-5`.
    """
    found = []
    for number, (old, new) in enumerate(zip_longest(before, after), start=1):
        prefix = f"{number}:" if number > 1 else ""
        if old is None or new is None:
            found.append(FieldDifference(f"{prefix}{HEADER}", _header(old), _header(new)))
            continue
        found += [
            FieldDifference(prefix + difference.place, difference.before, difference.after)
            for difference in differences(Message.parse(old), Message.parse(new))
        ]
    return found


def _header(written: bytes | None) -> str:
    """Return the first segment of a result, "" if there is none."""
    return Message.parse(written).segment(0).text() if written else ""


_OTHER_YEAR = 1904  # a leap year, so that 29 February exists
Rendered = TypeVar("Rendered")
Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class ValueUse:
    """A value that a definition may write: its name, its text, and whether it is used."""

    name: str
    text: str
    used: bool


def _rendered_or_none(render: Callable[[], Rendered]) -> Rendered | None:
    try:
        return render()
    except MappingError:
        return None


def value_uses(
    mapping: OutboundMapping | WorklistMapping, contexts: Sequence[ResultContext]
) -> tuple[ValueUse, ...]:
    """
    Return each tag, Metadata key and content value once; used if any order uses it.

    Worklist items have no content of a report. Raises MappingError.
    """
    is_worklist = isinstance(mapping, WorklistMapping)
    render = mapping.items if isinstance(mapping, WorklistMapping) else mapping.render
    found: dict[str, ValueUse] = {}
    for context in contexts:
        whole: object = render(context)
        for name, text, others in _changed_values(context):
            if is_worklist and name.startswith(_OF_REPORT):
                continue
            used = any(_rendered_or_none(partial(render, other)) != whole for other in others)
            before = found.get(name)
            found[name] = ValueUse(name, text, used or (before is not None and before.used))
    return tuple(found.values())


_OF_REPORT = "report."


def _changed_values(context: ResultContext) -> Iterator[tuple[str, str, list[ResultContext]]]:
    (order,) = context.orders
    for tag, text in order.tags.items():
        tags = (_without(order.tags, tag), {**order.tags, tag: f"{_PREFIX}{text}"})
        yield f"clinicalInfo.{tag}", text, _with(context, [replace(order, tags=t) for t in tags])
    for key, value in order.metadata.items():
        less = replace(order, metadata=_without(order.metadata, key))
        yield f"Metadata.{key}", str(value), _with(context, [less])
    if text := order.placer:
        placers = ("", f"{_PREFIX}{text}")
        yield "placer", text, _with(context, [replace(order, placer=placer) for placer in placers])
    if text := order.filler:
        fillers = ("", f"{_PREFIX}{text}")
        yield "filler", text, _with(context, [replace(order, filler=filler) for filler in fillers])
    yield "report.text", context.report_text, [replace(context, report_text="")]
    if (at := context.signed_at) is not None:
        yield (
            "report.signedAt",
            at.isoformat(),
            [replace(context, signed_at=at.replace(year=_OTHER_YEAR))],
        )
    signer = context.signed_by
    others = {
        "name": replace(signer, name="Other Person"),
        "email": replace(signer, email=""),
        "identifier": replace(signer, identifier=""),
    }
    for name, other in others.items():
        yield f"report.signedBy.{name}", getattr(signer, name), [replace(context, signed_by=other)]


def _with(context: ResultContext, orders: Sequence[ResultOrder]) -> list[ResultContext]:
    return [replace(context, orders=(order,)) for order in orders]


def _without(values: Mapping[str, Value], key: str) -> dict[str, Value]:
    return {name: value for name, value in values.items() if name != key}
