"""Handlers with a reply callback: on a server, and wrapped in a Deferred; in memory."""

from twisted.internet.task import Clock
from twisted.python.failure import Failure

from mllp import Frame
from mllp.contract import Peer, ReplyCallback, as_deferred
from mllp.testing import MemoryPeer, MemoryServer, deliver_all
from tests.mllp.server_fixture import RecordingObserver


class CallbackRecorder:
    """A handler that records the callbacks, and raises an error for the payload BAD."""

    def __init__(self) -> None:
        self.waiting: list[tuple[bytes, ReplyCallback]] = []

    def __call__(self, frame: Frame, peer: Peer, reply: ReplyCallback) -> None:
        if frame.payload == b"BAD":
            raise ValueError
        self.waiting.append((frame.payload, reply))


def test_replies_keep_the_order_of_the_frames(clock: Clock) -> None:
    """Replies leave in the order of the frames, in whatever order the callbacks are called."""
    handler = CallbackRecorder()
    caller = MemoryServer(handler, clock=clock).connect()
    caller.send(b"1")
    caller.send(b"2")
    deliver_all(clock)

    handler.waiting[1][1]([b"B"])
    deliver_all(clock)
    assert caller.frames == []
    handler.waiting[0][1]([b"A"])
    deliver_all(clock)

    assert caller.frames == [b"A", b"B"]


def test_a_failure_closes_without_a_reply(clock: Clock, observer: RecordingObserver) -> None:
    """A failure closes the connection without a reply. Earlier replies leave first."""
    handler = CallbackRecorder()
    caller = MemoryServer(handler, clock=clock, observer=observer).connect()
    caller.send(b"1", b"2")
    deliver_all(clock)

    handler.waiting[1][1](Failure(KeyError("text")))
    handler.waiting[0][1]([b"A"])
    deliver_all(clock)

    assert caller.frames == [b"A"]
    assert caller.closed
    assert ("failed", "KeyError") in observer.events


def test_an_exception_closes_without_a_reply(clock: Clock, observer: RecordingObserver) -> None:
    """An exception of the handler closes the connection without a reply."""
    caller = MemoryServer(CallbackRecorder(), clock=clock, observer=observer).connect()

    assert caller.exchange(b"BAD") == []
    assert caller.closed
    assert ("failed", "ValueError") in observer.events


def test_replies_as_a_deferred() -> None:
    """`as_deferred` fires with the replies or with the failure."""
    handler, results = CallbackRecorder(), list[object]()
    as_deferred(handler, Frame(b"ONE"), MemoryPeer()).addCallback(results.append)
    as_deferred(handler, Frame(b"TWO"), MemoryPeer()).addErrback(
        lambda failure: results.append(failure.type)
    )
    handler.waiting[0][1]([b"one"])
    handler.waiting[1][1](Failure(KeyError()))
    assert results == [[b"one"], KeyError]
