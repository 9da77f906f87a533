"""Rules: where a value comes from, compiled to one function of the scope.

`{all: [OBR-31.2, OBR-31.1]}` asks each repetition for its text, else for its code. Other rules
are in `mappings.language.rules`.

    PID-7                                   a path
    [OBR-18, OBR-3.1, ORC-3.1]              the first that has a value
    {from: PID-8, codes: sex}               with something done to it

A rule yields text, "" for nothing, or the HL7 null when only nulls were found.
"""

from collections.abc import Callable

from mappings.hl7.elements import NULL
from mappings.hl7.path import Path
from mappings.hl7.refusals import TableValueNotFound
from mappings.language import transforms
from mappings.language.accessors import compile_all, compile_path, parse_path
from mappings.language.code_tables import CodeTable, UnmappedCode
from mappings.language.conditions import Condition, compile_condition
from mappings.language.context import CompilationContext
from mappings.language.diagnostics import YamlNode, meant
from mappings.language.patterns import Search, compile_pattern
from mappings.language.scope import MessageScope
from mappings.language.unreachable_rules import LISTENER, unreachable, without_effect

Rule = Callable[[MessageScope], str]


def nothing(_scope: MessageScope) -> str:
    """Yield nothing: what a rule with a mistake does."""
    return ""


def separator_of(entries: dict[str, YamlNode], shop: CompilationContext) -> str:
    """Read `separator`; a line feed where none is given."""
    return shop.notebook.text(entries["separator"]) if "separator" in entries else "\n"


def compile_gathering(
    entries: dict[str, YamlNode], shop: CompilationContext, *, only_first: bool, raw: bool
) -> Rule:
    """Compile `all` or `first`, whichever is among the entries."""
    paths = _paths(entries["first" if only_first else "all"], shop)
    if not paths:
        return nothing
    segment = paths[0].segment
    after = shop.notebook.texts(entries["after"]) if "after" in entries else [""]
    found = [compile_all(paths, after=each, raw=raw) for each in after]
    where = _where(entries, segment, shop)
    separator = separator_of(entries, shop)

    def get(scope: MessageScope) -> str:
        if segment not in scope.own.filed and segment not in scope.header.filed:
            return ""
        seen = scope if where is None else _filtered(scope, segment, where)
        values = [value for many in found for value in many(seen) if value]
        if not values:
            return ""
        kept = [value for value in values if value != NULL] if NULL in values else values
        if not kept:
            return NULL
        return kept[0] if only_first or len(kept) == 1 else separator.join(kept)

    return get


def _paths(node: YamlNode, shop: CompilationContext) -> list[Path]:
    """Read one path, or several into the same field."""
    paths: list[Path] = []
    for item in shop.notebook.items(node):
        text = shop.notebook.text(item)
        shop.paths.append(text)
        place = parse_path(text, item, shop.notebook)
        if place is None:
            return []
        paths.append(place.path)
        if (paths[0].segment, paths[0].field) != (place.path.segment, place.path.field):
            shop.notebook.error(item, "path", "all alternatives must lie in the same field")
    if not paths:
        shop.notebook.error(node, "empty", "a path such as NTE-3 is expected here")
    return paths


def _where(
    entries: dict[str, YamlNode], segment: str, shop: CompilationContext
) -> Condition | None:
    if "where" not in entries:
        return None
    for key in shop.notebook.mapping(entries["where"]):
        if key not in ("any", "not") and not key.startswith(segment):
            place = entries["where"][key].at_key()
            shop.notebook.error(place, "where", f"`where` looks at {segment} alone")
    return compile_condition(entries["where"], shop.notebook)


def _filtered(scope: MessageScope, segment: str, where: Condition) -> MessageScope:
    """See only those segments of a kind for which the condition holds."""
    return scope.among([each for each in scope.every(segment) if where(scope.only(each))])


