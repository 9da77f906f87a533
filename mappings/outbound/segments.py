"""The items of an outbound definition: a segment, a loop, or a named part, each with its `when`.

Each row holds the variables of one turn. Which segments are written in a turn is the
definition's; which rows there are, its words' (`mappings.outbound.style`).

    - OBX: {3: …, 5: …}      - ZDS: echo      - "Z*": metadata
    - {each: orders, segments: […]}           - use: patient      (of `parts:`)
"""

import json
from base64 import b64encode
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from mappings.hl7.path import Path
from mappings.language.accessors import SEGMENTS
from mappings.language.context import CompilationContext
from mappings.language.diagnostics import YamlNode
from mappings.outbound.echo import Echo
from mappings.outbound.encoding import (
    NOTHING,
    Encoded,
    fit_to_version,
    formatted,
    header,
    plain,
    segment,
    warn_if_beyond_last_field,
)
from mappings.outbound.fields import compile_field, compile_when
from mappings.outbound.hl7_versions import NEWEST_VERSION, REPEATS, VERSIONS
from mappings.outbound.results import WITHDRAWALS
from mappings.outbound.style import TEXT, OutputStyle
from mappings.outbound.text_layout import coding_of
from mappings.outbound.variables import RenderState, Variable

REPORT_FILE = ("18748-4", "Diagnostic imaging report", "LN")
"""OBX-3 of files, as the shared part `documents` writes it."""


def text_rows(state: RenderState) -> list[dict[str, Encoded]]:
    """One row per OBX of text; no text where only files are wanted and there are some."""
    if state.context.event in WITHDRAWALS:
        text = state.style.layout.rows(state) if TEXT in state.style.content else []
        return [*text, *_withdrawn_files(state)]
    if TEXT not in state.style.content and state.context.files:
        return []
    return [*state.style.layout.rows(state), *_left_out(state)]


def _left_out(state: RenderState) -> list[dict[str, Encoded]]:
    """Delete what an earlier text had and this one has not; a document replaces all of itself."""
    if state.statuses.get("message", "").startswith("MDM"):
        return []
    return [
        {
            **coding_of(section),
            "sub_id": plain(str(section.sub_id)),
            "line": NOTHING,
            "observation_status": plain("D"),
        }
        for section in state.style.layout.left_out(state.context)
    ]


def _withdrawn_files(state: RenderState) -> list[dict[str, Encoded]]:
    """Take back each file that may stand at the receiver, under its own OBX-3 and OBX-4."""
    names = ("section.code", "section.text", "section.system")
    code = dict(zip(names, map(plain, REPORT_FILE), strict=True))
    line = plain(state.context.report_text)
    return [{**code, "sub_id": plain(each), "line": line} for each in sorted(state.style.formats)]


def document_rows(state: RenderState) -> list[dict[str, Encoded]]:
    """One row per file, in base64 without line ends; its name is its sub-id for ever."""
    return [
        {
            "format": plain(each),
            "sub_id": plain(each),
            "data": plain(b64encode(state.context.files[each]).decode("ascii")),
        }
        for each in sorted(state.style.formats & state.context.files.keys())
    ]


def metadata_rows(state: RenderState) -> list[dict[str, Encoded]]:
    """One row per Metadata key; what is no text is written as JSON."""
    return [
        {
            "key": plain(key),
            "value": formatted(_as_text(value)),
            "entry": formatted(f"{key}: {_as_text(value)}"),
            "sub_id": plain(str(number)),
            "target": plain(state.style.target(key)),
        }
        for number, (key, value) in enumerate(state.order.metadata.items(), start=1)
        if state.style.wanted(key) and value not in ("", None)
    ]


def metadata_fields(state: RenderState) -> dict[str, dict[int, Encoded]]:
    """Give what Metadata go into fields: by segment and number, several joined by a blank."""
    found: defaultdict[str, dict[int, Encoded]] = defaultdict(dict)
    for row in metadata_rows(state):
        segment, dash, number = row["target"].partition("-")
        if dash:
            before = found[segment].get(int(number), NOTHING)
            both = f"{before} {row['value']}" if before else row["value"]
            found[segment][int(number)] = Encoded(both)
    return found


def _as_text(value: object) -> str:
    if isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False, sort_keys=True)


