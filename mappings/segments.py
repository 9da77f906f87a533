"""
The items of an outbound definition: a segment, a loop, or a named part, each with its `when`.

    - OBX: {3: …, 5: …}      - ZDS: echo      - "Z*": metadata
    - {each: orders, segments: […]}           - use: patient      (of `parts:`)
"""

from collections.abc import Callable
from dataclasses import dataclass

from mappings.echo import Echo
from mappings.encode import NOTHING, Encoded, header, plain, segment
from mappings.fetch import SEGMENTS
from mappings.fitting import NEWEST_VERSION, beyond, fitted
from mappings.frames import Frame, Variable
from mappings.hl7.path import Path
from mappings.loops import LOOPS, metadata_fields, metadata_segments
from mappings.manner import Manner
from mappings.nodes import Node
from mappings.outfields import compile_field, compile_when
from mappings.shapes.shape import REPEATS, SHAPES
from mappings.workshop import Workshop

ITEM_KEYS = ("when", "each", "segments")
ORDERS = "orders"
Z_SEGMENTS = "Z*"
VERSION_FIELD = 12
WHOLE_ECHOES = frozenset({"ORC", "OBR", "PV1"})
NOT_ECHOED = frozenset({("ORC", 5), ("ORC", 9), ("OBR", 22), ("OBR", 25)})
"""What an order said of its own state and moment: no longer true of its result."""

Writer = Callable[[Frame], list[Encoded]]


@dataclass(frozen=True, slots=True)
class _Desk:
    """What the items of one definition share while they are compiled."""

    manner: Manner
    parts: dict[str, Node]
    shop: Workshop
    used: tuple[str, ...] = ()
    """The parts that are being written out, outermost first."""


def compile_items(
    node: Node | None, parts: Node | None, manner: Manner, shop: Workshop
) -> tuple[Writer, ...]:
    """Compile `segments:`, with the `parts:` they use."""
    notebook = shop.notebook
    desk = _Desk(manner, notebook.mapping(parts) if parts is not None else {}, shop)
    items = notebook.items(node) if node is not None else []
    if items and not _begins_with_header(items[0], desk):
        notebook.error(items[0], "segments", "the first segment must be MSH")
    return tuple(_item(item, desk) for item in items)


def _begins_with_header(item: Node, desk: _Desk) -> bool:
    used = item.get("use")
    if used is not None and isinstance(used.value, str) and used.value in desk.parts:
        first = desk.shop.notebook.items(desk.parts[used.value])[:1]
        return bool(first) and "MSH" in (first[0].value or ())
    return "MSH" in (item.value or ())


def _item(node: Node, desk: _Desk) -> Writer:
    """Compile one item."""
    notebook = desk.shop.notebook
    entries = notebook.mapping(node)
    names = [key for key in entries if key not in ITEM_KEYS]
    writer: Writer
    if "each" in entries:
        writer = _loop(node, entries, desk)
    elif names == ["use"]:
        writer = _part(entries["use"], desk)
    elif len(names) == 1:
        writer = _segment(names[0], entries[names[0]], desk)
    else:
        notebook.error(node, "segments", "an item is one segment, or `each` with segments")
        return lambda frame: []
    if "when" not in entries:
        return writer
    condition = compile_when(entries["when"], desk.shop)
    return lambda frame: writer(frame) if condition(frame) else []


def _part(node: Node, desk: _Desk) -> Writer:
    """Write out a part; a part within itself is a mistake."""
    notebook = desk.shop.notebook
    name = notebook.choice(node, "part", desk.parts)
    if name is None:
        return lambda frame: []
    if name in desk.used:
        notebook.error(node, "part", f"{name} uses itself")
        return lambda frame: []
    desk.shop.used.add(f"use: {name}")
    within = _Desk(desk.manner, desk.parts, desk.shop, (*desk.used, name))
    return _in_turn([_item(item, within) for item in notebook.items(desk.parts[name])])


def _in_turn(writers: list[Writer]) -> Writer:
    return lambda frame: [one for writer in writers for one in writer(frame)]


