"""
Handlers that tell their replies, beside those that promise them.

A Deferred costs more than to store a message does, and an ordinary frame needs none of what it
can do. So a handler may have a method `direct`; the two ways of asking one lead to the same.
"""

from collections.abc import Sequence
from typing import TypeVar, cast

from twisted.internet.defer import Deferred, gatherResults, succeed

from mllp.contract import Direct, Handler, Peer, Tell
from mllp.framing import Frame

_Reply = TypeVar("_Reply")


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


def together(answers: Sequence[_Reply | Deferred[_Reply]]) -> Deferred[list[_Reply]]:
    """Wait for those answers that are still to come; all of them, in their order."""
    return gatherResults(
        [each if isinstance(each, Deferred) else succeed(each) for each in answers],
        consumeErrors=True,
    )
