"""The two axes, and the one table."""

from itertools import product

import pytest

from bridge.queue.errors import IllegalTransition
from bridge.queue.states import INITIAL_STATES, TRANSITIONS, QueueEvent, QueueState, next_state


@pytest.mark.parametrize(("state", "event"), list(product(QueueState, QueueEvent)))
def test_every_pair(state: QueueState, event: QueueEvent) -> None:
    """A pair in the table leads where the table says; any other raises."""
    if (state, event) in TRANSITIONS:
        assert next_state(state, event) is TRANSITIONS[state, event]
    else:
        with pytest.raises(IllegalTransition, match=f"is {state} cannot be {event}"):
            next_state(state, event)


def test_every_state_is_reachable() -> None:
    """No state is left over from an earlier design."""
    assert set(QueueState) == INITIAL_STATES | set(TRANSITIONS.values())


def test_only_a_person_reopens_what_is_finished() -> None:
    """Nothing but a replay leads out of a finished state."""
    for (state, event), target in TRANSITIONS.items():
        if state not in {QueueState.QUEUED, QueueState.CLAIMED, QueueState.PARKED}:
            assert (event, target) == (QueueEvent.REPLAYED, QueueState.QUEUED)


def test_what_is_in_hand_can_always_be_given_back() -> None:
    """A worker that dies leaves nothing that cannot be queued again."""
    assert next_state(QueueState.CLAIMED, QueueEvent.INTERRUPTED) is QueueState.QUEUED
