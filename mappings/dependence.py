"""
What of an order an outbound definition's messages depend on: fields of the message, tags, content.

Found by leaving one thing out after the other, or writing it otherwise, and looking whether
anything comes out otherwise: so it holds whatever way a value takes, through a tag, an echo or a
condition. Patient data: for a screen and no log.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeVar

from mappings.errors import MappingError
from mappings.hl7.message import Message
from mappings.hl7.refusals import Refusal
from mappings.inbound import InboundMapping
from mappings.outbound import OutboundMapping
from mappings.results import ResultContext, ResultOrder
from mappings.scope import Defaults
from mappings.specimen import contexts, specimens

HEADER = "MSH"
_OTHER = "7"
MOST_FIELDS = 500
"""So many fields of a message are tried; of those behind them nothing is told."""

Late = Callable[[], bool]
Written = TypeVar("Written")
Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class Fact:
    """Something that a definition may write: its name, its value, and whether it does."""

    name: str
    text: str
    used: bool


@dataclass(frozen=True, slots=True)
class Dependence:
    """Places of the message with a value, used and not used; and what became of them."""

    used: tuple[str, ...] = ()
    unused: tuple[str, ...] = ()
    facts: tuple[Fact, ...] = ()


def never() -> bool:
    """Take all the time there is."""
    return False


def dependence(
    mapping: OutboundMapping,
    reader: InboundMapping,
    raw: bytes,
    defaults: Defaults,
    charset: str,
    late: Late = never,
) -> Dependence:
    """Say what the specimens of a message depend on; nothing where there is none."""
    try:
        whole = specimens(mapping, reader, raw, defaults, charset)
        message = Message.parse(raw, fallback=charset)
    except (MappingError, Refusal):
        return Dependence()
    if not whole:
        return Dependence()
    used: list[str] = []
    unused: list[str] = []
    for place, others in _each_field_otherwise(message):
        if late():
            break
        tries = (partial(specimens, mapping, reader, each, defaults, charset) for each in others)
        matters = any(_tried(write) != whole for write in tries)
        (used if matters else unused).append(place)
    made = contexts(mapping, reader, raw, defaults, charset)
    return Dependence(tuple(used), tuple(unused), _facts(mapping, made))


def _tried(write: Callable[[], Written]) -> Written | None:
    try:
        return write()
    except MappingError:
        return None


def _each_field_otherwise(message: Message) -> Iterator[tuple[str, tuple[bytes, ...]]]:
    """
    Give each field with a value, and the message without it and with another value there.

    With another, for of two fields that say the same the first is used. The header stays whole.
    """
    lines = [each.text() for each in message.segments]
    separator = message.delimiters.field
    left = MOST_FIELDS
    for at, (segment, number) in enumerate(zip(message.segments, message.numbers, strict=True)):
        if segment.id == HEADER:
            continue
        name = segment.id if number == 1 else f"{segment.id}[{number}]"
        fields = lines[at].split(separator)
        for index in range(1, len(fields)):
            if not fields[index]:
                continue
            left -= 1
            if left < 0:
                return
            made = []
            for value in ("", f"{_OTHER}{fields[index]}"):
                line = separator.join([*fields[:index], value, *fields[index + 1 :]])
                text = "\r".join([*lines[:at], line, *lines[at + 1 :], ""])
                made.append(text.encode(message.encoding, "replace"))
            yield f"{name}-{index}", tuple(made)


def _facts(mapping: OutboundMapping, made: Sequence[ResultContext]) -> tuple[Fact, ...]:
    """Tell each tag, Metadata key and part of the content once, used by any of the orders."""
    found: dict[str, Fact] = {}
    for context in made:
        whole = mapping.render(context)
        for name, text, others in _each_fact_otherwise(context):
            used = any(_tried(partial(mapping.render, each)) != whole for each in others)
            before = found.get(name)
            found[name] = Fact(name, text, used or (before is not None and before.used))
    return tuple(found.values())


def _each_fact_otherwise(context: ResultContext) -> Iterator[tuple[str, str, list[ResultContext]]]:
    (order,) = context.orders
    for tag, text in order.tags.items():
        tags = (_less(order.tags, tag), {**order.tags, tag: f"{_OTHER}{text}"})
        yield f"clinicalInfo.{tag}", text, _with(context, [replace(order, tags=t) for t in tags])
    for key, value in order.metadata.items():
        less = replace(order, metadata=_less(order.metadata, key))
        yield f"Metadata.{key}", str(value), _with(context, [less])
    if text := order.placer:
        placers = ("", f"{_OTHER}{text}")
        yield "placer", text, _with(context, [replace(order, placer=each) for each in placers])
    if text := order.filler:
        fillers = ("", f"{_OTHER}{text}")
        yield "filler", text, _with(context, [replace(order, filler=each) for each in fillers])
    yield "report.text", context.report_text, [replace(context, report_text="")]
    if (at := context.signed_at) is not None:
        yield "report.signedAt", at.isoformat(), [replace(context, signed_at=at.replace(year=1900))]
    signer = context.signed_by
    others = {
        "name": replace(signer, name="Somebody Else"),
        "email": replace(signer, email=""),
        "identifier": replace(signer, identifier=""),
    }
    for name, other in others.items():
        yield f"report.signedBy.{name}", getattr(signer, name), [replace(context, signed_by=other)]


def _with(context: ResultContext, orders: Sequence[ResultOrder]) -> list[ResultContext]:
    return [replace(context, orders=(each,)) for each in orders]


def _less(values: Mapping[str, Value], key: str) -> dict[str, Value]:
    return {name: value for name, value in values.items() if name != key}
