"""
The items of an outbound definition: segments, loops and named parts, each with its `when`.

    - OBX: {3: …, 5: …}      - ZDS: echo      - "Z*": metadata
    - {each: orders, segments: […]}           - use: patient      (of `parts:`)

A loop writes its segments once for each row. A row has the variables of one pass; the style of the
definition (`mappings.outbound.style`) determines the rows.

The value of a field is compiled to a function of the render state:

    TX                                    a text               $order.Accession   a variable
    ["$placer", "", "A"]                  components (a list in the list: subcomponents)
    {echo: OBR-4, type: CE}               a field of the order {first: [a, b]}    the first value
    {repeat: [a, b]}                      repetitions          {value: …, when: …, codes: …}

`suffix` is appended to the first component. A mapping within a list is one component.
"""

import json
from base64 import b64encode
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from mappings.hl7.escapes import unescape
from mappings.hl7.header import STANDARD
from mappings.hl7.path import Path
from mappings.hl7.versions import (
    COMPONENTS,
    DATA_TYPES,
    NEWEST_VERSION,
    REPEATS,
    TIME_TYPES,
    VERSIONS,
)
from mappings.language.accessors import SEGMENTS, parse_path
from mappings.language.code_tables import UnmappedCode
from mappings.language.conditions import compile_condition_test
from mappings.language.diagnostics import CodeRefused, Diagnostics, YamlNode
from mappings.language.rules import CompilationContext
from mappings.outbound.echo import Echo
from mappings.outbound.encoding import (
    NOTHING,
    Encoded,
    components,
    fit_to_version,
    formatted,
    header,
    plain,
    repeated,
    segment,
    subcomponents,
    warn_if_beyond_last_field,
)
from mappings.outbound.results import WITHDRAWALS
from mappings.outbound.style import REPEATED, TEXT, OutputStyle, coding_of
from mappings.outbound.variables import DESTINATION, VARIABLES, RenderState, Variable, destination

Condition = Callable[[RenderState], bool]

_COMBINING = ("any", "not")
UNKNOWN_CODES = ("keep", "empty", "refuse")
"""Policies for a code that the table lacks: keep it, leave it out, or do not render the message."""


def compile_field(node: YamlNode, context: CompilationContext) -> Variable:
    if isinstance(node.value, dict):
        return _compile_mapping(node, node.value, context)
    if isinstance(node.value, list):
        parts = [_component(item, context) for item in node.value]
        return lambda state: components([part(state) for part in parts])
    return compile_text(node, context)


def _component(node: YamlNode, context: CompilationContext) -> Variable:
    if isinstance(node.value, list):
        parts = [compile_text(item, context) for item in node.value]
        return lambda state: subcomponents([part(state) for part in parts])
    if isinstance(node.value, dict):
        return _demoted(_compile_mapping(node, node.value, context))
    return compile_text(node, context)


def _demoted(inner: Variable) -> Variable:
    """Write a field as one component of another: its components become subcomponents."""
    return lambda state: Encoded(
        inner(state)
        .replace(STANDARD.component, STANDARD.subcomponent)
        .rstrip(STANDARD.subcomponent)
    )


def compile_text(node: YamlNode, context: CompilationContext) -> Variable:
    """Compile a text or a `$variable`."""
    text = context.diagnostics.read_text(node)
    if not text.startswith("$"):
        constant = plain(text)
        return lambda state: constant
    name = text[1:]
    context.used.add(text)
    if name.startswith(DESTINATION):
        return destination(name.removeprefix(DESTINATION))
    if name not in VARIABLES:
        context.diagnostics.unknown(node, "variable", name, VARIABLES)
        return lambda state: NOTHING
    return VARIABLES[name]


def _compile_mapping(
    node: YamlNode, entries: Mapping[str, YamlNode], context: CompilationContext
) -> Variable:
    kind = next((kind for kind in _KINDS if kind in entries), None)
    if kind is None:
        context.diagnostics.error(node, "field", f"give one of {', '.join(_KINDS)}")
        return lambda state: NOTHING
    known, compile_kind = _KINDS[kind]
    context.diagnostics.read_mapping(node, (kind, *known, "suffix", "when"))
    compiled = compile_kind(node, context)
    suffix, when = node.get("suffix"), node.get("when")
    if suffix is not None:
        compiled = _suffixed(compiled, compile_text(suffix, context))
    if when is None:
        return compiled
    condition = compile_when(when, context)
    return lambda state: compiled(state) if condition(state) else NOTHING


