"""
Definition files: YAML to nodes, includes merged, settings of a destination overlaid.

Authors of definitions may be untrusted, so `parsers.limits` bounds the cost of a document:
characters, tokens, depth, and the nodes that aliases (`*name`) create. Sources are texts; no file
is read here.

The settings of a destination become a definition that includes another one. It is compiled, checked
and hashed like any definition.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from io import StringIO
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError
from ruamel.yaml.nodes import MappingNode, ScalarNode, SequenceNode
from ruamel.yaml.reader import ReaderError
from ruamel.yaml.scanner import RoundTripScanner, ScannerError
from typing_extensions import override

from mappings.language.diagnostics import Diagnostics, Issue, Sources, YamlNode
from parsers.limits import YAML as LIMITS
from parsers.limits import YAML_TOKENS

_TOO_DEEP = f"nested deeper than {LIMITS.depth} levels"
UNREADABLE = "\ufffd"
"""The replacement character of bytes that are not UTF-8."""
_MAX_CACHED = 64  # files
_TEXT_IN_LINES = ("|", ">")
_OPENING, _CLOSING = "\u201c\u201d\u201e\u2018\u201a", "\u201c\u201d\u2018\u2019"
"""Quotes as word processors write them, double and single."""


def parse_yaml(text: str, file: str, diagnostics: Diagnostics) -> YamlNode | None:
    """Parse one YAML document. Syntax errors and duplicate keys are reported."""
    tree, issues = _parsed(text, file)
    diagnostics.add_all(issues)
    return tree


def warn_if_not_utf8(text: str, file: str, diagnostics: Diagnostics) -> None:
    """Report the first byte that is not UTF-8. Reports would show its replacement character."""
    if UNREADABLE in text:
        message = "bytes that are no UTF-8: save the file as UTF-8"
        diagnostics.warn(_place(text, text.index(UNREADABLE), file), "utf-8", message)


@lru_cache(maxsize=_MAX_CACHED)
def _parsed(text: str, file: str) -> tuple[YamlNode | None, tuple[Issue, ...]]:
    """Parse and cache a document, because parsing takes most of the time of a compilation."""
    diagnostics = Diagnostics()
    warn_if_not_utf8(text, file, diagnostics)
    return _read_document(text, file, diagnostics), tuple(diagnostics.issues)


class _Scanner(RoundTripScanner):
    """Limits brackets and tokens, for which the YAML library needs time without bound."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._steps = 0

    @override
    def fetch_more_tokens(self) -> Any:
        self._steps += 1
        if self._steps > YAML_TOKENS:
            problem = f"more than {YAML_TOKENS:,} keys, values and brackets"
            raise ScannerError(None, None, problem, self.reader.get_mark())
        return super().fetch_more_tokens()

    @override
    def fetch_flow_collection_start(self, TokenClass: Any, to_push: str) -> None:
        if self.flow_level > LIMITS.depth:
            raise ScannerError(None, None, _TOO_DEEP, self.reader.get_mark())
        super().fetch_flow_collection_start(TokenClass, to_push)


def _read_document(text: str, file: str, diagnostics: Diagnostics) -> YamlNode | None:
    if len(text) > LIMITS.size:
        diagnostics.error(
            YamlNode(None, file, 1, 1), "yaml", f"more than {LIMITS.size:,} characters"
        )
        return None
    try:
        yaml = YAML(typ="rt", pure=True)
        yaml.Scanner = _Scanner
        composed = yaml.compose(StringIO(text))
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = YamlNode(
            None, file, (mark.line if mark else 0) + 1, (mark.column if mark else 0) + 1
        )
        diagnostics.error(place, "yaml", str(error.problem or error.context or "not YAML"))
        return None
    except ReaderError as error:
        message = f"the character U+{ord(text[error.position]):04X} is not allowed here"
        diagnostics.error(_place(text, error.position, file), "yaml", message)
        return None
    except RecursionError:
        diagnostics.error(YamlNode(None, file, 1, 1), "yaml", _TOO_DEEP)
        return None
    if composed is None:
        diagnostics.error(YamlNode(None, file, 1, 1), "yaml", "the file is empty")
        return None
    conversion = _Conversion(file, text, diagnostics)
    tree = conversion.node(composed, "", 0)
    return None if conversion.nodes > LIMITS.count else tree


def _place(text: str, position: int, file: str) -> YamlNode:
    before = text[:position]
    return YamlNode(None, file, before.count("\n") + 1, position - before.rfind("\n"))


def _to_last(node: YamlNode, below: Iterable[YamlNode]) -> YamlNode:
    """
    Return a block collection that ends with its last entry.

    The end of the YAML library is that of the comments and blank lines after it. An entry with an
    alias is elsewhere.
    """
    start, end = node.span
    inside = [one for one in below if start <= one.span[0] and one.span[1] <= end]
    if not node.block or not inside:
        return node
    last = max(inside, key=lambda one: one.span[1])
    return replace(node, end=last.end, span=(start, last.span[1]))


