"""
Rule edits: a change of one rule, made in a form, becomes edits of the author's text.

The edits change what differs and keep the rest: comments, order, quotes and line breaks. They are
offsets in the text as it was given. A rule of an included file is not changed there: the
definition gets a rule of its own, which replaces the included one. A field that an outbound
definition writes is part of a list, which cannot be replaced in parts: the definition gets a copy
of the whole list, with its comments.

After an edit the text is read again. If it does not have exactly the changed rule, or if the
definition has an error that it did not have before, the edit is refused.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from mappings.authoring.code_entries import entry_edit
from mappings.authoring.rule_words import rule_words
from mappings.authoring.text_edits import EditRefused, TextEdit, apply_edits
from mappings.authoring.yaml_writing import Tree, YamlWriter, node_at, plain
from mappings.compiler import check_sources
from mappings.language.code_tables import table_file
from mappings.language.definition_files import parse_yaml
from mappings.language.diagnostics import Diagnostics, Issue, IssueSeverity, Sources, YamlNode
from mappings.language.outline import Outline, OutlineRule, outline
from mappings.language.rules import MODIFIERS, SOURCES

MAX_EDITED_CHARACTERS = 200_000
_MAX_DEPTH = 20


@dataclass(frozen=True, slots=True)
class RuleEdit:
    """The edits of one file, in order and without overlap; the rule in words; its new warnings."""

    file: str
    edits: tuple[TextEdit, ...]
    said: str
    issues: tuple[Issue, ...] = ()


class Position(StrEnum):
    FIRST = "first"
    FALLBACK = "fallback"
    ONLY = "only"


@dataclass(frozen=True, slots=True)
class SetRule:
    """Replace a rule, or add it; None removes the definition's own rule."""

    rule: Tree


@dataclass(frozen=True, slots=True)
class AddSource:
    """Add a source before or after all others, or instead of them."""

    source: Tree
    position: Position = Position.FALLBACK


@dataclass(frozen=True, slots=True)
class SetSource:
    """Write a source anew (counted from 0); its modifiers are part of it."""

    number: int
    source: Tree


@dataclass(frozen=True, slots=True)
class RemoveSource:
    number: int


@dataclass(frozen=True, slots=True)
class MoveSource:
    """Move a source to another position, both counted from 0."""

    number: int
    to: int


@dataclass(frozen=True, slots=True)
class SetModifier:
    """Set a modifier of the rule, or of one source (counted from 0); None removes it."""

    modifier: str
    value: Tree
    source: int | None = None


@dataclass(frozen=True, slots=True)
class SetCode:
    """Set the value of a code in the table of the target `codes:NAME`; None removes the entry."""

    code: str
    value: str | None


@dataclass(frozen=True, slots=True)
class Together:
    """Changes of one rule that are one edit, made in this order."""

    changes: tuple["RuleChange", ...]


RuleChange = SetRule | AddSource | SetSource | RemoveSource | MoveSource | SetModifier
Change = RuleChange | SetCode | Together

_PLACES = {
    "tag": ("tags",),
    "meta": ("metadata", "values"),
    "app": ("reporting_app",),
    "order": ("order",),
    "row": ("order_control", "actions"),
    "reply": ("order_control", "replies"),
    "link": ("links",),
    "event": ("events",),
    "visit": ("visit",),
    "visit-value": ("visit", "values"),
    "status": ("statuses",),
    "report": ("report",),
    "report-status": ("report_status",),
    "item": ("item",),
    "step": ("step",),
    "step-status": ("step_status",),
}
_TOP = ("prior_mrn", "prior_name", "only", "reported", "steps", "when")
_WHOLE = frozenset({"row", "reply", "event", "status", "report-status", "only", "reported"}) | {
    *("item", "step", "step-status", "steps", "when")
}
"""Targets that are no rules with sources: they are set as a whole."""
_WHOLE_OR_LINK = _WHOLE | {"link"}
_FIELD = "field:"


def edit_rule(sources: Sources, name: str, target: str, change: Change) -> RuleEdit:
    """Change the rule of a target in the files of a definition. Raises EditRefused."""
    if isinstance(change, SetCode):
        return _edit_table(sources, name, target, change)
    file = f"{name}.yaml"
    text = sources.get(file, "")
    if len(text) > MAX_EDITED_CHARACTERS:
        raise EditRefused("the file is too long to be changed by a form")
    root = parse_yaml(text, file, Diagnostics())
    if root is None or not isinstance(root.value, dict):
        raise EditRefused("the file has errors: correct them first")
    edited = _edit_field if target.startswith(_FIELD) else _edit_entry
    edits = edited(sources, root, target, change)
    after = {**sources, file: apply_edits(text, edits)}
    return RuleEdit(
        file, edits, _said(outline(after, name), target), _new_issues(sources, after, name)
    )


