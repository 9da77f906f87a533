"""
Order control: what ORC-1 and ORC-5 together ask for, as a table of the definition.

    NW: create          XO: change          XO/CM: change examined

The pair is looked up first, in capitals as well, then ORC-1 alone. Statuses are not checked against
table 0038: senders invent their own.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from mappings.events import Action
from mappings.nodes import Node
from mappings.notebook import Notebook

KEYS = ("unknown", "actions", "replies")
UNKNOWN = ("refuse", "ignore")
EXAMINED = "examined"
ACCEPTED = ("OK", "UA")
"""What ORC-1 of a reply says where the table has no reply: taken, or unable to."""


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
    replies: Mapping[str, tuple[str, str]] = field(default_factory=dict)

    def reply(self, control: str, *, accepted: bool) -> str:
        """Give ORC-1 of the reply to an order control code (ORR, ORI, ORG)."""
        return self.replies.get(control, ACCEPTED)[0 if accepted else 1]

    def decide(self, control: str, status: str) -> Decision | None:
        """Look up a pair, the status in capitals as well; None for a code that is to be refused."""
        rows = self.rows
        found = rows.get((control, status)) or rows.get((control, status.upper()))
        found = found or rows.get((control, ""))
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
    return OrderControlTable(rows, refuse, _replies(entries.get("replies"), notebook))


def _replies(node: Node | None, notebook: Notebook) -> dict[str, tuple[str, str]]:
    replies = {}
    for control, below in (notebook.mapping(node) if node is not None else {}).items():
        words = notebook.texts(below)
        if len(words) != len(ACCEPTED):
            notebook.error(below, "shape", "two codes are expected here: done, unable to")
            continue
        replies[control] = (words[0], words[1])
    return replies


def _decision(node: Node, notebook: Notebook) -> Decision:
    word, _, remark = notebook.text(node).partition(" ")
    if word not in tuple(Action):
        notebook.unknown(node, "action", word, tuple(Action))
        return Decision(Action.IGNORE)
    if remark.strip() not in ("", EXAMINED):
        notebook.unknown(node, "remark", remark.strip(), (EXAMINED,))
    return Decision(Action(word), remark.strip() == EXAMINED)
