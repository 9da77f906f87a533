"""
Definition files to trees of nodes: YAML parsed, includes merged.

No file is opened: sources are handed in as text. What the nodes mean is nobody's here.
"""

from dataclasses import replace
from functools import lru_cache
from io import StringIO
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError
from ruamel.yaml.nodes import MappingNode, ScalarNode, SequenceNode

from mappings.events import Issue
from mappings.nodes import Node, Sources
from mappings.notebook import Notebook

MAX_DEPTH = 40
_REMEMBERED = 64  # files
RULES = frozenset({"only", "prior_mrn", "prior_name"})
HOLDERS_OF_RULES = frozenset({"tags", "metadata.values", "reporting_app", "order", "statuses"})


def read(sources: Sources, name: str, notebook: Notebook) -> Node | None:
    """Read a file with everything it includes; None when that is impossible."""
    return _with_includes(sources, name, notebook, ())


def _with_includes(
    sources: Sources, name: str, notebook: Notebook, trail: tuple[str, ...]
) -> Node | None:
    root = parse(sources[name], name, notebook)
    if root is None or not isinstance(root.value, dict) or "include" not in root.value:
        return root
    merged: Node | None = None
    for item in notebook.items(root.value["include"]):
        included = notebook.text(item)
        notebook.included |= {included} & sources.keys()
        if included in (name, *trail):
            notebook.error(item, "include", f"{included} includes itself")
        elif included not in sources:
            notebook.unknown(item, "file", included, sources)
        elif (tree := _with_includes(sources, included, notebook, (*trail, name))) is not None:
            merged = tree if merged is None else overlay(merged, tree)
    own = replace(root, value={k: v for k, v in root.value.items() if k != "include"})
    return own if merged is None else overlay(merged, own)


def overlay(below: Node, above: Node) -> Node:
    """
    Lay one tree over another: mappings merge key by key, anything else is replaced.

    So is every rule: half of one rule and half of another would be neither.
    """
    if not isinstance(below.value, dict) or not isinstance(above.value, dict):
        return above
    if above.path in RULES or above.path.rpartition(".")[0] in HOLDERS_OF_RULES:
        return above
    merged = dict(below.value)
    for key, node in above.value.items():
        merged[key] = overlay(merged[key], node) if key in merged else node
    return replace(above, value=merged)


def parse(text: str, file: str, notebook: Notebook) -> Node | None:
    """Parse one YAML document; syntax errors and duplicate keys become issues."""
    tree, issues = _parsed(text, file)
    notebook.adopt(issues)
    return tree


@lru_cache(maxsize=_REMEMBERED)
def _parsed(text: str, file: str) -> tuple[Node | None, tuple[Issue, ...]]:
    """Remember what was read: to parse is most of what compiling costs. Trees do not change."""
    notebook = Notebook()
    return _read_document(text, file, notebook), tuple(notebook.issues)


def _read_document(text: str, file: str, notebook: Notebook) -> Node | None:
    try:
        composed = YAML(typ="rt", pure=True).compose(StringIO(text))
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = Node(None, file, (mark.line if mark else 0) + 1, (mark.column if mark else 0) + 1)
        notebook.error(place, "yaml", str(error.problem or error.context or "not YAML"))
        return None
    if composed is None:
        notebook.error(Node(None, file, 1, 1), "yaml", "the file is empty")
        return None
    return _convert(composed, file, "", notebook, 0)


def _convert(source: Any, file: str, path: str, notebook: Notebook, depth: int) -> Node:
    mark = source.start_mark
    node = Node(None, file, mark.line + 1, mark.column + 1, path)
    if depth > MAX_DEPTH:  # an alias inside its own anchor never ends
        notebook.error(node, "yaml", f"nested deeper than {MAX_DEPTH} levels")
        return node
    if isinstance(source, MappingNode):
        return replace(node, value=_entries(source, file, path, notebook, depth))
    if isinstance(source, SequenceNode):
        below = [
            _convert(item, file, f"{path}[{index}]", notebook, depth + 1)
            for index, item in enumerate(source.value)
        ]
        return replace(node, value=below)
    return replace(node, value=_scalar(source))


def _entries(
    source: MappingNode, file: str, path: str, notebook: Notebook, depth: int
) -> dict[str, Node]:
    entries: dict[str, Node] = {}
    for key, value in source.value:
        name = str(key.value)
        below = _convert(value, file, f"{path}.{name}" if path else name, notebook, depth + 1)
        node = replace(below, key=(key.start_mark.line + 1, key.start_mark.column + 1))
        if name in entries:
            notebook.error(node.at_key(), "duplicate", f"{name} stands here twice")
        entries[name] = node
    return entries


def _scalar(source: ScalarNode) -> str | None:
    plain = source.style is None
    return None if plain and source.value in ("", "~", "null") else str(source.value)
