"""The client's turns, as a table."""

from itertools import product

import pytest

from mllp.exchange import TRANSITIONS, Event, IllegalTurnError, State, after


@pytest.mark.parametrize(("state", "event"), list(product(State, Event)))
def test_every_pair(state: State, event: Event) -> None:
    """A pair in the table leads where the table says; any other raises."""
    if (state, event) in TRANSITIONS:
        assert after(state, event) is TRANSITIONS[state, event]
    else:
        with pytest.raises(IllegalTurnError, match=f"{event} cannot happen .* {state}"):
            after(state, event)


def test_every_state_is_reachable() -> None:
    """No state is left over from an earlier design."""
    assert set(State) == {State.DISCONNECTED, *TRANSITIONS.values()}


def test_every_event_is_used() -> None:
    """No event is left over either."""
    assert {event for _, event in TRANSITIONS} == set(Event)


def test_a_connection_without_its_reply_is_never_used_again() -> None:
    """From AWAITING only a reply leads back to READY: a late one meets nobody."""
    onwards = {event: to for (state, event), to in TRANSITIONS.items() if state is State.AWAITING}

    assert [event for event, to in onwards.items() if to is State.READY] == [Event.REPLIED]
    assert onwards[Event.UNANSWERED] is State.BACKING_OFF


def test_closed_is_the_end() -> None:
    """Nothing happens to a client that is closed."""
    assert not [event for state, event in TRANSITIONS if state is State.CLOSED]
