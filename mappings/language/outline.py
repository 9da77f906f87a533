"""
Outline: the rules of a definition by target, each with its place in the files, its sources and its
modifiers.

    tag:Modality  meta:Priority  app:ReturnFormat  order:control  link:study-uid  row:NW/A  only
    each:OBX  keep  echo  event:A08  prior_mrn  visit:number  visit-value:PatientClass
    report:number  report-status:F  reported
    item:PatientName  step:Modality  status  step-status:SC  steps  when
    field:patient/PID-5  field:segments/TXA-4  status:final  setting:text.layout  accept:messages

The sources of a rule are its alternatives in the order in which they are tried. A rule with one
source has all modifiers itself; of several sources, each has its own ones, and the rule has those
that apply to the chosen value. Lines and columns count from 1; the end is after the last character.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from mappings.language.definition_files import load_tree
from mappings.language.diagnostics import Diagnostics, Sources, YamlNode
from mappings.language.rules import MODIFIERS, SOURCES

FIRST_OF = "first of"
"""The kind of a list: the first source with a value."""
NOTHING = "nothing"
"""The kind of a rule without source, which has only a default."""
FORM_KINDS = frozenset({"path", "first", "all", "const", NOTHING})
"""The kinds of sources that a form can show and change."""
WRITTEN_KINDS = ("echo", "metadata", "first", "repeat", "value")
"""The kinds of mappings in the fields of an outbound definition."""


@dataclass(frozen=True, slots=True)
class OutlineSource:
    """A source of a rule. `text` names it: a path, a constant, a hook or a variable."""

    kind: str
    text: str
    file: str
    line: int
    column: int
    end_line: int
    end_column: int
    modifiers: Mapping[str, str] = field(default_factory=dict)
    """The modifiers as text, such as `as: person-name`; conditions are in `condition`."""
    condition: str = ""
    """In words: the source applies only if this holds."""
    paths: tuple[str, ...] = ()
    """The paths that the source reads, also those of its parts, without those of conditions."""
    children: tuple["OutlineSource", ...] = ()


@dataclass(frozen=True, slots=True)
class OutlineRule:
    """The rule of a target. `inherited`: it is in an included file."""

    target: str
    file: str
    line: int
    column: int
    end_line: int
    end_column: int
    sources: tuple[OutlineSource, ...]
    modifiers: Mapping[str, str]
    condition: str
    inherited: bool
    form: bool
    """Whether a form can show and change all of the rule."""
    within: tuple[str, ...] = ()
    """Of a written field: the loops and conditions around its segment, in words."""
    node: YamlNode = field(default_factory=lambda: YamlNode(None, "", 0, 0), repr=False)

    @property
    def paths(self) -> tuple[str, ...]:
        return tuple(path for source in self.sources for path in source.paths)


@dataclass(frozen=True, slots=True)
class Outline:
    """All rules of a definition, in the order of its keys; `kind` is empty if it is unknown."""

    name: str
    kind: str
    rules: tuple[OutlineRule, ...]

    def rule(self, target: str) -> OutlineRule | None:
        return next((rule for rule in self.rules if rule.target == target), None)


def outline(sources: Sources, name: str) -> Outline:
    """
    Return the outline of a definition.

    A definition with errors has the rules that can be read. Raises nothing: the compiler reports
    errors.
    """
    file = f"{name}.yaml"
    root = load_tree(sources, file, Diagnostics()) if file in sources else None
    if root is None:
        return Outline(name, "", ())
    kind = _text(root.get("kind"))
    found = [*_inbound_rules(root), *_written_rules(root), *_worklist_rules(root)]
    return Outline(name, kind, tuple(replace(rule, inherited=rule.file != file) for rule in found))


def _inbound_rules(root: YamlNode) -> Iterator[OutlineRule]:
    for place, prefix, read in _KEYED:
        for key, below in _entries(_below(root, place)):
            yield read(f"{prefix}:{key}", below)
    for place, target, read in _SINGLE:
        if (found := _below(root, place)) is not None:
            yield read(target, found)
    names: dict[str, int] = {}
    for item in _items(_below(root, "metadata.each")):
        segment = _text(item.get("segment"))
        number = names[segment] = names.get(segment, 0) + 1
        yield _each(f"each:{segment}" if number == 1 else f"each:{segment}({number})", item)


def _below(root: YamlNode, place: str) -> YamlNode | None:
    """Return the node at a place such as `metadata.values`."""
    node: YamlNode | None = root
    for key in place.split("."):
        node = None if node is None else node.get(key)
    return node


def _each(target: str, node: YamlNode) -> OutlineRule:
    """Return the rule of a key for each segment: its sources are those of the key and the value."""
    parts = [
        replace(read_source(below), kind=key)
        for key in ("key", "value")
        if (below := node.get(key)) is not None
    ]
    return _rule(target, node, parts, {}, _condition_of(node))


def _link(target: str, node: YamlNode) -> OutlineRule:
    """Return the rule of a link signal: its value, or the value in which groups may not differ."""
    on = _text(node) if isinstance(node.value, str) else _text(node.get("on")) or "true"
    below = node.get("value") or node.get("unless_differ")
    rule = outline_rule(target, below) if below is not None else _rule(target, node, (), {}, "")
    named = {"unless_differ": "true"} if node.get("unless_differ") else {}
    return replace(
        _rule(target, node, rule.sources, {**rule.modifiers, **named, "on": on}, ""),
        condition=_condition_of(node) or rule.condition,
    )


def _conditional(target: str, node: YamlNode) -> OutlineRule:
    paths = tuple(dict.fromkeys(condition_paths(node)))
    source = _source("condition", condition_words(node), node, paths=paths)
    return _rule(target, node, (source,), {}, source.text)


def _listed(target: str, node: YamlNode) -> OutlineRule:
    """Return a rule that is a text, or a list of texts or mappings of texts."""
    items = [_source("text", _in_words(item), item) for item in _items(node)]
    return _rule(target, node, items, {}, "")


def _in_words(node: YamlNode) -> str:
    if isinstance(node.value, dict):
        return ", ".join(f"{key} {_in_words(below)}" for key, below in node.value.items())
    if isinstance(node.value, list):
        return ", ".join(map(_in_words, node.value))
    return node.value or ""


def outline_rule(target: str, node: YamlNode) -> OutlineRule:
    """Return the outline of a rule of an inbound definition."""
    source = read_source(node)
    if source.kind == FIRST_OF:
        sources = source.children
    elif source.kind == NOTHING:
        sources = ()
    else:
        sources = (replace(source, modifiers={}, condition=""),)
    return _rule(target, node, sources, source.modifiers, source.condition)


def _rule(
    target: str,
    node: YamlNode,
    sources: Sequence[OutlineSource],
    modifiers: Mapping[str, str],
    condition: str,
) -> OutlineRule:
    line, column = node.key if node.key[0] else (node.line, node.column)
    form = all(source.kind in FORM_KINDS for source in sources)
    return OutlineRule(
        *(target, node.file, line, column, *node.end),
        *(tuple(sources), modifiers, condition, False, form),
        node=node,
    )


def read_source(node: YamlNode) -> OutlineSource:
    """Return the outline of a source, with the sources that it consists of."""
    if isinstance(node.value, str):
        return _source("path", node.value, node, paths=(node.value,))
    if isinstance(node.value, list):
        children = tuple(map(read_source, node.value))
        return _source(FIRST_OF, " or ".join(_texts(children)), node, children=children)
    if not isinstance(node.value, dict):
        return _source(NOTHING, "", node)
    source = _named_source(node, node.value)
    return replace(source, modifiers=_modifiers(node.value), condition=_condition_of(node))


def _named_source(node: YamlNode, entries: Mapping[str, YamlNode]) -> OutlineSource:
    kind = next((key for key in SOURCES if key in entries), NOTHING)
    below = entries.get(kind)
    if below is None:
        return _source(NOTHING, "", node)
    if kind == "from":
        inner = read_source(below)
        if inner.modifiers or inner.condition:
            inner = _source("from", inner.text, node, children=(inner,))
        return _located(inner, node)
    if kind in ("first", "all"):
        paths = tuple(filter(None, map(_text, _items(below))))
        return _source(kind, " or ".join(paths), node, paths=paths)
    if kind == "join":
        children = tuple(map(read_source, _items(below)))
        return _source(kind, " and ".join(_texts(children)), node, children=children)
    if kind == "age":
        children = tuple(read_source(inner) for _, inner in _entries(below))
        return _source(kind, " on ".join(_texts(children)), node, children=children)
    return _source(kind, _text(below), node)


def _located(source: OutlineSource, node: YamlNode) -> OutlineSource:
    line, column, end = node.line, node.column, node.end
    return replace(source, line=line, column=column, end_line=end[0], end_column=end[1])


def _source(
    kind: str,
    text: str,
    node: YamlNode,
    *,
    paths: tuple[str, ...] = (),
    children: tuple[OutlineSource, ...] = (),
) -> OutlineSource:
    paths = paths or tuple(path for child in children for path in child.paths)
    return OutlineSource(
        *(kind, text, node.file, node.line, node.column, *node.end), paths=paths, children=children
    )


def _texts(sources: Sequence[OutlineSource]) -> list[str]:
    return [
        f"({source.text})" if len(source.children or source.paths) > 1 else source.text or '""'
        for source in sources
    ]


def _modifiers(entries: Mapping[str, YamlNode]) -> dict[str, str]:
    found: dict[str, str] = {}
    for key in MODIFIERS:
        below = entries.get(key)
        if below is not None and key not in ("when", "where"):
            found[key] = _in_words(below)
    if (where := entries.get("where")) is not None:
        found["where"] = condition_words(where)
    return found


def _condition_of(node: YamlNode) -> str:
    when = node.get("when")
    return "" if when is None else condition_words(when)


def condition_words(node: YamlNode) -> str:
    """Return a condition in words: `OBR-24 is CT or MR, and IPC-1 has a value`."""
    if not isinstance(node.value, dict):
        return ""
    parts = [_field_words(key, below) for key, below in node.value.items()]
    return ", and ".join(filter(None, parts))


def _field_words(key: str, node: YamlNode) -> str:
    if key == "any":
        parts = list(filter(None, map(condition_words, _items(node))))
        return parts[0] if len(parts) == 1 else f"({', or '.join(parts)})"
    if key == "not":
        return f"not ({condition_words(node)})"
    if not isinstance(node.value, dict):
        return f"{key} is {_choice(node)}"
    tests = [_test_words(word, below) for word, below in node.value.items()]
    return " and ".join(f"{key} {test}" for test in tests)


def _test_words(word: str, node: YamlNode) -> str:
    if word in ("present", "absent"):
        is_present = (word == "present") is (_text(node).lower() not in ("false", "off", "no"))
        return "has a value" if is_present else "has no value"
    verbs = {"is": "is", "in": "is", "not": "is not", "matches": "matches"}
    return f"{verbs.get(word, word)} {_choice(node)}"


def _choice(node: YamlNode) -> str:
    texts = [_text(item) or "empty" for item in _items(node)]
    return " or ".join(texts) or "empty"


def condition_paths(node: YamlNode) -> Iterator[str]:
    """Yield the paths or variables that a condition reads."""
    for key, below in _entries(node):
        if key == "any":
            for item in _items(below):
                yield from condition_paths(item)
        elif key == "not":
            yield from condition_paths(below)
        else:
            yield key


def _written_rules(root: YamlNode) -> Iterator[OutlineRule]:
    """Yield the fields, codes and settings of an outbound definition."""
    if root.get("segments") is None and root.get("statuses") is None:
        return
    for key, below in _entries(root.get("statuses")):
        yield _listed(f"status:{key}", below)
    for key in ("orders", "version", "interpreter", "times", "content"):
        if (setting := root.get(key)) is not None:
            yield _listed(f"setting:{key}", setting)
    for key in ("text", "metadata"):
        for name, below in _entries(root.get(key)):
            yield _listed(f"setting:{key}.{name}", below)
    targets: dict[str, int] = {}
    items = [("segments", root.get("segments")), *_entries(root.get("parts"))]
    for part, node in items:
        for rule in _items_of(part, node, ()):
            number = targets[rule.target] = targets.get(rule.target, 0) + 1
            yield rule if number == 1 else replace(rule, target=f"{rule.target}({number})")


def _worklist_rules(root: YamlNode) -> Iterator[OutlineRule]:
    """Yield the rules of a definition of worklist items."""
    for place in ("item", "step"):
        for keyword, below in _entries(root.get(place)):
            yield _written_rule(f"{place}:{keyword}", below)
    if (status := root.get("status")) is not None:
        yield _written_rule("status", status)
    for code, below in _entries(root.get("step_status")):
        yield _listed(f"step-status:{code}", below)
    if (steps := root.get("steps")) is not None:
        yield _listed("steps", steps)
    if (when := root.get("when")) is not None:
        yield _conditional("when", when)


def _written_rule(target: str, node: YamlNode) -> OutlineRule:
    source = read_written(node)
    alternatives = source.children if source.kind == FIRST_OF else (source,)
    outer = source.modifiers if source.kind == FIRST_OF else {}
    rule = _rule(target, node, alternatives, outer, "")
    return replace(rule, condition=_condition_of(node), form=False)


def _items_of(part: str, node: YamlNode | None, within: tuple[str, ...]) -> Iterator[OutlineRule]:
    for item in _items(node):
        around = within
        if (each := _text(item.get("each"))) != "":
            around = (*around, f"for each of {each}")
        if condition := _condition_of(item):
            around = (*around, f"if {condition}")
        for key, below in _entries(item):
            if key == "segments":
                yield from _items_of(part, below, around)
            elif key not in ("each", "when"):
                yield from _segment(part, key, below, around)


def _segment(
    part: str, name: str, node: YamlNode, within: tuple[str, ...]
) -> Iterator[OutlineRule]:
    if not isinstance(node.value, dict):
        rule = _listed(f"field:{part}/{name}", node)
        sources = [
            replace(source, kind=name if name == "use" else "echo") for source in rule.sources
        ]
        target = f"use:{part}/{_text(node)}" if name == "use" else rule.target
        yield replace(rule, target=target, sources=tuple(sources), within=within)
        return
    for number, below in node.value.items():
        rule = _written_rule(f"field:{part}/{name}-{number}", below)
        yield replace(rule, within=within)


def read_written(node: YamlNode) -> OutlineSource:
    """Return the outline of the value of a field that an outbound definition writes."""
    if isinstance(node.value, list):
        children = tuple(map(read_written, node.value))
        return _source("components", ", ".join(_texts(children)), node, children=children)
    if not isinstance(node.value, dict):
        text = _text(node)
        kind = "variable" if text.startswith("$") else "const"
        return _source(kind, text, node)
    kind = next((key for key in WRITTEN_KINDS if key in node.value), NOTHING)
    if kind == NOTHING and any(key[:1].isupper() for key in node.value):  # an item of a sequence
        parts = [(key, below) for key, below in node.value.items() if key[:1].isupper()]
        children = tuple(replace(read_written(below), kind=key) for key, below in parts)
        return _source("item", ", ".join(_texts(children)), node, children=children)
    others = {key: below for key, below in node.value.items() if key not in (kind, "when")}
    modifiers = {key: _in_words(below) for key, below in others.items()}
    below = node.value.get(kind)
    if below is None:
        source = _source(NOTHING, "", node)
    elif kind == "echo":
        source = _source(kind, _text(below), node, paths=(_text(below),))
    elif kind == "metadata":
        source = _source(kind, " or ".join(map(_text, _items(below))), node)
    elif kind == "value":
        source = _located(read_written(below), node)
    else:
        children = tuple(map(read_written, _items(below)))
        words = " or ".join(_texts(children))
        source = _source(FIRST_OF if kind == "first" else kind, words, node, children=children)
    return replace(
        source, modifiers={**source.modifiers, **modifiers}, condition=_condition_of(node)
    )


def _entries(node: YamlNode | None) -> list[tuple[str, YamlNode]]:
    if node is None or not isinstance(node.value, dict):
        return []
    return list(node.value.items())


def _items(node: YamlNode | None) -> list[YamlNode]:
    if node is None or node.value is None:
        return []
    return node.value if isinstance(node.value, list) else [node]


def _text(node: YamlNode | None) -> str:
    return node.value if node is not None and isinstance(node.value, str) else ""


_KEYED = (
    ("accept", "accept", _listed),
    ("tags", "tag", outline_rule),
    ("metadata.values", "meta", outline_rule),
    ("reporting_app", "app", outline_rule),
    ("order", "order", outline_rule),
    ("order_control.actions", "row", _listed),
    ("order_control.replies", "reply", _listed),
    ("links", "link", _link),
    ("events", "event", _listed),
    ("report", "report", outline_rule),
    ("report_status", "report-status", _listed),
    ("visit.values", "visit-value", outline_rule),
)
"""Places whose entries are rules: the prefix of their targets, and the function that reads one."""
_SINGLE = (
    ("only", "only", _conditional),
    ("metadata.keep", "keep", _listed),
    ("echo", "echo", _listed),
    ("prior_mrn", "prior_mrn", outline_rule),
    ("prior_name", "prior_name", outline_rule),
    ("reported", "reported", _conditional),
    ("visit.number", "visit:number", outline_rule),
    ("visit.prior", "visit:prior", outline_rule),
)
"""Places of one rule."""