def _suffixed(inner: Variable, suffix: Variable) -> Variable:
    """Append a text to the first component of a value."""

    def get(state: RenderState) -> Encoded:
        head, mark, rest = inner(state).partition(STANDARD.component)
        return Encoded(f"{head}{suffix(state)}{mark}{rest}") if head else NOTHING

    return get


def _first(node: YamlNode, context: CompilationContext) -> Variable:
    parts = [compile_field(item, context) for item in context.diagnostics.read_items(node["first"])]

    def get(state: RenderState) -> Encoded:
        for part in parts:
            if value := part(state):
                return value
        return NOTHING

    return get


def _repeat(node: YamlNode, context: CompilationContext) -> Variable:
    parts = [
        compile_field(item, context) for item in context.diagnostics.read_items(node["repeat"])
    ]
    return lambda state: repeated([value for part in parts if (value := part(state))])


def _value(node: YamlNode, context: CompilationContext) -> Variable:
    inner = compile_field(node["value"], context)
    policy = "keep"
    unknown = node.get("unknown")
    if unknown is not None:
        policy = context.diagnostics.read_choice(unknown, "policy", UNKNOWN_CODES) or policy
    place = _place(node["value"])
    codes, back = node.get("codes"), node.get("codes_back")
    if codes is not None and (table := context.table(codes)) is not None:
        inner = _coded(inner, table.value, UnmappedCode(table.name, "", place, policy))
    if back is not None and (table := context.table(back)) is not None:
        inner = _coded(inner, table.code, UnmappedCode(table.name, "", place, policy, back=True))
    return inner


def _place(node: YamlNode) -> str:
    """Return the source of a value: a variable or a path of the order; `$` for others."""
    echo = node.get("echo") if isinstance(node.value, dict) else None
    source = node.value if echo is None else echo.value
    return source if isinstance(source, str) and (echo or source.startswith("$")) else "$"


def _coded(
    inner: Variable, look_up: Callable[[str], str | None], unmapped: UnmappedCode
) -> Variable:
    """Translate a value with the receiver's code table; the policy applies to unmapped codes."""
    empty, refuses = unmapped.policy == "empty", unmapped.policy == "refuse"

    def get(state: RenderState) -> Encoded:
        value = inner(state)
        text = unescape(value)
        code = look_up(text)
        if code is not None:
            return plain(code)
        if text and state.context.unmapped_codes is not None:
            state.context.unmapped_codes.append(unmapped._replace(code=text))
        if text and refuses:
            raise CodeRefused(unmapped.table, unmapped.place)
        return NOTHING if empty else value

    return get


def _echo(node: YamlNode, context: CompilationContext) -> Variable:
    path = parse_path(
        context.diagnostics.read_text(node["echo"]), node["echo"], context.diagnostics
    )
    kind_node = node.get("type")
    kind = (
        context.diagnostics.read_choice(kind_node, "data type", DATA_TYPES) if kind_node else "ST"
    )
    every = context.diagnostics.read_flag(node.get("all"), default=False)
    holding_node = node.get("holding")
    holding = compile_text(holding_node, context) if holding_node is not None else None
    if path is None or kind is None:
        return lambda state: NOTHING
    shape = kind if kind in COMPONENTS or kind in TIME_TYPES else "ST"

    def get(state: RenderState) -> Encoded:
        if holding is not None and not _holds(holding(state), state.echo.texts(path)):
            return NOTHING
        return state.echo.field(path, shape, all_repetitions=every)

    return get


def _holds(value: Encoded, texts: set[str]) -> bool:
    """
    True if the order's field has the value of the report service. Merges change numbers.

    The groups of a name are repetitions of the field.
    """
    text = unescape(value)
    return _parts(text, "^") <= texts or _parts(text.replace("=", "^"), "^") <= texts


def _parts(text: str, separator: str) -> set[str]:
    return {part.strip() for part in text.split(separator)} - {""}


_KINDS: Mapping[str, tuple[tuple[str, ...], Callable[[YamlNode, CompilationContext], Variable]]] = {
    "echo": (("type", "all", "holding"), _echo),
    "first": ((), _first),
    "repeat": ((), _repeat),
    "value": (("codes", "codes_back", "unknown"), _value),
}
"""The kinds of mappings: the keys that each may have, and the function that compiles it."""


