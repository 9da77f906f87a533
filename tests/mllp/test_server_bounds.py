"""The limits of the server, and pause, resume and drain; in memory."""

from typing import Any

import pytest
from twisted.internet.address import IPv4Address
from twisted.internet.interfaces import ISSLTransport
from twisted.internet.task import Clock
from zope.interface import alsoProvides  # type: ignore[import-untyped]  # has no types

from mllp import FrameTimedOut, FrameTooLarge, FramingError
from mllp.contract import ServerLimits
from mllp.testing import (
    MemoryCaller,
    MemoryServer,
    MemoryTransport,
    connect_protocols,
    deliver_all,
)
from tests.mllp.server_fixture import (
    HalfOpenSender,
    ManualHandler,
    RecordingObserver,
    echo,
    server_for,
)


class TestBounds:
    def test_too_large(
        self, clock: Clock, handler: ManualHandler, observer: RecordingObserver
    ) -> None:
        """The server sends earlier replies, then the refusal, then closes."""
        caller = server_for(handler, clock, observer, max_frame=8).connect()
        caller.send(b"1")
        caller.write(b"\x0bMSH|123456789")
        assert caller.received == b""

        handler.reply(0, b"A")
        deliver_all(clock)
        caller.write(b"and so on, without end")
        clock.advance(3)

        assert caller.frames == [b"A", b"FrameTooLarge MSH|"]
        assert caller.closed
        assert observer.events == [("opened", 1), ("frame refused", FrameTooLarge), ("closed", 1)]
        assert handler.payloads == [b"1"]

    def test_a_sender_that_does_not_stop(self, clock: Clock, handler: ManualHandler) -> None:
        """The server reads a little more, so that the refusal arrives, then closes."""
        server = server_for(handler, clock, max_frame=8)
        caller = HalfOpenSender()
        connect_protocols(clock, server.factory.buildProtocol(None), caller)
        caller.write(b"\x0bMSH|123456789")
        deliver_all(clock)
        assert caller.frames == [b"FrameTooLarge MSH|"]
        assert server.factory.connections == 1

        clock.advance(3)

        assert caller.closed
        assert server.factory.connections == 0

    def test_too_slow(
        self, clock: Clock, handler: ManualHandler, observer: RecordingObserver
    ) -> None:
        """The time-out covers a frame from its first byte to its last."""
        caller = server_for(handler, clock, observer, frame_timeout=10).connect()
        caller.write(b"\x0bMSH|")
        for _ in range(3):
            clock.advance(3)
            caller.write(b"x")
        assert caller.received == b""

        clock.advance(1)
        caller.close()

        assert caller.frames == [b"FrameTimedOut MSH|"]
        assert ("frame refused", FrameTimedOut) in observer.events

    @pytest.mark.parametrize("completed", [True, False])
    def test_the_time_of_a_handshake(
        self, clock: Clock, handler: ManualHandler, completed: bool
    ) -> None:
        """The frame time-out ends a TLS handshake, and nothing after it."""
        server = server_for(handler, clock, frame_timeout=10)
        connection: Any = server.factory.buildProtocol(None)
        caller = MemoryCaller(clock)
        address = IPv4Address("TCP", "192.0.2.7", 49152)
        transport = MemoryTransport(clock, connection, address)
        transport.other = MemoryTransport(clock, caller, address)
        alsoProvides(transport, ISSLTransport)
        connection.makeConnection(transport)
        caller.makeConnection(transport.other)
        if completed:
            connection.handshakeCompleted()
        clock.advance(10)
        deliver_all(clock)

        assert caller.closed is not completed

    def test_every_frame_has_its_own_time(self, clock: Clock, handler: ManualHandler) -> None:
        """A frame that begins in the packet of the previous one has its own time-out."""
        caller = server_for(handler, clock, frame_timeout=10).connect()
        caller.write(b"\x0b1")
        clock.advance(8)
        caller.write(b"\x1c\r\x0b2")
        clock.advance(8)
        caller.write(b"\x1c\r")

        assert handler.payloads == [b"1", b"2"]
        clock.advance(60)
        assert not caller.closed

    def test_a_full_window_stops_the_timeout(self, clock: Clock, handler: ManualHandler) -> None:
        """Time in which a full window stops reading does not count."""
        caller = server_for(handler, clock, frame_timeout=10, window=1).connect()
        caller.write(b"\x0b1\x1c\r\x0b2")
        clock.advance(60)
        assert not caller.closed

        handler.reply(0, b"A")
        deliver_all(clock)
        caller.write(b"\x1c\r")

        assert handler.payloads == [b"1", b"2"]

    def test_idle_connections_stay_open(self, clock: Clock) -> None:
        """By default an idle connection stays open for days."""
        caller = MemoryServer(echo, clock=clock).connect()
        clock.advance(200_000)

        assert caller.exchange(b"ONE") == [b"one"]

    def test_idle_time_out(self, clock: Clock, handler: ManualHandler) -> None:
        """With a limit, an idle connection closes, and one with an unanswered frame stays."""
        caller = server_for(handler, clock, idle_timeout=30).connect()
        clock.advance(20)
        caller.send(b"1")
        clock.advance(100)
        assert not caller.closed

        handler.reply(0, b"A")
        deliver_all(clock)
        clock.advance(29)
        assert not caller.closed
        clock.advance(31)
        assert caller.closed

    def test_bytes_between_frames_keep_a_connection_open(
        self, clock: Clock, handler: ManualHandler
    ) -> None:
        """The idle time begins with the last byte from the peer."""
        caller = server_for(handler, clock, idle_timeout=30).connect()
        clock.advance(20)
        caller.write(b"\r")
        clock.advance(29)
        assert not caller.closed
        clock.advance(31)
        assert caller.closed

    def test_a_paused_listener_closes_no_idle_connection(
        self, clock: Clock, handler: ManualHandler
    ) -> None:
        """A connection that is not read is not idle: frames may wait in its socket."""
        server = server_for(handler, clock, idle_timeout=30)
        caller = server.connect()
        server.factory.pause()
        caller.send(b"1")
        for _ in range(3):
            clock.advance(31)
        assert not caller.closed

        server.factory.resume()
        deliver_all(clock)
        assert handler.payloads == [b"1"]
        caller.reset()

    @pytest.mark.parametrize("refusal", [None, b""])
    def test_a_refusal_reply_is_optional(self, clock: Clock, refusal: bytes | None) -> None:
        """Without a refusal payload the server just closes. An empty payload is a frame."""
        server = MemoryServer(
            echo, ServerLimits(max_frame=1), clock=clock, on_unframed=lambda _e, _h: refusal
        )
        caller = server.connect()
        caller.send(b"TOO LONG")
        caller.close()

        assert caller.frames == ([] if refusal is None else [b""])

    def test_a_refusal_reply_that_fails(self, clock: Clock, observer: RecordingObserver) -> None:
        """If the refusal payload cannot be built, the server closes without a reply."""

        def fail(error: FramingError, head: bytes) -> bytes:
            raise ValueError(head)

        caller = MemoryServer(
            echo, ServerLimits(max_frame=3), clock=clock, observer=observer, on_unframed=fail
        ).connect()
        caller.send(b"ONE", b"TOO LONG")
        caller.close()

        assert caller.frames == [b"one"]
        assert ("failed", "ValueError") in observer.events


