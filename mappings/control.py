"""
Order control: what ORC-1 and ORC-5 together ask for, as a table of the definition.

    NW: create          XO: change          XO/CM: change examined

The pair is looked up first, then ORC-1 alone. Statuses are not checked against table 0038:
senders invent their own.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from mappings.events import Action
from mappings.nodes import Node
from mappings.notebook import Notebook

KEYS = ("unknown", "actions")
UNKNOWN = ("refuse", "ignore")
EXAMINED = "examined"


@dataclass(frozen=True, slots=True)
class Decision:
    """An action, and whether the examination is now done."""

    action: Action
    examined: bool = False


@dataclass(frozen=True, slots=True)
class OrderControlTable:
    """The table; `refuse_unknown` says what becomes of a code it does not have."""

    rows: Mapping[tuple[str, str], Decision]
    refuse_unknown: bool = True

    def decide(self, control: str, status: str) -> Decision | None:
        """Look up a pair; None for a code that is to be refused."""
        found = self.rows.get((control, status)) or self.rows.get((control, ""))
        if found is None and not self.refuse_unknown:
            return Decision(Action.IGNORE)
        return found


def compile_control(node: Node | None, place: Node, notebook: Notebook) -> OrderControlTable:
    """Read `order_control:`; without it nothing could be decided."""
    if node is None:
        notebook.error(place, "order-control", "order_control is missing")
        return OrderControlTable({})
    entries = notebook.mapping(node, KEYS)
    refuse = True
    if "unknown" in entries:
        refuse = notebook.choice(entries["unknown"], "policy", UNKNOWN) != "ignore"
    rows: dict[tuple[str, str], Decision] = {}
    actions = notebook.mapping(entries["actions"]) if "actions" in entries else {}
    for key, below in actions.items():
        control, _, status = key.partition("/")
        rows[control.strip(), status.strip()] = _decision(below, notebook)
    if not rows:
        notebook.error(node, "order-control", "order_control has no actions")
    return OrderControlTable(rows, refuse)


def _decision(node: Node, notebook: Notebook) -> Decision:
    word, _, remark = notebook.text(node).partition(" ")
    if word not in tuple(Action):
        notebook.unknown(node, "action", word, tuple(Action))
        return Decision(Action.IGNORE)
    if remark.strip() not in ("", EXAMINED):
        notebook.unknown(node, "remark", remark.strip(), (EXAMINED,))
    return Decision(Action(word), remark.strip() == EXAMINED)