def _edit_entry(
    sources: Sources, root: YamlNode, target: str, change: Change
) -> tuple[TextEdit, ...]:
    """Return the edits that change a rule with a key of its own."""
    file, text, keys = root.file, sources[root.file], _keys(target)
    rule = outline(sources, file.removesuffix(".yaml")).rule(target)
    before = plain(rule.node) if rule is not None else None
    after = _apply(before, change, target)
    writer = YamlWriter(text)
    own = node_at(root, keys)
    if after is None:
        if own is None:
            raise EditRefused("the definition has no rule of its own for this target")
        writer.remove(root, keys)
    elif own is None:
        writer.add(root, keys, after)
    else:
        writer.patch(own, after)
    edits = writer.edits()
    expected = plain(root)
    _set(expected, keys, after)
    _require_exact(apply_edits(text, edits), file, expected)
    return edits


def _edit_field(
    sources: Sources, root: YamlNode, target: str, change: Change
) -> tuple[TextEdit, ...]:
    """Return the edits that change a field that an outbound definition writes."""
    file = root.file
    found = outline(sources, file.removesuffix(".yaml"))
    number, near = _field_number(found, target)
    if near.inherited:
        edit = _copy_of_part(sources, root, near)
        text = apply_edits(sources[file], [edit])
        copied = parse_yaml(text, file, Diagnostics())
        if copied is None:
            raise EditRefused("the segments have a form that cannot be copied: copy the text")
        inner = _edit_field({**sources, file: text}, copied, target, change)
        end = edit.start + len(edit.insert)
        if any(one.start < edit.start or one.end > end for one in inner):
            raise EditRefused("the segments have a form that cannot be copied: copy the text")
        shifted = [TextEdit(x.start - edit.start, x.end - edit.start, x.insert) for x in inner]
        return (TextEdit(edit.start, edit.end, apply_edits(edit.insert, shifted)),)
    segment = _holder(root, near.node)
    if segment is None:
        raise EditRefused("the segment is written in a form that cannot be changed here")
    node = segment.get(number)
    before = None if node is None else plain(node)
    after = _apply(before, change, target)
    writer = YamlWriter(sources[file])
    expected: Tree
    if node is not None and after is not None:
        writer.patch(node, after)
        expected = _with_node(root, node, after)
    elif node is not None:
        writer.remove_entry(segment, number)
        expected = _with_node(root, segment, _with_key(_entries(segment), number, None))
    elif after is not None:
        writer.add_entry(segment, number, after)
        expected = _with_node(root, segment, {**_entries(segment), number: after})
    else:
        raise EditRefused("the definition has no rule of its own for this target")
    edits = writer.edits()
    _require_exact(apply_edits(sources[file], edits), file, expected)
    return edits


def _field_number(found: Outline, target: str) -> tuple[str, OutlineRule]:
    """Return the number of a field, and its rule, or one of another field of its segment."""
    name = re.fullmatch(r"(field:.+-)(\d+)(?:\(\d+\))?", target)
    if name is None:
        raise EditRefused("this rule is written in YAML: change it in the text")
    near = found.rule(target) or next(
        (rule for rule in found.rules if rule.target.startswith(name[1])), None
    )
    if near is None:
        raise EditRefused("the definition writes no such segment")
    return name[2], near


def _holder(node: YamlNode, wanted: YamlNode) -> YamlNode | None:
    """Return the mapping that has a node, found by its place in the text."""
    below: Sequence[YamlNode] = node.value if isinstance(node.value, list) else ()
    if isinstance(node.value, dict):
        if any(one.span == wanted.span and one.key == wanted.key for one in node.value.values()):
            return node
        below = tuple(node.value.values())
    return next(filter(None, (_holder(one, wanted) for one in below)), None)


