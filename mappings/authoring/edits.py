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

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from enum import StrEnum
from itertools import pairwise

from mappings.authoring.code_entries import entry_edit
from mappings.authoring.text_edits import EditRefused, TextEdit, apply_edits
from mappings.compiler import check_sources
from mappings.language.code_tables import table_file
from mappings.language.definition_files import parse_yaml
from mappings.language.diagnostics import Diagnostics, Issue, IssueSeverity, Sources, YamlNode
from mappings.language.outline import Outline, OutlineRule, OutlineSource, outline
from mappings.language.rules import MODIFIERS, SOURCES

Tree = str | list["Tree"] | dict[str, "Tree"] | None
"""A rule as plain values; all scalars are texts."""

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
}
_TOP = ("prior_mrn", "prior_name", "only")
_WHOLE = frozenset({"row", "reply", "event", "status", "only"})
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
    writer = _Writer(text)
    own = _own(root, keys)
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
    writer = _Writer(sources[file])
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
    node = None if included is None else _own(included, keys)
    if node is None or not node.block or not isinstance(node.value, list):
        raise EditRefused(f"the segments are written in {rule.file}: change them there")
    writer = _Writer(sources[root.file])
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


def plain(node: YamlNode) -> Tree:
    """Return a node as plain values."""
    if isinstance(node.value, dict):
        return {key: plain(below) for key, below in node.value.items()}
    if isinstance(node.value, list):
        return [plain(item) for item in node.value]
    return node.value


def _keys(target: str) -> tuple[str, ...]:
    kind, _, name = target.partition(":")
    if target in _TOP:
        return (target,)
    if kind not in _PLACES or not name:
        raise EditRefused("this rule is written in YAML: change it in the text")
    return (*_PLACES[kind], name)


def _own(root: YamlNode, keys: Sequence[str]) -> YamlNode | None:
    node: YamlNode | None = root
    for key in keys:
        node = None if node is None else node.get(key)
    return node


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


_PLAIN = re.compile(r"[A-Za-z0-9$][\w$.^/+-]*(?: [\w$.^/+-]+)*")
_NOTHING = ("null", "Null", "NULL")


def written(tree: Tree) -> str:
    """Write a value on one line, as an author would do."""
    if isinstance(tree, dict):
        entries = [f"{_quoted(key)}: {written(below)}" for key, below in tree.items()]
        return f"{{{', '.join(entries)}}}"
    if isinstance(tree, list):
        return f"[{', '.join(map(written, tree))}]"
    return "null" if tree is None else _quoted(tree)


def _quoted(text: str) -> str:
    if _PLAIN.fullmatch(text) and text not in _NOTHING:
        return text
    if re.fullmatch(r"custom:[\w-]+", text):
        return text
    if "\\" not in text and '"' not in text and text.isprintable():
        return f'"{text}"'
    if "'" not in text and text.isprintable():
        return f"'{text}'"
    return json.dumps(text, ensure_ascii=False)


