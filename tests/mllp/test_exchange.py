"""The state table of the client."""

from itertools import product

import pytest

from mllp.exchange import TRANSITIONS, ClientEvent, ClientState, IllegalTransitionError, next_state


@pytest.mark.parametrize(("state", "event"), list(product(ClientState, ClientEvent)))
def test_every_pair(state: ClientState, event: ClientEvent) -> None:
    """A pair in the table has its result; any other raises an error."""
    if (state, event) in TRANSITIONS:
        assert next_state(state, event) is TRANSITIONS[state, event]
    else:
        with pytest.raises(IllegalTransitionError, match=f"{event} cannot happen .* {state}"):
            next_state(state, event)


def test_every_state_is_reachable() -> None:
    """Every state can be reached."""
    assert set(ClientState) == {ClientState.DISCONNECTED, *TRANSITIONS.values()}


def test_every_event_is_used() -> None:
    """Every event has a transition."""
    assert {event for _, event in TRANSITIONS} == set(ClientEvent)


def test_a_connection_without_its_reply_is_never_used_again() -> None:
    """From AWAITING only a reply leads back to READY."""
    onwards = {
        event: to for (state, event), to in TRANSITIONS.items() if state is ClientState.AWAITING
    }

    assert [event for event, to in onwards.items() if to is ClientState.READY] == [
        ClientEvent.REPLIED
    ]
    assert onwards[ClientEvent.UNANSWERED] is ClientState.BACKING_OFF


def test_closed_is_the_end() -> None:
    """Nothing happens to a client that is closed."""
    assert not [event for state, event in TRANSITIONS if state is ClientState.CLOSED]
