"""The listening side, called over a network in memory."""

from collections.abc import Iterator, Sequence

import pytest
from twisted.internet.defer import Deferred, succeed
from twisted.internet.interfaces import IHalfCloseableProtocol
from twisted.internet.task import Clock
from typing_extensions import override
from zope.interface import implementer  # type: ignore[import-untyped]  # has no types

from mllp import Frame, FrameTimedOut, FrameTooLarge, FramingError, TruncatedFrame
from mllp.contract import Peer, ServerLimits, ServerObserver
from mllp.memory import join
from mllp.testing import Caller, MemoryServer, RawEnd, settle


class Counter(ServerObserver):
    """Keeps what it is told, in one list."""

    def __init__(self) -> None:
        self.seen: list[tuple[object, ...]] = []

    @override
    def connection_opened(self, peer: Peer) -> None:
        self.seen.append(("opened", peer.connection_id))

    @override
    def connection_closed(self, peer: Peer) -> None:
        self.seen.append(("closed", peer.connection_id))

    @override
    def connection_refused(self) -> None:
        self.seen.append(("refused",))

    @override
    def noise(self, length: int) -> None:
        self.seen.append(("noise", length))

    @override
    def frame_refused(self, reason: FramingError) -> None:
        self.seen.append(("frame refused", type(reason)))

    @override
    def handler_failed(self, kind: str, place: str) -> None:
        self.seen.append(("failed", kind))

    @override
    def replies_dropped(self, frames: int) -> None:
        self.seen.append(("dropped", frames))


class Desk:
    """A handler whose replies the test fires, in the order it likes."""

    def __init__(self) -> None:
        self.frames: list[Frame] = []
        self.peers: list[Peer] = []
        self.answers: list[Deferred[Sequence[bytes]]] = []

    def __call__(self, arrived: Frame, peer: Peer) -> Deferred[Sequence[bytes]]:
        self.frames.append(arrived)
        self.peers.append(peer)
        self.answers.append(Deferred())
        return self.answers[-1]

    @property
    def payloads(self) -> list[bytes]:
        return [one.payload for one in self.frames]

    def answer(self, number: int, *replies: bytes) -> None:
        """Answer the frame with this number, from 0."""
        self.answers[number].callback(replies)


@implementer(IHalfCloseableProtocol)
class Stubborn(RawEnd):
    """A sender's end that does not mind that nothing more comes."""

    def readConnectionLost(self) -> None:  # noqa: N802  # Twisted's name
        """Go on."""

    def writeConnectionLost(self) -> None:  # noqa: N802  # Twisted's name
        """Go on."""


def echo(arrived: Frame, peer: Peer) -> Deferred[Sequence[bytes]]:
    """Answer at once, with the payload in lower case."""
    return succeed([arrived.payload.lower()])


def farewell(error: FramingError, head: bytes) -> bytes:
    """Name the reason and what the head was."""
    return type(error).__name__.encode() + b" " + head[:4]


@pytest.fixture
def clock() -> Iterator[Clock]:
    """The time; at the end nobody may be waiting for any of it."""
    clock = Clock()
    yield clock
    assert not clock.getDelayedCalls()


@pytest.fixture
def desk() -> Desk:
    """A handler that waits for the test."""
    return Desk()


@pytest.fixture
def counter() -> Counter:
    """An observer that remembers."""
    return Counter()


def server_for(
    desk: Desk, clock: Clock, counter: Counter | None = None, **limits: float
) -> MemoryServer:
    """Make a server with small limits."""
    return MemoryServer(
        desk,
        ServerLimits(**limits),  # type: ignore[arg-type]  # the tests name whole numbers as such
        clock=clock,
        observer=counter,
        on_unframed=farewell,
    )


