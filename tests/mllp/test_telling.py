"""Handlers that tell their replies: on a server, and asked for a Deferred; in memory."""

from collections.abc import Sequence

from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.python.failure import Failure

from mllp import Frame
from mllp.contract import Peer, Tell, directly, promised
from mllp.testing import MemoryServer, settle
from tests.mllp.desk import Counter, echo


class Teller:
    """Keeps whom to tell; the test tells. What it cannot take, it raises at once."""

    def __init__(self) -> None:
        self.waiting: list[tuple[bytes, Tell]] = []

    def __call__(self, frame: Frame, peer: Peer) -> Deferred[Sequence[bytes]]:
        raise AssertionError("a server that can be told asks for no Deferred")

    def direct(self, frame: Frame, peer: Peer, tell: Tell) -> None:
        if frame.payload == b"BAD":
            raise ValueError
        self.waiting.append((frame.payload, tell))


def test_replies_keep_the_order_of_the_frames(clock: Clock) -> None:
    """However they are told."""
    teller = Teller()
    caller = MemoryServer(teller, clock=clock).connect()
    caller.send(b"1")
    caller.send(b"2")
    settle(clock)

    teller.waiting[1][1]([b"B"])
    settle(clock)
    assert caller.frames == []
    teller.waiting[0][1]([b"A"])
    settle(clock)

    assert caller.frames == [b"A", b"B"]


def test_a_failure_that_is_told_closes_in_silence(clock: Clock, counter: Counter) -> None:
    """After the replies before it, as a Deferred's failure does."""
    teller = Teller()
    caller = MemoryServer(teller, clock=clock, observer=counter).connect()
    caller.send(b"1", b"2")
    settle(clock)

    teller.waiting[1][1](Failure(KeyError("no text of it")))  # type: ignore[no-untyped-call]
    teller.waiting[0][1]([b"A"])
    settle(clock)

    assert caller.frames == [b"A"]
    assert caller.closed
    assert ("failed", "KeyError") in counter.seen


def test_what_a_handler_raises_closes_in_silence(clock: Clock, counter: Counter) -> None:
    """It has told nobody anything, so nobody is told."""
    caller = MemoryServer(Teller(), clock=clock, observer=counter).connect()

    assert caller.exchange(b"BAD") == []
    assert caller.closed
    assert ("failed", "ValueError") in counter.seen


def test_both_ways_lead_to_the_same(clock: Clock) -> None:
    """Of a handler that promises, and of one that tells."""
    peer = MemoryServer(echo, clock=clock).connect()
    told: list[object] = []
    directly(echo)(Frame(b"ONE"), peer, told.append)  # type: ignore[arg-type]  # echo asks nobody
    assert told == [[b"one"]]

    teller = Teller()
    promise = promised(teller.direct, Frame(b"ONE"), peer)  # type: ignore[arg-type]  # as above
    found: list[object] = []
    promise.addBoth(found.append)
    teller.waiting[0][1]([b"one"])
    assert found == [[b"one"]]
    assert directly(teller) == teller.direct