def _segment(name: str, node: Node, desk: _Desk) -> Writer:
    notebook = desk.shop.notebook
    if name == Z_SEGMENTS and node.value == "metadata":
        return metadata_segments
    if name not in SEGMENTS and not name.startswith("Z"):
        notebook.unknown(node.at_key(), "segment", name, SEGMENTS)
    if node.value == "echo":
        return lambda frame: frame.echo.segments(name)
    return _Fields(name, _fields(name, notebook.mapping(node), desk), desk.manner)


def _fields(name: str, entries: dict[str, Node], desk: _Desk) -> dict[int, Variable]:
    fields = {}
    for key, below in entries.items():
        number = int(key) if key.isdecimal() else 0
        lowest = 3 if name == "MSH" else 1
        if number < lowest:
            place = below.at_key()
            desk.shop.notebook.error(place, "field", f"{key!r} is no field number of {name}")
        else:
            beyond(name, number, below.at_key(), desk.shop.notebook)
            fields[number] = compile_field(below, desk.shop)
    if name == "MSH" and desk.manner.version:
        version = plain(desk.manner.version)
        fields[VERSION_FIELD] = lambda frame: version
    if desk.manner.echo == "whole" and name in WHOLE_ECHOES:
        echoes = _echoes(name)
        return echoes | {key: _first(own, echoes.get(key)) for key, own in fields.items()}
    return fields


def _first(own: Variable, echo: Variable | None) -> Variable:
    """Repeat a field where the definition's own has nothing to say, as in another version."""
    return own if echo is None else lambda frame: own(frame) or echo(frame)


def _echoes(name: str) -> dict[int, Variable]:
    """Repeat every field of the order that may be repeated."""
    return {
        number: _repeated(Path(name, field=number), kind)
        for number, kind in enumerate(SHAPES[NEWEST_VERSION].fields[name], start=1)
        if (name, number) not in NOT_ECHOED
    }


def _repeated(path: Path, kind: str) -> Variable:
    every, name = kind.endswith(REPEATS), kind.removesuffix(REPEATS)
    return lambda frame: frame.echo.field(path, name, all_repetitions=every)


@dataclass(frozen=True, slots=True)
class _Fields:
    """Writes one segment, field by field, fitted to the version."""

    name: str
    fields: dict[int, Variable]
    manner: Manner

    def __call__(self, frame: Frame) -> list[Encoded]:
        name = frame.segment = self.name
        values = {number: field(frame) for number, field in self.fields.items()}
        if self.manner.targets:
            values |= metadata_fields(frame).get(name, {})
        shape = self.manner.shape
        if shape is not None:
            values = {
                number: fitted(shape, name, number, value)
                for number, value in values.items()
                if value
            }
        numbers = range(3 if name == "MSH" else 1, max(values, default=0) + 1)
        written = [values.get(number, NOTHING) for number in numbers]
        frame.count(name)
        return [header(written) if name == "MSH" else segment(name, written)]


def _loop(node: Node, entries: dict[str, Node], desk: _Desk) -> Writer:
    notebook = desk.shop.notebook
    over = notebook.choice(entries["each"], "loop", (ORDERS, *LOOPS))
    notebook.mapping(node, ITEM_KEYS)
    if over is None or "segments" not in entries:
        if over is not None:
            notebook.error(node, "segments", "each needs `segments`: what to write each time")
        return lambda frame: []
    desk.shop.used.add(f"each: {over}")
    inner = _in_turn([_item(item, desk) for item in notebook.items(entries["segments"])])
    return _over_orders(inner) if over == ORDERS else _over_rows(inner, over)


def _over_orders(inner: Writer) -> Writer:
    """Write once per order; set ids below an order begin anew."""

    def write(frame: Frame) -> list[Encoded]:
        written: list[Encoded] = []
        for number, order in enumerate(frame.context.orders, start=1):
            echo = Echo(order.echo, zoned=frame.manner.zoned)
            one = Frame(frame.context, order, echo, number, frame.statuses, frame.manner)
            one.counts = frame.counts
            written += inner(one)
        return written

    return write


def _over_rows(inner: Writer, over: str) -> Writer:
    rows = LOOPS[over]

    def write(frame: Frame) -> list[Encoded]:
        written: list[Encoded] = []
        for row in rows(frame):
            frame.row = row
            written += inner(frame)
        frame.row = {}
        return written

    return write