class TestFramesAndReplies:
    """What comes in, and what goes out."""

    def test_one(self, clock: Clock) -> None:
        """A frame gets its reply."""
        assert MemoryServer(echo, clock=clock).connect().exchange(b"ONE") == [b"one"]

    def test_many_at_once_with_noise_between(self, clock: Clock, counter: Counter) -> None:
        """Every frame is answered; the noise is counted, and does no harm."""
        caller = MemoryServer(echo, clock=clock, observer=counter).connect()

        caller.write(b"\r\n\x0bONE\x1c\r\0\0\0\x0bTWO\x1c\r")

        assert caller.frames == [b"one", b"two"]
        assert counter.seen == [("opened", 1), ("noise", 2), ("noise", 3)]

    def test_frames_that_arrive_together_are_handed_over_together(
        self, clock: Clock, desk: Desk
    ) -> None:
        """None of them waits for the one before to be answered: they share one commit."""
        server_for(desk, clock).connect().send(b"1", b"2", b"3")

        assert desk.payloads == [b"1", b"2", b"3"]

    def test_replies_keep_the_order_of_the_frames(self, clock: Clock, desk: Desk) -> None:
        """However the replies become ready."""
        caller = server_for(desk, clock).connect()
        caller.send(b"1", b"2", b"3")

        desk.answer(2, b"C")
        desk.answer(1, b"B")
        settle(clock)
        assert caller.received == b""
        desk.answer(0, b"A")
        settle(clock)

        assert caller.frames == [b"A", b"B", b"C"]

    def test_no_reply_and_two_replies(self, clock: Clock, desk: Desk) -> None:
        """A handler may answer nothing, or twice."""
        caller = server_for(desk, clock).connect()
        caller.send(b"1", b"2")

        desk.answer(0)
        desk.answer(1, b"CA", b"AA")
        settle(clock)

        assert caller.frames == [b"CA", b"AA"]

    def test_a_truncated_frame_is_the_handlers_to_refuse(self, clock: Clock, desk: Desk) -> None:
        """It says so itself."""
        server_for(desk, clock).connect().write(b"\x0bONE\x0bTWO\x1c\r")

        assert desk.frames == [Frame(b"ONE\x0bTWO", truncated=True)]

    def test_a_frame_out_of_turn(self, clock: Clock, desk: Desk) -> None:
        """The peer can be told something later, as long as it is there."""
        caller = server_for(desk, clock).connect()
        caller.send(b"1")
        desk.answer(0, b"CA")
        settle(clock)

        assert desk.peers[0].send(b"AA")
        settle(clock)
        assert caller.frames == [b"CA", b"AA"]

        caller.close()
        assert not desk.peers[0].send(b"AA")
        settle(clock)

    def test_a_thousand_small_frames_in_one_packet(self, clock: Clock) -> None:
        """A handler that answers at once does not go deeper with every window."""
        caller = MemoryServer(echo, ServerLimits(window=2), clock=clock).connect()

        caller.send(*[b"X"] * 5000)

        assert len(caller.frames) == 5000


class TestWindow:
    """Back-pressure: beyond the window nothing is read."""

    def test_reading_pauses_and_goes_on(self, clock: Clock, desk: Desk) -> None:
        """The frames beyond wait; they come when there is room, and in order."""
        caller = server_for(desk, clock, window=2).connect()
        caller.send(b"1", b"2", b"3")
        assert desk.payloads == [b"1", b"2"]
        assert caller.transport.other is not None
        assert not caller.transport.other.reading

        desk.answer(0, b"A")
        settle(clock)

        assert desk.payloads == [b"1", b"2", b"3"]
        desk.answer(1, b"B")
        desk.answer(2, b"C")
        settle(clock)
        assert caller.frames == [b"A", b"B", b"C"]
        assert caller.transport.other.reading

    def test_a_peer_that_takes_no_replies_is_not_read(
        self, clock: Clock, desk: Desk, counter: Counter
    ) -> None:
        """Its replies would pile up; after the write time-out it is gone."""
        caller = server_for(desk, clock, counter, write_timeout=60).connect()
        server_end = caller.transport.other
        assert server_end is not None
        server_end.stall()
        caller.send(b"1")
        assert not desk.frames

        server_end.flow()
        settle(clock)
        assert desk.payloads == [b"1"]

        server_end.stall()
        clock.advance(61)
        assert caller.closed
        assert counter.seen == [("opened", 1), ("dropped", 1), ("closed", 1)]