def _copy_of_part(sources: Sources, root: YamlNode, rule: OutlineRule) -> TextEdit:
    """Return the edit that copies the list around a field from the included file."""
    part = rule.target.removeprefix(_FIELD).rpartition("/")[0]
    keys = ("segments",) if part == "segments" else ("parts", part)
    text = sources[rule.file]
    included = parse_yaml(text, rule.file, Diagnostics())
    node = None if included is None else node_at(included, keys)
    if node is None or not node.block or not isinstance(node.value, list):
        raise EditRefused(f"the segments are written in {rule.file}: change them there")
    writer = YamlWriter(sources[root.file])
    indent = " " * (node.key[1] - 1)
    end = text.find("\n", node.span[1])
    block = text[node.key_start : len(text) if end < 0 else end].rstrip()
    lines = [line.removeprefix(indent).rstrip() for line in block.splitlines()]
    return writer.copy(root, keys, lines)


def _edit_table(sources: Sources, name: str, target: str, change: SetCode) -> RuleEdit:
    """Return the edit of one entry of a code table."""
    kind, _, table = target.partition(":")
    file = table_file(table)
    if kind != "codes" or file not in sources:
        raise EditRefused("there is no such code table")
    edits = entry_edit(sources[file], change.code, change.value)
    after = {**sources, file: apply_edits(sources[file], edits)}
    value = "has no entry" if change.value is None else f"gives {change.value or 'nothing'}"
    said = f"{table}: {change.code} {value}"
    return RuleEdit(file, edits, said, _new_issues(sources, after, name))


def _keys(target: str) -> tuple[str, ...]:
    kind, _, name = target.partition(":")
    if target in _TOP:
        return (target,)
    if kind not in _PLACES or not name:
        raise EditRefused("this rule is written in YAML: change it in the text")
    return (*_PLACES[kind], name)


def _require_exact(text: str, file: str, expected: Tree) -> None:
    """Refuse an edit whose text does not have the changed rule and all others unchanged."""
    after = parse_yaml(text, file, Diagnostics())
    if after is None or _normal(plain(after)) != _normal(expected):
        raise EditRefused("the text has a form that cannot be changed here: change it in the text")


def _set(tree: Tree, keys: Sequence[str], rule: Tree) -> None:
    for key in keys[:-1]:
        if not isinstance(tree, dict):
            return
        if tree.get(key) is None:
            tree[key] = {}
        tree = tree[key]
    if isinstance(tree, dict):
        if rule is None:
            tree.pop(keys[-1], None)
        else:
            tree[keys[-1]] = rule


def _entries(node: YamlNode) -> dict[str, Tree]:
    tree = plain(node)
    return tree if isinstance(tree, dict) else {}


def _with_node(root: YamlNode, node: YamlNode, value: Tree) -> Tree:
    """Return a tree as plain values, with a value in place of one node."""
    if root is node:
        return value
    if isinstance(root.value, dict):
        return {key: _with_node(below, node, value) for key, below in root.value.items()}
    if isinstance(root.value, list):
        return [_with_node(item, node, value) for item in root.value]
    return root.value


def _normal(tree: Tree) -> Tree:
    """Return a tree in which an empty mapping, list or text is nothing."""
    if isinstance(tree, dict):
        return {key: _normal(below) for key, below in tree.items()} or None
    if isinstance(tree, list):
        return [_normal(item) for item in tree] or None
    return tree


def _new_issues(before: Sources, after: Sources, name: str) -> tuple[Issue, ...]:
    """Return the warnings that are new after an edit. Raises EditRefused if it adds an error."""
    known = {
        (issue.path, issue.code, issue.message)
        for issue in check_sources(before, [name], tables=False)
    }
    found = tuple(
        issue
        for issue in check_sources(after, [name], tables=False)
        if (issue.path, issue.code, issue.message) not in known
    )
    errors = [issue for issue in found if issue.severity is IssueSeverity.ERROR]
    if errors:
        raise EditRefused("the definition would have an error", errors)
    return found


def _apply(rule: Tree, change: Change, target: str) -> Tree:
    """Return a rule after a change."""
    for one in change.changes if isinstance(change, Together) else (change,):
        if isinstance(one, SetRule):
            rule = _texts(one.rule)
        elif isinstance(one, SetCode):
            raise EditRefused("an entry of a code table is no part of a rule")
        elif target.startswith(_FIELD):
            rule = _changed_field(rule, one)
        else:
            rule = _changed_entry(rule, one, target.partition(":")[0])
    return rule


def _changed_entry(rule: Tree, change: RuleChange, kind: str) -> Tree:
    if kind in _WHOLE:
        raise EditRefused("this row is set as a whole")
    return _apply_to_link(rule, change) if kind == "link" else changed(rule, change)