def metadata_segments(state: RenderState) -> list[Encoded]:
    """Write the Z segments that keys go to: one a key, or one of all that name its fields."""
    rows = [row for row in metadata_rows(state) if _is_whole_segment(row["target"])]
    written = [
        segment(row["target"], [plain(str(number)), row["key"], row["value"]])
        for number, row in enumerate(rows, start=1)
    ]
    for name, fields in metadata_fields(state).items():
        if name.startswith("Z"):
            numbers = range(1, max(fields) + 1)
            written.append(segment(name, [fields.get(number, NOTHING) for number in numbers]))
    return written


def _is_whole_segment(target: str) -> bool:
    return target.startswith("Z") and "-" not in target


LOOPS: Mapping[str, Callable[[RenderState], list[dict[str, Encoded]]]] = {
    "text": text_rows,
    "documents": document_rows,
    "metadata": metadata_rows,
}
"""What can be gone through within an order."""


ITEM_KEYS = ("when", "each", "segments")
ORDERS = "orders"
Z_SEGMENTS = "Z*"
VERSION_FIELD = 12
WHOLE_ECHOES = frozenset({"ORC", "OBR", "PV1"})
NOT_ECHOED = frozenset({("ORC", 5), ("ORC", 9), ("OBR", 22), ("OBR", 25)})
"""What an order said of its own state and moment: no longer true of its result."""

Writer = Callable[[RenderState], list[Encoded]]


@dataclass(frozen=True, slots=True)
class _Desk:
    """What the items of one definition share while they are compiled."""

    style: OutputStyle
    parts: dict[str, YamlNode]
    context: CompilationContext
    used: tuple[str, ...] = ()
    """The parts that are being written out, outermost first."""


def compile_items(
    node: YamlNode | None, parts: YamlNode | None, style: OutputStyle, context: CompilationContext
) -> tuple[Writer, ...]:
    """Compile `segments:`, with the `parts:` they use."""
    diagnostics = context.diagnostics
    desk = _Desk(style, diagnostics.read_mapping(parts) if parts is not None else {}, context)
    items = diagnostics.read_items(node) if node is not None else []
    if items and not _begins_with_header(items[0], desk):
        diagnostics.error(items[0], "segments", "the first segment must be MSH")
    return tuple(_item(item, desk) for item in items)


def _begins_with_header(item: YamlNode, desk: _Desk) -> bool:
    used = item.get("use")
    if used is not None and isinstance(used.value, str) and used.value in desk.parts:
        first = desk.context.diagnostics.read_items(desk.parts[used.value])[:1]
        return bool(first) and "MSH" in (first[0].value or ())
    return "MSH" in (item.value or ())


def _item(node: YamlNode, desk: _Desk) -> Writer:
    """Compile one item."""
    diagnostics = desk.context.diagnostics
    entries = diagnostics.read_mapping(node)
    names = [key for key in entries if key not in ITEM_KEYS]
    writer: Writer
    if "each" in entries:
        writer = _loop(node, entries, desk)
    elif names == ["use"]:
        writer = _part(entries["use"], desk)
    elif len(names) == 1:
        writer = _segment(names[0], entries[names[0]], desk)
    else:
        diagnostics.error(node, "segments", "an item is one segment, or `each` with segments")
        return lambda state: []
    if "when" not in entries:
        return writer
    condition = compile_when(entries["when"], desk.context)
    return lambda state: writer(state) if condition(state) else []


def _part(node: YamlNode, desk: _Desk) -> Writer:
    """Write out a part; a part within itself is a mistake."""
    diagnostics = desk.context.diagnostics
    name = diagnostics.read_choice(node, "part", desk.parts)
    if name is None:
        return lambda state: []
    if name in desk.used:
        diagnostics.error(node, "part", f"{name} uses itself")
        return lambda state: []
    desk.context.used.add(f"use: {name}")
    within = _Desk(desk.style, desk.parts, desk.context, (*desk.used, name))
    return _in_turn([_item(item, within) for item in diagnostics.read_items(desk.parts[name])])


def _in_turn(writers: list[Writer]) -> Writer:
    return lambda state: [one for writer in writers for one in writer(state)]


