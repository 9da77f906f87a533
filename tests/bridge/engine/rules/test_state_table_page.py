"""The reference page contains the state table of the source."""

from itertools import product
from pathlib import Path

from bridge.engine.rules.lifecycle import TRANSITIONS, LifecycleEvent, Status, Transition

PAGE = Path(__file__).resolve().parents[4] / "docs" / "reference" / "http-api.md"


def row(status: Status, event: LifecycleEvent, branch: Transition) -> str:
    facts = "; ".join(sorted(fact.value for fact in branch.when)) or "always"
    clears = "; ".join(sorted(part.value for part in branch.clears))
    return f"| {status} | {event} | {facts} | {branch.to or '(removed)'} | {clears} |"


def table() -> str:
    lines = [
        row(status, event, branch)
        for status, event in product(Status, LifecycleEvent)
        for branch in TRANSITIONS.get((status, event), ())
    ]
    return "\n".join(["| From | Event | When | To | Clears |", "|---|---|---|---|---|", *lines])


def test_the_page_shows_the_table() -> None:
    """`docs/reference/http-api.md` contains the table of `rules/lifecycle.py`."""
    assert table() in PAGE.read_text("utf-8")
