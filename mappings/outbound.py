"""
A compiled outbound definition: segments as data, rendered for one release of a report.

The definition lists segments in order, loops over orders, lines of text and Metadata, and
says which status each event has. What goes where is wiring's business, sending delivery's.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from mappings.conditions import compile_test
from mappings.echo import Echo
from mappings.encode import NOTHING, Encoded, header, message, segment
from mappings.errors import NotRenderable
from mappings.fetch import SEGMENTS
from mappings.frames import Frame, Variable, metadata_rows
from mappings.layout import Layout, compile_layout
from mappings.nodes import Node
from mappings.outfields import compile_field, compile_when
from mappings.results import ResultContext, ResultEvent, ResultOrder
from mappings.workshop import Workshop

KEYS = ("orders", "statuses", "text", "metadata", "segments")
ORDERS = ("separate", "combined")
LOOPS = ("orders", "text", "metadata")
STATUS_KEYS = ("result", "observation", "order")
METADATA_KEYS = ("send", "skip")
ITEM_KEYS = ("when", "each", "segments")

Writer = Callable[[Frame], list[Encoded]]


@dataclass(frozen=True, slots=True)
class OutboundMapping:
    """Immutable; `version` is a hash of everything it was compiled from (16 hex digits)."""

    name: str
    version: str
    combined: bool
    """Whether linked orders travel in one message; else the caller renders one for each."""
    statuses: Mapping[ResultEvent, Mapping[str, str]] = field(repr=False)
    writers: tuple[Writer, ...] = field(repr=False)

    @property
    def events(self) -> frozenset[ResultEvent]:
        """The events this definition has messages for."""
        return frozenset(self.statuses)

    def render(self, result: ResultContext) -> bytes:
        """Write one message as UTF-8. Raises NotRenderable when the event is not listed."""
        if result.event not in self.statuses or not result.orders:
            raise NotRenderable(self.name, result.event)
        frame = _frame(result, result.orders[0], 1, self.statuses[result.event])
        written = [one for writer in self.writers for one in writer(frame)]
        return message(written).encode()


def _frame(
    result: ResultContext, order: ResultOrder, number: int, statuses: Mapping[str, str]
) -> Frame:
    return Frame(result, order, Echo(order.echo), number, statuses)


@dataclass(frozen=True, slots=True)
class _Parts:
    """What the items of one definition share while they are compiled."""

    layout: Layout
    wanted: Callable[[str], bool]


def compile_outbound(
    name: str, root: Node, entries: dict[str, Node], shop: Workshop
) -> OutboundMapping:
    """Compile a definition of kind `results` or `status`."""
    notebook = shop.notebook
    combined = False
    if "orders" in entries:
        combined = notebook.choice(entries["orders"], "choice", ORDERS) == "combined"
    parts = _Parts(
        compile_layout(entries.get("text"), notebook), _wanted(entries.get("metadata"), shop)
    )
    for key in ("statuses", "segments"):
        if key not in entries:
            notebook.error(root, key, f"{key} is missing")
    statuses = _statuses(entries["statuses"], shop) if "statuses" in entries else {}
    items = notebook.items(entries["segments"]) if "segments" in entries else []
    if items and "MSH" not in (items[0].value or ()):
        notebook.error(items[0], "segments", "the first segment must be MSH")
    writers = tuple(_item(item, parts, shop) for item in items)
    return OutboundMapping(name, "", combined, statuses, writers)


def _wanted(node: Node | None, shop: Workshop) -> Callable[[str], bool]:
    """Read `metadata:`, which keys are sent: all, none, or those that pass a test."""
    if node is None:
        return lambda key: True
    entries = shop.notebook.mapping(node, METADATA_KEYS)
    send = compile_test(entries["send"], shop.notebook) if "send" in entries else None
    skip = compile_test(entries["skip"], shop.notebook) if "skip" in entries else None
    return lambda key: (send is None or send(key)) and not (skip is not None and skip(key))


def _statuses(node: Node, shop: Workshop) -> dict[ResultEvent, dict[str, str]]:
    found: dict[ResultEvent, dict[str, str]] = {}
    for event, below in shop.notebook.mapping(node).items():
        if event not in tuple(ResultEvent):
            shop.notebook.unknown(below.at_key(), "event", event, tuple(ResultEvent))
            continue
        codes = shop.notebook.mapping(below, STATUS_KEYS)
        found[ResultEvent(event)] = {key: shop.notebook.text(each) for key, each in codes.items()}
    return found


def _item(node: Node, parts: _Parts, shop: Workshop) -> Writer:
    """Compile one item: a segment, or a loop over something with items inside."""
    entries = shop.notebook.mapping(node)
    names = [key for key in entries if key not in ITEM_KEYS]
    writer: Writer
    if "each" in entries:
        writer = _loop(node, entries, parts, shop)
    elif len(names) == 1:
        writer = _segment(names[0], entries[names[0]], shop)
    else:
        shop.notebook.error(node, "segments", "an item is one segment, or `each` with segments")
        return lambda frame: []
    if "when" not in entries:
        return writer
    condition = compile_when(entries["when"], shop)
    return lambda frame: writer(frame) if condition(frame) else []


def _segment(name: str, node: Node, shop: Workshop) -> Writer:
    if name not in SEGMENTS and not name.startswith("Z"):
        shop.notebook.unknown(node.at_key(), "segment", name, SEGMENTS)
    if node.value == "echo":
        return lambda frame: frame.echo.segments(name)
    fields = _fields(name, shop.notebook.mapping(node), shop)
    first = 3 if name == "MSH" else 1
    highest = max(fields, default=0)

    def write(frame: Frame) -> list[Encoded]:
        frame.segment = name
        values = [
            fields[number](frame) if number in fields else NOTHING
            for number in range(first, highest + 1)
        ]
        frame.counts[name] = frame.counts.get(name, 0) + 1
        return [header(values) if name == "MSH" else segment(name, values)]

    return write


def _fields(name: str, entries: dict[str, Node], shop: Workshop) -> dict[int, Variable]:
    fields = {}
    for key, below in entries.items():
        number = int(key) if key.isdecimal() else 0
        lowest = 3 if name == "MSH" else 1
        if number < lowest:
            place = below.at_key()
            shop.notebook.error(place, "field", f"{key!r} is no field number of {name}")
        else:
            fields[number] = compile_field(below, shop)
    return fields


def _loop(node: Node, entries: dict[str, Node], parts: _Parts, shop: Workshop) -> Writer:
    over = shop.notebook.choice(entries["each"], "loop", LOOPS)
    shop.notebook.mapping(node, ITEM_KEYS)
    if "segments" not in entries:
        shop.notebook.error(node, "segments", "each needs `segments`: what to write each time")
        return lambda frame: []
    inner = [_item(item, parts, shop) for item in shop.notebook.items(entries["segments"])]
    if over == "orders":
        return _over_orders(inner)
    if over == "metadata":
        return _over_rows(inner, lambda frame: metadata_rows(frame, parts.wanted))
    return _over_rows(inner, parts.layout.rows)


def _over_orders(inner: list[Writer]) -> Writer:
    """Write once per order; set ids below an order begin anew."""

    def write(frame: Frame) -> list[Encoded]:
        written: list[Encoded] = []
        counts = dict(frame.counts)
        for number, order in enumerate(frame.context.orders, start=1):
            one = _frame(frame.context, order, number, frame.statuses)
            one.counts = {"OBR": counts.get("OBR", 0) + number - 1}
            for writer in inner:
                written += writer(one)
        return written

    return write


def _over_rows(inner: list[Writer], rows: Callable[[Frame], list[dict[str, Encoded]]]) -> Writer:
    def write(frame: Frame) -> list[Encoded]:
        written: list[Encoded] = []
        for row in rows(frame):
            frame.row = row
            for writer in inner:
                written += writer(frame)
        frame.row = {}
        return written

    return write
