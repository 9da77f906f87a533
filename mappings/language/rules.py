"""
Rules: where a value comes from, compiled to a function of the scope.

    PID-7                                   a path
    [OBR-18, OBR-3.1, ORC-3.1]              the first path with a value
    {from: PID-8, codes: sex}               a path with modifiers
    {all: [OBR-31.2, OBR-31.1]}             all repetitions, each with its text or its code

A rule returns text, "" if there is no value, or the HL7 null if only nulls were found. The rules of
`TAGS` fill the clinicalInfo.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from mappings.hl7.message import NULL, without_null
from mappings.hl7.path import Path
from mappings.hl7.refusals import (
    IdentifierTooLong,
    MessageRefusal,
    MissingField,
    TableValueNotFound,
)
from mappings.language import transforms
from mappings.language.accessors import Many, compile_all, compile_path, parse_path
from mappings.language.code_tables import (
    CodeTable,
    UnmappedCode,
    read_table,
    table_file,
    table_names,
)
from mappings.language.conditions import Condition, Search, compile_condition, compile_pattern
from mappings.language.diagnostics import FLAGS, Diagnostics, Sources, YamlNode, suggestion
from mappings.language.hooks import MappingHook, find_hook
from mappings.language.scope import MessageScope


@dataclass(slots=True)
class CompilationContext:
    """
    The sources, diagnostics and code tables of one compilation.

    Compiled mappings do not refer to it.
    """

    sources: Sources
    diagnostics: Diagnostics
    tables: dict[str, CodeTable] = field(default_factory=dict)
    files: set[str] = field(default_factory=set)
    """The code tables and hook files that the definition uses."""
    used: set[str] = field(default_factory=set)
    """The variables, loops and parts that segments of the definition name."""
    paths: list[str] = field(default_factory=list)
    """The paths of the compiled rules, in order."""
    refusing: bool = False
    """Whether a rule that was compiled since the last reset may refuse a message."""
    hooks: int = 0
    """How often rules name a hook."""

    def table(self, node: YamlNode) -> CodeTable | None:
        """Look up a code table by name. Reports an issue and returns None if there is none."""
        name = self.diagnostics.read_choice(node, "code table", table_names(self.sources))
        if name is None:
            return None
        if name not in self.tables:
            self.files.add(table_file(name))
            self.tables[name] = read_table(self.sources, name, self.diagnostics)
        return self.tables[name]

    def hook(self, node: YamlNode) -> MappingHook | None:
        """Look up a hook. Reports an issue and returns None if there is none."""
        self.hooks += 1
        return find_hook(node, self.sources, self.diagnostics, self.files)


Rule = Callable[[MessageScope], str]
Change = Callable[[str, MessageScope], str]
"""Changes a value that is neither empty nor a null."""


def no_value(_scope: MessageScope) -> str:
    """Return "". Replaces rules with errors."""
    return ""


def separator_of(entries: dict[str, YamlNode], context: CompilationContext) -> str:
    """Read `separator`; the default is a line feed."""
    return context.diagnostics.read_text(entries["separator"]) if "separator" in entries else "\n"


def _compile_values(
    name: str, entries: dict[str, YamlNode], context: CompilationContext, *, raw: bool
) -> Many:
    """Compile the values of the rules `all` and `first`. Only nulls result in one null."""
    paths = read_paths(entries[name], context)
    if not paths:
        return lambda scope: []
    segment = paths[0].segment
    after = context.diagnostics.read_texts(entries["after"]) if "after" in entries else [""]
    readers = [compile_all(paths, after=predecessor, raw=raw) for predecessor in after]
    where = compile_where(entries, segment, context)

    def get(scope: MessageScope) -> list[str]:
        if segment not in scope.own.by_name and segment not in scope.header.by_name:
            return []
        visible = scope if where is None else filter_segment(scope, segment, where)
        values = [value for read in readers for value in read(visible) if value]
        if NULL in values:
            return [value for value in values if value != NULL] or [NULL]
        return values

    return get


def _combine(
    values: Many,
    changes: Sequence[Change],
    entries: dict[str, YamlNode],
    context: CompilationContext,
) -> Rule:
    """Compile `all` and `first`: all values joined, or the first one; `changes` apply to each."""
    only_first, separator = "first" in entries, separator_of(entries, context)
    distinct = context.diagnostics.read_flag(entries.get("distinct"), default=False)

    def get(scope: MessageScope) -> str:
        found = values(scope)
        for change in changes:
            found = [change(value, scope) if value != NULL else value for value in found]
        if changes:
            found = [value for value in found if value]
        if not found:
            return ""
        if only_first or len(found) == 1:
            return found[0]
        return separator.join(dict.fromkeys(found) if distinct else found)

    return get


def read_paths(node: YamlNode, context: CompilationContext) -> list[Path]:
    """Read one path, or several into the same field."""
    paths: list[Path] = []
    for item in context.diagnostics.read_items(node):
        text = context.diagnostics.read_text(item)
        context.paths.append(text)
        path = parse_path(text, item, context.diagnostics)
        if path is None:
            return []
        paths.append(path)
        if (paths[0].segment, paths[0].field) != (path.segment, path.field):
            context.diagnostics.error(item, "path", "all alternatives must lie in the same field")
    if not paths:
        context.diagnostics.error(node, "empty", "a path such as NTE-3 is expected here")
    return paths


def compile_where(
    entries: dict[str, YamlNode], segment: str, context: CompilationContext
) -> Condition | None:
    """Compile `where`, the condition of each segment; None if there is none."""
    if "where" not in entries:
        return None
    for key in context.diagnostics.read_mapping(entries["where"]):
        if key not in ("any", "not") and not key.startswith(segment):
            place = entries["where"][key].at_key()
            context.diagnostics.error(place, "where", f"`where` looks at {segment} alone")
    return compile_condition(entries["where"], context.diagnostics)


def filter_segment(scope: MessageScope, segment: str, where: Condition) -> MessageScope:
    """Return a scope whose rules over all segments of a name see those that pass `where`."""
    return scope.restricted_to(
        [position for position in scope.all_positions(segment) if where(scope.single(position))]
    )


EVERY_VALUE = frozenset({"all", "first"})
"""Sources that read all segments of a name and all their repetitions."""
SOURCES = ("from", "first", "all", "join", "const", "age", "hook")
MODIFIERS = (
    *("extract", "as", "codes", "codes_back", "unknown"),
    *("when", "where", "after", "separator", "distinct", "default", "required"),
)
KEYS = SOURCES + MODIFIERS
UNKNOWN_CODES = ("keep", "empty", "refuse")
_POSITIONAL = frozenset({"^", "&"})
"""Component separators. They make the position of a value matter, so empty values are kept."""


def compile_rule(node: YamlNode, context: CompilationContext, *, raw: bool = False) -> Rule:
    if isinstance(node.value, str):
        return _compile_path(node, context, raw=raw)
    if isinstance(node.value, list):
        report_unreachable(node.value, context.diagnostics)
        return _take_first([compile_rule(item, context, raw=raw) for item in node.value])
    if isinstance(node.value, dict):
        return _compile_mapping(node, context, raw=raw)
    context.diagnostics.error(node, "empty", "a path such as PID-3.1 is expected here")
    return no_value


def _compile_path(node: YamlNode, context: CompilationContext, *, raw: bool) -> Rule:
    text = context.diagnostics.read_text(node)
    context.paths.append(text)
    return compile_path(text, node, context.diagnostics, raw=raw)


def _take_first(rules: list[Rule]) -> Rule:
    """Return the first value, or the null if all rules return a null or nothing."""
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


def _compile_mapping(node: YamlNode, context: CompilationContext, *, raw: bool) -> Rule:
    entries = context.diagnostics.read_mapping(node, KEYS)
    named = [key for key in SOURCES if key in entries]
    if len(named) > 1:
        both = " and ".join(named)
        context.diagnostics.error(node, "rule", f"{both} exclude each other: keep one")
    if not named and "default" not in entries:
        sources = ", ".join(SOURCES)
        context.diagnostics.error(node, "rule", f"the rule has no source; give one of {sources}")
    report_without_effect(entries, context.diagnostics)
    chosen = transforms.compile_transforms(entries.get("as"), context.diagnostics)
    keep = raw or any(transform.raw for transform in chosen)
    changes: list[Change] = []
    if "extract" in entries:
        changes.append(extraction(compile_pattern(entries["extract"], context.diagnostics)))
    changes += [transform.apply for transform in chosen]
    source = named[0] if named else ""
    if source not in EVERY_VALUE:
        rule = _compile_source(source, entries, context, raw=keep) if source else no_value
        return _finish_rule(rule, changes + compile_codes(entries, context), entries, context)
    values = _compile_values(source, entries, context, raw=keep)
    if codes := compile_codes(entries, context):  # a table has no joined values
        return _finish_rule(
            _combine(values, changes + codes, entries, context), (), entries, context
        )
    return _finish_rule(_combine(values, (), entries, context), changes, entries, context)


def _compile_source(
    name: str, entries: dict[str, YamlNode], context: CompilationContext, *, raw: bool
) -> Rule:
    node = entries[name]
    if name == "join":
        parts = [
            compile_rule(item, context, raw=raw) for item in context.diagnostics.read_items(node)
        ]
        return join_rules(parts, separator_of(entries, context))
    if name == "const":
        text = context.diagnostics.read_text(node)
        return lambda scope: text
    if name == "age":
        return _compile_age(node, context)
    if name == "hook":
        return _compile_hook(node, context)
    return compile_rule(node, context, raw=raw)


def join_rules(parts: list[Rule], separator: str) -> Rule:
    """Join values. Component separators keep empty positions. Only nulls result in a null."""
    positional = separator in _POSITIONAL

    def get(scope: MessageScope) -> str:
        values = [part(scope) for part in parts]
        present = [value for value in values if value]
        if not present:
            return ""
        if positional:
            kept = separator.join(["" if value == NULL else value for value in values])
            return kept.rstrip(separator) or (NULL if NULL in present else "")
        if NULL not in present:
            return separator.join(present)
        return separator.join([value for value in present if value != NULL]) or NULL

    return get


def _compile_age(node: YamlNode, context: CompilationContext) -> Rule:
    entries = context.diagnostics.read_mapping(node, ("of", "on"))
    if "of" not in entries:
        context.diagnostics.error(node, "rule", "age needs `of`: the place of the birth date")
        return no_value
    birth = compile_rule(entries["of"], context)
    day = compile_rule(entries["on"], context) if "on" in entries else no_value
    return lambda scope: transforms.age(birth(scope), day(scope), scope)


def _compile_hook(node: YamlNode, context: CompilationContext) -> Rule:
    hook = context.hook(node)
    return no_value if hook is None else hook.value


def extraction(search: Search) -> Change:
    """Return what a pattern finds in a value, "" if it does not match."""
    return lambda value, scope: search(value) or ""


def _apply(rule: Rule, change: Change) -> Rule:
    def get(scope: MessageScope) -> str:
        value = rule(scope)
        return change(value, scope) if value and value != NULL else value

    return get


def _finish_rule(
    rule: Rule, changes: Sequence[Change], entries: dict[str, YamlNode], context: CompilationContext
) -> Rule:
    """Apply the modifiers of a rule: changes of its value, condition, default."""
    for change in changes:
        rule = _apply(rule, change)
    if "when" in entries:
        condition = compile_condition(entries["when"], context.diagnostics)
        rule = _add_condition(rule, condition)
    if "default" in entries:
        text = context.diagnostics.read_text(entries["default"])
        rule = _add_default(rule, text)
    return rule


def compile_codes(entries: dict[str, YamlNode], context: CompilationContext) -> list[Change]:
    """Compile the translation by a code table; an empty list if the rule has none."""
    named = [key for key in ("codes", "codes_back") if key in entries]
    if not named:
        return []
    if len(named) > 1:
        context.diagnostics.error(
            entries["codes_back"].at_key(), "codes", "codes or codes_back: keep one"
        )
    key = named[0]
    table = context.table(entries[key])
    policy = "keep"
    if "unknown" in entries:
        policy = (
            context.diagnostics.read_choice(entries["unknown"], "policy", UNKNOWN_CODES) or policy
        )
    context.refusing |= policy == "refuse"
    place = without_filters(context.paths[-1]) if context.paths else ""
    back = key == "codes_back"
    _check_codes(table, key, entries, policy, context)
    if table is None:
        return []
    name, translate = table.name, table.code if back else table.value

    def change(code: str, scope: MessageScope) -> str:
        value = translate(code)
        if value is not None:
            return value
        if scope.defaults.unmapped_codes is not None:
            scope.defaults.unmapped_codes.append(UnmappedCode(name, code, place, policy, back))
        if policy == "refuse":
            raise TableValueNotFound(scope.locate(place))
        return code if policy == "keep" else ""

    return [change]


def _check_codes(
    table: CodeTable | None,
    key: str,
    entries: dict[str, YamlNode],
    policy: str,
    context: CompilationContext,
) -> None:
    """Warn about an empty table, and about a constant that the table does not contain."""
    if table is None:
        return
    if not table.forward:
        what = "every message is refused" if policy == "refuse" else "it translates nothing"
        context.diagnostics.warn(entries[key], "codes", f"{table.name} has no entry: {what}")
    const = entries.get("const")
    if const is not None and isinstance(const.value, str):
        found = table.value(const.value) if key == "codes" else table.code(const.value)
        if found is None:
            hint = suggestion(const.value, table.forward if key == "codes" else table.backward)
            context.diagnostics.warn(
                const, "codes", f"{table.name} has no entry {const.value!r}{hint}"
            )


def _add_condition(rule: Rule, condition: Condition) -> Rule:
    return lambda scope: rule(scope) if condition(scope) else ""


def _add_default(rule: Rule, text: str) -> Rule:
    if text == LISTENER:
        return lambda scope: without_null(rule(scope)) or scope.defaults.site
    return lambda scope: without_null(rule(scope)) or text


def without_filters(path: str) -> str:
    """Remove the filters of a path, for refusals: PID-3[CX-5=MR].1 becomes PID-3.1."""
    kept, depth = [], 0
    for character in path:
        depth += (character == "[") - (character == "]")
        if not depth and character != "]":
            kept.append(character)
    return "".join(kept)


LISTENER = "listener"
_ALL_OR_FIRST = ("all", "first")
_NEEDS = {
    "where": _ALL_OR_FIRST,
    "after": _ALL_OR_FIRST,
    "separator": ("all", "join"),
    "distinct": ("all",),
    "unknown": ("codes", "codes_back"),
}
"""Modifiers, and the keys of which one must be present for the modifier to have an effect."""


def report_unreachable(items: Sequence[YamlNode], diagnostics: Diagnostics) -> None:
    """Report alternatives after one that always has a value, and repeated alternatives."""
    seen: set[str] = set()
    for index, item in enumerate(items):
        if isinstance(item.value, str):
            if item.value in seen:
                diagnostics.warn(
                    item, "dead", f"{item.value} has been tried before: it has no value"
                )
            seen.add(item.value)
        if always_has_value(item) and index < len(items) - 1:
            message = "never reached: the one before always has a value"
            diagnostics.warn(items[index + 1], "dead", message)
            return


def report_without_effect(entries: dict[str, YamlNode], diagnostics: Diagnostics) -> None:
    for key, needed in _NEEDS.items():
        if key in entries and not any(other in entries for other in needed):
            names = " or ".join(f"`{other}`" for other in needed)
            diagnostics.warn(entries[key].at_key(), "unused", f"`{key}` needs {names}")
    default = entries.get("default")
    if default is not None and default.value in ("", None):
        diagnostics.warn(default, "dead", "an empty default has no effect")
    required = entries.get("required")
    if required is not None and FLAGS.get(_text(required).lower(), False) and _defaulted(entries):
        message = "never refuses: there is always a value"
        diagnostics.warn(required.at_key(), "dead", message)


def always_has_value(node: YamlNode) -> bool:
    if isinstance(node.value, list):
        return any(always_has_value(item) for item in node.value)
    if not isinstance(node.value, dict):
        return False
    return _defaulted(node.value) or _constant(node.value)


def never_has_value(node: YamlNode) -> bool:
    if isinstance(node.value, list):
        return all(never_has_value(item) for item in node.value)
    if not isinstance(node.value, dict):
        return not node.value
    entries = node.value
    if "default" in entries and _text(entries["default"]):
        return False
    if "const" in entries:
        return not _text(entries["const"])
    below = [entries[key] for key in ("from", "join", "all", "first") if key in entries]
    return all(never_has_value(inner) for inner in below) and not {"age", "hook"} & entries.keys()


def is_from_listener_only(node: YamlNode) -> bool:
    if not isinstance(node.value, dict) or _text(node.get("default")) != LISTENER:
        return False
    others = {key: below for key, below in node.value.items() if key != "default"}
    return never_has_value(YamlNode(others, "", 0, 0))


def _constant(entries: dict[str, YamlNode]) -> bool:
    changed = {"when", "codes", "codes_back", "extract", "as"} & entries.keys()
    if changed:
        return False
    if "from" in entries:
        return always_has_value(entries["from"])
    if "join" in entries:
        below = entries["join"]
        items = below.value if isinstance(below.value, list) else [below]
        return any(always_has_value(item) for item in items)
    return bool(_text(entries.get("const")))


def _defaulted(entries: dict[str, YamlNode]) -> bool:
    default = _text(entries.get("default"))
    return bool(default) and default != LISTENER


def _text(node: YamlNode | None) -> str:
    return node.value if node is not None and isinstance(node.value, str) else ""


TAGS = (
    "SiteID",
    "SiteLocation",
    "PatientMRN",
    "Accession",
    "PatientName",
    "PatientBirthDate",
    "PatientAge",
    "PatientSex",
    "Race",
    "Ethnicity",
    "Modality",
    "BodyPartExamined",
    "StudyDescription",
    "ProcedureCode",
    "StudyDate",
    "StudyTime",
    "StudyInstanceUID",
    "ReasonForExam",
    "KeyFindings",
    "ReferringPhysician",
    "ReportingPhysician",
    "Notes",
)
LONG_TEXTS = frozenset({"ReasonForExam", "KeyFindings", "Notes"})
MAX_VALUE_CHARACTERS, MAX_TEXT_CHARACTERS = 1_024, 100_000
"""Limits of the report service. Longer texts are cut, so that the order is accepted."""

IDENTIFIERS = frozenset({"SiteID", "PatientMRN", "Accession", "StudyInstanceUID"})
NEVER_DELETED = IDENTIFIERS | {"PatientName"}
"""Tags that identify an order. A null does not delete them; it counts as absent."""


@dataclass(frozen=True, slots=True)
class TagRule:
    tag: str
    rule: Rule
    required: bool
    refusing: bool
    """Whether the rule may refuse a message."""
    places: tuple[str, ...]
    """The paths of the rule, in order."""
    of_listener: bool = False
    """Whether only the listener's settings can supply the value."""
    cached: bool = True
    """Whether `fill` calls `value` instead of `rule`: to use its cache, or to ignore a null."""
    calls_hook: bool = False

    def value(self, scope: MessageScope) -> str:
        """Return the value, computed once; "" for a null of a tag that is never deleted."""
        value = scope.known_values.get(self.tag)
        if value is None:
            value = self.rule(scope)
            if value == NULL and self.tag in NEVER_DELETED:
                value = ""
            scope.known_values[self.tag] = value
        return value

    def refusal(self, scope: MessageScope) -> MessageRefusal | None:
        """Return why this tag makes the message unacceptable, None if it does not."""
        try:
            value = self.value(scope)
        except MessageRefusal as refusal:
            return refusal
        if self.required and value in ("", NULL):
            return MissingField(self.place(scope))
        if self.tag in IDENTIFIERS and len(value) > MAX_VALUE_CHARACTERS:
            return IdentifierTooLong(self.place(scope))
        return None

    def place(self, scope: MessageScope) -> str:
        """Return the location of a missing value: the first path whose segment was sent."""
        sent = (place for place in self.places if scope.visible_positions(place.partition("-")[0]))
        return scope.locate(next(sent, self.places[0]))


