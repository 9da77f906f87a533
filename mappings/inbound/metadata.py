"""
Metadata: the open-ended part of clinicalInfo.

`values` has a rule for each key, `each` creates a key for each segment of a name, and `keep` stores
whole segments (`Z*`) as sent.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from mappings.hl7.elements import NULL
from mappings.language.accessors import SEGMENTS
from mappings.language.conditions import Condition, compile_condition
from mappings.language.context import CompilationContext
from mappings.language.diagnostics import Diagnostics, YamlNode
from mappings.language.rules import Rule, compile_rule, separator_of
from mappings.language.scope import MessageScope


@dataclass(frozen=True, slots=True)
class SegmentSelection:
    names: frozenset[str] = frozenset()
    beginnings: tuple[str, ...] = ()

    def has(self, name: str) -> bool:
        return name in self.names or name.startswith(self.beginnings)


def compile_selection(nodes: Sequence[YamlNode], diagnostics: Diagnostics) -> SegmentSelection:
    """Read a list of segment names; a star at the end makes a prefix."""
    names, beginnings = set(), []
    for node in nodes:
        text = diagnostics.read_text(node)
        if text.endswith("*"):
            beginnings.append(text[:-1])
        else:
            names.add(segment_name(node, diagnostics))
    return SegmentSelection(frozenset(names), tuple(beginnings))


def segment_name(node: YamlNode, diagnostics: Diagnostics) -> str:
    """Read the name of a segment: one of the standard, or a Z segment."""
    text = diagnostics.read_text(node)
    if text not in SEGMENTS and not text.startswith("Z"):
        diagnostics.unknown(node, "segment", text, SEGMENTS)
    return text


MAX_METADATA_BYTES = 60_000
"""Bytes of JSON that the report service accepts in Metadata, with a reserve."""
OMITTED = "MetadataOmitted"
_RESERVED = 2_000  # bytes for the list of omitted keys
_MAX_CHARACTER_BYTES = 8  # bytes of JSON for a character, with a share for its key

MAX_UNCHECKED_CHARACTERS = MAX_METADATA_BYTES // _MAX_CHARACTER_BYTES
"""Metadata with fewer characters fits in any case, and needs no exact computation."""

KEYS = ("values", "each", "keep")
EACH_KEYS = ("segment", "key", "value", "when")


@dataclass(frozen=True, slots=True)
class SegmentKeyRule:
    segment: str
    key: Rule
    value: Rule
    condition: Condition | None

    def fill(self, scope: MessageScope, filled: dict[str, str]) -> None:
        """Add the keys of all segments. Equal keys are numbered. A null becomes an empty text."""
        numbers: dict[str, int] = {}
        for position in scope.all_positions(self.segment):
            one = scope.single(position)
            if self.condition is not None and not self.condition(one):
                continue
            key, value = self.key(one), self.value(one)
            if key in ("", NULL) or not value:
                continue
            name = key
            while name in filled:  # keys may repeat without limit
                numbers[key] = numbers.get(key, 0) + 1
                name = f"{key} ({numbers[key] + 1})"
            filled[name] = "" if value == NULL else value


@dataclass(frozen=True, slots=True)
class MetadataRules:
    """The `metadata:` part of an orders definition."""

    values: dict[str, Rule]
    each: tuple[SegmentKeyRule, ...]
    keep: SegmentSelection
    lists: Mapping[str, str] = field(default_factory=dict)
    """Keys whose values are `distinct`, with their separators."""

    def fill(self, scope: MessageScope) -> dict[str, str]:
        """Return the Metadata of a group. A null becomes an empty text."""
        filled: dict[str, str] = {}
        for key, rule in self.values.items():
            value = rule(scope)
            if value:
                filled[key] = "" if value == NULL else value
        for each in self.each:
            each.fill(scope, filled)
        names, kept = scope.message.names, dict[str, list[str]]()
        for position in scope.select_positions(self.keep.has):
            kept.setdefault(names[position], []).append(scope.message.lines.text(position))
        for name, lines in kept.items():
            before = [filled[name]] if name in filled else []
            filled[name] = "\n".join([*before, *lines])
        return within_limit(filled)


def within_limit(filled: dict[str, str]) -> dict[str, str]:
    """Drop keys that exceed the limit of the report service, and list them in `MetadataOmitted`."""
    characters = len("".join(filled)) + len("".join(filled.values()))
    if characters < MAX_UNCHECKED_CHARACTERS:
        return filled
    kept, left_out, size = {}, [], _RESERVED
    for key, value in filled.items():
        entry_size = len(json.dumps({key: value}, ensure_ascii=False).encode())
        if size + entry_size > MAX_METADATA_BYTES:
            left_out.append(key)
        else:
            kept[key] = value
            size += entry_size
    if left_out:
        kept[OMITTED] = ", ".join(left_out)[: _RESERVED // _MAX_CHARACTER_BYTES]
    return kept


def compile_metadata(node: YamlNode | None, context: CompilationContext) -> MetadataRules:
    """Read `metadata:`."""
    if node is None:
        return MetadataRules({}, (), SegmentSelection())
    entries = context.diagnostics.read_mapping(node, KEYS)
    values = context.diagnostics.read_mapping(entries["values"]) if "values" in entries else {}
    each = context.diagnostics.read_items(entries["each"]) if "each" in entries else []
    keep = context.diagnostics.read_items(entries["keep"]) if "keep" in entries else []
    return MetadataRules(
        {key: compile_rule(below, context) for key, below in values.items()},
        tuple(found for item in each if (found := _each(item, context)) is not None),
        compile_selection(keep, context.diagnostics),
        {
            key: separator_of(below.value, context)
            for key, below in values.items()
            if isinstance(below.value, dict) and "distinct" in below.value
        },
    )


def _each(node: YamlNode, context: CompilationContext) -> SegmentKeyRule | None:
    entries = context.diagnostics.read_mapping(node, EACH_KEYS)
    missing = [key for key in EACH_KEYS[:3] if key not in entries]
    if missing:
        context.diagnostics.error(node, "metadata", f"each needs {', '.join(missing)}")
        return None
    condition = None
    if "when" in entries:
        condition = compile_condition(entries["when"], context.diagnostics)
    return SegmentKeyRule(
        segment_name(entries["segment"], context.diagnostics),
        compile_rule(entries["key"], context),
        compile_rule(entries["value"], context),
        condition,
    )
