"""
The turns of a client's connection: one payload out, one reply back, then the next.

Pure: a table. `mllp.client` does what a step asks for; the rules when a connection may be
used again, and when it must not, are all here.
"""

from collections.abc import Mapping
from enum import StrEnum


class State(StrEnum):
    """Where a client stands."""

    DISCONNECTED = "disconnected"
    CONNECTING = "connecting"
    READY = "ready"
    PROBING = "probing"
    """A payload waits; the reactor gets a turn to tell us that the peer has hung up."""
    AWAITING = "awaiting"
    """A payload is out, its reply is not in."""
    BACKING_OFF = "backing off"
    CLOSED = "closed"


class Event(StrEnum):
    """What happens to a client."""

    WANTED = "wanted"
    """A payload waits to be sent."""
    CONNECTED = "connected"
    CONNECT_FAILED = "connect failed"
    STILL_THERE = "still there"
    WITHDRAWN = "withdrawn"
    """Who wanted to send does not want to any more."""
    REPLIED = "replied"
    UNANSWERED = "unanswered"
    """The reply did not come, or what came was none: the outcome is unknown."""
    HUNG_UP = "hung up"
    """The connection ended, or lost our trust, with nothing in flight."""
    REFUSED = "refused"
    """As HUNG_UP, but on a connection that has never answered anything."""
    DUE = "due"
    """The wait before the next attempt is over."""
    CLOSE = "close"


TRANSITIONS: Mapping[tuple[State, Event], State] = {
    (State.DISCONNECTED, Event.WANTED): State.CONNECTING,
    (State.CONNECTING, Event.CONNECTED): State.READY,
    (State.CONNECTING, Event.CONNECT_FAILED): State.BACKING_OFF,
    (State.READY, Event.WANTED): State.PROBING,
    (State.READY, Event.HUNG_UP): State.DISCONNECTED,
    (State.READY, Event.REFUSED): State.BACKING_OFF,
    (State.PROBING, Event.STILL_THERE): State.AWAITING,
    (State.PROBING, Event.WITHDRAWN): State.READY,
    (State.PROBING, Event.HUNG_UP): State.DISCONNECTED,
    (State.PROBING, Event.REFUSED): State.BACKING_OFF,
    (State.AWAITING, Event.REPLIED): State.READY,
    # A late reply must not meet the next payload: this connection is never used again.
    (State.AWAITING, Event.UNANSWERED): State.BACKING_OFF,
    (State.BACKING_OFF, Event.DUE): State.DISCONNECTED,
    **{(state, Event.CLOSE): State.CLOSED for state in State if state is not State.CLOSED},
}


class IllegalTurnError(AssertionError):
    """The shell asked for a step that the table does not have: a bug of ours."""

    def __init__(self, state: State, event: Event) -> None:
        super().__init__(f"{event} cannot happen to a client that is {state}")


def after(state: State, event: Event) -> State:
    """Return the state that `event` leads to from `state`."""
    try:
        return TRANSITIONS[state, event]
    except KeyError:
        raise IllegalTurnError(state, event) from None