class TestFailures:
    """Silence is no reply, and nothing passes it."""

    def test_a_failure_closes_without_a_reply(
        self, clock: Clock, desk: Desk, counter: Counter
    ) -> None:
        """What came before is answered, what came after is not."""
        caller = server_for(desk, clock, counter).connect()
        caller.send(b"1", b"2", b"3")

        desk.answers[1].errback(ValueError("SECRET"))
        desk.answer(2, b"C")
        settle(clock)
        assert not caller.closed
        desk.answer(0, b"A")
        settle(clock)
        caller.close()

        assert caller.frames == [b"A"]
        assert counter.seen == [
            ("opened", 1),
            ("failed", "ValueError"),
            ("dropped", 2),
            ("closed", 1),
        ]

    def test_a_handler_that_raises(self, clock: Clock, counter: Counter) -> None:
        """Is a handler that fails."""

        def broken(arrived: Frame, peer: Peer) -> Deferred[Sequence[bytes]]:
            raise KeyError(arrived.payload)

        caller = MemoryServer(broken, clock=clock, observer=counter).connect()
        caller.send(b"1")
        caller.close()

        assert caller.received == b""
        assert ("failed", "KeyError") in counter.seen

    def test_the_peer_goes_while_frames_are_in_hand(
        self, clock: Clock, desk: Desk, counter: Counter
    ) -> None:
        """The handler may still finish; its replies go nowhere, and are counted."""
        caller = server_for(desk, clock, counter).connect()
        caller.send(b"1", b"2")

        caller.reset()
        desk.answer(0, b"A")
        desk.answer(1, b"B")

        assert counter.seen == [("opened", 1), ("dropped", 2), ("closed", 1)]


class TestEnds:
    """How connections end, and that what is owed is still sent."""

    def test_half_close(self, clock: Clock, desk: Desk) -> None:
        """A sender that shuts its writing side gets its replies, then the end."""
        caller = server_for(desk, clock).connect()
        caller.send(b"1", b"2")
        caller.end_writing()
        assert not caller.closed

        desk.answer(0, b"A")
        desk.answer(1, b"B")
        settle(clock)

        assert caller.frames == [b"A", b"B"]
        assert caller.closed

    def test_half_close_with_more_than_a_window(self, clock: Clock, desk: Desk) -> None:
        """Frames that wait for room are handed over after the end of the stream, too."""
        caller = server_for(desk, clock, window=1).connect()
        caller.send(b"1", b"2", b"3")
        caller.end_writing()

        for number in range(3):
            desk.answer(number, b"%d" % number)
            settle(clock)

        assert caller.frames == [b"0", b"1", b"2"]
        assert caller.closed

    def test_an_end_inside_a_frame(self, clock: Clock, desk: Desk, counter: Counter) -> None:
        """The partial frame is an event that an operator can see, and nothing else."""
        caller = server_for(desk, clock, counter).connect()
        caller.write(b"\x0bHALF")
        caller.close()

        assert not desk.frames
        assert counter.seen == [("opened", 1), ("frame refused", TruncatedFrame), ("closed", 1)]

    def test_a_cut_inside_a_frame(self, clock: Clock, desk: Desk, counter: Counter) -> None:
        """The same after a reset."""
        caller = server_for(desk, clock, counter).connect()
        caller.write(b"\x0bHALF")
        caller.reset()

        assert counter.seen == [("opened", 1), ("frame refused", TruncatedFrame), ("closed", 1)]