def _segment(name: str, node: YamlNode, desk: _Desk) -> Writer:
    diagnostics = desk.context.diagnostics
    if name == Z_SEGMENTS and node.value == "metadata":
        return metadata_segments
    if name not in SEGMENTS and not name.startswith("Z"):
        diagnostics.unknown(node.at_key(), "segment", name, SEGMENTS)
    if node.value == "echo":
        return lambda state: state.echo.segments(name)
    return _Fields(name, _fields(name, diagnostics.read_mapping(node), desk), desk.style)


def _fields(name: str, entries: dict[str, YamlNode], desk: _Desk) -> dict[int, Variable]:
    fields = {}
    for key, below in entries.items():
        number = int(key) if key.isdecimal() else 0
        lowest = 3 if name == "MSH" else 1
        if number < lowest:
            place = below.at_key()
            desk.context.diagnostics.error(place, "field", f"{key!r} is no field number of {name}")
        else:
            warn_if_beyond_last_field(name, number, below.at_key(), desk.context.diagnostics)
            fields[number] = compile_field(below, desk.context)
    if name == "MSH" and desk.style.version:
        version = plain(desk.style.version)
        fields[VERSION_FIELD] = lambda state: version
    if desk.style.echo == "whole" and name in WHOLE_ECHOES:
        echoes = _echoes(name)
        return echoes | {key: _first(own, echoes.get(key)) for key, own in fields.items()}
    return fields


def _first(own: Variable, echo: Variable | None) -> Variable:
    """Repeat a field where the definition's own has nothing to say, as in another version."""
    return own if echo is None else lambda state: own(state) or echo(state)


def _echoes(name: str) -> dict[int, Variable]:
    """Repeat every field of the order that may be repeated."""
    return {
        number: _repeated(Path(name, field=number), kind)
        for number, kind in enumerate(VERSIONS[NEWEST_VERSION].fields[name], start=1)
        if (name, number) not in NOT_ECHOED
    }


def _repeated(path: Path, kind: str) -> Variable:
    every, name = kind.endswith(REPEATS), kind.removesuffix(REPEATS)
    return lambda state: state.echo.field(path, name, all_repetitions=every)


@dataclass(frozen=True, slots=True)
class _Fields:
    """Writes one segment, field by field, fitted to the version."""

    name: str
    fields: dict[int, Variable]
    style: OutputStyle

    def __call__(self, state: RenderState) -> list[Encoded]:
        name = state.segment = self.name
        values = {number: field(state) for number, field in self.fields.items()}
        if self.style.targets:
            values |= metadata_fields(state).get(name, {})
        shape = self.style.shape
        if shape is not None:
            values = {
                number: fit_to_version(shape, name, number, value)
                for number, value in values.items()
                if value
            }
        numbers = range(3 if name == "MSH" else 1, max(values, default=0) + 1)
        written = [values.get(number, NOTHING) for number in numbers]
        state.count(name)
        return [header(written) if name == "MSH" else segment(name, written)]


def _loop(node: YamlNode, entries: dict[str, YamlNode], desk: _Desk) -> Writer:
    diagnostics = desk.context.diagnostics
    over = diagnostics.read_choice(entries["each"], "loop", (ORDERS, *LOOPS))
    diagnostics.read_mapping(node, ITEM_KEYS)
    if over is None or "segments" not in entries:
        if over is not None:
            diagnostics.error(node, "segments", "each needs `segments`: what to write each time")
        return lambda state: []
    desk.context.used.add(f"each: {over}")
    inner = _in_turn([_item(item, desk) for item in diagnostics.read_items(entries["segments"])])
    return _over_orders(inner) if over == ORDERS else _over_rows(inner, over)


def _over_orders(inner: Writer) -> Writer:
    """Write once per order; set ids below an order begin anew."""

    def write(state: RenderState) -> list[Encoded]:
        written: list[Encoded] = []
        for number, order in enumerate(state.context.orders, start=1):
            echo = Echo(order.echo, zoned=state.style.zoned)
            one = RenderState(state.context, order, echo, number, state.statuses, state.style)
            one.counts = state.counts
            written += inner(one)
        return written

    return write


def _over_rows(inner: Writer, over: str) -> Writer:
    rows = LOOPS[over]

    def write(state: RenderState) -> list[Encoded]:
        written: list[Encoded] = []
        for row in rows(state):
            state.row = row
            written += inner(state)
        state.row = {}
        return written

    return write
