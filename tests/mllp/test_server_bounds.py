"""The limits of the server, and pause, resume and drain; in memory."""

import pytest
from twisted.internet.task import Clock

from mllp import FrameTimedOut, FrameTooLarge, FramingError
from mllp.contract import ServerLimits
from mllp.testing import MemoryServer, connect_protocols, deliver_all
from tests.mllp.server_fixture import Counter, Desk, Stubborn, echo, server_for


class TestBounds:
    """Limits of size, time and number."""

    def test_too_large(self, clock: Clock, desk: Desk, counter: Counter) -> None:
        """Earlier replies come first, then the refusal, then the close."""
        caller = server_for(desk, clock, counter, max_frame=8).connect()
        caller.send(b"1")
        caller.write(b"\x0bMSH|123456789")
        assert caller.received == b""

        desk.answer(0, b"A")
        deliver_all(clock)
        caller.write(b"and so on, without end")
        clock.advance(3)

        assert caller.frames == [b"A", b"FrameTooLarge MSH|"]
        assert caller.closed
        assert counter.seen == [("opened", 1), ("frame refused", FrameTooLarge), ("closed", 1)]
        assert desk.payloads == [b"1"]

    def test_a_sender_that_goes_on_and_on(self, clock: Clock, desk: Desk) -> None:
        """The server reads a little longer, so that the refusal arrives, then closes."""
        server = server_for(desk, clock, max_frame=8)
        caller = Stubborn()
        connect_protocols(clock, server.factory.buildProtocol(None), caller)
        caller.write(b"\x0bMSH|123456789")
        deliver_all(clock)
        assert caller.frames == [b"FrameTooLarge MSH|"]
        assert server.factory.connections == 1

        clock.advance(3)

        assert caller.closed
        assert server.factory.connections == 0

    def test_too_slow(self, clock: Clock, desk: Desk, counter: Counter) -> None:
        """The timeout covers the frame from its first byte to its last."""
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
        """A frame that begins in the packet of the previous one has its own timeout."""
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
        """Time in which a full window stops reading does not count."""
        caller = server_for(desk, clock, frame_timeout=10, window=1).connect()
        caller.write(b"\x0b1\x1c\r\x0b2")
        clock.advance(60)
        assert not caller.closed

        desk.answer(0, b"A")
        deliver_all(clock)
        caller.write(b"\x1c\r")

        assert desk.payloads == [b"1", b"2"]

    def test_silence_is_borne_by_default(self, clock: Clock) -> None:
        """A persistent connection may be quiet for a weekend."""
        caller = MemoryServer(echo, clock=clock).connect()
        clock.advance(200_000)

        assert caller.exchange(b"ONE") == [b"one"]

    def test_idle_time_out(self, clock: Clock, desk: Desk) -> None:
        """With a limit, silence closes the connection, an unanswered frame does not."""
        caller = server_for(desk, clock, idle_timeout=30).connect()
        clock.advance(20)
        caller.send(b"1")
        clock.advance(100)
        assert not caller.closed

        desk.answer(0, b"A")
        deliver_all(clock)
        clock.advance(29)
        assert not caller.closed
        clock.advance(31)
        assert caller.closed

    def test_too_many(self, clock: Clock, desk: Desk, counter: Counter) -> None:
        """A connection beyond the limit is closed at accept; others are not affected."""
        server = server_for(desk, clock, counter, max_connections=2)
        first, second, third = server.connect(), server.connect(), server.connect()

        assert [one.closed for one in (first, second, third)] == [False, False, True]
        assert ("refused",) in counter.seen
        second.close()
        assert not server.connect().closed

    @pytest.mark.parametrize("answer", [None, b""])
    def test_a_farewell_is_optional(self, clock: Clock, answer: bytes | None) -> None:
        """Without a payload the connection just closes; an empty payload is a frame."""
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
    """Pause, resume and drain."""

    def test_pause_and_resume(self, clock: Clock, desk: Desk) -> None:
        """
        A paused listener answers received frames and reads nothing, also from new
        connections.
        """
        server = server_for(desk, clock)
        old = server.connect()
        old.send(b"1")
        server.factory.pause()
        new = server.connect()
        old.send(b"2")
        new.send(b"3")
        desk.answer(0, b"A")
        deliver_all(clock)
        assert old.frames == [b"A"]
        assert desk.payloads == [b"1"]
        assert server.factory.paused

        server.factory.resume()
        deliver_all(clock)

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
        deliver_all(clock)
        clock.advance(11)
        caller.close()

        assert caller.frames == [b"FrameTimedOut 1"]

    def test_drain(self, clock: Clock, desk: Desk, counter: Counter) -> None:
        """Received frames are answered, others ignored; then all connections close."""
        server = server_for(desk, clock, counter)
        busy, idle = server.connect(), server.connect()
        busy.send(b"1")
        drained: list[object] = []
        server.factory.drain().addCallback(drained.append)
        busy.send(b"2")
        deliver_all(clock)
        assert idle.closed
        assert not busy.closed
        assert not drained

        desk.answer(0, b"A")
        deliver_all(clock)
        busy.close()

        assert busy.frames == [b"A"]
        assert desk.payloads == [b"1"]
        assert drained == [None]
        assert server.factory.connections == 0
        assert server.connect().closed

    def test_drain_does_not_wait_for_ever(self, clock: Clock, desk: Desk) -> None:
        """After the grace time connections are aborted."""
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
