"""
Trial of a definition: what an inbound one makes of a message, and what an outbound one renders for
an order with a sample report. And the comparison of two versions of a definition.

A trial has the events, the issues, and the fields that rules read. A definition uses a value of a
message if the result for a variant, a copy in which the value is removed or changed, differs;
`sort_parts` examines the repetitions and components of fields. `find_dependencies` finds the
fields, tags and report content that messages to receivers use in the same way, also uses in tags,
echoes and conditions.

`bridge mapping try` and the console use it. Results contain patient data and must not be logged;
sample results are never sent.
"""

import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import islice, zip_longest
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

HEADER = "MSH"
MAX_PARTS = 300
"""Limit of the separators in the fields of a message that are examined."""
_PREFIX = "7"  # in front of a value, it makes another value

MAX_SECONDS = 2.0
"""Time limit for the parts of a message, because messages may be large and a user waits."""

Late = Callable[[], bool]
"""True if a time limit has expired."""
Differs = Callable[[bytes], bool]
"""True if the result for a variant differs from that for the message."""


def never() -> bool:
    """Return False: there is no time limit."""
    return False


def deadline(seconds: float) -> Late:
    """Start a time limit; return a function that is True once it has expired."""
    until = time.monotonic() + seconds
    return lambda: time.monotonic() > until


@dataclass(frozen=True, slots=True)
class FieldVariants:
    """
    A field with a value, and its variants; `place` has the number of the segment: `OBR[2]-4`.

    A variant is created on access, because messages may be large.
    """

    place: str
    text: str
    _lines: Sequence[str]
    _values: Sequence[str]
    _at: tuple[int, int]  # line and field
    _message: Message

    def with_text(self, text: str) -> bytes:
        """Return the message with another text in this field."""
        line, index = self._at
        values = [*self._values[:index], text, *self._values[index + 1 :]]
        written = self._message.delimiters.field.join(values)
        whole = "\r".join([*self._lines[:line], written, *self._lines[line + 1 :], ""])
        return whole.encode(self._message.encoding, "replace")

    def variants(self) -> Iterator[bytes]:
        """
        Yield the message without this field, and with another value in it.

        The changed value shows that the first of two fields with equal values is used.
        """
        yield self.with_text("")
        yield self.with_text(f"{_PREFIX}{self.text}")


def fields_of(message: Message) -> Iterator[FieldVariants]:
    """Yield each field with a value, except those of the header, which select the definition."""
    lines = [line.text() for line in message.segments]
    for at, (segment, number) in enumerate(zip(message.segments, message.numbers, strict=True)):
        if segment.id == HEADER:
            continue
        name = segment.id if number == 1 else f"{segment.id}[{number}]"
        values = lines[at].split(message.delimiters.field)
        for index in range(1, len(values)):
            if values[index]:
                yield FieldVariants(
                    f"{name}-{index}", values[index], lines, values, (at, index), message
                )


class _FieldParts:
    """The repetitions and components of a field, sorted by use."""

    def __init__(
        self, field: FieldVariants, message: Message, differs: Differs, late: Late
    ) -> None:
        self._field = field
        self._repeat = message.delimiters.repetition
        self._join = message.delimiters.component
        self._texts = field.text.split(self._repeat) if self._repeat else [field.text]
        self._differs = differs
        self._late = late
        self.used: list[str] = []
        self.unused: list[str] = []

    def sort(self) -> None:
        """Fill `used` and `unused`."""
        for at, text in enumerate(self._texts):
            if text:
                self._sort_repetition(at, text.split(self._join) if self._join else [text])

    def _sort_repetition(self, at: int, parts: Sequence[str]) -> None:
        place = f"{self._field.place}[{at + 1}]"
        if len(self._texts) > 1:
            other = self._join.join(f"{_PREFIX}{part}" for part in parts)
            has_effect = self._has_effect(at, "", other)
            if len(parts) == 1 or not has_effect:
                (self.used if has_effect else self.unused).append(place)
                return
        if len(parts) == 1:
            return
        for nth, part in enumerate(parts):
            if part:
                without, other = (
                    self._join.join([*parts[:nth], text, *parts[nth + 1 :]])
                    for text in ("", f"{_PREFIX}{part}")
                )
                has_effect = self._has_effect(at, without, other)
                name = f"{place if at else self._field.place}.{nth + 1}"
                (self.used if has_effect else self.unused).append(name)

    def _has_effect(self, at: int, *others: str) -> bool:
        for other in others:
            text = self._repeat.join([*self._texts[:at], other, *self._texts[at + 1 :]])
            if not self._late() and self._differs(self._field.with_text(text)):
                return True
        return False


