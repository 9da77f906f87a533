"""The page with the state table is drawn from the state table."""

from pathlib import Path

from bridge.queue.states import TRANSITIONS, AcknowledgmentState

PAGE = Path(__file__).resolve().parents[3] / "docs" / "explanation" / "durability.md"


def test_the_page_shows_the_table() -> None:
    """`docs/explanation/durability.md` says what `queue/states.py` does; else draw it anew."""
    rows = [f"| {state} | {event} | {to} |" for (state, event), to in TRANSITIONS.items()]
    page = PAGE.read_text("utf-8")
    assert "\n".join(["| From | Event | To |", "|---|---|---|", *rows, ""]) in page


def test_the_page_shows_the_other_axis() -> None:
    """Each value of the acknowledgment axis is explained."""
    page = PAGE.read_text("utf-8")
    assert all(f"| {each} | " in page for each in AcknowledgmentState)
