"""
Which codes each event has: `final: {result: F, observation: F}`.

A key may tell apart what came before: `final after preliminary: {…}` holds where the receiver
was told of a preliminary report last. Codes are texts; what they mean is the standard's.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from mappings.nodes import Node
from mappings.notebook import Notebook
from mappings.results import ResultEvent

CODES = ("result", "observation", "order", "message", "completion", "availability")
AFTER = " after "

Situation = tuple[ResultEvent, ResultEvent | None]


@dataclass(frozen=True, slots=True)
class Statuses:
    """The codes of each event, by what the receiver was told before."""

    table: Mapping[Situation, Mapping[str, str]] = field(repr=False)

    @property
    def events(self) -> frozenset[ResultEvent]:
        """The events there are codes for."""
        return frozenset(event for event, after in self.table if after is None)

    def codes(self, event: ResultEvent, earlier: Sequence[ResultEvent]) -> Mapping[str, str] | None:
        """Give the codes of an event; None when it is not listed."""
        known = [each for each in earlier if (event, each) in self.table]
        return self.table.get((event, known[-1] if known else None))

    def only(self, events: Collection[ResultEvent]) -> "Statuses":
        """Leave these events only."""
        return Statuses({key: codes for key, codes in self.table.items() if key[0] in events})


def compile_statuses(node: Node, notebook: Notebook) -> Statuses:
    """Read `statuses:`."""
    table: dict[Situation, Mapping[str, str]] = {}
    for key, below in notebook.mapping(node).items():
        name, after, before = key.partition(AFTER)
        event = _event(name, below, notebook)
        earlier = _event(before, below, notebook) if after else None
        codes = notebook.mapping(below, CODES)
        if event is not None and (earlier is not None or not after):
            table[event, earlier] = {code: notebook.text(each) for code, each in codes.items()}
    for event, earlier in table:
        if earlier is not None and (event, None) not in table:
            notebook.error(node, "statuses", f"{event} is missing beside `{event}{AFTER}{earlier}`")
    return Statuses(table)


def _event(name: str, node: Node, notebook: Notebook) -> ResultEvent | None:
    if name in tuple(ResultEvent):
        return ResultEvent(name)
    notebook.unknown(node.at_key(), "event", name, tuple(ResultEvent))
    return None
