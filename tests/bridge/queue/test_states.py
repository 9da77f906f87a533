"""The two axes of a message, the table of transitions, and the page generated from them."""

from itertools import product
from pathlib import Path

import pytest

from bridge.queue.errors import IllegalTransition
from bridge.queue.states import (
    INITIAL_STATES,
    TRANSITIONS,
    AcknowledgmentState,
    QueueEvent,
    QueueState,
    next_state,
)

PAGE = Path(__file__).resolve().parents[3] / "docs" / "explanation" / "durability.md"


@pytest.mark.parametrize(("state", "event"), list(product(QueueState, QueueEvent)))
def test_every_pair(state: QueueState, event: QueueEvent) -> None:
    """A pair in the table leads to its state. Any other pair raises an error."""
    if (state, event) in TRANSITIONS:
        assert next_state(state, event) is TRANSITIONS[state, event]
    else:
        with pytest.raises(IllegalTransition, match=f"state {state} cannot be {event}"):
            next_state(state, event)


def test_every_state_is_reachable() -> None:
    assert set(QueueState) == INITIAL_STATES | set(TRANSITIONS.values())


def test_only_a_replay_leaves_a_finished_state() -> None:
    for (state, event), target in TRANSITIONS.items():
        if state not in {QueueState.QUEUED, QueueState.CLAIMED, QueueState.PARKED}:
            assert (event, target) == (QueueEvent.REPLAYED, QueueState.QUEUED)


def test_each_claim_can_be_requeued() -> None:
    """Each claimed state can return to queued, for the claims of a failed worker."""
    assert next_state(QueueState.CLAIMED, QueueEvent.INTERRUPTED) is QueueState.QUEUED


def test_the_page_shows_the_table() -> None:
    """`docs/explanation/durability.md` has the generated table of `queue/states.py`."""
    rows = [f"| {state} | {event} | {to} |" for (state, event), to in TRANSITIONS.items()]
    page = PAGE.read_text("utf-8")
    assert "\n".join(["| From | Event | To |", "|---|---|---|", *rows, ""]) in page


def test_the_page_shows_the_other_axis() -> None:
    """The page explains each value of the acknowledgment axis."""
    page = PAGE.read_text("utf-8")
    assert all(f"| {state} | " in page for state in AcknowledgmentState)