def compile_when(node: YamlNode, context: CompilationContext) -> Condition:
    """Compile a condition over variables. All entries must hold; `any` and `not` combine."""
    parts = [_condition(node, key, below, context) for key, below in _conditions(node, context)]
    return lambda state: all(part(state) for part in parts)


def _conditions(node: YamlNode, context: CompilationContext) -> Iterator[tuple[str, YamlNode]]:
    for key, below in context.diagnostics.read_mapping(node).items():
        if key.startswith("$") or key in _COMBINING:
            yield key, below
        else:
            message = f"{key!r} is no variable; variables begin with $"
            context.diagnostics.error(below.at_key(), "when", message)


def _condition(node: YamlNode, key: str, below: YamlNode, context: CompilationContext) -> Condition:
    if key == "any":
        some = [compile_when(item, context) for item in context.diagnostics.read_items(below)]
        return lambda state: any(part(state) for part in some)
    if key == "not":
        part = compile_when(below, context)
        return lambda state: not part(state)
    variable = compile_text(YamlNode(key, node.file, *below.key, below.path), context)
    test = compile_condition_test(below, context.diagnostics, of_field=False)
    return lambda state: test(unescape(variable(state)))


REPORT_FILE = ("18748-4", "Diagnostic imaging report", "LN")
"""OBX-3 of files, as in the shared part `documents`."""


def text_rows(state: RenderState) -> list[dict[str, Encoded]]:
    """Return one row for each OBX of text; none if only files are requested and there are some."""
    if state.context.event in WITHDRAWALS:
        text = state.style.layout.rows(state.context) if TEXT in state.style.content else []
        return [*text, *_withdrawn_files(state)]
    if TEXT not in state.style.content and state.context.files:
        return []
    return [*state.style.layout.rows(state.context), *_sections_to_delete(state)]


def _sections_to_delete(state: RenderState) -> list[dict[str, Encoded]]:
    """
    Return rows that delete sections of an earlier text.

    An MDM message has none, because it replaces the whole document.
    """
    if state.statuses.get("message", "").startswith("MDM"):
        return []
    return [
        {
            **coding_of(section),
            "sub_id": plain(str(section.sub_id)),
            "line": NOTHING,
            "observation_status": plain("D"),
        }
        for section in state.style.layout.outdated_sections(state.context)
    ]


def _withdrawn_files(state: RenderState) -> list[dict[str, Encoded]]:
    """Return rows that withdraw each file that may have been sent, under its OBX-3 and OBX-4."""
    names = ("section.code", "section.text", "section.system")
    code = dict(zip(names, map(plain, REPORT_FILE), strict=True))
    line = plain(state.context.report_text)
    return [
        {**code, "sub_id": plain(file_format), "line": line}
        for file_format in sorted(state.style.formats)
    ]


def document_rows(state: RenderState) -> list[dict[str, Encoded]]:
    """Return one row for each file, in base64 without line ends. The sub-id is the format."""
    return [
        {
            "format": plain(key),
            "sub_id": plain(key),
            "data": plain(b64encode(state.context.files[key]).decode("ascii")),
        }
        for key in sorted(state.style.formats & state.context.files.keys())
    ]


def metadata_rows(state: RenderState) -> list[dict[str, Encoded]]:
    """Return one row for each Metadata key. Values other than texts are written as JSON."""
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
    """Return the Metadata for fields, by segment and number. A blank joins several values."""
    found: defaultdict[str, dict[int, Encoded]] = defaultdict(dict)
    for row in metadata_rows(state):
        name, dash, number = row["target"].partition("-")
        if dash:
            before = found[name].get(int(number), NOTHING)
            both = f"{before} {row['value']}" if before else row["value"]
            found[name][int(number)] = Encoded(both)
    return found


def _as_text(value: object) -> str:
    if isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False, sort_keys=True)


def metadata_segments(state: RenderState) -> list[Encoded]:
    """Write the Z segments of Metadata: one for each key, or one for all keys by field number."""
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
"""The loops within an order."""


ITEM_KEYS = ("when", "each", "segments")
ORDERS = "orders"
Z_SEGMENTS = "Z*"
VERSION_FIELD = 12
WHOLE_ECHOES = frozenset({"ORC", "OBR", "PV1"})
NOT_ECHOED = frozenset({("ORC", 5), ("ORC", 9), ("OBR", 22), ("OBR", 25)})
"""Fields with the state and time of the order, which are not valid for its result."""

