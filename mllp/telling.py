"""
Handlers that tell their replies, beside those that promise them.

A Deferred costs more than to store a message does, and an ordinary frame needs none of what it
can do. So a handler may have a method `direct`; the two ways of asking one lead to the same.
"""

from collections.abc import Sequence
from typing import cast

from twisted.internet.defer import Deferred

from mllp.contract import Direct, Handler, Peer, Tell
from mllp.framing import Frame


def directly(handle: Handler) -> Direct:
    """Give the way to ask a handler without a Deferred, if it has one; else around its own."""
    own = getattr(handle, "direct", None)
    if own is not None:
        return cast(Direct, own)

    def around(frame: Frame, peer: Peer, tell: Tell) -> None:
        handle(frame, peer).addCallbacks(tell, tell)

    return around


def promised(direct: Direct, frame: Frame, peer: Peer) -> Deferred[Sequence[bytes]]:
    """Ask a handler that tells, and give its replies as a Deferred. Raises what it raises."""
    answered: Deferred[Sequence[bytes]] = Deferred()
    direct(frame, peer, answered.callback)  # failures as well
    return answered