def _apply_to_link(rule: Tree, change: RuleChange) -> Tree:
    """Change a link signal: `on` and `when` are its own, its sources are those of its value."""
    entry: dict[str, Tree] = rule if isinstance(rule, dict) else {"on": rule} if rule else {}
    if isinstance(change, SetModifier) and change.modifier in ("on", "when"):
        return _with_key(entry, change.modifier, _texts(change.value))
    return {**entry, "value": changed(entry.get("value"), change)}


def changed(rule: Tree, change: RuleChange) -> Tree:
    """Return a rule with sources after a change. Raises EditRefused."""
    found = _sources(rule)
    if isinstance(change, AddSource):
        source = _texts(change.source)
        if change.position is Position.ONLY:
            return _only(rule, source)
        return _with_sources(rule, _added(found, source, change.position))
    if isinstance(change, SetModifier):
        return _with_modifier(rule, found, change)
    if isinstance(change, SetSource) and len(found) == 1 and change.number == 0:
        return _with_only_source(rule, _texts(change.source))
    if isinstance(change, SetSource | RemoveSource | MoveSource):
        found = _arranged(found, change)
        if not found and not (isinstance(rule, dict) and "default" in rule):
            raise EditRefused("a rule needs a source: remove the rule instead")
        return _with_sources(rule, found)
    return rule


def _added(found: Sequence[Tree], source: Tree, position: Position) -> list[Tree]:
    return [source, *found] if position is Position.FIRST else [*found, source]


def _arranged(found: Sequence[Tree], change: SetSource | RemoveSource | MoveSource) -> list[Tree]:
    """Return sources after one is written anew, removed or moved."""
    sources = list(found)
    if not 0 <= change.number < len(sources):
        raise EditRefused("the rule has no such source")
    moved = sources.pop(change.number)
    if isinstance(change, SetSource):
        sources.insert(change.number, _texts(change.source))
    elif isinstance(change, MoveSource):
        sources.insert(change.to, moved)
    return sources


def _with_only_source(rule: Tree, source: Tree) -> Tree:
    """Return a rule whose only source is another one; the rule keeps its modifiers."""
    if not isinstance(rule, dict):
        return [source] if isinstance(rule, list) else source
    if "from" in rule:
        inner: Tree = [source] if isinstance(rule["from"], list) else source
        if isinstance(inner, dict) and not set(inner) & set(rule) - {"from"}:
            return {**inner, **{key: below for key, below in rule.items() if key != "from"}}
        return {**rule, "from": inner}
    others = {key: below for key, below in rule.items() if key not in SOURCES}
    return {**(source if isinstance(source, dict) else {"from": source}), **others}


def _changed_field(rule: Tree, change: RuleChange) -> Tree:
    """Return the rule of a field that an outbound definition writes after a change."""
    found = written_sources(rule)
    if isinstance(change, AddSource):
        source = _texts(change.source)
        only = change.position is Position.ONLY or not found
        return source if only else _with_written(rule, _added(found, source, change.position))
    if isinstance(change, SetModifier):
        if change.source is None:
            return _with_written_modifier(rule, change)
        if not 0 <= change.source < len(found):
            raise EditRefused("the rule has no such source")
        found[change.source] = _with_written_modifier(found[change.source], change)
    elif isinstance(change, SetSource | RemoveSource | MoveSource):
        found = _arranged(found, change)
    if not found:
        raise EditRefused("a field needs a source: remove the rule instead")
    return _with_written(rule, found)


def written_sources(rule: Tree) -> list[Tree]:
    """Return the alternatives of a written field, as the outline lists them."""
    if rule is None:
        return []
    first = rule.get("first") if isinstance(rule, dict) else None
    return list(first) if isinstance(first, list) else [rule]


def _with_written(rule: Tree, found: list[Tree]) -> Tree:
    if isinstance(rule, dict) and "first" in rule:
        return {**rule, "first": found}
    return found[0] if len(found) == 1 else {"first": found}


_CODED = ("codes", "codes_back", "unknown")


def _with_written_modifier(tree: Tree, change: SetModifier) -> Tree:
    """Set a modifier of a written value; only `value` has code tables."""
    is_mapping = isinstance(tree, dict) and (change.modifier not in _CODED or "value" in tree)
    entry: dict[str, Tree] = tree if is_mapping and isinstance(tree, dict) else {"value": tree}
    changed_entry = _with_key(entry, change.modifier, _texts(change.value))
    return changed_entry["value"] if list(changed_entry) == ["value"] else changed_entry


