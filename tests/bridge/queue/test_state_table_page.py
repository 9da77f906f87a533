"""The page with the state table is generated from the code."""

from pathlib import Path

from bridge.queue.states import TRANSITIONS, AcknowledgmentState

PAGE = Path(__file__).resolve().parents[3] / "docs" / "explanation" / "durability.md"


def test_the_page_shows_the_table() -> None:
    """`docs/explanation/durability.md` has the generated table of `queue/states.py`."""
    rows = [f"| {state} | {event} | {to} |" for (state, event), to in TRANSITIONS.items()]
    page = PAGE.read_text("utf-8")
    assert "\n".join(["| From | Event | To |", "|---|---|---|", *rows, ""]) in page


def test_the_page_shows_the_other_axis() -> None:
    """The page explains each value of the acknowledgment axis."""
    page = PAGE.read_text("utf-8")
    assert all(f"| {each} | " in page for each in AcknowledgmentState)
