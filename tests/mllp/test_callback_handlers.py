"""Handlers with a reply callback: on a server, and called for a Deferred; in memory."""

from collections.abc import Sequence

from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.python.failure import Failure

from mllp import Frame
from mllp.contract import Peer, ReplyCallback, as_deferred, direct_handler
from mllp.testing import MemoryServer, deliver_all
from tests.mllp.server_fixture import Counter, echo


class Teller:
    """Records callbacks for the test. Raises an error for the payload BAD."""

    def __init__(self) -> None:
        self.waiting: list[tuple[bytes, ReplyCallback]] = []

    def __call__(self, frame: Frame, peer: Peer) -> Deferred[Sequence[bytes]]:
        raise AssertionError("a server that can be told asks for no Deferred")

    def handle_with_callback(self, frame: Frame, peer: Peer, reply: ReplyCallback) -> None:
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

    teller.waiting[1][1](Failure(KeyError("no text of it")))  # type: ignore[no-untyped-call]
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


def test_both_ways_lead_to_the_same(clock: Clock) -> None:
    """A handler that returns a Deferred, and one with a callback."""
    peer = MemoryServer(echo, clock=clock).connect()
    told: list[object] = []
    direct_handler(echo)(Frame(b"ONE"), peer, told.append)  # type: ignore[arg-type]  # echo asks nobody
    assert told == [[b"one"]]

    teller = Teller()
    promise = as_deferred(teller.handle_with_callback, Frame(b"ONE"), peer)  # type: ignore[arg-type]  # as above
    found: list[object] = []
    promise.addBoth(found.append)
    teller.waiting[0][1]([b"one"])
    assert found == [[b"one"]]
    assert direct_handler(teller) == teller.handle_with_callback
