"""
Sample results: what an outbound definition renders for an order with a sample report.

They are for trials and comparisons of definitions, and are never sent.

The dependencies of a definition are the fields, tags and report content that its messages use. To
find them, the module leaves out or changes one value at a time, and compares the rendered messages.
This finds uses in tags, echoes and conditions. Results contain patient data and must not be logged.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from typing import TypeVar

from mappings.authoring.trial import FieldDifference
from mappings.authoring.variants import Late, fields_of, never, sort_parts
from mappings.hl7.message import Message
from mappings.hl7.refusals import MessageRefusal
from mappings.inbound.definition import InboundMapping
from mappings.inbound.events import OrderAction, OrderEvent
from mappings.language.diagnostics import MappingError, RuleFailed
from mappings.language.scope import ListenerDefaults
from mappings.outbound.definition import OutboundMapping
from mappings.outbound.results import ResultContext, ResultEvent, ResultOrder, Signer

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
    return [mapping.render(each) for each in contexts]


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
    orders = [each for each in events if each.accession and each.action is not OrderAction.IGNORE]
    return [_context(mapping, each, defaults) for each in orders]


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
    """Return the differing fields of the results of two versions for the same message."""
    old, new = _fields(before), _fields(after)
    places = [*old, *(place for place in new if place not in old)]
    return [
        FieldDifference(place, old.get(place, ""), new.get(place, ""))
        for place in places
        if old.get(place, "") != new.get(place, "")
    ]


def _fields(written: list[bytes]) -> dict[str, str]:
    found = {}
    for number, message in enumerate(map(Message.parse, written), start=1):
        for segment, nth in zip(message.segments, message.numbers, strict=True):
            for at in range(1, len(segment) + 1):
                if text := segment.field_text(at):
                    found[f"{number}:{segment.id}[{nth}]-{at}"] = text
    return found


_OTHER = "7"
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
        has_effect = any(differs(each) for each in field.variants())
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
            used = any(_rendered_or_none(partial(mapping.render, each)) != whole for each in others)
            before = found.get(name)
            found[name] = ValueUse(name, text, used or (before is not None and before.used))
    return tuple(found.values())


def _changed_values(context: ResultContext) -> Iterator[tuple[str, str, list[ResultContext]]]:
    (order,) = context.orders
    for tag, text in order.tags.items():
        tags = (_without(order.tags, tag), {**order.tags, tag: f"{_OTHER}{text}"})
        yield f"clinicalInfo.{tag}", text, _with(context, [replace(order, tags=t) for t in tags])
    for key, value in order.metadata.items():
        less = replace(order, metadata=_without(order.metadata, key))
        yield f"Metadata.{key}", str(value), _with(context, [less])
    if text := order.placer:
        placers = ("", f"{_OTHER}{text}")
        yield "placer", text, _with(context, [replace(order, placer=each) for each in placers])
    if text := order.filler:
        fillers = ("", f"{_OTHER}{text}")
        yield "filler", text, _with(context, [replace(order, filler=each) for each in fillers])
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
    return [replace(context, orders=(each,)) for each in orders]


def _without(values: Mapping[str, Value], key: str) -> dict[str, Value]:
    return {name: value for name, value in values.items() if name != key}
