"""Handlers with a reply callback: on a server, and called for a Deferred; in memory."""

from twisted.internet.task import Clock
from twisted.python.failure import Failure

from mllp import Frame
from mllp.contract import Peer, ReplyCallback, as_deferred
from mllp.testing import MemoryPeer, MemoryServer, deliver_all
from tests.mllp.server_fixture import Counter


class Teller:
    """Records callbacks for the test. Raises an error for the payload BAD."""

    def __init__(self) -> None:
        self.waiting: list[tuple[bytes, ReplyCallback]] = []

    def __call__(self, frame: Frame, peer: Peer, reply: ReplyCallback) -> None:
        if frame.payload == b"BAD":
            raise ValueError
        self.waiting.append((frame.payload, reply))


def test_replies_keep_the_order_of_the_frames(clock: Clock) -> None:
    """In whatever order the callbacks are called."""
    teller = Teller()
    caller = MemoryServer(teller, clock=clock).connect()
    caller.send(b"1")
    caller.send(b"2")
    deliver_all(clock)

    teller.waiting[1][1]([b"B"])
    deliver_all(clock)
    assert caller.frames == []
    teller.waiting[0][1]([b"A"])
    deliver_all(clock)

    assert caller.frames == [b"A", b"B"]


def test_a_failure_that_is_told_closes_in_silence(clock: Clock, counter: Counter) -> None:
    """Earlier replies leave first, as with a Deferred's failure."""
    teller = Teller()
    caller = MemoryServer(teller, clock=clock, observer=counter).connect()
    caller.send(b"1", b"2")
    deliver_all(clock)

    teller.waiting[1][1](Failure(KeyError("no text of it")))
    teller.waiting[0][1]([b"A"])
    deliver_all(clock)

    assert caller.frames == [b"A"]
    assert caller.closed
    assert ("failed", "KeyError") in counter.seen


def test_what_a_handler_raises_closes_in_silence(clock: Clock, counter: Counter) -> None:
    """The connection closes without a reply."""
    caller = MemoryServer(Teller(), clock=clock, observer=counter).connect()

    assert caller.exchange(b"BAD") == []
    assert caller.closed
    assert ("failed", "ValueError") in counter.seen


def test_replies_as_a_deferred() -> None:
    """`as_deferred` fires with the replies, or with the failure."""
    teller, found = Teller(), list[object]()
    as_deferred(teller, Frame(b"ONE"), MemoryPeer()).addCallback(found.append)
    as_deferred(teller, Frame(b"TWO"), MemoryPeer()).addErrback(
        lambda failure: found.append(failure.type)
    )
    teller.waiting[0][1]([b"one"])
    teller.waiting[1][1](Failure(KeyError()))
    assert found == [[b"one"], KeyError]
