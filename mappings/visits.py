"""
The visit that a patient event is about, as `visit:` of a patients definition says.

Visits are no concern of ours beyond what an order carries: its number, and where the patient is.
"""

from dataclasses import dataclass

from mappings.events import Visit
from mappings.fetch import NULL
from mappings.gathering import Rule
from mappings.nodes import Node
from mappings.rules import compile_rule
from mappings.scope import Scope
from mappings.workshop import Workshop

KEYS = ("key", "number", "prior", "values")


@dataclass(frozen=True, slots=True)
class VisitRules:
    """Where an event names its visit, what it was before, and what orders are told of it."""

    key: str
    number: Rule
    prior: Rule
    values: dict[str, Rule]

    def read(self, scope: Scope) -> Visit | None:
        """Read the visit of an event; None where it names none."""
        number, prior = _known(self.number(scope)), _known(self.prior(scope))
        if not number and not prior:
            return None
        told = {key: rule(scope) for key, rule in self.values.items()}
        return Visit(
            self.key, number, prior, {key: _known(value) for key, value in told.items() if value}
        )


def _known(value: str) -> str:
    return "" if value == NULL else value


def compile_visit(node: Node | None, shop: Workshop) -> VisitRules | None:
    """Read `visit:`; None where a definition has none."""
    if node is None:
        return None
    entries = shop.notebook.mapping(node, KEYS)
    missing = [key for key in KEYS[:3] if key not in entries]
    if missing:
        shop.notebook.error(node, "identity", f"visit needs {', '.join(missing)}")
        return None
    values = shop.notebook.mapping(entries["values"]) if "values" in entries else {}
    return VisitRules(
        shop.notebook.text(entries["key"]),
        compile_rule(entries["number"], shop),
        compile_rule(entries["prior"], shop),
        {key: compile_rule(below, shop) for key, below in values.items()},
    )