PRODUCERS = ("from", "first", "all", "join", "const", "age", "hook")
MODIFIERS = (
    *("extract", "as", "codes", "codes_back", "unknown"),
    *("when", "where", "after", "separator", "default", "required"),
)
KEYS = PRODUCERS + MODIFIERS
UNKNOWN_CODES = ("keep", "empty", "refuse")
_POSITIONAL = frozenset({"^", "&"})
"""Separators of components: behind each of them a value has its place, also behind an empty one."""


def compile_rule(node: YamlNode, shop: CompilationContext, *, raw: bool = False) -> Rule:
    """Compile a rule; after a mistake it yields nothing."""
    if isinstance(node.value, str):
        return _path(node, shop, raw=raw)
    if isinstance(node.value, list):
        unreachable(node.value, shop.notebook)
        return _first_of([compile_rule(item, shop, raw=raw) for item in node.value])
    if isinstance(node.value, dict):
        return _written_out(node, shop, raw=raw)
    shop.notebook.error(node, "empty", "a path such as PID-3.1 is expected here")
    return nothing


def _path(node: YamlNode, shop: CompilationContext, *, raw: bool) -> Rule:
    text = shop.notebook.text(node)
    shop.paths.append(text)
    return compile_path(text, node, shop.notebook, raw=raw)


def _first_of(rules: list[Rule]) -> Rule:
    """Take the first value; the null only when nobody has a value."""
    if len(rules) == 1:
        return rules[0]

    def get(scope: MessageScope) -> str:
        null = ""
        for rule in rules:
            value = rule(scope)
            if value:
                if value != NULL:
                    return value
                null = NULL
        return null

    return get


def _written_out(node: YamlNode, shop: CompilationContext, *, raw: bool) -> Rule:
    entries = shop.notebook.mapping(node, KEYS)
    named = [key for key in PRODUCERS if key in entries]
    if len(named) > 1:
        both = " and ".join(named)
        shop.notebook.error(node, "rule", f"{both} exclude each other: keep one")
    if not named and "default" not in entries:
        sources = ", ".join(PRODUCERS)
        shop.notebook.error(node, "rule", f"the rule has no source; give one of {sources}")
    without_effect(entries, shop.notebook)
    chosen = transforms.compile_transforms(entries.get("as"), shop.notebook)
    keep = raw or any(each.raw for each in chosen)
    rule = _producer(named[0], entries, shop, raw=keep) if named else nothing
    if "extract" in entries:
        search = compile_pattern(entries["extract"], shop.notebook)
        rule = _extracted(rule, search)
    for transform in chosen:
        rule = _transformed(rule, transform)
    return _modified(rule, entries, shop)


def _producer(
    name: str, entries: dict[str, YamlNode], shop: CompilationContext, *, raw: bool
) -> Rule:
    node = entries[name]
    if name in ("all", "first"):
        return compile_gathering(entries, shop, only_first=name == "first", raw=raw)
    if name == "join":
        parts = [compile_rule(item, shop, raw=raw) for item in shop.notebook.items(node)]
        return _joined(parts, separator_of(entries, shop))
    if name == "const":
        text = shop.notebook.text(node)
        return lambda scope: text
    if name == "age":
        return _age(node, shop)
    if name == "hook":
        return _hooked(node, shop)
    return compile_rule(node, shop, raw=raw)


def _joined(parts: list[Rule], separator: str) -> Rule:
    """Join what has a value; separators of components keep empty places. Only nulls make a null."""
    positional = separator in _POSITIONAL

    def get(scope: MessageScope) -> str:
        values = [part(scope) for part in parts]
        said = [value for value in values if value]
        if not said:
            return ""
        if positional:
            kept = separator.join(["" if value == NULL else value for value in values])
            return kept.rstrip(separator) or (NULL if NULL in said else "")
        if NULL not in said:
            return separator.join(said)
        return separator.join([value for value in said if value != NULL]) or NULL

    return get


def _age(node: YamlNode, shop: CompilationContext) -> Rule:
    entries = shop.notebook.mapping(node, ("of", "on"))
    if "of" not in entries:
        shop.notebook.error(node, "rule", "age needs `of`: the place of the birth date")
        return nothing
    birth = compile_rule(entries["of"], shop)
    day = compile_rule(entries["on"], shop) if "on" in entries else nothing
    return lambda scope: transforms.age(birth(scope), day(scope), scope)