def rule_parts(rule: OutlineRule) -> tuple[list[Tree], dict[str, Tree]]:
    """
    Return the sources and the modifiers of a rule as plain values.

    The sources are counted as changes count them. The modifiers of the only source of an inbound
    rule are those of the rule.
    """
    tree = plain(rule.node)
    if rule.target.startswith(_FIELD):
        entries = tree if isinstance(tree, dict) and "first" in tree else {}
        return written_sources(tree), {k: below for k, below in entries.items() if k != "first"}
    if rule.target.partition(":")[0] in _WHOLE_OR_LINK:
        return [], {}
    found = _sources(tree)
    if not isinstance(tree, dict):
        return found, {}
    if len(found) == 1 and "from" not in tree and isinstance(found[0], dict):
        found = [{key: below for key, below in found[0].items() if key in SOURCES}]
    return found, {key: below for key, below in tree.items() if key not in SOURCES}


def _with_modifier(rule: Tree, found: list[Tree], change: SetModifier) -> Tree:
    if change.modifier not in MODIFIERS:
        raise EditRefused(f"there is no modifier {change.modifier}")
    value = _texts(change.value)
    if change.source is None:
        entry = rule if isinstance(rule, dict) else {"from": rule}
        return _with_key(entry, change.modifier, value)
    if not 0 <= change.source < len(found):
        raise EditRefused("the rule has no such source")
    source = found[change.source]
    entry = source if isinstance(source, dict) else {"from": source}
    found[change.source] = _with_key(entry, change.modifier, value)
    return _with_sources(rule, found)


def _with_key(entry: Mapping[str, Tree], key: str, value: Tree) -> dict[str, Tree]:
    if value is None:
        return {name: below for name, below in entry.items() if name != key}
    return {**entry, key: value}


def _sources(rule: Tree) -> list[Tree]:
    """Return the alternatives of a rule, as the outline lists them."""
    if rule is None:
        return []
    if isinstance(rule, list):
        return list(rule)
    if isinstance(rule, str):
        return [rule]
    if "from" in rule:
        return _sources(rule["from"]) if isinstance(rule["from"], list) else [rule["from"]]
    inner = {key: below for key, below in rule.items() if key not in _OF_RULE}
    return [inner] if any(key in rule for key in SOURCES) else []


_OF_RULE = ("required", "default")
"""Modifiers that stay with the rule if it gets a second source."""


def _with_sources(rule: Tree, found: list[Tree]) -> Tree:
    """Return a rule with other alternatives, in the form that it has."""
    only = found[0] if len(found) == 1 else found
    if not isinstance(rule, dict):
        return found if isinstance(rule, list) else only
    if "from" in rule:
        return {**rule, "from": found if isinstance(rule["from"], list) else only}
    others = {key: below for key, below in rule.items() if key in _OF_RULE}
    if not any(key in rule for key in SOURCES):  # it has a default only
        return {"from": only, **rule}
    if len(found) == 1 and isinstance(found[0], dict):
        return {**found[0], **others}
    return {"from": only, **others} if others else only


def _only(rule: Tree, source: Tree) -> Tree:
    """Return a rule with one source, which keeps `required` and the default."""
    others = {key: rule[key] for key in _OF_RULE if key in rule} if isinstance(rule, dict) else {}
    if not others:
        return source
    return {**(source if isinstance(source, dict) else {"from": source}), **others}


def _said(found: Outline, target: str) -> str:
    """Return a rule in words: `PatientMRN reads PID-2.1, else PID-3.1; required`."""
    rule = found.rule(target)
    name = target.partition(":")[2] or target
    return f"{name} has no rule" if rule is None else f"{name} {rule_words(rule)}"


def _texts(tree: object, depth: int = 0) -> Tree:
    """Return values of JSON as texts. Raises EditRefused."""
    if tree is None or isinstance(tree, str):
        return tree
    if isinstance(tree, bool):
        return "true" if tree else "false"
    if isinstance(tree, int):
        return str(tree)
    if depth >= _MAX_DEPTH:
        raise EditRefused("the rule is nested too deep")
    if isinstance(tree, list):
        return [_texts(item, depth + 1) for item in tree]
    if isinstance(tree, Mapping):
        return {str(key): _texts(below, depth + 1) for key, below in tree.items()}
    raise EditRefused("a rule consists of texts, lists and mappings")
