"""
Which hooks a definition refers to, with everything it includes: read from its text, nothing runs.

Counts every `hook:` of every file that the definition reaches, whether an overlay replaces it or
not, and hooks that do not exist. So a definition uses no hook that is not named here.
"""

from dataclasses import dataclass

from mappings.documents import parse
from mappings.hooks import SUFFIX
from mappings.nodes import Node, Sources
from mappings.notebook import Notebook


@dataclass(frozen=True, slots=True)
class HookUse:
    """A reference to a hook as it is written, and the text of its file; empty without one."""

    reference: str
    source: str


def hooks_used(sources: Sources, name: str) -> frozenset[HookUse]:
    """Give the hooks that a definition refers to, itself or through what it includes."""
    found: set[HookUse] = set()
    files, known = [f"{name}.yaml"], set[str]()
    while files:
        file = files.pop()
        if file in known or file not in sources:
            continue
        known.add(file)
        root = parse(sources[file], file, Notebook())
        if root is None:
            continue
        files += _texts(root.get("include"))
        for reference in _references(root):
            module = reference.partition(":")[0]
            found.add(HookUse(reference, sources.get(f"{module}{SUFFIX}", "")))
    return frozenset(found)


def changes_hooks(before: Sources, after: Sources, name: str) -> bool:
    """
    Say whether a definition would run other code than before.

    It would where it refers to a hook that it did not refer to, or a hook's file has changed.
    """
    return not hooks_used(after, name) <= hooks_used(before, name)


def _references(root: Node) -> list[str]:
    """Give the texts at every key `hook`, however deep."""
    found: list[str] = []
    nodes = [root]
    while nodes:
        value = nodes.pop().value
        if isinstance(value, dict):
            found += _texts(value.get("hook"))
            nodes += value.values()
        elif isinstance(value, list):
            nodes += value
    return found


def _texts(node: Node | None) -> list[str]:
    if node is None:
        return []
    items = node.value if isinstance(node.value, list) else [node]
    return [each.value for each in items if isinstance(each.value, str)]