def _hooked(node: YamlNode, shop: CompilationContext) -> Rule:
    hook = shop.hook(node)
    return nothing if hook is None else hook.value


def _extracted(rule: Rule, search: Search) -> Rule:
    """Take what a pattern finds in a value; nothing where it finds nothing."""

    def get(scope: MessageScope) -> str:
        value = rule(scope)
        return (search(value) or "") if value and value != NULL else value

    return get


def _transformed(rule: Rule, transform: transforms.Transform) -> Rule:
    apply = transform.apply

    def get(scope: MessageScope) -> str:
        value = rule(scope)
        return apply(value, scope) if value and value != NULL else value

    return get


def _modified(rule: Rule, entries: dict[str, YamlNode], shop: CompilationContext) -> Rule:
    """Wrap a rule in what stands beside its source: codes, condition, default."""
    named = [key for key in ("codes", "codes_back") if key in entries]
    if len(named) > 1:
        shop.notebook.error(
            entries["codes_back"].at_key(), "codes", "codes or codes_back: keep one"
        )
    if named:
        rule = _coded(rule, named[0], entries, shop)
    if "when" in entries:
        condition = compile_condition(entries["when"], shop.notebook)
        rule = _conditional(rule, condition)
    if "default" in entries:
        text = shop.notebook.text(entries["default"])
        rule = _defaulting(rule, text)
    return rule


def _coded(rule: Rule, key: str, entries: dict[str, YamlNode], shop: CompilationContext) -> Rule:
    table = shop.table(entries[key])
    policy = "keep"
    if "unknown" in entries:
        policy = shop.notebook.choice(entries["unknown"], "policy", UNKNOWN_CODES) or policy
    shop.refusing |= policy == "refuse"
    place = without_filters(shop.paths[-1]) if shop.paths else ""
    back = key == "codes_back"
    _check_codes(table, key, entries, policy, shop)
    if table is None:
        return rule
    name, translate = table.name, table.code if back else table.value

    def get(scope: MessageScope) -> str:
        code = rule(scope)
        if not code or code == NULL:
            return code
        value = translate(code)
        if value is not None:
            return value
        if scope.defaults.missed is not None:
            scope.defaults.missed.append(UnmappedCode(name, code, place, policy, back))
        if policy == "refuse":
            raise TableValueNotFound(scope.locate(place))
        return code if policy == "keep" else ""

    return get


def _check_codes(
    table: CodeTable | None,
    key: str,
    entries: dict[str, YamlNode],
    policy: str,
    shop: CompilationContext,
) -> None:
    """Note a table without entries, and a constant that it does not have."""
    if table is None:
        return
    if not table.forward:
        what = "every message is refused" if policy == "refuse" else "it translates nothing"
        shop.notebook.warn(entries[key], "codes", f"{table.name} has no entry: {what}")
    const = entries.get("const")
    if const is not None and isinstance(const.value, str):
        found = table.value(const.value) if key == "codes" else table.code(const.value)
        if found is None:
            hint = meant(const.value, table.forward if key == "codes" else table.backward)
            shop.notebook.warn(const, "codes", f"{table.name} has no entry {const.value!r}{hint}")


def _conditional(rule: Rule, condition: Condition) -> Rule:
    return lambda scope: rule(scope) if condition(scope) else ""


def _defaulting(rule: Rule, text: str) -> Rule:
    if text == LISTENER:
        return lambda scope: _valued(rule(scope)) or scope.defaults.site
    return lambda scope: _valued(rule(scope)) or text


def _valued(value: str) -> str:
    return "" if value == NULL else value


def without_filters(path: str) -> str:
    """Drop the picks of a path for a refusal: PID-3[CX-5=MR].1 is told as PID-3.1."""
    kept, depth = [], 0
    for character in path:
        depth += (character == "[") - (character == "]")
        if not depth and character != "]":
            kept.append(character)
    return "".join(kept)
