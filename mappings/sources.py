"""
Definition files to trees of nodes, with everything they include merged.

No file is opened: sources are handed in as text. What the nodes mean is nobody's here.
"""

from dataclasses import replace

from mappings.documents import parse
from mappings.nodes import Node, Sources
from mappings.notebook import Notebook

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