NUMBERED = frozenset({"ORC", "OBR"})
NUMBER_FIELDS = (2, 3)
"""The numbers of the placer and of the filler, which repeat for `orders: repeated`."""

Writer = Callable[[RenderState], list[Encoded]]


@dataclass(frozen=True, slots=True)
class _ItemCompiler:
    style: OutputStyle
    parts: dict[str, YamlNode]
    context: CompilationContext
    enclosing: tuple[str, ...] = ()
    """The parts that contain the current item, outermost first."""

    @property
    def diagnostics(self) -> Diagnostics:
        return self.context.diagnostics

    def begins_with_header(self, item: YamlNode) -> bool:
        """True if the first segment of an item is MSH."""
        use = item.get("use")
        if use is not None and isinstance(use.value, str) and use.value in self.parts:
            first = self.diagnostics.read_items(self.parts[use.value])[:1]
            return bool(first) and "MSH" in (first[0].value or ())
        return "MSH" in (item.value or ())

    def compile_item(self, node: YamlNode) -> Writer:
        """Compile a segment, a loop or a part, with its condition."""
        entries = self.diagnostics.read_mapping(node)
        names = [key for key in entries if key not in ITEM_KEYS]
        writer: Writer
        if "each" in entries:
            writer = self._loop(node, entries)
        elif names == ["use"]:
            writer = self._part(entries["use"])
        elif len(names) == 1:
            writer = self._segment(names[0], entries[names[0]])
        else:
            message = "an item is one segment, or `each` with segments"
            self.diagnostics.error(node, "segments", message)
            return _write_nothing
        if "when" not in entries:
            return writer
        condition = compile_when(entries["when"], self.context)
        return lambda state: writer(state) if condition(state) else []

    def _part(self, node: YamlNode) -> Writer:
        name = self.diagnostics.read_choice(node, "part", self.parts)
        if name is None:
            return _write_nothing
        if name in self.enclosing:
            self.diagnostics.error(node, "part", f"{name} uses itself")
            return _write_nothing
        self.context.used.add(f"use: {name}")
        inner = replace(self, enclosing=(*self.enclosing, name))
        items = self.diagnostics.read_items(self.parts[name])
        return _in_turn([inner.compile_item(item) for item in items])

    def _segment(self, name: str, node: YamlNode) -> Writer:
        if name == Z_SEGMENTS and node.value == "metadata":
            return metadata_segments
        if name not in SEGMENTS and not name.startswith("Z"):
            self.diagnostics.unknown(node.at_key(), "segment", name, SEGMENTS)
        if node.value == "echo":
            return lambda state: state.echo.segments(name)
        fields = self._fields(name, self.diagnostics.read_mapping(node))
        return _SegmentWriter(name, fields, self.style)

    def _fields(self, name: str, entries: dict[str, YamlNode]) -> dict[int, Variable]:
        fields = {}
        lowest = 3 if name == "MSH" else 1
        for key, below in entries.items():
            number = int(key) if key.isdecimal() else 0
            if number < lowest:
                message = f"{key!r} is no field number of {name}"
                self.diagnostics.error(below.at_key(), "field", message)
            else:
                warn_if_beyond_last_field(name, number, below.at_key(), self.diagnostics)
                fields[number] = compile_field(below, self.context)
        if name == "MSH" and self.style.version:
            version = plain(self.style.version)
            fields[VERSION_FIELD] = lambda state: version
        if self.style.echo == "whole" and name in WHOLE_ECHOES:
            echoes = _echoes(name)
            return echoes | {key: _own_or_echo(own, echoes.get(key)) for key, own in fields.items()}
        return fields

    def _loop(self, node: YamlNode, entries: dict[str, YamlNode]) -> Writer:
        loop = self.diagnostics.read_choice(entries["each"], "loop", (ORDERS, *LOOPS))
        self.diagnostics.read_mapping(node, ITEM_KEYS)
        if loop is None:
            return _write_nothing
        if "segments" not in entries:
            message = "each needs `segments`: what to write each time"
            self.diagnostics.error(node, "segments", message)
            return _write_nothing
        self.context.used.add(f"each: {loop}")
        items = self.diagnostics.read_items(entries["segments"])
        inner = _in_turn([self.compile_item(item) for item in items])
        return _over_orders(inner) if loop == ORDERS else _over_rows(inner, loop)