def sort_parts(
    message: Message, places: Collection[str], differs: Differs, late: Late | None = None
) -> tuple[list[str], list[str]]:
    """
    Return the repetitions and components of fields that are used, and those that are not.

    `PID-3[2]` is a repetition, `PID-3[2].1` a component of it; components of the first repetition
    are named `PID-3.1`. Components of an unused repetition are not listed. A field is examined as a
    whole or not at all. Fields that are not reached before the time limit are skipped.
    """
    late = late or deadline(MAX_SECONDS)
    used: list[str] = []
    unused: list[str] = []
    left = MAX_PARTS
    marks = [mark for mark in (message.delimiters.repetition, message.delimiters.component) if mark]
    for field in fields_of(message):
        separators = sum(field.text.count(mark) for mark in marks)
        if field.place not in places or separators > left:
            continue
        left -= separators
        parts = _FieldParts(field, message, differs, late)
        parts.sort()
        if late():
            break
        used += parts.used
        unused += parts.unused
    return used, unused


_MAX_FIELDS = 10_000
_DELIMITER_FIELDS = frozenset({"MSH-1", "MSH-2"})


@dataclass(frozen=True, slots=True)
class Trial:
    accepted: bool
    issues: tuple[Issue, ...]
    lanes: tuple[str, ...]
    events: tuple[dict[str, Any], ...]
    used: tuple[str, ...]
    """
    Fields with a value that a rule read, such as `OBR[2]-4`, in the order of the message.

    If requested, they are followed by the repetitions and components that have an effect on the
    events.
    """
    unused: tuple[str, ...]
    """Fields with a value that no rule read, and parts of used fields that have no effect."""
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
    *,
    components: bool = False,
) -> Trial:
    """
    Process a message as the listener does; raises nothing for malformed messages.

    `charset` is the codec if MSH-18 is empty. `components`: also examine repetitions and components
    of used fields. This maps the message once or twice for each of them, and is skipped for
    definitions with hooks.
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
    if components and accepted and not mapping.needs_thread:
        whole = [replace(event, echo=()) for event in events]
        known = (message.encoding, defaults)
        used_parts, unused_parts = sort_parts(
            message, frozenset(used), lambda raw: _mapped(mapping, raw, *known) != whole
        )
        used, unused = (*used, *used_parts), (*unused, *unused_parts)
    shown = tuple(_as_json(event) for event in events) if accepted else ()
    return Trial(accepted, issues, pre_check.lanes, shown, used, unused, parked)


def _refused(refusal: MessageRefusal) -> Trial:
    issue = Issue(refusal.place, refusal.error_code.value, refusal.text, refusal=refusal)
    return Trial(False, (issue,), (), (), (), ())


def _as_json(event: OrderEvent) -> dict[str, Any]:
    values = asdict(event)
    del values["lists"]  # a part of the definition, not of the message
    for name in ("other_mrns", "is_mutual"):  # of few messages
        if not values[name]:
            del values[name]
    values["action"] = event.action.value
    values["link_signals"] = [f"{signal.kind}={signal.value}" for signal in event.link_signals]
    values["echo"] = list(event.echo)
    for rare in ("visit", "renumbers"):
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


def _mapped(
    mapping: InboundMapping, raw: bytes, charset: str, defaults: ListenerDefaults
) -> list[OrderEvent] | None:
    """Map a variant, without the echo; None if it is refused."""
    try:
        message = Message.parse(raw, fallback=charset)
        return [replace(event, echo=()) for event in mapping.apply(message, defaults)]
    except (MessageRefusal, RuleFailed):
        return None


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
    mapping: OutboundMapping,
    reader: InboundMapping,
    raw: bytes,
    defaults: ListenerDefaults,
    charset: str,
) -> list[ResultContext]:
    """Return the result context of each order of a message."""
    try:
        events = reader.apply(Message.parse(raw, fallback=charset), defaults)
    except (MessageRefusal, RuleFailed):
        return []
    orders = [
        event for event in events if event.accession and event.action is not OrderAction.IGNORE
    ]
    return [_context(mapping, order, defaults) for order in orders]


def _context(
    mapping: OutboundMapping, order: OrderEvent, defaults: ListenerDefaults
) -> ResultContext:
    final = ResultEvent.FINAL
    tags = {tag: str(value) for tag, value in order.clinical_info.items() if tag != "Metadata"}
    metadata = dict(order.clinical_info.get("Metadata", {}))
    return ResultContext(
        event=final if final in mapping.events else min(mapping.events),
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
MAX_FIELDS = 500
"""Limit of the fields of a message that are tried. Further fields are not reported."""

Rendered = TypeVar("Rendered")
Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class ValueUse:
    """A value that a definition may write: its name, its text, and whether it is used."""

    name: str
    text: str
    used: bool


@dataclass(frozen=True, slots=True)
class Dependencies:
    """
    The dependencies of a definition.

    `used` and `unused` are fields of the message, followed by parts of used fields. `facts` are the
    tags, Metadata keys and report content that the definition may write.
    """

    used: tuple[str, ...] = ()
    unused: tuple[str, ...] = ()
    facts: tuple[ValueUse, ...] = ()


def find_dependencies(
    mapping: OutboundMapping,
    reader: InboundMapping,
    raw: bytes,
    defaults: ListenerDefaults,
    charset: str,
    late: Late = never,
) -> Dependencies:
    """Return what the sample results of a message depend on; empty if there are none."""
    try:
        whole = render_samples(mapping, reader, raw, defaults, charset)
        message = Message.parse(raw, fallback=charset)
    except (MappingError, MessageRefusal):
        return Dependencies()
    if not whole:
        return Dependencies()

    def differs(variant: bytes) -> bool:
        render = partial(render_samples, mapping, reader, variant, defaults, message.encoding)
        return _rendered_or_none(render) != whole

    used: list[str] = []
    unused: list[str] = []
    for field in islice(fields_of(message), MAX_FIELDS):
        if late():
            break
        has_effect = any(differs(changed) for changed in field.variants())
        (used if has_effect else unused).append(field.place)
    used_parts, unused_parts = sort_parts(message, frozenset(used), differs)
    contexts = sample_contexts(mapping, reader, raw, defaults, charset)
    return Dependencies(
        (*used, *used_parts), (*unused, *unused_parts), _value_uses(mapping, contexts)
    )


def _rendered_or_none(render: Callable[[], Rendered]) -> Rendered | None:
    try:
        return render()
    except MappingError:
        return None


def _value_uses(
    mapping: OutboundMapping, contexts: Sequence[ResultContext]
) -> tuple[ValueUse, ...]:
    """Return each tag, Metadata key and content value once; used if any order uses it."""
    found: dict[str, ValueUse] = {}
    for context in contexts:
        whole = mapping.render(context)
        for name, text, others in _changed_values(context):
            used = any(
                _rendered_or_none(partial(mapping.render, other)) != whole for other in others
            )
            before = found.get(name)
            found[name] = ValueUse(name, text, used or (before is not None and before.used))
    return tuple(found.values())


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
