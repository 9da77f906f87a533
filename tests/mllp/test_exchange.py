"""The state table of the client."""

from itertools import product

import pytest

from mllp.exchange import TRANSITIONS, ClientEvent, ClientState, IllegalTransitionError, next_state


@pytest.mark.parametrize(("state", "event"), list(product(ClientState, ClientEvent)))
def test_every_pair(state: ClientState, event: ClientEvent) -> None:
    """Each pair in the table has its result. Other pairs raise an error."""
    if (state, event) in TRANSITIONS:
        assert next_state(state, event) is TRANSITIONS[state, event]
    else:
        with pytest.raises(IllegalTransitionError, match=f"{event} cannot happen .* {state}"):
            next_state(state, event)


def test_every_state_is_reachable() -> None:
    assert set(ClientState) == {ClientState.DISCONNECTED, *TRANSITIONS.values()}


def test_every_event_is_used() -> None:
    assert {event for _, event in TRANSITIONS} == set(ClientEvent)


def test_only_a_reply_makes_the_connection_ready() -> None:
    """Only a reply leads from AWAITING to READY."""
    onwards = {
        event: to for (state, event), to in TRANSITIONS.items() if state is ClientState.AWAITING
    }

    assert [event for event, to in onwards.items() if to is ClientState.READY] == [
        ClientEvent.REPLIED
    ]
    assert onwards[ClientEvent.UNANSWERED] is ClientState.BACKING_OFF


def test_closed_is_the_end() -> None:
    """CLOSED has no transition to another state."""
    assert not [event for state, event in TRANSITIONS if state is ClientState.CLOSED]
