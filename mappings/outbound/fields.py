"""
Field values of outbound segments: YAML compiled to a function of the render state.

    TX                                    a text               $order.Accession   a variable
    ["$placer", "", "A"]                  components (a list in the list: subcomponents)
    {echo: OBR-4, type: CE}               a field of the order {first: [a, b]}    the first value
    {repeat: [a, b]}                      repetitions          {value: …, when: …, codes: …}

`suffix` is appended to the first component. A mapping within a list is one component.
"""

from collections.abc import Callable, Iterator, Mapping

from mappings.hl7.delimiters import STANDARD
from mappings.hl7.escapes import unescape
from mappings.language.accessors import parse_path
from mappings.language.code_tables import UnmappedCode
from mappings.language.conditions import compile_condition_test
from mappings.language.context import CompilationContext
from mappings.language.diagnostics import CodeRefused, YamlNode
from mappings.outbound.encoding import NOTHING, Encoded, components, plain, repeated, subcomponents
from mappings.outbound.hl7_versions import COMPONENTS, DATA_TYPES, TIME_TYPES
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
        some = [compile_when(each, context) for each in context.diagnostics.read_items(below)]
        return lambda state: any(part(state) for part in some)
    if key == "not":
        part = compile_when(below, context)
        return lambda state: not part(state)
    variable = compile_text(YamlNode(key, node.file, *below.key, below.path), context)
    test = compile_condition_test(below, context.diagnostics, of_field=False)
    return lambda state: test(unescape(variable(state)))