class TestBounds:
    """What is too large, too slow, too quiet or too many."""

    def test_too_large(self, clock: Clock, desk: Desk, counter: Counter) -> None:
        """The replies owed come first, then the farewell, then the end."""
        caller = server_for(desk, clock, counter, max_frame=8).connect()
        caller.send(b"1")
        caller.write(b"\x0bMSH|123456789")
        assert caller.received == b""

        desk.answer(0, b"A")
        settle(clock)
        caller.write(b"and so on, without end")
        clock.advance(3)

        assert caller.frames == [b"A", b"FrameTooLarge MSH|"]
        assert caller.closed
        assert counter.seen == [("opened", 1), ("frame refused", FrameTooLarge), ("closed", 1)]
        assert desk.payloads == [b"1"]

    def test_a_sender_that_goes_on_and_on(self, clock: Clock, desk: Desk) -> None:
        """Is listened to a little longer, for the farewell's sake, and then cut off."""
        server = server_for(desk, clock, max_frame=8)
        caller = Stubborn()
        join(clock, server.factory.buildProtocol(None), caller)
        caller.write(b"\x0bMSH|123456789")
        settle(clock)
        assert caller.frames == [b"FrameTooLarge MSH|"]
        assert server.factory.connections == 1

        clock.advance(3)

        assert caller.closed
        assert server.factory.connections == 0

    def test_too_slow(self, clock: Clock, desk: Desk, counter: Counter) -> None:
        """A frame has so much time from its first byte to its last, drop by drop or not."""
        caller = server_for(desk, clock, counter, frame_timeout=10).connect()
        caller.write(b"\x0bMSH|")
        for _ in range(3):
            clock.advance(3)
            caller.write(b"x")
        assert caller.received == b""

        clock.advance(1)
        caller.close()

        assert caller.frames == [b"FrameTimedOut MSH|"]
        assert ("frame refused", FrameTimedOut) in counter.seen

    def test_every_frame_has_its_own_time(self, clock: Clock, desk: Desk) -> None:
        """A new frame that begins with the end of the last starts from zero."""
        caller = server_for(desk, clock, frame_timeout=10).connect()
        caller.write(b"\x0b1")
        clock.advance(8)
        caller.write(b"\x1c\r\x0b2")
        clock.advance(8)
        caller.write(b"\x1c\r")

        assert desk.payloads == [b"1", b"2"]
        clock.advance(60)
        assert not caller.closed

    def test_our_own_delay_is_not_the_peers(self, clock: Clock, desk: Desk) -> None:
        """While a full window keeps us from reading, the clock of an open frame stands."""
        caller = server_for(desk, clock, frame_timeout=10, window=1).connect()
        caller.write(b"\x0b1\x1c\r\x0b2")
        clock.advance(60)
        assert not caller.closed

        desk.answer(0, b"A")
        settle(clock)
        caller.write(b"\x1c\r")

        assert desk.payloads == [b"1", b"2"]

    def test_silence_is_borne_by_default(self, clock: Clock) -> None:
        """A persistent connection may be quiet for a weekend."""
        caller = MemoryServer(echo, clock=clock).connect()
        clock.advance(200_000)

        assert caller.exchange(b"ONE") == [b"one"]

    def test_idle_time_out(self, clock: Clock, desk: Desk) -> None:
        """Where a limit is set: silence ends the connection, work in hand does not."""
        caller = server_for(desk, clock, idle_timeout=30).connect()
        clock.advance(20)
        caller.send(b"1")
        clock.advance(100)
        assert not caller.closed

        desk.answer(0, b"A")
        settle(clock)
        clock.advance(29)
        assert not caller.closed
        clock.advance(31)
        assert caller.closed

    def test_too_many(self, clock: Clock, desk: Desk, counter: Counter) -> None:
        """The connection beyond the limit is closed at accept; the others are not disturbed."""
        server = server_for(desk, clock, counter, max_connections=2)
        first, second, third = server.connect(), server.connect(), server.connect()

        assert [one.closed for one in (first, second, third)] == [False, False, True]
        assert ("refused",) in counter.seen
        second.close()
        assert not server.connect().closed

    @pytest.mark.parametrize("answer", [None, b""])
    def test_a_farewell_is_optional(self, clock: Clock, answer: bytes | None) -> None:
        """Without one the connection just ends; an empty one is still a frame."""
        server = MemoryServer(
            echo, ServerLimits(max_frame=1), clock=clock, on_unframed=lambda _e, _h: answer
        )
        caller = server.connect()
        caller.send(b"TOO LONG")
        caller.close()

        assert caller.frames == ([] if answer is None else [b""])

    def test_a_farewell_that_fails(self, clock: Clock, counter: Counter) -> None:
        """Is silence."""

        def stumble(error: FramingError, head: bytes) -> bytes:
            raise ValueError(head)

        caller = MemoryServer(
            echo, ServerLimits(max_frame=3), clock=clock, observer=counter, on_unframed=stumble
        ).connect()
        caller.send(b"ONE", b"TOO LONG")
        caller.close()

        assert caller.frames == [b"one"]
        assert ("failed", "ValueError") in counter.seen