class TestOperations:
    def test_pause_and_resume(self, clock: Clock, handler: ManualHandler) -> None:
        """A paused listener answers received frames, and reads no more."""
        server = server_for(handler, clock)
        old = server.connect()
        old.send(b"1")
        server.factory.pause()
        new = server.connect()
        old.send(b"2")
        new.send(b"3")
        handler.reply(0, b"A")
        deliver_all(clock)
        assert old.frames == [b"A"]
        assert handler.payloads == [b"1"]
        assert server.factory.paused

        server.factory.resume()
        deliver_all(clock)

        assert sorted(handler.payloads) == [b"1", b"2", b"3"]

    def test_a_pause_stops_the_clock_of_an_open_frame(
        self, clock: Clock, handler: ManualHandler
    ) -> None:
        """A pause stops the frame time-out. Resuming restarts it."""
        server = server_for(handler, clock, frame_timeout=10)
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

    def test_drain(self, clock: Clock, handler: ManualHandler, observer: RecordingObserver) -> None:
        """Drain answers received frames, ignores others, then closes all connections."""
        server = server_for(handler, clock, observer)
        busy, idle = server.connect(), server.connect()
        busy.send(b"1")
        drained: list[object] = []
        server.factory.drain().addCallback(drained.append)
        busy.send(b"2")
        deliver_all(clock)
        assert idle.closed
        assert not busy.closed
        assert not drained

        handler.reply(0, b"A")
        deliver_all(clock)
        busy.close()

        assert busy.frames == [b"A"]
        assert handler.payloads == [b"1"]
        assert drained == [None]
        assert server.factory.connections == 0
        assert server.connect().closed

    def test_drain_does_not_wait_for_ever(self, clock: Clock, handler: ManualHandler) -> None:
        """Drain aborts the connections after the grace time."""
        server = server_for(handler, clock)
        caller = server.connect()
        caller.send(b"1")
        drained: list[object] = []
        server.factory.drain().addCallback(drained.append)

        clock.advance(31)

        assert caller.closed
        assert drained == [None]

    def test_drain_without_connections(self, clock: Clock, handler: ManualHandler) -> None:
        """Drain without connections ends at once."""
        drained: list[object] = []
        server_for(handler, clock).factory.drain().addCallback(drained.append)

        assert drained == [None]