def compile_items(
    node: YamlNode | None, parts: YamlNode | None, style: OutputStyle, context: CompilationContext
) -> tuple[Writer, ...]:
    """Compile `segments:` with the `parts:` that they use."""
    diagnostics = context.diagnostics
    known = diagnostics.read_mapping(parts) if parts is not None else {}
    compiler = _ItemCompiler(style, known, context)
    items = diagnostics.read_items(node) if node is not None else []
    if items and not compiler.begins_with_header(items[0]):
        diagnostics.error(items[0], "segments", "the first segment must be MSH")
    return tuple(compiler.compile_item(item) for item in items)


def _write_nothing(_state: RenderState) -> list[Encoded]:
    return []


def _in_turn(writers: list[Writer]) -> Writer:
    return lambda state: [line for writer in writers for line in writer(state)]


def _own_or_echo(own: Variable, echo: Variable | None) -> Variable:
    """Repeat a field of the order if the definition's own field is empty."""
    return own if echo is None else lambda state: own(state) or echo(state)


def _echoes(name: str) -> dict[int, Variable]:
    """Return variables that repeat all fields of the order that may be repeated."""
    return {
        number: _repeated(Path(name, field=number), kind)
        for number, kind in enumerate(VERSIONS[NEWEST_VERSION].fields[name], start=1)
        if (name, number) not in NOT_ECHOED
    }


def _repeated(path: Path, kind: str) -> Variable:
    every, name = kind.endswith(REPEATS), kind.removesuffix(REPEATS)
    return lambda state: state.echo.field(path, name, all_repetitions=every)


@dataclass(frozen=True, slots=True)
class _SegmentWriter:
    """Writes one segment, field by field, fitted to the version."""

    name: str
    fields: dict[int, Variable]
    style: OutputStyle

    def __call__(self, state: RenderState) -> list[Encoded]:
        name = state.segment = self.name
        values = {number: field(state) for number, field in self.fields.items()}
        if self.style.targets:
            values |= metadata_fields(state).get(name, {})
        values = self._fitted(values)
        if state.others and name in NUMBERED:
            values |= self._numbers_of_all(state)
        numbers = range(3 if name == "MSH" else 1, max(values, default=0) + 1)
        written = [values.get(number, NOTHING) for number in numbers]
        state.count(name)
        return [header(written) if name == "MSH" else segment(name, written)]

    def _fitted(self, values: Mapping[int, Encoded]) -> dict[int, Encoded]:
        """Return the values in the form of the version."""
        tables = self.style.version_tables
        if tables is None:
            return dict(values)
        return {
            number: fit_to_version(tables, self.name, number, value)
            for number, value in values.items()
            if value
        }

    def _numbers_of_all(self, state: RenderState) -> dict[int, Encoded]:
        """Return the number fields with a repetition for each order."""
        found: dict[int, list[Encoded]] = {}
        for other in state.others:
            other.row, other.segment = state.row, self.name
            own = {n: self.fields[n](other) for n in NUMBER_FIELDS if n in self.fields}
            fitted = self._fitted(own)
            for number in own:
                found.setdefault(number, []).append(fitted.get(number, NOTHING))
        return {number: _empty_unless_any(values) for number, values in found.items()}


def _empty_unless_any(numbers: Sequence[Encoded]) -> Encoded:
    """Join the numbers of all orders: the n-th repetition is that of the n-th order."""
    return Encoded(STANDARD.repetition.join(numbers)) if any(numbers) else NOTHING


def _over_orders(inner: Writer) -> Writer:
    """
    Write items once for each order, or once for all if the style repeats their numbers.

    Set ids below an order start again.
    """

    def write(state: RenderState) -> list[Encoded]:
        states = []
        for number, order in enumerate(state.context.orders, start=1):
            echo = Echo(order.echo, zoned=state.style.zoned)
            one = RenderState(state.context, order, echo, number, state.statuses, state.style)
            one.counts = state.counts
            states.append(one)
        if state.style.orders == REPEATED and len(states) > 1:
            states[0].others = tuple(states)
            del states[1:]
        return [line for one in states for line in inner(one)]

    return write


def _over_rows(inner: Writer, loop: str) -> Writer:
    """Write items once for each row."""
    rows = LOOPS[loop]

    def write(state: RenderState) -> list[Encoded]:
        written: list[Encoded] = []
        for row in rows(state):
            state.row = row
            written += inner(state)
        state.row = {}
        return written

    return write