class TestOperations:
    """What operators do with a listener."""

    def test_pause_and_resume(self, clock: Clock, desk: Desk) -> None:
        """A paused listener answers what is in hand and reads nothing, from newcomers neither."""
        server = server_for(desk, clock)
        old = server.connect()
        old.send(b"1")
        server.factory.pause()
        new = server.connect()
        old.send(b"2")
        new.send(b"3")
        desk.answer(0, b"A")
        settle(clock)
        assert old.frames == [b"A"]
        assert desk.payloads == [b"1"]
        assert server.factory.paused

        server.factory.resume()
        settle(clock)

        assert sorted(desk.payloads) == [b"1", b"2", b"3"]

    def test_a_pause_stops_the_clock_of_an_open_frame(self, clock: Clock, desk: Desk) -> None:
        """And resuming starts it again."""
        server = server_for(desk, clock, frame_timeout=10)
        caller = server.connect()
        caller.write(b"\x0b1")
        server.factory.pause()
        clock.advance(100)
        assert not caller.closed

        server.factory.resume()
        settle(clock)
        clock.advance(11)
        caller.close()

        assert caller.frames == [b"FrameTimedOut 1"]

    def test_drain(self, clock: Clock, desk: Desk, counter: Counter) -> None:
        """Frames in hand are answered, others not even looked at; then all is closed."""
        server = server_for(desk, clock, counter)
        busy, idle = server.connect(), server.connect()
        busy.send(b"1")
        drained: list[object] = []
        server.factory.drain().addCallback(drained.append)
        busy.send(b"2")
        settle(clock)
        assert idle.closed
        assert not busy.closed
        assert not drained

        desk.answer(0, b"A")
        settle(clock)
        busy.close()

        assert busy.frames == [b"A"]
        assert desk.payloads == [b"1"]
        assert drained == [None]
        assert server.factory.connections == 0
        assert server.connect().closed

    def test_drain_does_not_wait_for_ever(self, clock: Clock, desk: Desk) -> None:
        """After the grace what has not finished is cut off."""
        server = server_for(desk, clock)
        caller = server.connect()
        caller.send(b"1")
        drained: list[object] = []
        server.factory.drain().addCallback(drained.append)

        clock.advance(31)

        assert caller.closed
        assert drained == [None]

    def test_drain_with_nobody_there(self, clock: Clock, desk: Desk) -> None:
        """Is over at once."""
        drained: list[object] = []
        server_for(desk, clock).factory.drain().addCallback(drained.append)

        assert drained == [None]


def test_every_connection_has_a_number_and_an_address(clock: Clock, desk: Desk) -> None:
    """Numbers are never used twice."""
    server = server_for(desk, clock)
    first: Caller = server.connect()
    first.send(b"1")
    first.close()
    server.connect().send(b"2")

    assert [peer.connection_id for peer in desk.peers] == [1, 2]
    assert desk.peers[0].host == "192.0.2.7"
    assert desk.peers[0].port == 49152