def compile_tags(
    node: YamlNode | None, context: CompilationContext, known: tuple[str, ...]
) -> dict[str, TagRule]:
    entries = context.diagnostics.read_mapping(node, known) if node is not None else {}
    return {tag: compile_tag(tag, below, context) for tag, below in entries.items()}


def compile_tag(tag: str, node: YamlNode, context: CompilationContext) -> TagRule:
    before, hooks = len(context.paths), context.hooks
    context.refusing = False
    rule = compile_rule(node, context)
    required_node = node.get("required")
    required = context.diagnostics.read_flag(required_node, default=False)
    places = tuple(without_filters(path) for path in context.paths[before:]) or ("MSH-4",)
    refusing = required or context.refusing
    cached = refusing or tag in NEVER_DELETED
    return TagRule(
        tag,
        rule,
        required,
        refusing,
        places,
        is_from_listener_only(node),
        cached,
        context.hooks > hooks,
    )


def fill(rules: dict[str, TagRule], scope: MessageScope) -> dict[str, str]:
    """
    Return the tags with a value; a null becomes an empty text.

    Raises MissingField for a required tag, and the refusals and failures of rules.
    """
    filled: dict[str, str] = {}
    known = scope.known_values
    for tag, rule in rules.items():
        value = known.get(tag)
        if value is None:
            value = rule.value(scope) if rule.cached else rule.rule(scope)
        if value and value != NULL:
            filled[tag] = value if len(value) <= MAX_VALUE_CHARACTERS else shortened(tag, value)
        elif rule.required:
            raise MissingField(rule.place(scope))
        elif value:
            filled[tag] = ""
    return filled


def shortened(tag: str, value: str) -> str:
    """Cut a text to the limit of the report service, with an ellipsis."""
    longest = MAX_TEXT_CHARACTERS if tag in LONG_TEXTS else MAX_VALUE_CHARACTERS
    return value if len(value) <= longest else value[: longest - 1] + "…"
