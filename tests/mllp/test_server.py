"""The server: frames and replies, their order, the window, deadlines and closes; in memory."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from twisted.internet.address import IPv4Address
from twisted.internet.interfaces import ISSLTransport
from twisted.internet.task import Clock
from zope.interface import alsoProvides  # type: ignore[import-untyped]  # has no types

from mllp import Frame, FrameTimedOut, FrameTooLarge, TruncatedFrame
from mllp.contract import Deadline, Peer, ReplyCallback, ServerLimits
from mllp.errors import FramingError
from mllp.server import ReplyQueue
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


class TestFramesAndReplies:
    def test_one_frame(self, clock: Clock) -> None:
        assert MemoryServer(echo, clock=clock).connect().exchange(b"ONE") == [b"one"]

    def test_many_at_once_with_noise_between(
        self, clock: Clock, observer: RecordingObserver
    ) -> None:
        caller = MemoryServer(echo, clock=clock, observer=observer).connect()

        caller.write(b"\r\n\x0bONE\x1c\r\0\0\0\x0bTWO\x1c\r")

        assert caller.frames == [b"one", b"two"]
        assert observer.events == [("opened", 1), ("noise", 2), ("noise", 3)]

    def test_a_commit_block_is_not_answered(
        self, clock: Clock, observer: RecordingObserver
    ) -> None:
        """The server counts the commit block of an MLLP release 2 peer as noise."""
        caller = MemoryServer(echo, clock=clock, observer=observer).connect()

        caller.write(b"\x0b\x06\x1c\r")
        caller.send(b"\x06", b"ONE", b"\x15")

        assert caller.frames == [b"one"]
        assert observer.events == [("opened", 1), *[("noise", 1)] * 3]

    def test_concurrent_frames_share_a_commit(self, clock: Clock, handler: ManualHandler) -> None:
        server_for(handler, clock).connect().send(b"1", b"2", b"3")

        assert handler.payloads == [b"1", b"2", b"3"]

    def test_replies_keep_the_order_of_the_frames(
        self, clock: Clock, handler: ManualHandler
    ) -> None:
        """Replies leave in frame order, in whatever order they become ready."""
        caller = server_for(handler, clock).connect()
        caller.send(b"1", b"2", b"3")

        handler.reply(2, b"C")
        handler.reply(1, b"B")
        deliver_all(clock)
        assert caller.received == b""
        handler.reply(0, b"A")
        deliver_all(clock)

        assert caller.frames == [b"A", b"B", b"C"]

    def test_no_reply_and_two_replies(self, clock: Clock, handler: ManualHandler) -> None:
        caller = server_for(handler, clock).connect()
        caller.send(b"1", b"2")

        handler.reply(0)
        handler.reply(1, b"CA", b"AA")
        deliver_all(clock)

        assert caller.frames == [b"CA", b"AA"]

    def test_a_truncated_frame_is_marked(self, clock: Clock, handler: ManualHandler) -> None:
        server_for(handler, clock).connect().write(b"\x0bONE\x0bTWO\x1c\r")

        assert handler.frames == [Frame(b"ONE\x0bTWO", truncated=True)]

    def test_a_frame_out_of_turn(self, clock: Clock, handler: ManualHandler) -> None:
        """The server can send a later message while the connection is open."""
        caller = server_for(handler, clock).connect()
        caller.send(b"1")
        handler.reply(0, b"CA")
        deliver_all(clock)

        assert handler.peers[0].send(b"AA")
        deliver_all(clock)
        assert caller.frames == [b"CA", b"AA"]

        caller.close()
        assert not handler.peers[0].send(b"AA")
        deliver_all(clock)

    def test_a_thousand_small_frames_in_one_packet(self, clock: Clock) -> None:
        """A handler that replies at once does not recurse."""
        caller = MemoryServer(echo, ServerLimits(window=2), clock=clock).connect()

        caller.send(*[b"X"] * 5000)

        assert len(caller.frames) == 5000


class TestWindow:
    """Back-pressure: the server does not read beyond the window."""

    def test_connections_share_the_frames_of_a_listener(
        self, clock: Clock, handler: ManualHandler
    ) -> None:
        """A flood over many connections leaves few frames before those of another sender."""
        server = server_for(handler, clock, window=4, shared_window=6)
        flood = [server.connect() for _ in range(5)]
        for peer in flood:
            peer.send(b"1", b"2", b"3", b"4")
        assert handler.payloads == [b"1", b"2", b"3", b"4", b"1", b"2", b"1", b"1", b"1"]

        server.connect().send(b"other", b"next")
        assert handler.payloads[9:] == [b"other"]

        for number in range(10):
            handler.reply(number)
            deliver_all(clock)
        while len(handler.payloads) > len(handler.answered):
            handler.reply(len(handler.answered))
            deliver_all(clock)
        assert sorted(handler.payloads) == sorted(
            [b"1", b"2", b"3", b"4"] * 5 + [b"other", b"next"]
        )

    def test_frames_of_a_lost_connection_leave_the_shared_window(
        self, clock: Clock, handler: ManualHandler
    ) -> None:
        """Frames count in the window until their handler has replied."""
        server = server_for(handler, clock, window=2, shared_window=2)
        lost = server.connect()
        lost.send(b"1", b"2")
        lost.close()
        deliver_all(clock)
        server.connect().send(b"3", b"4")
        assert handler.payloads == [b"1", b"2", b"3"]
        for number in range(3):
            handler.reply(number)
            deliver_all(clock)
        handler.reply(3)

        server.connect().send(b"5", b"6")
        assert handler.payloads[-2:] == [b"5", b"6"]

    def test_frames_that_fail_leave_the_shared_window(
        self, clock: Clock, handler: ManualHandler
    ) -> None:
        """A handler that raises does not reduce the window of the listener."""

        def failing(arrived: Frame, peer: Peer, reply: ReplyCallback) -> None:
            if arrived.payload == b"bad":
                raise KeyError
            handler(arrived, peer, reply)

        server = MemoryServer(failing, ServerLimits(window=2, shared_window=4), clock=clock)
        for _ in range(4):
            server.connect().send(b"bad")
        server.connect().send(b"1", b"2")
        assert handler.payloads == [b"1", b"2"]

    def test_reading_pauses_and_continues(self, clock: Clock, handler: ManualHandler) -> None:
        """The server passes waiting frames to the handler in order."""
        caller = server_for(handler, clock, window=2).connect()
        caller.send(b"1", b"2", b"3")
        assert handler.payloads == [b"1", b"2"]
        assert caller.transport.other is not None
        assert not caller.transport.other.reading

        handler.reply(0, b"A")
        deliver_all(clock)

        assert handler.payloads == [b"1", b"2", b"3"]
        handler.reply(1, b"B")
        handler.reply(2, b"C")
        deliver_all(clock)
        assert caller.frames == [b"A", b"B", b"C"]
        assert caller.transport.other.reading

    def test_a_paused_listener_reads_no_more_when_a_window_has_room(
        self, clock: Clock, handler: ManualHandler
    ) -> None:
        """Replies end the pause of a full window, but not the pause of the listener."""
        server = server_for(handler, clock, window=1)
        caller = server.connect()
        caller.send(b"1")
        server.factory.pause()
        handler.reply(0, b"A")
        deliver_all(clock)
        assert caller.transport.other is not None
        assert not caller.transport.other.reading

        server.factory.resume()
        deliver_all(clock)
        assert caller.transport.other.reading

    def test_a_peer_that_reads_again(self, clock: Clock, handler: ManualHandler) -> None:
        """A peer that reads again before the write time-out keeps its connection."""
        caller = server_for(handler, clock, write_timeout=60).connect()
        server_end = caller.transport.other
        assert server_end is not None
        server_end.stall()
        clock.advance(59)
        server_end.flow()
        clock.advance(100)

        assert not caller.closed

    def test_a_peer_that_reads_no_replies(
        self, clock: Clock, handler: ManualHandler, observer: RecordingObserver
    ) -> None:
        """The server stops reading such a peer, and closes after the write time-out."""
        caller = server_for(handler, clock, observer, write_timeout=60).connect()
        server_end = caller.transport.other
        assert server_end is not None
        server_end.stall()
        caller.send(b"1")
        assert not handler.frames

        server_end.flow()
        deliver_all(clock)
        assert handler.payloads == [b"1"]

        server_end.stall()
        clock.advance(61)
        assert caller.closed
        assert observer.events == [("opened", 1), ("dropped", 1), ("closed", 1)]


class TestFailures:
    """A failed frame blocks later replies."""

    def test_a_failure_closes_without_a_reply(
        self, clock: Clock, handler: ManualHandler, observer: RecordingObserver
    ) -> None:
        """Earlier frames get their replies, later ones do not."""
        caller = server_for(handler, clock, observer).connect()
        caller.send(b"1", b"2", b"3")

        handler.replies[1].errback(ValueError("SECRET"))
        handler.reply(2, b"C")
        deliver_all(clock)
        assert not caller.closed
        handler.reply(0, b"A")
        deliver_all(clock)
        assert caller.closed
        caller.close()

        assert caller.frames == [b"A"]
        assert observer.events == [
            ("opened", 1),
            ("failed", "ValueError"),
            ("dropped", 2),
            ("closed", 1),
        ]

    def test_a_handler_that_raises(self, clock: Clock, observer: RecordingObserver) -> None:
        """An exception of the handler closes the connection without a reply."""

        def broken(arrived: Frame, peer: Peer, reply: ReplyCallback) -> None:
            raise KeyError(arrived.payload)

        caller = MemoryServer(broken, clock=clock, observer=observer).connect()

        assert caller.exchange(b"1") == []
        assert caller.closed
        assert ("failed", "KeyError") in observer.events

    def test_the_peer_closes_during_processing(
        self, clock: Clock, handler: ManualHandler, observer: RecordingObserver
    ) -> None:
        """The handler may finish. The server drops and counts its replies."""
        caller = server_for(handler, clock, observer).connect()
        caller.send(b"1", b"2")

        caller.reset()
        handler.reply(0, b"A")
        handler.reply(1, b"B")

        assert observer.events == [("opened", 1), ("dropped", 2), ("closed", 1)]


class TestEnds:
    def test_half_close(self, clock: Clock, handler: ManualHandler) -> None:
        """A sender that half-closes gets its replies, then the close."""
        caller = server_for(handler, clock).connect()
        caller.send(b"1", b"2")
        caller.end_writing()
        assert not caller.closed

        handler.reply(0, b"A")
        handler.reply(1, b"B")
        deliver_all(clock)

        assert caller.frames == [b"A", b"B"]
        assert caller.closed

    def test_half_close_with_more_than_a_window(self, clock: Clock, handler: ManualHandler) -> None:
        """The server also handles waiting frames after the end of the stream."""
        caller = server_for(handler, clock, window=1).connect()
        caller.send(b"1", b"2", b"3")
        caller.end_writing()

        for number in range(3):
            handler.reply(number, b"%d" % number)
            deliver_all(clock)

        assert caller.frames == [b"0", b"1", b"2"]
        assert caller.closed

    def test_an_end_inside_a_frame(
        self, clock: Clock, handler: ManualHandler, observer: RecordingObserver
    ) -> None:
        """The server reports a partial frame only to the observer."""
        caller = server_for(handler, clock, observer).connect()
        caller.write(b"\x0bHALF")
        caller.close()

        assert not handler.frames
        assert observer.events == [("opened", 1), ("frame refused", TruncatedFrame), ("closed", 1)]

    def test_a_cut_inside_a_frame(
        self, clock: Clock, handler: ManualHandler, observer: RecordingObserver
    ) -> None:
        """After a reset the server reports a partial frame only to the observer."""
        caller = server_for(handler, clock, observer).connect()
        caller.write(b"\x0bHALF")
        caller.reset()

        assert observer.events == [("opened", 1), ("frame refused", TruncatedFrame), ("closed", 1)]


def test_an_abandoned_frame(clock: Clock) -> None:
    """The handler of abandoned frames gets the first bytes. The sender gets no reply."""
    abandoned: list[tuple[str, bytes]] = []

    def note(error: FramingError, head: bytes) -> bytes:
        abandoned.append((type(error).__name__, head))
        return b"NAK"

    server = MemoryServer(echo, clock=clock, on_unframed=note)
    closed, reset = server.connect(), server.connect()
    closed.write(b"\x0bHALF")
    closed.end_writing()
    reset.write(b"\x0bTORN")
    reset.reset()
    assert abandoned == [("TruncatedFrame", b"HALF"), ("TruncatedFrame", b"TORN")]
    assert (closed.frames, reset.frames) == ([], [])


def test_every_connection_has_a_number_and_an_address(clock: Clock, handler: ManualHandler) -> None:
    server = server_for(handler, clock)
    first: MemoryCaller = server.connect()
    first.send(b"1")
    first.close()
    server.connect().send(b"2")

    assert [peer.connection_id for peer in handler.peers] == [1, 2]
    assert handler.peers[0].host == "192.0.2.7"
    assert handler.peers[0].port == 49152


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


@given(order=st.permutations(range(6)))
def test_replies_leave_in_frame_order(order: list[int]) -> None:
    queue = ReplyQueue()
    slots = [queue.reserve() for _ in range(6)]
    left: list[bytes] = []
    for number in order:
        slots[number].replies = [bytes([number])]
        left += queue.take_ready()

    assert left == [bytes([number]) for number in range(6)]
    assert len(queue) == 0


def test_none_and_several() -> None:
    """A frame may have no reply, or more than one."""
    queue = ReplyQueue()
    first, second = queue.reserve(), queue.reserve()
    first.replies, second.replies = [], [b"CA", b"AA"]

    assert queue.take_ready() == [b"CA", b"AA"]


def test_a_failure_blocks_later_replies() -> None:
    """Replies before a failed frame leave. Later ones do not."""
    queue = ReplyQueue()
    slots = [queue.reserve() for _ in range(3)]
    slots[2].replies = [b"3"]
    slots[1].failed = True
    assert not queue.is_blocked

    slots[0].replies = [b"1"]

    assert queue.take_ready() == [b"1"]
    assert queue.is_blocked
    assert queue.take_ready() == []


def test_it_expires() -> None:
    """A deadline expires once."""
    clock, expired = Clock(), list[int]()
    Deadline(clock, 5, lambda: expired.append(1)).start()
    clock.advance(4.9)
    assert not expired

    clock.advance(0.2)
    clock.advance(60)

    assert len(expired) == 1
    assert not clock.getDelayedCalls()


def test_touch() -> None:
    clock, expired = Clock(), list[int]()
    deadline = Deadline(clock, 5, lambda: expired.append(1))
    deadline.start()
    for _ in range(3):
        clock.advance(3)
        deadline.touch()
    clock.advance(4)
    assert not expired

    clock.advance(1)

    assert expired


def test_bytes_of_the_same_turn() -> None:
    """Bytes of the same reactor turn still stop or postpone the deadline."""
    clock, expired = Clock(), list[int]()
    stopped, postponed = (Deadline(clock, 5, lambda: expired.append(1)) for _ in range(2))
    stopped.start()
    postponed.start()
    clock.callLater(5, stopped.stop)
    clock.callLater(5, postponed.touch)

    clock.advance(5)
    assert not expired
    assert postponed.running

    clock.advance(5)
    assert len(expired) == 1


def test_stopping_leaves_no_call() -> None:
    """A stopped deadline does not expire, also after a touch."""
    clock = Clock()
    deadline = Deadline(clock, 5, lambda: None)
    deadline.start()

    deadline.stop()
    deadline.touch()

    assert not deadline.running
    assert not clock.getDelayedCalls()


def test_zero_never_expires() -> None:
    """A limit of 0 never expires."""
    clock = Clock()
    Deadline(clock, 0, lambda: None).start()

    assert not clock.getDelayedCalls()