class _Writer:
    """Collects the edits of one text."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._edits: list[TextEdit] = []
        self._line_end = "\r\n" if "\r\n" in text else "\n"

    def edits(self) -> tuple[TextEdit, ...]:
        found = sorted(self._edits, key=lambda edit: (edit.start, edit.end))
        if any(one.end > other.start for one, other in pairwise(found)):
            raise EditRefused("the text has a form that cannot be changed here")
        return tuple(found)

    def patch(self, node: YamlNode, value: Tree) -> None:
        """Change a node to a value; the parts that are equal stay as they are written."""
        before = plain(node)
        if before == value:
            return
        if isinstance(node.value, dict) and isinstance(value, dict) and node.value:
            self._patch_mapping(node, node.value, value)
        elif isinstance(node.value, list) and isinstance(value, list) and node.value and value:
            self._patch_list(node, node.value, value)
        elif not self._wrapped(node, before, value):
            self._replace(node, value)

    def add(self, root: YamlNode, keys: Sequence[str], value: Tree) -> None:
        """Add a rule below the keys, of which the first ones may be missing."""
        node, left = root, list(keys)
        while len(left) > 1:
            below = node.get(left[0])
            if below is None or not isinstance(below.value, dict) or not below.value:
                break
            node = below
            left.pop(0)
        below = node.get(left[0]) if len(left) > 1 else None
        for key in reversed(left[1:]):
            value = {key: value}
        if below is not None:
            if below.value not in (None, {}):
                raise EditRefused(f"{left[0]} is written in a form that cannot be changed here")
            self._fill(below, value)
        else:
            self.add_entry(node, left[0], value)

    def remove(self, root: YamlNode, keys: Sequence[str]) -> None:
        parent = _own(root, keys[:-1]) if len(keys) > 1 else root
        if parent is None:
            raise EditRefused("the rule is not in this file")
        self.remove_entry(parent, keys[-1])

    def copy(self, root: YamlNode, keys: Sequence[str], lines: Sequence[str]) -> TextEdit:
        """Return the edit that adds the lines of a key, which is below the other keys."""
        node: YamlNode | None = root
        indent, heads = "", list[str]()
        for key in keys[:-1]:
            node = None if node is None else node.get(key)
            heads += [] if node is not None else [f"{indent}{key}:"]
            indent += " " * _INDENT
        if node is None or node is root:
            node, at = None, len(self._text.rstrip())
        elif not node.block or not isinstance(node.value, dict) or not node.value:
            raise EditRefused("the segments are written in a form that cannot be changed here")
        else:
            indent = " " * (node.column - 1)
            at = self._end_of_line(max(below.span[1] for below in node.value.values()))
        blank = [""] if node is None and at else []
        text = self._line_end.join([*blank, *heads, *(f"{indent}{x}" if x else "" for x in lines)])
        return TextEdit(at, at, f"{self._line_end if at else ''}{text}")

    def _fill(self, node: YamlNode, value: Tree) -> None:
        """Replace an empty value, as in `tags:`, by lines below its key."""
        start, end = node.span
        if start != end or not isinstance(value, dict):
            self._edits.append(TextEdit(start, end, written(value)))
            return
        indent = " " * (node.key[1] - 1 + _INDENT)
        lines = _lines(value, indent, _NESTED.get(node.path, 1) - 1)
        at = self._end_of_line(node.key_start)
        self._edits.append(TextEdit(at, at, "".join(f"{self._line_end}{one}" for one in lines)))

    def _patch_mapping(
        self, node: YamlNode, entries: Mapping[str, YamlNode], value: Mapping[str, Tree]
    ) -> None:
        removed = [key for key in entries if key not in value]
        added = [key for key in value if key not in entries]
        mostly_new = len(removed) == len(entries) or (added and removed and not node.block)
        if mostly_new and not self._has_comment(node):
            self._replace(node, dict(value))
            return
        for key in removed:
            self.remove_entry(node, key)
        for key, below in entries.items():
            if key in value:
                self.patch(below, value[key])
        for key in added:
            self.add_entry(node, key, value[key])

    def _patch_list(self, node: YamlNode, items: Sequence[YamlNode], value: Sequence[Tree]) -> None:
        before, after = [written(plain(item)) for item in items], list(map(written, value))
        if not node.block and not set(before) & set(after) and not self._has_comment(node):
            self._replace(node, list(value))
            return
        matcher = SequenceMatcher(None, before, after, autojunk=False)
        for word, start, end, first, last in matcher.get_opcodes():
            if word == "equal":
                continue
            if word == "replace" and end - start == last - first:
                for item, one in zip(items[start:end], value[first:last], strict=True):
                    self.patch(item, one)
            else:
                self._replace_items(node, items, (start, end), value[first:last])

    def _replace_items(
        self,
        node: YamlNode,
        items: Sequence[YamlNode],
        extent: tuple[int, int],
        value: Sequence[Tree],
    ) -> None:
        start, end = extent
        if node.block:
            self._replace_lines(items, start, end, value)
            return
        new = ", ".join(map(written, value))
        if start == end:
            at = items[start].span[0] if start < len(items) else items[-1].span[1]
            self._edits.append(TextEdit(at, at, f"{new}, " if start < len(items) else f", {new}"))
        elif new:
            self._edits.append(TextEdit(items[start].span[0], items[end - 1].span[1], new))
        elif start > 0:
            self._edits.append(TextEdit(items[start - 1].span[1], items[end - 1].span[1], ""))
        else:
            self._edits.append(TextEdit(items[0].span[0], items[end].span[0], ""))

    def _replace_lines(
        self, items: Sequence[YamlNode], start: int, end: int, value: Sequence[Tree]
    ) -> None:
        """Replace items of a block list, each with its line; the others keep their comments."""
        dash = self._dash(items[min(start, len(items) - 1)])
        line = self._start_of_line(dash)
        indent = self._text[line:dash]
        lines = [f"{' ' * len(indent)}- {written(one)}" for one in value]
        if start == len(items):
            at = self._end_of_line(items[-1].span[1])
            self._edits.append(TextEdit(at, at, "".join(f"{self._line_end}{new}" for new in lines)))
            return
        if indent.strip():  # the first item stands behind another dash
            raise EditRefused("the list is written in a form that cannot be changed here")
        stop = line
        if end > start:
            stop = self._end_of_line(items[end - 1].span[1])
            stop += len(self._line_end) if stop < len(self._text) else 0
        self._edits.append(TextEdit(line, stop, "".join(f"{new}{self._line_end}" for new in lines)))

    def _dash(self, item: YamlNode) -> int:
        at = self._text.rfind("-", 0, item.span[0])
        if self._text[at + 1 : item.span[0]].strip():
            raise EditRefused("the list is written in a form that cannot be changed here")
        return at

    def _wrapped(self, node: YamlNode, before: Tree, value: Tree) -> bool:
        """Write a list or mapping around a node that becomes a part of it."""
        if isinstance(value, dict) and value.get("from") == before:
            others = {key: below for key, below in value.items() if key != "from"}
            if node.block and isinstance(node.value, list):
                self._wrap_lines(node, node.value, others)
                return True
            head, tail = (
                "{from: ",
                "".join(f", {_quoted(k)}: {written(v)}" for k, v in others.items()),
            )
            return self._wrap(node, head, f"{tail}}}")
        if isinstance(value, list) and before in value:
            at = value.index(before)
            if node.block and isinstance(node.value, dict):
                self._itemize(node, value[:at], value[at + 1 :])
                return True
            head = "".join(f"{written(one)}, " for one in value[:at])
            tail = "".join(f", {written(one)}" for one in value[at + 1 :])
            return self._wrap(node, f"[{head}", f"{tail}]")
        return False

    def _itemize(self, node: YamlNode, before: Sequence[Tree], after: Sequence[Tree]) -> None:
        """Make the lines of a mapping an item of a list: a dash, and more indentation."""
        start, end = node.span
        indent = self._text[self._start_of_line(start) : start]
        if indent.strip():
            raise EditRefused("the rule is written in a form that cannot be changed here")
        head = "".join(f"- {written(one)}{self._line_end}{indent}" for one in before)
        self._edits.append(TextEdit(start, start, f"{head}- "))
        line = self._text.find("\n", start, end) + 1
        while line:
            if self._text[line : self._end_of_line(line)].strip():
                self._edits.append(TextEdit(line, line, " " * _INDENT))
            line = self._text.find("\n", line, end) + 1
        at = self._end_of_line(end)
        tail = "".join(f"{self._line_end}{indent}- {written(one)}" for one in after)
        self._edits.append(TextEdit(at, at, tail))

    def _wrap(self, node: YamlNode, head: str, tail: str) -> bool:
        start, end = node.span
        if node.block or self._text[start:end][:1] in ("|", ">", ""):
            return False
        text = self._text[start:end]
        if isinstance(node.value, str) and text[:1] not in "\"'":
            text = _quoted(node.value)
            self._edits.append(TextEdit(start, end, f"{head}{text}{tail}"))
            return True
        self._edits.append(TextEdit(start, start, head))
        self._edits.append(TextEdit(end, end, tail))
        return True

    def _wrap_lines(
        self, node: YamlNode, items: Sequence[YamlNode], others: Mapping[str, Tree]
    ) -> None:
        """Put `from:` before the lines of a list, which may stand below it without indentation."""
        dash = self._dash(items[0])
        indent = " " * (dash - self._start_of_line(dash))
        if self._text[self._start_of_line(dash) : dash].strip():
            raise EditRefused("the list is written in a form that cannot be changed here")
        self._edits.append(TextEdit(dash, dash, f"from:{self._line_end}{indent}"))
        at = self._end_of_line(node.span[1])
        lines = [f"{self._line_end}{indent}{_quoted(k)}: {written(v)}" for k, v in others.items()]
        self._edits.append(TextEdit(at, at, "".join(lines)))

    def _replace(self, node: YamlNode, value: Tree) -> None:
        start, end = node.span
        if node.block and self._has_comment(node) and _survives(plain(node), value):
            raise EditRefused("the rule has comments: change it in the text")
        if node.block and node.key_start and node.key[0] < node.line:
            colon = self._text.find(":", node.key_start, start)
            if colon >= 0 and not self._text[colon + 1 : start].strip():
                self._edits.append(TextEdit(colon + 1, end, f" {written(value)}"))
                return
        space = " " if start and self._text[start - 1] in ":-" else ""
        self._edits.append(TextEdit(start, end, f"{space}{written(value)}"))

    def _has_comment(self, node: YamlNode) -> bool:
        start, end = node.span
        return re.search(r"(^|\s)#", self._text[start:end]) is not None

    def add_entry(self, node: YamlNode, key: str, value: Tree) -> None:
        entries: Mapping[str, YamlNode] = node.value if isinstance(node.value, dict) else {}
        if not node.block and entries and key in SOURCES:  # the source stands first
            at = min(below.key_start for below in entries.values())
            self._edits.append(TextEdit(at, at, f"{_quoted(key)}: {written(value)}, "))
            return
        if not node.block and entries:
            at = max(below.span[1] for below in entries.values())
            self._edits.append(TextEdit(at, at, f", {_quoted(key)}: {written(value)}"))
            return
        if not entries:
            raise EditRefused("the rule is written in a form that cannot be changed here")
        indent = " " * (node.column - 1)
        last = max(entries.values(), key=lambda below: below.span[1])
        at = self._end_of_line(max(last.span[1], last.key_start))
        # A new part of the file is written in lines; a rule stands on one line.
        parts = _NESTED.get(key, 0) if not node.path else _NESTED.get(f"{node.path}.{key}", 0)
        lines = _lines({key: value}, indent, parts)
        blank = self._line_end if not node.path else ""
        self._edits.append(
            TextEdit(at, at, blank + "".join(f"{self._line_end}{one}" for one in lines))
        )

    def remove_entry(self, node: YamlNode, key: str) -> None:
        entries = node.value
        if not isinstance(entries, dict):
            raise EditRefused("the rule is not in this file")
        names = list(entries)
        at, below = names.index(key), entries[key]
        if len(names) == 1:
            raise EditRefused("the last entry cannot be removed here: change it in the text")
        if not node.block:
            if at:
                self._edits.append(TextEdit(entries[names[at - 1]].span[1], below.span[1], ""))
            else:
                self._edits.append(TextEdit(below.key_start, entries[names[1]].key_start, ""))
            return
        line = self._start_of_line(below.key_start)
        if self._text[line : below.key_start].strip():  # behind a dash
            self._edits.append(TextEdit(below.key_start, entries[names[at + 1]].key_start, ""))
            return
        stop = self._end_of_line(max(below.span[1], below.key_start))
        stop += len(self._line_end) if stop < len(self._text) else 0
        self._edits.append(TextEdit(line, stop, ""))

    def _start_of_line(self, at: int) -> int:
        return self._text.rfind("\n", 0, at) + 1

    def _end_of_line(self, at: int) -> int:
        end = self._text.find(self._line_end, at)
        return len(self._text) if end < 0 else end


_INDENT = 2
_NESTED = {
    **dict.fromkeys(("tags", "reporting_app", "order", "links", "events", "statuses"), 1),
    **dict.fromkeys(("metadata", "order_control", "visit"), 2),
    **dict.fromkeys(("metadata.values", "order_control.actions", "order_control.replies"), 1),
    "visit.values": 1,
}
"""Parts of a definition, and how many levels of them are written in lines."""


def _lines(value: Mapping[str, Tree], indent: str, levels: int) -> list[str]:
    found: list[str] = []
    for key, below in value.items():
        if levels and isinstance(below, dict):
            found.append(f"{indent}{_quoted(key)}:")
            found += _lines(below, indent + " " * _INDENT, levels - 1)
        else:
            found.append(f"{indent}{_quoted(key)}: {written(below)}")
    return found


def _survives(before: Tree, after: Tree) -> bool:
    """True if a part of a value is a part of another one, so that its comment is of interest."""
    return not set(_leaves(before)).isdisjoint(_leaves(after))


def _leaves(tree: Tree) -> Iterator[str]:
    if isinstance(tree, dict):
        for below in tree.values():
            yield from _leaves(below)
    elif isinstance(tree, list):
        for item in tree:
            yield from _leaves(item)
    elif tree is not None:
        yield tree


def _said(found: Outline, target: str) -> str:
    """Return a rule in words: `PatientMRN reads PID-2.1, else PID-3.1; required`."""
    rule = found.rule(target)
    name = target.partition(":")[2] or target
    return f"{name} has no rule" if rule is None else f"{name} {rule_words(rule)}"


def rule_words(rule: OutlineRule) -> str:
    """Return what a rule does, in words."""
    if rule.sources and rule.sources[0].kind in ("text", "condition"):
        return f"is {', '.join(source.text for source in rule.sources)}"
    parts = [_source_words(source) for source in rule.sources]
    words = f"reads {', else '.join(parts)}" if parts else "has no source"
    return "; ".join([words, *_modifier_words(rule.modifiers, rule.condition)])


def _source_words(source: OutlineSource) -> str:
    every = {"all": f"all of {source.text}", "first": f"the first {source.text}"}
    words = every.get(source.kind, source.text)
    if source.kind == "const":
        words = f"the text {source.text}"
    others = _modifier_words(source.modifiers, source.condition)
    return f"{words} ({', '.join(others)})" if others else words


def _modifier_words(modifiers: Mapping[str, str], condition: str) -> list[str]:
    words: Mapping[str, Callable[[str], str]] = {
        "as": lambda value: f"as {value}",
        "codes": lambda value: f"translated by {value}",
        "codes_back": lambda value: f"translated back by {value}",
        "unknown": lambda value: f"unknown codes: {value}",
        "extract": lambda value: f"the part that matches {value}",
        "where": lambda value: f"where {value}",
        "after": lambda value: f"after {value}",
        "default": lambda value: (
            "else the site of the listener" if value == "listener" else f"else {value}"
        ),
        "required": lambda value: "required" if value.lower() == "true" else "not required",
    }
    found = [words[key](value) for key, value in modifiers.items() if key in words]
    return [*found, *([f"only if {condition}"] if condition else [])]
