"""The two axes, and the one table."""

from itertools import product

import pytest

from bridge.queue.errors import IllegalTransition
from bridge.queue.states import ENTRY, TRANSITIONS, Event, State, after


@pytest.mark.parametrize(("state", "event"), list(product(State, Event)))
def test_every_pair(state: State, event: Event) -> None:
    """A pair in the table leads where the table says; any other raises."""
    if (state, event) in TRANSITIONS:
        assert after(state, event) is TRANSITIONS[state, event]
    else:
        with pytest.raises(IllegalTransition, match=f"is {state} cannot be {event}"):
            after(state, event)


def test_every_state_is_reachable() -> None:
    """No state is left over from an earlier design."""
    assert set(State) == ENTRY | set(TRANSITIONS.values())


def test_only_a_person_reopens_what_is_finished() -> None:
    """Nothing but a replay leads out of a finished state."""
    for (state, event), target in TRANSITIONS.items():
        if state not in {State.QUEUED, State.CLAIMED, State.PARKED}:
            assert (event, target) == (Event.REPLAYED, State.QUEUED)


def test_what_is_in_hand_can_always_be_given_back() -> None:
    """A worker that dies leaves nothing that cannot be queued again."""
    assert after(State.CLAIMED, Event.INTERRUPTED) is State.QUEUED
