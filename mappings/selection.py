"""Choices of whole segments: `[PID, PV1, "Z*"]`. What is done with them is said elsewhere."""

from collections.abc import Sequence
from dataclasses import dataclass

from mappings.fetch import SEGMENTS
from mappings.nodes import Node
from mappings.notebook import Notebook


@dataclass(frozen=True, slots=True)
class Selection:
    """Segment names, and beginnings of names."""

    names: frozenset[str] = frozenset()
    beginnings: tuple[str, ...] = ()

    def has(self, name: str) -> bool:
        """Say whether a segment of this name is chosen."""
        return name in self.names or name.startswith(self.beginnings)


def compile_selection(nodes: Sequence[Node], notebook: Notebook) -> Selection:
    """Read a list of segment names; a star at the end stands for any ending."""
    names, beginnings = set(), []
    for node in nodes:
        text = notebook.text(node)
        if text.endswith("*"):
            beginnings.append(text[:-1])
        else:
            names.add(segment_name(node, notebook))
    return Selection(frozenset(names), tuple(beginnings))


def segment_name(node: Node, notebook: Notebook) -> str:
    """Read the name of a segment: one of the standard's, or a Z segment."""
    text = notebook.text(node)
    if text not in SEGMENTS and not text.startswith("Z"):
        notebook.unknown(node, "segment", text, SEGMENTS)
    return text
