"""The states of a client: one payload out, one reply back, then the next.

Pure: a table. `mllp.client` executes the transitions. The table decides when a connection may be
used again.
"""

from collections.abc import Mapping
from enum import StrEnum


class ClientState(StrEnum):
    DISCONNECTED = "disconnected"
    CONNECTING = "connecting"
    READY = "ready"
    PROBING = "probing"
    """A payload waits; the reactor reads the socket once, because the peer may have closed it."""
    AWAITING = "awaiting"
    """A payload was sent; its reply has not arrived."""
    BACKING_OFF = "backing off"
    CLOSED = "closed"


class ClientEvent(StrEnum):
    WANTED = "wanted"
    """A payload waits to be sent."""
    CONNECTED = "connected"
    CONNECT_FAILED = "connect failed"
    STILL_THERE = "still there"
    WITHDRAWN = "withdrawn"
    """The caller has cancelled the payload."""
    REPLIED = "replied"
    UNANSWERED = "unanswered"
    """No reply, or an unusable one: the result is unknown."""
    HUNG_UP = "hung up"
    """The connection ended with nothing in flight."""
    REFUSED = "refused"
    """As HUNG_UP, on a connection that has never answered."""
    DUE = "due"
    """The wait before the next attempt is over."""
    CLOSE = "close"


TRANSITIONS: Mapping[tuple[ClientState, ClientEvent], ClientState] = {
    (ClientState.DISCONNECTED, ClientEvent.WANTED): ClientState.CONNECTING,
    (ClientState.CONNECTING, ClientEvent.CONNECTED): ClientState.READY,
    (ClientState.CONNECTING, ClientEvent.CONNECT_FAILED): ClientState.BACKING_OFF,
    (ClientState.READY, ClientEvent.WANTED): ClientState.PROBING,
    (ClientState.READY, ClientEvent.HUNG_UP): ClientState.DISCONNECTED,
    (ClientState.READY, ClientEvent.REFUSED): ClientState.BACKING_OFF,
    (ClientState.PROBING, ClientEvent.STILL_THERE): ClientState.AWAITING,
    (ClientState.PROBING, ClientEvent.WITHDRAWN): ClientState.READY,
    (ClientState.PROBING, ClientEvent.HUNG_UP): ClientState.DISCONNECTED,
    (ClientState.PROBING, ClientEvent.REFUSED): ClientState.BACKING_OFF,
    (ClientState.AWAITING, ClientEvent.REPLIED): ClientState.READY,
    # A late reply must not be taken for the next one: the connection is not used again.
    (ClientState.AWAITING, ClientEvent.UNANSWERED): ClientState.BACKING_OFF,
    (ClientState.BACKING_OFF, ClientEvent.DUE): ClientState.DISCONNECTED,
    **{
        (state, ClientEvent.CLOSE): ClientState.CLOSED
        for state in ClientState
        if state is not ClientState.CLOSED
    },
}


class IllegalTransitionError(AssertionError):
    """The table has no such transition: a bug in the client."""

    def __init__(self, state: ClientState, event: ClientEvent) -> None:
        super().__init__(f"{event} cannot happen to a client that is {state}")


def next_state(state: ClientState, event: ClientEvent) -> ClientState:
    try:
        return TRANSITIONS[state, event]
    except KeyError:
        raise IllegalTransitionError(state, event) from None
