"""
Trial of an inbound definition on a message, and comparison of two versions of a definition.

A trial has the events, the issues, and the fields that rules read. `bridge mapping try` and the
console use it. It contains patient data and must not be logged.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from typing_extensions import override

from mappings.authoring.variants import sort_parts
from mappings.hl7.elements import MessageSyntax
from mappings.hl7.message import Message, SegmentLines
from mappings.hl7.refusals import MessageRefusal
from mappings.inbound.definition import InboundMapping
from mappings.inbound.events import OrderEvent
from mappings.language.code_tables import UnmappedCode
from mappings.language.diagnostics import Issue, RuleFailed
from mappings.language.scope import ListenerDefaults

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
    if components and accepted and not mapping.takes_long:
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
    fields = [*old, *(field for field in new if field not in old)]
    return [
        FieldDifference(field, old.get(field, ""), new.get(field, ""))
        for field in fields
        if old.get(field, "") != new.get(field, "")
    ]


def _flat(trial: Trial) -> Iterator[tuple[str, str]]:
    yield "accepted", "yes" if trial.accepted else "no"
    yield "issues", "; ".join(f"{each.path} {each.message} [{each.code}]" for each in trial.issues)
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