@dataclass(slots=True)
class _Conversion:
    """The conversion of one document from nodes of the YAML library."""

    file: str
    text: str
    diagnostics: Diagnostics
    nodes: int = 0

    def node(self, source: Any, path: str, depth: int) -> YamlNode:
        """Convert a node of the YAML library and all nodes below it."""
        mark = source.start_mark
        node = YamlNode(None, self.file, mark.line + 1, mark.column + 1, path)
        node = self._with_end(node, source)
        self.nodes += 1
        if self.nodes > LIMITS.count:  # aliases of aliases multiply
            if self.nodes == LIMITS.count + 1:
                self.diagnostics.error(node, "yaml", f"more than {LIMITS.count:,} values")
            return node
        if depth > LIMITS.depth:  # an alias inside its own anchor is endless
            self.diagnostics.error(node, "yaml", _TOO_DEEP)
            return node
        if isinstance(source, MappingNode):
            entries = self._entries(source, path, depth)
            return _to_last(replace(node, value=entries), entries.values())
        if isinstance(source, SequenceNode):
            items = self._list(source, path, depth)
            return _to_last(replace(node, value=items), items)
        return replace(node, value=self._scalar(source, node))

    def _with_end(self, node: YamlNode, source: Any) -> YamlNode:
        """Add the place after the last character; a text in lines ends before its line end."""
        start, mark = source.start_mark.index, source.end_mark
        block = isinstance(source, MappingNode | SequenceNode) and not source.flow_style
        if not isinstance(source, ScalarNode) or source.style not in _TEXT_IN_LINES:
            end = (mark.line + 1, mark.column + 1)
            return replace(node, end=end, span=(start, mark.index), block=block)
        text = self.text[start : mark.index].rstrip()
        lines, last = text.count("\n"), len(text) - text.rfind("\n")
        return replace(node, end=(node.line + lines, last), span=(start, start + len(text)))

    def _list(self, source: SequenceNode, path: str, depth: int) -> list[YamlNode]:
        found: list[YamlNode] = []
        for index, item in enumerate(source.value):
            if self.nodes > LIMITS.count:
                break
            found.append(self.node(item, f"{path}[{index}]", depth + 1))
        return found

    def _entries(self, source: MappingNode, path: str, depth: int) -> dict[str, YamlNode]:
        entries: dict[str, YamlNode] = {}
        for key, value in source.value:
            if self.nodes > LIMITS.count:
                break
            name = str(key.value)
            below = self.node(value, f"{path}.{name}" if path else name, depth + 1)
            mark = key.start_mark
            place = (mark.line + 1, mark.column + 1)
            node = replace(below, key=place, key_start=mark.index)
            if name in entries:
                self.diagnostics.error(node.at_key(), "duplicate", f"{name} is repeated")
            entries[name] = node
        return entries

    def _scalar(self, source: ScalarNode, node: YamlNode) -> str | None:
        plain, text = source.style is None, str(source.value)
        if plain and text in ("", "~", "null"):
            return None
        if plain and text[0] in _OPENING and text[-1] in _CLOSING and len(text) > 1:
            message = "typographic quotes are part of the text here; YAML's own are \"…\" and '…'"
            self.diagnostics.warn(node, "quotes", message)
        return text


RULES = frozenset({"only", "prior_mrn", "prior_name", "when", "status"})
HOLDERS_OF_RULES = frozenset(
    {"tags", "metadata.values", "reporting_app", "order", "statuses", "item", "step"}
)
"""Keys whose value is a rule, and keys whose entries are rules: an overlay replaces them whole."""


def load_tree(sources: Sources, name: str, diagnostics: Diagnostics) -> YamlNode | None:
    """Parse a file and merge its includes. Reports an issue and returns None if that fails."""
    return _with_includes(sources, name, diagnostics, ())


def _with_includes(
    sources: Sources, name: str, diagnostics: Diagnostics, trail: tuple[str, ...]
) -> YamlNode | None:
    root = parse_yaml(sources[name], name, diagnostics)
    if root is None or not isinstance(root.value, dict) or "include" not in root.value:
        return root
    merged: YamlNode | None = None
    for item in diagnostics.read_items(root.value["include"]):
        included = diagnostics.read_text(item)
        diagnostics.included |= {included} & sources.keys()
        if included in (name, *trail):
            diagnostics.error(item, "include", f"{included} includes itself")
        elif included not in sources:
            diagnostics.unknown(item, "file", included, sources)
        elif (tree := _with_includes(sources, included, diagnostics, (*trail, name))) is not None:
            merged = tree if merged is None else overlay(merged, tree)
    own = replace(root, value={k: v for k, v in root.value.items() if k != "include"})
    return own if merged is None else overlay(merged, own)


def overlay(below: YamlNode, above: YamlNode) -> YamlNode:
    """
    Overlay one tree on another: mappings merge key by key, other nodes are replaced.

    Rules are replaced as a whole, because halves of two rules are not a rule.
    """
    if not isinstance(below.value, dict) or not isinstance(above.value, dict):
        return above
    if above.path in RULES or above.path.rpartition(".")[0] in HOLDERS_OF_RULES:
        return above
    merged = dict(below.value)
    for key, node in above.value.items():
        merged[key] = overlay(merged[key], node) if key in merged else node
    return replace(above, value=merged)


PLACES: Mapping[str, tuple[str, ...]] = {
    "layout": ("text", "layout"),
    "sections": ("text", "sections"),
    "addenda": ("text", "addenda"),
    "metadata": ("metadata", "targets"),
}
"""The location of a setting in a definition, if it is not a top-level key of the same name."""


def overlay_settings(
    sources: Sources, name: str, settings: Mapping[str, object], owner: str
) -> tuple[Sources, str]:
    """Add a definition with the settings of `owner`; return all sources and its name."""
    if not settings:
        return sources, name
    definition: dict[str, object] = {"include": f"{name}.yaml"}
    for setting, value in settings.items():
        first, *rest = PLACES.get(setting, (setting,))
        if not rest:
            definition[first] = value
            continue
        within = definition.setdefault(first, {})
        if isinstance(within, dict):
            within[rest[0]] = value
    return {**sources, f"{owner}.yaml": json.dumps(definition, ensure_ascii=False)}, owner
